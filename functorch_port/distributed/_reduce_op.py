"""`ReduceOp` and `Backend`."""

from __future__ import annotations

import warnings
from enum import IntEnum
from typing import Any

from functorch_port._tensor.tensor import Tensor

__all__ = ["Backend", "ReduceOp", "reduce_op"]


class RedOpType(IntEnum):
    """The reductions."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class ReduceOp:
    """A reduction: ``ReduceOp.SUM`` and the others.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.ReduceOp
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = RedOpType

    def __init__(self, op: Any, factor: float | None = None) -> None:
        kind = op.op if isinstance(op, ReduceOp) else op
        if not isinstance(kind, RedOpType):
            raise TypeError(f"ReduceOp expects one of its own values, such as ReduceOp.SUM, not {op!r}")
        self.op: RedOpType = kind
        self.factor = op.factor if isinstance(op, ReduceOp) else factor

    def __eq__(self, other: Any) -> bool:
        return self.op == (other.op if isinstance(other, ReduceOp) else other)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"<torch.distributed.distributed_c10d.ReduceOp {self.op.name}>"


class _Deprecated:
    """PyTorch's name of long ago for the reductions: ``reduce_op.SUM``."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(RedOpType, name)
        warnings.warn(
            "torch.distributed.reduce_op is deprecated, please use torch.distributed.ReduceOp instead",
            FutureWarning,
            stacklevel=2,
        )
        return value


reduce_op = _Deprecated()


def premul_sum(factor: float | Tensor) -> ReduceOp:
    """A sum of the values times ``factor``, for the backend "nccl"."""
    return ReduceOp(ReduceOp.PREMUL_SUM, float(factor))


class Backend(str):
    """The name of a backend, in small letters. XLA does the work of each: Gloo on CPUs, NCCL on GPUs.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.Backend
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, XLA, FAKE = (
        "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "xla", "fake",
    )  # fmt: skip
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, XLA]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, but got {name!r}")
        return super().__new__(cls, name.lower())
