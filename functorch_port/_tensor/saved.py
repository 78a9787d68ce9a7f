"""Tensors that PyTorch saves for a backward pass, which refuses them if somebody has written to them since.

Operations here keep immutable arrays, so their gradients are right all the same. PyTorch's programs rely on the
refusal: it tells of a gradient that is not that of the values one sees. So for the tensors that PyTorch saves (`RULES`)
a node notes the `Storage` and how often that was written. Storages are referred to weakly: one that nobody holds any
more, written to before it went, is not noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

from .._array.tracing import Untracked
from .._array.value import computed
from .._base.alive import alive
from .._base.modes import OfThread
from . import anomaly
from .tensor import Tensor, wrap

__all__ = ["RULES", "Saved", "after_write", "changed", "check", "keep", "note", "positions", "state"]

INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
)

#: a weak reference to a Storage, how often it had been written, the number of the input, or -1 and below for outputs,
#: and whether it is a view
Saved = tuple[Any, int, int, bool]


class _State(OfThread):
    """
    Attributes:
        allowed: where saved tensors may be written to: what notes them (`graph.allow_mutation_on_saved_tensors`).
        hooks: pairs of hooks (`graph.saved_tensors_hooks`), of which the last one counts.
        refused: why there may be none (`graph.disable_saved_tensors_hooks`).
        plain: whether what is saved is only noted.
    """

    allowed: Any = None
    hooks: tuple[Any, ...] = ()
    refused: str | None = None
    plain = True

    def set(self, **attributes: Any) -> None:
        """Set some of these."""
        vars(self).update(attributes)
        self.plain = not (self.allowed or self.hooks)


state = _State()


@contextmanager
def without_hooks() -> Iterator[None]:
    """Save tensors as they are."""
    hooks = state.hooks
    state.set(hooks=())
    try:
        yield
    finally:
        state.set(hooks=hooks)


def positions(name: str, slots: dict[str, Any], mask: Sequence[bool]) -> tuple[int, ...]:
    """Which inputs an operation saves, and outputs (-1 for the first), where it needs gradients of those in ``mask``.

    Args:
        slots: from its arguments' names to their positions.
    """
    found: dict[int, None] = {}
    for wanted, saved in RULES[name]:
        if not any(mask[i] for argument in wanted for i in _of(slots, argument)):
            continue
        for argument in saved:
            outputs = (-1 - int(argument[3:]),) if argument in _OUTPUTS else ()
            found |= dict.fromkeys((*_of(slots, argument), *outputs))
    return tuple(found)


def shown_as(argument: str) -> str:
    """What PyTorch's nodes call an argument."""
    return "self" if argument == "input" else argument


_OUTPUTS = ("out0", "out1", "out2")


def _of(slots: dict[str, Any], argument: str) -> list[int]:
    place = slots.get(argument)
    if isinstance(place, list | tuple):
        return [i for i in place if type(i) is int]
    return [] if place is None else [place]


