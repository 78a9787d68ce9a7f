"""`summary`: the layers of a model as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._base import tables
from .._base.units import nbytes
from .._tensor.creation import ones
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from .._tensor.tree import tensors
from ..autograd.profiler import profile
from ..compiler import set_stance
from ..nn import Module
from ..nn._conversion import modes_kept

__all__ = ["Layer", "Summary", "summary"]


@dataclass
class Layer:
    """A call of a module.

    Attributes:
        name: the module's, within the model; empty for the model itself.
        kind: its class.
        depth: how many modules are around it.
        output: the shapes of its results: one, or a list of several.
        parameters: how many numbers its parameters have, those of its children among them.
        flops: of its products of matrices and convolutions, two for a multiplication and an addition.
        nbytes: of its results.
        shared: whether it was called before, so that its parameters are counted there.
    """

    name: str
    kind: str
    depth: int
    output: Any = None
    parameters: int = 0
    flops: int = 0
    nbytes: int = 0
    shared: bool = False


@dataclass
class Summary:
    """What `summary` found. Print it.

    Attributes:
        layers: the calls of modules, in order.
        total_params, trainable_params: how many numbers all parameters have.
        param_bytes: bytes of parameters and buffers.
        total_flops: of a forward pass.
        output_bytes: of the results of modules without children.
    """

    layers: list[Layer]
    total_params: int
    trainable_params: int
    param_bytes: int
    total_flops: int
    output_bytes: int
    depth: int | None = None

    def __str__(self) -> str:
        table = tables.table("functorch_port.viz.summary")
        for title in ("layer", "output shape", "parameters", "FLOPs", "output"):
            table.add_column(title, justify="left" if title in ("layer", "output shape") else "right")
        for layer in self.layers:
            if self.depth is None or layer.depth <= self.depth:
                table.add_row(*_row(layer))
        return "\n".join(
            [
                tables.text("functorch_port.viz.summary", table),
                f"parameters: {self.total_params:,} ({self.trainable_params:,} trainable), {nbytes(self.param_bytes)}"
                " with buffers",
                f"forward pass: {self.total_flops:,} FLOPs (products of matrices and convolutions, counted per "
                "operation)",
                f"results of layers: {nbytes(self.output_bytes)}",
            ]
        )

    __repr__ = __str__


def _row(layer: Layer) -> tuple[str, ...]:
    last = layer.name.rpartition(".")[2]
    name = f"{'  ' * layer.depth}{layer.kind}{f' ({last})' if last else ''}"
    parameters = "(shared)" if layer.shared and layer.parameters else f"{layer.parameters:,}"
    shape = "" if layer.output is None else str(layer.output)
    return (
        name,
        shape,
        parameters if layer.parameters else "",
        f"{layer.flops:,}" if layer.flops else "",
        nbytes(layer.nbytes),
    )


def summary(
    model: Module,
    input_data: Any = None,
    *,
    input_size: Sequence[int] | Sequence[Sequence[int]] | None = None,
    dtypes: Sequence[Any] | None = None,
    depth: int | None = None,
    **kwargs: Any,
) -> Summary:
    """A table of a model's layers: shapes of results, parameters, FLOPs, memory.

    The model is called once, in evaluation mode, without gradients and without compiling; its mode is put back.

    Args:
        model: the model.
        input_data: its input, a tuple or list of inputs, or a dict of them by the names of parameters.
        input_size: in its place the shape of an input of ones, or a sequence of shapes.
        dtypes: of the inputs of ``input_size``. Default: the default dtype.
        depth: how deep the printed table goes. Default: all of it.
        kwargs: for the call.

    Returns:
        the numbers; ``str`` gives the table.

    Raises:
        ValueError: both or neither of ``input_data`` and ``input_size`` is given, or ``dtypes`` does not fit.

    Example:
        >>> import functorch_port as torch
        >>> found = torch.viz.summary(torch.nn.Linear(4, 3), input_size=(2, 4))
        >>> found.total_params, found.total_flops, found.layers[0].output
        (15, 48, [2, 3])

    Reference: https://github.com/TylerYep/torchinfo
    """
    if (input_data is None) == (input_size is None):
        raise ValueError("summary: give either input_data or input_size")
    if dtypes is not None and input_size is None:
        raise ValueError("summary: dtypes are those of the inputs of input_size")
    given = _inputs(input_size, dtypes) if input_size is not None else input_data
    args = tuple(given) if isinstance(given, tuple | list) else (given,)
    if isinstance(given, dict):
        args, kwargs = (), {**given, **kwargs}
    walk = _Walk(model)
    with modes_kept(model), no_grad(), set_stance("force_eager"), walk:
        model.eval()
        model(*args, **kwargs)
    return walk.summary(depth)


def _inputs(sizes: Sequence[Any], dtypes: Sequence[Any] | None) -> list[Tensor]:
    shapes = [sizes] if all(isinstance(n, int) for n in sizes) else list(sizes)
    kinds = [None] * len(shapes) if dtypes is None else list(dtypes)
    if len(kinds) != len(shapes):
        raise ValueError(f"summary: {len(kinds)} dtypes for {len(shapes)} inputs")
    return [ones(*shape, dtype=kind) for shape, kind in zip(shapes, kinds)]


class _Walk:
    """Watches a call of a model."""

    def __init__(self, model: Module) -> None:
        self.model = model
        self.layers: list[Layer] = []
        self.names = {id(module): name for name, module in model.named_modules()}
        self.profile = profile(with_flops=True)
        self._open: list[tuple[Layer, int]] = []
        self._spans: list[tuple[Layer, int, int]] = []
        self._handles: list[Any] = []
        self._called: set[int] = set()
        self.output_bytes = 0

    def __enter__(self) -> None:
        self.profile.__enter__()  # refuses another profile, before there are hooks
        for module in self.model.modules():
            self._handles.append(module.register_forward_pre_hook(self._enter, prepend=True))
            self._handles.append(module.register_forward_hook(self._leave))

    def __exit__(self, *exc: object) -> None:
        self.profile.__exit__(*exc)
        for handle in self._handles:
            handle.remove()
        for layer, start, end in self._spans:
            layer.flops = sum(event.flops for event in self.profile._noted[start:end])

    def _enter(self, module: Module, args: Any) -> None:
        layer = Layer(self.names[id(module)], type(module).__name__, len(self._open))
        layer.parameters = sum(p.numel() for p in module.parameters())
        layer.shared = id(module) in self._called
        self._called.add(id(module))
        self.layers.append(layer)
        self._open.append((layer, len(self.profile._noted)))

    def _leave(self, module: Module, args: Any, output: Any) -> None:
        layer, start = self._open.pop()
        self._spans.append((layer, start, len(self.profile._noted)))
        found = tensors(output)
        shapes = [list(t.shape) for t in found]
        layer.output = shapes[0] if len(shapes) == 1 else shapes
        layer.nbytes = sum(t.numel() * t.itemsize for t in found)
        if not any(True for _ in module.children()):
            self.output_bytes += layer.nbytes

    def summary(self, depth: int | None) -> Summary:
        parameters = list(self.model.parameters())
        return Summary(
            self.layers,
            sum(p.numel() for p in parameters),
            sum(p.numel() for p in parameters if p.requires_grad),
            sum(t.numel() * t.itemsize for t in (*parameters, *self.model.buffers())),
            sum(event.flops for event in self.profile._noted),
            self.output_bytes,
            depth,
        )
