"""Pruning: masks that hold entries of parameters at zero (`torch.nn.utils.prune`)."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ..._run.bind import function
from ..._tensor.creation import ones_like, zeros_like
from ..._tensor.tensor import Tensor
from .._module import Module
from .convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

M = TypeVar("M", bound=Module)


def _check_same_shape(scores: Tensor, of: Tensor, what: str) -> None:
    if scores.shape != of.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs {of.shape}"
        )


class BasePruningMethod(ABC):
    """Base of the pruning methods; each is a forward pre-hook that sets the pruned tensor before every call.

    A subclass defines ``PRUNING_TYPE`` ("unstructured", "structured" or "global") and `compute_mask`. The parameter is
    stored as ``<name>_orig`` and the mask as the buffer ``<name>_mask``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.BasePruningMethod.html
    """

    PRUNING_TYPE: str
    _tensor_name: Any

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask from the importance scores ``t``; entries that ``default_mask`` prunes stay pruned."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times the mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter; if it is pruned already, prune the rest of it.

        Args:
            module: the module.
            name: name of the parameter.
            importance_scores: scores to use in place of the parameter's values; same shape.
            args, kwargs: arguments of the class.
        """
        method = cls._combined(module, name, cls(*args, **kwargs))
        first = not isinstance(method, PruningContainer)
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        else:
            _check_same_shape(importance_scores, original, f"parameter {name} of {module}")
        if first:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            mask = ones_like(original)
        else:
            mask = getattr(module, f"{name}_mask").detach().clone()
        try:
            mask = method.compute_mask(importance_scores, default_mask=mask)
            module.register_buffer(f"{name}_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, getattr(module, f"{name}_orig"))
                del module._parameters[f"{name}_orig"]
            raise
        return method

    @classmethod
    def _combined(cls, module: Module, name: str, method: BasePruningMethod) -> BasePruningMethod:
        """The new method; if there is one already, its hook is removed and both are put in a container."""
        found = _hooks_on(module, name)
        if len(found) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                "Use a PruningContainer."
            )
        method._tensor_name = name
        for key, old in found:
            del module._forward_pre_hooks[key]
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            return container
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Prune a tensor that belongs to no module; return the pruned copy."""
        if importance_scores is None:
            importance_scores = t
        else:
            _check_same_shape(importance_scores, t, "tensor t")
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the pruning permanent: write the pruned values to the parameter. `prune.remove` removes the hook."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters[f"{name}_orig"]
        original.data = weight.data
        delattr(module, f"{name}_orig")
        delattr(module, f"{name}_mask")
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """A sequence of pruning methods of one tensor; each prunes the entries that earlier ones kept.

    Args:
        args: the methods.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.PruningContainer.html
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, applied to the entries that earlier ones kept."""
        method = self._pruning_methods[-1]
        kept = _left_by(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype)
        mask = mask.clone() if mask is default_mask else mask
        partial = method.compute_mask(t[kept], default_mask=default_mask[kept])
        mask[kept] = partial.to(dtype=mask.dtype)
        return mask


def _left_by(method: Any, t: Tensor, mask: Tensor) -> Any:
    """The index of the entries or channels that are not pruned yet."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    everything: list[Any] = [slice(None)] * t.dim()
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
            )
        dim = method.dim + t.dim() if method.dim < 0 else method.dim
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
        everything[dim] = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
    elif method.PRUNING_TYPE != "global":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    return tuple(everything)


class Identity(BasePruningMethod):
    """Prune nothing, but create the mask and ``<name>_orig``."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name)


# Custom pruning methods call these helpers by PyTorch's names.


def _validate_pruning_amount_init(amount: Any) -> None:
    """Raise unless `amount` is a number of entries, or a fraction of them."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """The number of entries to prune out of `tensor_size`."""
    count: Any = amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)
    return count


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """Raise if `amount` is a number of entries above `tensor_size`."""
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}"
        )


def _validate_structured_pruning(t: Tensor) -> None:
    """Raise if `t` has no channels."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {t.dim()} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Raise if `t` has no dimension `dim`."""
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


class _ByAmount(BasePruningMethod):
    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, available: int) -> int:
        """The number of entries to prune out of `available`."""
        count = _compute_nparams_toprune(self.amount, available)
        _validate_pruning_amount(count, available)
        return count


