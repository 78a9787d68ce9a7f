"""`torch.autograd.graph`: gradient edges, saved-tensor hooks, and hooks on several tensors."""

from __future__ import annotations

import abc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._tensor import saved
from .._tensor.node import Node as _Node
from .._tensor.node import RemovableHandle, accumulator
from .._tensor.tensor import Tensor
from ._task import current_walk

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class Node(abc.ABC):
    """What is common to the nodes of the graph, for ``isinstance``.

    Reference: https://docs.pytorch.org/docs/stable/autograd.html
    """

    @abc.abstractmethod
    def name(self) -> str:
        """The name of the node, such as ``AddmmBackward0``."""


Node.register(_Node)


class GradientEdge(NamedTuple):
    """An output of a node, where a gradient enters. `autograd.grad` accepts it in place of a tensor."""

    node: _Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The `GradientEdge` of a tensor.

    Raises:
        RuntimeError: if the tensor does not require grad.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.graph.get_gradient_edge.html
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    node = tensor.grad_fn
    return GradientEdge(accumulator(tensor), 0) if node is None else GradientEdge(node, tensor.output_nr)


def increment_version(tensor: Any) -> None:
    """Increment the version counter of a tensor, or of each of several, after a write that autograd did not see."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._storage.version += 1


class _MultiHandle(RemovableHandle):
    """A handle that removes several hooks."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Register a hook that is called when the gradients of all tensors, or of any one of them, are computed.

    Args:
        tensors: tensors that require grad.
        fn: called with the list of gradients, with None for tensors that the backward does not reach; with
            ``mode="any"``, with the first gradient.
        mode: ``"all"`` or ``"any"``.

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.register_multi_grad_hook
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        done: list[Any] = []

        def first(grad: Tensor) -> None:
            with lock:
                task = current_walk()
                if done and done[0] is task:
                    return
                done[:] = [task]
            fn(grad)

        return _MultiHandle([t.register_hook(first) for t in tensors if t.requires_grad])
    nodes = [get_gradient_edge(t).node for t in tensors if t.requires_grad]
    # a walk that ends in an error leaves its gradients here, and must not leave them to one of the same id
    seen: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def inner(index: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            with lock:
                task = current_walk()
                grads = seen.setdefault(task, [None] * len(nodes) + [0])
                grads[index] = grad
                grads[-1] += 1
                if grads[-1] < sum(node in task.nodes for node in nodes):
                    return
                del seen[task]
            fn(grads[:-1])

        return hook

    required = [t for t in tensors if t.requires_grad]
    return _MultiHandle([t.register_hook(inner(i)) for i, t in enumerate(required)])


class saved_tensors_hooks:
    """Context manager in which a hook packs the tensors that operations save for the backward pass.

    The hooks receive the tensors that PyTorch saves; a node here may also keep other inputs, unpacked. Where PyTorch
    saves a result, the gradient here is computed from the inputs, so the result must be unpacked unchanged.

    Args:
        pack_hook: maps a saved tensor to any object.
        unpack_hook: maps that object back to the tensor.

    Raises:
        NotImplementedError: in a compiled function, or if an unpack hook returns a changed result.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.tensor([1., 2.], requires_grad=True)
        >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), torch.from_numpy):
        ...     y = x * x
        >>> y.sum().backward()
        >>> x.grad
        tensor([2., 4.])

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.saved_tensors_hooks
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        state = saved.state
        if state.refused is not None:
            raise RuntimeError(state.refused)
        hooks = (self.pack_hook, self.unpack_hook)
        if not all(map(callable, hooks)):
            raise TypeError(
                "_push_saved_tensors_default_hooks(): incompatible function arguments. The following argument types "
                "are supported:\n    1. (arg0: collections.abc.Callable, arg1: collections.abc.Callable) -> None"
            )
        state.set(hooks=(*state.hooks, hooks))

    def __exit__(self, *exc: object) -> None:
        saved.state.set(hooks=saved.state.hooks[:-1])


class save_on_cpu(saved_tensors_hooks):
    """Context manager in which saved tensors are kept on the CPU (see `saved_tensors_hooks`).

    Args:
        pin_memory, device_type: accepted and ignored.

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.save_on_cpu
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(
            lambda tensor: (tensor.device, tensor.detach().to("cpu")), lambda packed: packed[1].to(packed[0])
        )


class allow_mutation_on_saved_tensors:
    """Context manager that allows in-place writes to tensors that an operation saved for its backward pass.

    The gradients use the values before the write. Nothing is copied, as arrays are immutable. The backward pass must be
    in the same context, as in PyTorch.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
        ...     y = x.exp()
        ...     _ = y.add_(1)
        ...     y.sum().backward()
        >>> x.grad
        tensor([2.7183, 2.7183])

    Reference: https://docs.pytorch.org/docs/stable/autograd.html
    """

    def __enter__(self) -> SavedInContext:
        if saved.state.allowed:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        made = SavedInContext()
        saved.state.set(allowed=made)
        return made

    def __exit__(self, *exc: object) -> None:
        saved.state.set(allowed=None)


class SavedInContext:
    """The tensors saved in an `allow_mutation_on_saved_tensors` context, until their backward has run."""

    def __init__(self) -> None:
        self._nodes: weakref.WeakSet[Any] = weakref.WeakSet()

    def note(self, node: Any, where: Sequence[int], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Note that an operation saves these inputs and outputs (see `saved.note`)."""
        saved.note(node, where, inputs, outputs)
        node.saved = saved.Allowed(node.saved)
        node.saved.context = self
        self._nodes.add(node)

    def _alive(self) -> list[tuple[Any, int]]:
        """The saved Storages, with their version when they were saved."""
        items = [item for node in list(self._nodes) for item in node.saved]
        return [(cell, item[1]) for item in items if (cell := item[0]()) is not None]

    @property
    def tid_to_weakhandle(self) -> dict[Any, Any]:
        """The saved Storages by id."""
        return {id(cell): cell for cell, _ in self._alive()}

    @property
    def cloned(self) -> dict[Any, Any]:
        """The saved Storages that were written to later, once for each saved version."""
        return {(id(c), n): c for c, n in self._alive() if c.version - c.apart != n}


class disable_saved_tensors_hooks:
    """Context manager in which `saved_tensors_hooks` raises a RuntimeError with the given message.

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.disable_saved_tensors_hooks
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        if saved.state.hooks:
            raise RuntimeError(self.error_message)
        self._before = saved.state.refused
        saved.state.set(refused=self.error_message)

    def __exit__(self, *exc: object) -> None:
        saved.state.set(refused=self._before)
