# ruff: noqa: E501 (a table)
"""Which operations give views, of what base and with which strides, and that writes go through them: as in torch.

By default a quarter of the table, of a block inside of a tensor and of a small one, as each view is a program; with
WHOLE_DATABASE=1 all.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ft

WHOLE = os.environ.get("WHOLE_DATABASE") == "1"
INPUTS = {
    "plain": "torch.arange(24.).reshape(2, 3, 4)",
    "permuted": "torch.arange(24.).reshape(4, 3, 2).permute(2, 1, 0)",
    "block": "torch.arange(120.).reshape(4, 5, 6)[1:3, ::2, 1:5]",
    "expanded": "torch.arange(8.).reshape(2, 1, 4).expand(2, 3, 4)",
    "small": "torch.arange(6.).reshape(1, 6, 1)",
    "empty": "torch.zeros(0, 3, 4)",
}
CALLS = """
x[0:1], x[:, 0], x[..., -1], x[None], x[:], x[...], x[:, None, ::2], x[0:1, ..., 0:1], x[()], x[[0]], x[x > 3]
x.view(-1), x.view(x.shape), x.view(*x.shape, 1), x.view(1, -1), x.view_as(x), x.reshape(-1), x.reshape(x.shape)
x.reshape(x.shape[0], -1), x.reshape_as(x), x.flatten(), x.flatten(1), x.flatten(0, 1), x.ravel()
x.unflatten(1, (-1, 1)), x.unflatten(2, (1, -1)), x.squeeze(), x.squeeze(0), x.squeeze((0, 2)), x.unsqueeze(0)
x.unsqueeze(-1), x.transpose(0, 1), x.transpose(-1, -2), x.swapaxes(0, 2), x.swapdims(0, 1), x.permute(2, 0, 1)
x.permute(0, 1, 2), x.movedim(0, -1), x.moveaxis(2, 0), x.mT, x.mH, x.T, x.H, x[0:1, 0].t(), x[0:1, 0].T
x.adjoint(), x.expand(x.shape), x.expand(2, *x.shape), x.expand_as(x), torch.broadcast_to(x, x.shape)
torch.broadcast_to(x, (2, *x.shape)), torch.broadcast_tensors(x, x[..., :1])[1], torch.atleast_1d(x), torch.atleast_3d(x)
torch.atleast_3d(x[:, 0]), torch.atleast_2d(x[:, 0, 0]), x.narrow(1, 1, 2), x.narrow(2, 0, 1), x.select(1, 1), x.select(2, -1)
x.diagonal(), x.diagonal(1, 1, 2), x.diagonal(0, 2, 1), torch.linalg.diagonal(x), x.unfold(1, 2, 2), x.unfold(2, 1, 1)
x.chunk(2, 1)[1], x.split(2, 1)[0], x.split([1, 2], 1)[1], x.tensor_split(2, 1)[1], x.unbind(1)[1], x.hsplit(3)[1]
x.vsplit(1)[0], x.dsplit(1)[0], torch.split(x, 1, 1)[2], next(iter(x.transpose(0, 1))), x.detach(), x.data
x.real, x.conj(), x.resolve_conj(), x.resolve_neg(), x.contiguous(), x.clone(), x.to(torch.float32), x.to(torch.float64)
x.float(), x.double(), x.type(torch.float32), x.cpu(), x.to('cpu'), x.to(x), x.type_as(x), x.requires_grad_(False)
x.positive(), +x, x.alias() if hasattr(x, 'alias') else x, x.diff(), x.roll(0), x.flip(0), x.tile(1), x.repeat(1, 1, 1), x.tril()
x.expand(-1, -1, -1), x.sum_to_size(x.shape), x.nan_to_num(), x.round(), x.view(torch.int32), x.view(torch.float32)
x.as_strided((2, 2), (1, 2)), x.as_strided((2,), (1,), 1), torch.as_tensor(x), torch.asarray(x), torch.squeeze(x)
x.index_select(0, torch.arange(1)), x.masked_fill(x > 1, 0), x.take_along_dim(x.long() * 0, 0), torch.rot90(x, 0), x.fliplr()
torch.view_as_real(torch.complex(x, x)), torch.complex(x, x).imag, torch.complex(x, x).real, torch.complex(x, x).mT
torch.chain_matmul(x[0]), torch.meshgrid(x[0, 0], x[0, 0], indexing='ij')[0], torch.block_diag(x[0]), torch.einsum('ijk->kji', x)
torch.einsum('ijk', x), torch.einsum('iij->ji', x[:2, :2]), torch.einsum('i...->...i', x), torch.einsum('ijk->ik', x), torch.cat([x]), torch.stack([x])[0], x.movedim((0, 1), (1, 0)), torch.real(x)
"""


def calls() -> list[str]:
    found: list[str] = []
    for line in CALLS.strip().split("\n"):
        depth, start = 0, 0
        for i, c in enumerate(line + ","):
            depth += (c in "([") - (c in ")]")
            if c == "," and depth == 0:
                found.append(line[start:i].strip())
                start = i + 1
    return found


def _memory(t: Any) -> int:
    return t.untyped_storage().data_ptr()


def form(lib: Any, call: str, made: str) -> dict[str, Any]:
    """What a tensor is to the one that it was made of, and what is left in both after writing to it."""
    x = eval(made, {"torch": lib})
    try:
        y = eval(call, {"torch": lib, "x": x})
    except Exception as error:
        return {"error": type(error).__name__}
    shares = y.numel() > 0 and _memory(x) == _memory(y)
    found: dict[str, Any] = {"same": y is x, "view": y._is_view(), "shape": tuple(y.shape), "shares": shares}
    if y._is_view() or shares:
        base = x._base if x._base is not None else x
        found |= {"base": y._base is base, "of x": y._base is x, "version": y._version}
    if shares:
        found |= {"stride": tuple(y.stride()), "offset": y.storage_offset(), "contiguous": y.is_contiguous()}
        found |= {"continues": y.contiguous() is y}
    else:  # laid out in order here, where PyTorch keeps the order of the input
        y = y.clone(memory_format=lib.contiguous_format)
    if y.dtype.is_floating_point and y.numel():
        try:
            y.mul_(-1)
            y.view(-1)[0] = 7 if y.is_contiguous() else 0
        except RuntimeError as error:
            found["refused"] = str(error)[:40]
        found |= {"x": x.numpy().copy(), "y": y.detach().numpy().copy(), "counted": x._version}
    return found


@pytest.mark.parametrize("made", INPUTS if WHOLE else ("block", "small"))
@pytest.mark.filterwarnings("ignore")
def test_like_torch(made: str) -> None:
    wrong = []
    for call in calls() if WHOLE else calls()[1::4] if made == "small" else calls()[::4]:
        theirs, ours = form(torch, call, INPUTS[made]), form(ft, call, INPUTS[made])
        for key in theirs.keys() | ours.keys():
            a, b = theirs.get(key), ours.get(key)
            if not (
                np.array_equal(a, b)
                if isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
                else a is b or a == b
            ):
                wrong.append(f"{call}: {key} {a} != {b}")
    assert not wrong, "\n".join(wrong)


FORMATS = ("contiguous_format", "preserve_format", "channels_last")


@pytest.mark.parametrize("name", FORMATS)
def test_memory_format_is_accepted(name: str) -> None:
    """Values are as in PyTorch; results are always laid out in order here, as XLA chooses the layout itself."""
    theirs, ours = (lib.arange(24.0).reshape(1, 2, 3, 4) for lib in (torch, ft))
    for call in (
        *("t.to(memory_format=f)", "t.clone(memory_format=f)", "torch.zeros_like(t, memory_format=f)"),
        *(
            "torch.empty_like(t, memory_format=f).shape",
            "t.float().double().to(torch.float32, memory_format=f)",
        ),
        *("t.contiguous(memory_format=f)", "torch.empty(1, 2, 3, 4, memory_format=f).fill_(1)"),
        *(
            "torch.full_like(t, 2, memory_format=f)",
            "torch.nn.Conv2d(2, 2, 1).to(memory_format=f).weight.shape",
        ),
    ):
        if name == "preserve_format" and ("contiguous(" in call or "Conv2d" in call):
            continue  # refused by PyTorch as well
        if name == "preserve_format" and "torch.empty(" in call:
            continue
        a = eval(call, {"torch": torch, "t": theirs, "f": getattr(torch, name)})
        b = eval(call, {"torch": ft, "t": ours, "f": getattr(ft, name)})
        assert tuple(a) == tuple(b) if isinstance(a, torch.Size) else np.array_equal(a.numpy(), b.numpy()), (
            call
        )
    assert ours.contiguous() is ours and ours.is_contiguous()
