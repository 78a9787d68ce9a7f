"""`parallelize_module`: a plan of styles for the modules of a model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from typing import Any

from ...._base import agreement
from ....nn._module import Module
from ...device_mesh import DeviceMesh, mesh_of
from .style import ParallelStyle

__all__ = ["parallelize_module"]


@agreement.telling("parallelize_module")
def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Split a module over a dimension of a mesh, in place. Parameters stay the objects that they are.

    Args:
        module: the module.
        device_mesh: a mesh of one dimension, as ``mesh["tp"]``; that of the ``with`` block unless given. Along the
            other dimensions of the whole mesh, placements of parameters, inputs and outputs stay.
        parallelize_plan: a style; or styles by the names of submodules, whose parts are patterns of `fnmatch`.
        src_data_rank: in several processes, whose parameters count; None: each has the right ones already.

    Raises:
        TypeError: the plan is neither.
        NotImplementedError: a style does not know this module.
        ValueError: the mesh has several dimensions, or a parameter is not divisible.
        RuntimeError: the processes give different modules or plans, or one of them has failed.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.tensor import parallel
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
        >>> parallel.parallelize_module(net, mesh, plan)[2].weight.placements
        (Shard(dim=1),)

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html#torch.distributed.tensor.parallel.parallelize_module
    """
    mesh = mesh_of(device_mesh)
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported "
            "at the moment, so this parallelize_module call will do nothing.",
            stacklevel=3,
        )
        return module
    chosen = [*_chosen(module, parallelize_plan)]
    agreement.alike(
        "parallelize_module",
        {
            f"style {k}": f"{_described(style)} of {type(part).__name__}"
            for k, (part, style) in enumerate(chosen)
        },
    )
    for part, style in chosen:
        style.src_data_rank = src_data_rank
        try:
            style._apply(part, mesh)
        except ValueError as error:
            name = next((name for name, other in module.named_modules() if other is part), "")
            raise ValueError(f"{name or type(part).__name__}: {error}") from error
    return module


def _chosen(module: Module, plan: Any) -> Iterator[tuple[Module, ParallelStyle]]:
    """The modules of a plan, with their styles."""
    if isinstance(plan, ParallelStyle):
        yield module, plan
        return
    if not isinstance(plan, Mapping):
        raise TypeError(
            f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(plan)} found!"
        )
    for path, style in plan.items():
        for part in _found(module, path):
            yield from _chosen(part, style)


def _described(style: ParallelStyle) -> str:
    own = type(style).__repr__ is not object.__repr__  # else it has an address, which differs
    return repr(style) if own else type(style).__name__


def _found(module: Module, path: str) -> list[Any]:
    """The modules that a path of patterns leads to."""
    if not path:
        return [module]
    token, _, rest = path.partition(".")
    children = [child for name, child in module.named_children() if fnmatch(name, token)]
    if not children:
        warnings.warn(
            f"Parallelize plan key '{path}' could not be resolved: "
            f"no submodule matching token '{token}' in module {module}, "
            f"skipping this plan entry.",
            stacklevel=5,
        )
    return [found for child in children for found in _found(child, rest)]
