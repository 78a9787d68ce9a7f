"""`torch.nn.attention.flex_attention`: attention whose scores and mask are functions of the positions.

`vmap` maps the functions over all positions, and all scores are computed: a `BlockMask` masks scores, but no block
is skipped.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._run.bind import function
from ..._tensor.creation import arange, zeros
from ..._tensor.tensor import Tensor
from ...func import vmap
from ..functional._conv import pad

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """The auxiliary outputs that `flex_attention` should return.

    Attributes:
        lse: log-sum-exp of the scores.
        max_scores: maximum of the scores.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The auxiliary outputs of an `AuxRequest`: each (B, H, L), or None if not requested."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Mask function that lets every query attend to every key."""
    same: Any = batch == batch
    return same


def _sliced(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is "
        "reset. You must set it from the original BlockMask's mask_mod."
    )


def _combined(name: str, mask_mods: tuple[MaskMod, ...], start: bool) -> MaskMod:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def combined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result: Any = (b == b) if start else (b != b)
        for mod in mask_mods:
            seen = mod(b, h, q_idx, kv_idx)
            result = result & seen if start else result | seen
        return result

    combined.__name__ = combined.__qualname__ = name
    return combined


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Combine mask functions: True where all of them are True.

    Reference: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
    """
    return _combined("and_mask", mask_mods, True)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Combine mask functions: True where at least one of them is True.

    Reference: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
    """
    return _combined("or_mask", mask_mods, False)


def _is_score_mod(fn: Callable[..., Any]) -> bool:
    """Whether a function takes a score in front of the four positions."""
    parameters = inspect.signature(fn).parameters.values()
    count = sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters
    )
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return count == 5


def _mapped(fn: Callable[..., Any], leading: int) -> Callable[..., Tensor]:
    """``fn`` mapped over batch, head, query and key; its first ``leading`` arguments have all four dimensions."""
    for place in (3, 2, 1, 0):
        dims = tuple(0 if i == place else None for i in range(4))
        fn = vmap(fn, in_dims=(0,) * leading + dims)
    return fn


def _positions(sizes: Sequence[int], device: Any) -> list[Tensor]:
    return [arange(n, device=device) for n in sizes]