class RandomUnstructured(_ByAmount):
    """Prune entries chosen at random.

    Args:
        amount: the number to prune, or the fraction if it is a float.
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count, mask = self._count(t.nelement()), default_mask.clone()
        if count:
            drawn = function("rand_like")(t)
            mask.view(-1)[drawn.view(-1).topk(count).indices] = 0
        return mask

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ByAmount):
    """Prune the entries with the smallest absolute values.

    Args:
        amount: the number to prune, or the fraction if it is a float.
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count, mask = self._count(t.nelement()), default_mask.clone()
        if count:
            mask.view(-1)[t.abs().view(-1).topk(count, largest=False).indices] = 0
        return mask

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(_ByAmount):
    PRUNING_TYPE = "structured"
    dim: int

    def _check(self, t: Tensor) -> tuple[int, int]:
        """The number of channels, and the number to prune."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        available = t.shape[self.dim]
        return available, self._count(available)

    def _keeping(self, t: Tensor, channels: Tensor, default_mask: Tensor) -> Tensor:
        """The mask that keeps these channels, without the entries that ``default_mask`` prunes."""
        mask = zeros_like(t)
        index: list[Any] = [slice(None)] * t.dim()
        index[self.dim] = channels
        mask[tuple(index)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prune channels chosen at random.

    Args:
        amount: the number to prune, or the fraction if it is a float.
        dim: the dimension of the channels.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        available, count = self._check(t)
        if not count:
            return default_mask
        drawn = function("rand")(available)
        return self._keeping(t, drawn > drawn.kthvalue(count).values, default_mask)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prune the channels with the smallest norms.

    Args:
        amount: the number to prune, or the fraction if it is a float.
        n: exponent of the norm, as in `torch.norm`.
        dim: the dimension of the channels.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        available, count = self._check(t)
        if not count:
            return default_mask
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norms = t.norm(p=self.n, dim=others)
        return self._keeping(t, norms.topk(available - count).indices, default_mask)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: float,
        n: Any,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prune with a given mask.

    Args:
        mask: the mask, of the tensor's shape; 0 prunes.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


def identity(module: M, name: str) -> M:
    """Set up pruning of a parameter without pruning any entry. Returns the module.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.identity.html
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prune random entries of a parameter. Returns the module.

    Args:
        module: the module.
        name: name of the parameter.
        amount: the number of entries to prune, or the fraction if it is a float.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.random_unstructured.html
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: float, importance_scores: Tensor | None = None) -> M:
    """Prune the entries of a parameter with the smallest absolute values. Returns the module.

    Args:
        module: the module.
        name: name of the parameter.
        amount: the number of entries to prune, or the fraction if it is a float.
        importance_scores: scores to use in place of the parameter's values; same shape.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.nn.utils import prune
        >>> net = prune.l1_unstructured(torch.nn.Linear(2, 3), "weight", amount=0.5)
        >>> int((net.weight == 0).sum())
        3
        >>> list(net.state_dict())
        ['bias', 'weight_orig', 'weight_mask']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.l1_unstructured.html
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prune random channels of a parameter. Returns the module.

    Args:
        module: the module.
        name: name of the parameter.
        amount: the number of channels to prune, or the fraction if it is a float.
        dim: the dimension of the channels.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.random_structured.html
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> M:
    """Prune the channels of a parameter with the smallest norms. Returns the module.

    Args:
        module: the module.
        name: name of the parameter.
        amount: the number of channels to prune, or the fraction if it is a float.
        n: exponent of the norm.
        dim: the dimension of the channels.
        importance_scores: scores to use in place of the parameter's values; same shape.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.ln_structured.html
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: pairs (module, name of the parameter).
        pruning_method: a class of ``PRUNING_TYPE`` "unstructured".
        importance_scores: a dict from such pairs to scores to use in place of the parameter's values.
        kwargs: arguments of the class.

    Raises:
        TypeError: for another ``PRUNING_TYPE``, or arguments of the wrong type.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.global_unstructured.html
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    values = [getattr(module, name) for module, name in pairs]
    scores = parameters_to_vector(
        [importance_scores.get(pair, v) for pair, v in zip(pairs, values, strict=True)]
    )
    masks = parameters_to_vector(
        [getattr(m, f"{name}_mask", ones_like(v)) for (m, name), v in zip(pairs, values, strict=True)]
    )
    container = PruningContainer()
    method = pruning_method(**kwargs)
    container._tensor_name = method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for '
            f"the `pruning_method`. Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    mask = container.compute_mask(scores, masks)
    start = 0
    for (module, name), value in zip(pairs, values, strict=True):
        stop = start + value.numel()
        custom_from_mask(module, name, mask=mask[start:stop].view_as(value))
        start = stop


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune a parameter with a given mask. Returns the module.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.custom_from_mask.html
    """
    CustomFromMask.apply(module, name, mask)
    return module


def _hooks_on(module: Module, name: str | None = None) -> list[tuple[int, BasePruningMethod]]:
    """The pruning hooks of a module; with ``name``, those of one parameter."""
    return [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and name in (None, hook._tensor_name)
    ]


def remove(module: M, name: str) -> M:
    """Make the pruning of a parameter permanent and remove its hook. Returns the module.

    Raises:
        ValueError: if the parameter is not pruned.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.remove.html
    """
    for key, hook in _hooks_on(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether the module or one of its descendants has a pruned parameter.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.is_pruned.html
    """
    return any(_hooks_on(part) for part in module.modules())