def note(node: Any, where: Sequence[int], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Have a node note the Storages of tensors that it saves."""
    saved = node.saved = []
    for i in where:
        tensor = inputs[i] if i >= 0 else outputs[-1 - i]
        cell = getattr(tensor, "_storage", None)  # a number has none
        if cell is not None:
            if cell.version.__class__ is Untracked:
                raise RuntimeError(INFERENCE)
            saved.append((ref(cell), cell.version - cell.apart, i, tensor._view is not None))


def after_write(node: Any, made: Any, cell: Any) -> None:
    """An in-place operation, recorded as ``node``, has put the value of the Storage ``made`` into ``cell``.

    Of what it wrote over PyTorch saves a copy; what it saves of its result is what was written.
    """
    saved = []
    for held, version, i, is_view in node.saved:
        found = held()
        if i < 0 and found is made:
            saved.append((ref(cell), cell.version - cell.apart, i, is_view))
        elif found is not cell:
            saved.append((held, version, i, is_view))
    keep(node, saved)


class Allowed(list):
    """What a node saved that may be written to.

    Attributes:
        context: the `graph.allow_mutation_on_saved_tensors` that allows it, in which a backward pass must be.
    """

    context: Any = None


def keep(node: Any, items: Sequence[Saved]) -> None:
    """Have a node note only these of what it saved."""
    kept = type(node.saved)(items)
    if kept.__class__ is Allowed:
        kept.context = node.saved.context
    node.saved = kept


def check(node: Any) -> None:
    """Raise if a tensor that the node saved was written to since."""
    if node.saved.__class__ is Allowed:
        if node.saved.context is not state.allowed:
            raise AssertionError(_OUTSIDE)
        return
    for held, expected, i, is_view in node.saved:
        cell = held()
        if cell is not None and cell.version - cell.apart != expected:
            raise RuntimeError(_text(node, cell, expected, i, is_view))
        edge = node.edges[i] if i >= 0 else None
        if edge is not None and edge[0].extras is not None and edge[1] in (edge[0].detached or ()):
            raise RuntimeError(_DETACHED)


def _text(node: Any, cell: Any, expected: int, i: int, is_view: bool) -> str:
    (value,) = computed([node.values[i] if i >= 0 else cell.aval()])
    shape, now = list(value.shape), cell.version - cell.apart
    if (i, True) in (node.plan.edge_order or ()):
        is_view, shape = True, shape[::-1]
    kind = _KINDS.get(str(value.dtype)) or wrap(value).type()
    if is_view:
        return changed(kind, shape, "AsStrided", 0, now, expected)
    made_by, number = (node, -1 - i) if i < 0 else (node.edges[i] or (None, 0))
    current = [t for t in alive(Tensor) if t._storage is cell and t._view is None]
    if current and i >= 0:  # the one that wrote to it last
        made_by, number = current[0]._grad_fn, current[0]._output_nr
    name = "" if made_by is None or hasattr(made_by, "variable") else made_by.name()
    return changed(kind, shape, name, number, now, expected)


def changed(kind: str, shape: list[int], made_by: str, number: int, now: int, expected: int) -> str:
    """PyTorch's words for a saved tensor that was written to.

    Args:
        kind: its type, as ``Tensor.type()`` says it.
        made_by: the name of the node that it is output ``number`` of; empty for a leaf.
        now, expected: its version, and that when it was saved.
    """
    name = re.sub(r"Backward\d*$", "", made_by)
    where = f", which is output {number} of {name}," if name else ""
    return (
        f"one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind} {shape}]{where} is at version {now}; expected version {expected} instead. "
        f"Hint: {_AFTER if anomaly.enabled else _BEFORE}"
    )


_DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please "
    "use out-of-place `.detach()` instead"
)
_OUTSIDE = (
    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally "
    "recorded."
)
#: types that PyTorch has no older name for
_KINDS = {
    "bool": "CPUBoolType",
    "bfloat16": "CPUBFloat16Type",
    "complex64": "CPUComplexFloatType",
    "complex128": "CPUComplexDoubleType",
}
_BEFORE = (
    "enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True, check_nan=False)."
)
_AFTER = (
    "the backtrace further above shows the operation that failed to compute its gradient. The variable in question was "
    "changed in there or anywhere later. Good luck!"
)

#: For gradients of some arguments (before the colon) others are saved (after it), by the operations after the sign.
_TABLE = """
input hx weight_ih weight_hh bias_ih bias_hh: weight_ih weight_hh input hx =
    _lstm_layer
input: weight_ih; weight_ih: input; input hx weight_ih weight_hh bias_ih bias_hh: weight_hh =
    _recurrent_layer
A B: A out0 =
    _solve_ex solve_triangular tensorsolve
A input: A input out0 =
    triangular_solve
A input: out0 out1 =
    qr
A: A =
    matrix_exp
A: A out0 =
    det matrix_norm matrix_power pinv slogdet
A: A out0; input: input out0 =
    norm
A: out0 =
    _cholesky_ex _inv_ex eigvals eigvalsh svdvals tensorinv
A: out0 out1 =
    _lu_factor_ex eig eigh
A: out1 out2 =
    _lu
B LU: LU out0 pivots; LU_data input: LU_data LU_pivots out0 =
    lu_solve
L input: L input out0 =
    cholesky_solve
a: b; b: a =
    tensordot
abs angle: out0 =
    polar
batch1: batch2; batch2: batch1 =
    addbmm baddbmm
bias input weight: bias input weight =
    layer_norm
bias input weight: input weight =
    _batch_norm_eval _batch_norm_tracked conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d group_norm
end input: weight; weight: end input weight =
    lerp
exponent input: exponent input out0 =
    _pow
exponent input: out0 =
    float_power
exponent: exponent out0 =
    _number_pow
grid input: grid input =
    grid_sampler_2d grid_sampler_3d
imag: imag; real: real =
    complex
input input2 input3: input input2 input3 out0 =
    ormqr
input max min: input max min =
    clamp
input max: input max =
    clamp_max
input min: input min =
    clamp_min
input other: condition =
    _where
input other: input other =
    atan2 fmax fmin logaddexp logaddexp2 maximum minimum xlog1py xlogy
input other: input other out0 =
    dist
input source: index input out0 source =
    index_reduce
input src: index =
    scatter
input src: index input out0 src =
    scatter_reduce
input target: input target =
    _binary_cross_entropy _huber_loss _mse_loss _smooth_l1_loss
input target: input target weight =
    _binary_cross_entropy_with_logits
input tau: input out0 tau =
    householder_product
input tensor1: tensor2; tensor2: tensor1 tensor2 =
    addcdiv
input value: index =
    index_fill
input values: indices =
    _index_put
input weight: input =
    _instance_norm_tracked
input weight: input weight =
    prelu
input window: window =
    istft
input1 input2: input1 input2 =
    _cosine_embedding_loss
input1: input2 weight; input2: input1 weight; weight: input1 input2 =
    bilinear
input: index =
    index_select
input: index input =
    gather take
input: index; source: index source =
    index_copy put
input: indices =
    _index _max_unpool1d _max_unpool2d _max_unpool3d
input: indices input =
    take_along_dim
input: input =
    _local_response_norm _lp_pool1d _lp_pool2d _lp_pool3d _masked_select _pow_exact _pow_number _reflect_pad1d
    _reflect_pad2d _reflect_pad3d _replicate_pad1d
    _replicate_pad2d _replicate_pad3d _rows _unit_vectors abs acos acosh adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d angle asin asinh atan atanh avg_pool1d avg_pool2d avg_pool3d
    celu cos cosh digamma elu entr erf erfc erfinv fft gelu glu hardshrink hardsigmoid hardswish hardtanh i0
    ifft ihfft ihfft2 ihfftn leaky_relu lgamma log log10 log1p log2 logdet logit logsigmoid max_pool1d
    max_pool2d max_pool3d mish mvlgamma nan_to_num nanmean nansum polygamma relu6 renorm rfft rfft2 rfftn
    rrelu_with_noise selu silu sin sinc sinh softplus softshrink softsign square threshold var var_mean
input: input other =
    nextafter
input: input out0 =
    _max _min amax amin cholesky_inverse cumprod erfcx i0e i1 i1e log_ndtr logcumsumexp logsumexp pdist
    pinverse prod sgn std std_mean
input: input out0 out1 =
    aminmax
input: input out0; other: other out0 =
    hypot
input: input out0; other: out0 =
    copysign
input: input out1 =
    _fractional_max_pool2d _fractional_max_pool3d adaptive_max_pool1d_with_indices
    adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices cummax cummin max_pool1d_with_indices
    max_pool2d_with_indices max_pool3d_with_indices
input: input target =
    _multilabel_margin_loss _soft_margin_loss
input: input target weight =
    _multi_margin_loss _nll_loss
input: input weight =
    rms_norm
input: input window =
    stft
input: mat2; mat2: input =
    bmm mm
input: other out0; other: out0 =
    ldexp
input: other; other: input =
    cross inner matmul mul vdot
input: other; other: input other =
    div true_divide
input: out0 =
    exp exp2 expit expm1 log_softmax ndtri reciprocal relu rsqrt sigmoid softmax sqrt tan tanh
input: out1 =
    _max_dim _median_dim _min_dim _nanmedian_dim frexp kthvalue mode sort topk
input: target =
    _cross_entropy
input: target; target: input target =
    _kl_div
input: tensor; tensor: input =
    dot
input: vec2; vec2: input =
    outer
input: vec; vec: input =
    mv
input: weight; weight: input =
    _linear_vector _linear_2d _linear_2d_unbiased _linear_nd _linear_nd_unbiased
key query: value =
    _scaled_dot_product_attention
log_probs: log_probs out0 targets =
    _ctc_loss
mat1: mat2; mat2: mat1 =
    addmm
mat: vec; vec: mat =
    addmv
other: input =
    _reflected_divide
other: input other =
    fmod remainder
per_sample_weights: input offsets per_sample_weights weight; weight: input offsets per_sample_weights =
    _embedding_bag
source: index source =
    index_add
src: index =
    scatter_add
tensor1: tensor2; tensor2: tensor1 =
    addcmul
vec1: vec2; vec2: vec1 =
    addr
weight: input =
    embedding
x1 x2: out0 =
    pairwise_distance
x1 x2: out0 x1 x2 =
    cdist
x1: x1; x2: x2 =
    cosine_similarity
x: out0 x =
    vector_norm
x: x =
    _vander
x: y; y: x =
    vecdot
"""


def _parsed(table: str) -> dict[str, list[tuple[list[str], list[str]]]]:
    rules: dict[str, list[tuple[list[str], list[str]]]] = {}
    for rule, operations in re.findall(r"^(\S.*) =\n((?:    .*\n)+)", table, re.M):
        sides = [[side.split() for side in part.split(":")] for part in rule.split(";")]
        rules |= {name: [(wanted, saved) for wanted, saved in sides] for name in operations.split()}
    return rules


#: by the names of operations: pairs of the arguments that need a gradient, and of what is saved for that
RULES = _parsed(_TABLE)