def create_mask(
    mod_fn: Callable[..., Tensor],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Tensor:
    """Evaluate a mask function to a bool tensor (B, H, Q_LEN, KV_LEN).

    Args:
        mod_fn: ``mask_mod(b, h, q_idx, kv_idx)``, or ``score_mod(score, b, h, q_idx, kv_idx)``, whose mask is True
            where the score is not -inf.
        B, H: batch size and number of heads; None if the function does not depend on them.

    Example:
        >>> import functorch_port as torch
        >>> flex = torch.nn.attention.flex_attention
        >>> flex.create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
        tensor([[[[ True, False],
                  [ True,  True]]]])

    Reference: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    positions = _positions(sizes, device)
    if _is_score_mod(mod_fn):
        return _mapped(mod_fn, 1)(zeros(sizes, device=device), *positions) != -math.inf  # type: ignore[return-value]
    return _mapped(mod_fn, 0)(*positions)


# ------------------------------------------------------------------ block masks


def _ordered(dense: Any) -> tuple[Tensor, Tensor]:
    """For each row the number of blocks, and the column indices, those with a block first."""
    dense = dense.int()
    return dense.sum(-1).int(), dense.argsort(dim=-1, descending=True, stable=True).int()


def _dense(num_blocks: Any, indices: Any) -> Any:
    """The inverse of `_ordered`: int32 ones and zeros."""
    columns = indices.shape[-1]
    listed = arange(columns, device=indices.device) < num_blocks.unsqueeze(-1)
    return zeros(indices.shape, dtype=listed.int().dtype, device=indices.device).scatter(  # type: ignore[attr-defined]
        -1, indices.long(), listed.int()
    )


def _across(num_blocks: Any, indices: Any) -> tuple[Any, Any]:
    """The same blocks, listed by column."""
    return (None, None) if num_blocks is None else _ordered(_dense(num_blocks, indices).transpose(-2, -1))


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


class BlockMask:
    """A mask function and the blocks of queries and keys in which it is True somewhere.

    Create one with `create_block_mask`. For each block of queries, ``kv_num_blocks`` (B, H, rows) is the number of
    blocks of keys, and ``kv_indices`` (B, H, rows, columns) starts with their indices. Blocks that are True
    everywhere are listed in ``full_kv_num_blocks`` and ``full_kv_indices`` instead. The attributes with ``q`` hold the
    same blocks for each block of keys.

    Example:
        >>> import functorch_port as torch
        >>> flex = torch.nn.attention.flex_attention
        >>> mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 4, 4, BLOCK_SIZE=2)
        >>> mask.shape, mask.sparsity(), mask.to_dense()
        ((1, 1, 4, 4), 25.0, tensor([[[[1, 0],
                  [1, 1]]]], dtype=torch.int32))

    Reference: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
    """

    _TENSOR_ATTRS = (
        "kv_num_blocks",
        "kv_indices",
        "full_kv_num_blocks",
        "full_kv_indices",
        "q_num_blocks",
        "q_indices",
        "full_q_num_blocks",
        "full_q_indices",
    )

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
    ) -> None:
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for side, numbers, indices in (
            ("kv", full_kv_num_blocks, full_kv_indices),
            ("q", full_q_num_blocks, full_q_indices),
        ):
            if (numbers is None) != (indices is None):
                raise AssertionError(
                    f"full_{side}_num_blocks and full_{side}_indices must be both provided or omitted"
                )
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Create a mask from the lists for each block of queries; the lists for each block of keys are derived."""
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = _pair(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        across: tuple[Any, ...] = (None,) * 4
        if compute_q_blocks:
            across = (*_across(kv_num_blocks, kv_indices), *_across(full_kv_num_blocks, full_kv_indices))
        blocks = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        parts: Any = (*blocks, *across, size, mask_mod or noop_mask)
        return cls(seq_lengths, *parts)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Lengths, tensors, block size and mask function; ``flatten`` unpacks the lengths and the block size."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        size = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return *lengths, *(getattr(self, name) for name in self._TENSOR_ATTRS), *size, self.mask_mod

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, Q_LEN, KV_LEN)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of scores that the mask covers."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The percentage of scores that lie in no block."""
        blocks = int(self.kv_num_blocks.sum())  # type: ignore[attr-defined]
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())  # type: ignore[attr-defined]
        return 100 * (1 - blocks * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self) -> Tensor:
        """(B, H, rows, columns): 1 where there is a block."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None:
            return dense
        return dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        tensors = (getattr(self, name) for name in self._TENSOR_ATTRS)
        moved: Any = (*(None if t is None else t.to(device) for t in tensors), self.BLOCK_SIZE, self.mask_mod)
        return BlockMask(self.seq_lengths, *moved)

    def _changed(self, change: Callable[[Any, Any], tuple[Any, Any]], **kwargs: Any) -> BlockMask:
        """A new mask with changed lists of blocks."""
        own = change(self.kv_num_blocks, self.kv_indices)
        full: tuple[Any, Any] = (None, None)
        if self.full_kv_num_blocks is not None:
            full = change(self.full_kv_num_blocks, self.full_kv_indices)
        given = {"BLOCK_SIZE": self.BLOCK_SIZE, "compute_q_blocks": self.q_indices is not None, **kwargs}
        return BlockMask.from_kv_blocks(*own, *full, **given)

    def __getitem__(self, index: Any) -> BlockMask:
        """Index batch, heads and blocks of queries. Set `mask_mod` of the result before use."""
        index = index if isinstance(index, tuple) else (index,)
        padded = (*index, *(slice(None),) * 3)[:3]
        sizes = self.kv_num_blocks.shape[:3]

        def kept(i: Any, n: int) -> Any:
            if not isinstance(i, int):
                return i
            return slice(i + n, i + n + 1) if -n <= i < 0 else slice(i, i + 1)

        where = tuple(kept(i, n) for i, n in zip(padded, sizes, strict=True))
        return self._changed(
            lambda n, i: (n[where], i[where]), mask_mod=_sliced, seq_lengths=self.seq_lengths
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner of the mask, with these lengths."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])

        def cut(num_blocks: Any, indices: Any) -> tuple[Any, Any]:
            return _ordered(_dense(num_blocks, indices)[:, :, :rows, :columns])

        return self._changed(cut, mask_mod=self.mask_mod, seq_lengths=(new_q_len, new_kv_len))

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks, of at most ``limit`` batches and heads."""
        dense = np.asarray(self.to_dense()._value)
        *batch, rows, columns = dense.shape
        shown = (rows, columns) if grid_size == -1 else _pair(grid_size)
        step = [max(1, -(-n // most)) for n, most in zip((rows, columns), shown, strict=True)]
        pictures = []
        for count, at in enumerate(itertools.product(*map(range, batch))):
            if count == limit:
                pictures += [
                    "...",
                    "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or head",
                ]
                break
            lines = [str(at)]
            for r in range(0, rows, step[0]):
                parts = (
                    dense[at][r : r + step[0], c : c + step[1]].mean() for c in range(0, columns, step[1])
                )
                lines.append("".join(2 * ("█" if p == 1 else " " if p == 0 else "░") for p in parts))
            pictures.append("\n".join(lines) + "\n")
        return "\n".join(pictures)

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"
        )

    def __repr__(self) -> str:
        tensors = {name: getattr(self, name) for name in self._TENSOR_ATTRS}
        lines = [f"{name}={None if t is None else t.shape}" for name, t in tensors.items()]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """Create a `BlockMask` from a mask function.

    Args:
        mask_mod: ``mask_mod(b, h, q_idx, kv_idx)``, True where the query may attend to the key.
        B, H: batch size and number of heads; None if the function does not depend on them.
        Q_LEN, KV_LEN: numbers of queries and keys.
        device: of the mask.
        BLOCK_SIZE: size of a block, a number or (queries, keys).
        separate_full_blocks: list blocks that are True everywhere separately.

    Raises:
        AssertionError: if the function does not take four arguments.
        NotImplementedError: for ``compute_dq_write_order``, which is for a GPU kernel that is not used here.

    Example:
        >>> import functorch_port as torch
        >>> flex = torch.nn.attention.flex_attention
        >>> flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 512, 512).sparsity()
        37.5

    Reference: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
    """
    if _is_score_mod(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if compute_dq_write_order:
        raise NotImplementedError(
            "compute_dq_write_order=True is not supported: it is for a GPU kernel that is not used here; omit it"
        )
    size = _pair(BLOCK_SIZE)
    mask: Any = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    mask = pad(mask.int(), (0, columns * size[1] - KV_LEN, 0, rows * size[0] - Q_LEN))
    seen: Any = mask.reshape(*mask.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    full = (seen == math.prod(size)) if separate_full_blocks else None
    partial = (seen > 0) if full is None else (seen > 0) & ~full
    blocks = (*_ordered(partial), *((None, None) if full is None else _ordered(full)))
    return BlockMask.from_kv_blocks(*blocks, BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN))


# ------------------------------------------------------------------ attention


def _check(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask | None, grouped: bool) -> None:
    if not (query.ndim == key.ndim == value.ndim == 4):
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.size(-1) != key.size(-1):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.size(-1)} and E={key.size(-1)}."
        )
    heads, own = query.size(1), key.size(1)
    if not grouped and heads != own:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={own}. Try setting enable_gqa=True for GQA."
        )
    if heads % own:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={own}."
        )
    if query.size(0) != key.size(0) and mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got "
            f"block_mask=None, Bq={query.size(0)}, and Bkv={key.size(0)}."
        )
    if mask is None:
        return
    if mask.mask_mod is _sliced:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    lengths = (query.size(-2), key.size(-2))
    if lengths != tuple(mask.seq_lengths):
        larger = lengths[0] > mask.seq_lengths[0] or lengths[1] > mask.seq_lengths[1]
        start = (
            f"block_mask was created for block_mask.shape={mask.shape} but got q_len={lengths[0]} and "
            f"kv_len={lengths[1]}. As the block mask was created for a {'smaller' if larger else 'larger'} length than "
            "you're using it for, you "
        )
        raise ValueError(
            start + "likely need to create a new block mask."
            if larger
            else start
            + "can either 1. create a new block mask with the correct length, or 2. 'adjust' the existing "
            "block mask to the correct length by calling block_mask._adjust(q_len, kv_len). This essentially 'crops' "
            "the block mask to the upper left corner, which does not work for all mask_mods!"
        )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with a user-defined score function and mask.

    Gradients flow to query, key, value and the tensors that the functions capture (in PyTorch, on GPUs only).

    Args:
        query: (B, H, L, E).
        key, value: (B, H, S, E) and (B, H, S, Ev).
        score_mod: ``score_mod(score, b, h, q_idx, kv_idx)`` returns the modified score.
        block_mask: which queries may attend to which keys.
        scale: factor of the scores; default ``1 / sqrt(E)``.
        enable_gqa: the query may have a multiple of the heads of key and value.
        return_lse: also return the log-sum-exp of the scores (deprecated; use ``return_aux``).
        kernel_options: accepted and ignored; there are no kernels to choose from.
        return_aux: the auxiliary outputs to return.

    Shape:
        (B, H, L, Ev).

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> import functorch_port as torch
        >>> flex_attention = torch.nn.attention.flex_attention.flex_attention
        >>> x = torch.tensor([[[[1., 0.], [0., 1.]]]])
        >>> causal = lambda score, b, h, q, kv: torch.where(q >= kv, score, -float("inf"))
        >>> flex_attention(x, x, x, causal)[0, 0, 0]
        tensor([1., 0.])

    Reference: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    scores = function("_attention_scores")(
        query, key, 1 / math.sqrt(query.size(-1)) if scale is None else scale
    )
    positions = _positions(scores.shape, scores.device)
    if score_mod is not None:
        scores = _mapped(score_mod, 1)(scores, *positions)
    if block_mask is not None and block_mask.mask_mod is not noop_mask:
        scores = scores.masked_fill(~_mapped(block_mask.mask_mod, 0)(*positions), -math.inf)  # type: ignore[attr-defined, operator]
    out, lse, highest = function("_attend")(scores, value)
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, highest if return_aux.max_scores else None)
    return (out, lse) if return_lse else out
