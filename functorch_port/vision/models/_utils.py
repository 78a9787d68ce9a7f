"""What the models share."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..._tensor.tensor import Tensor
from ...nn import BatchNorm2d, Conv2d, GroupNorm, Linear, Module, ModuleDict, init
from ._api import WeightsEnum, register_model

__all__ = ["IntermediateLayerGetter", "builder", "draw", "handle_legacy_interface", "kwonly_to_pos_or_kw"]

_SINCE = "is deprecated since 0.13 and may be removed in the future"


class IntermediateLayerGetter(ModuleDict):
    """A model's children up to the last that is asked for; gives the outputs of those that are.

    Args:
        model: its children run one after the other, as its attributes have them.
        return_layers: from names of children to those of their outputs.

    Raises:
        ValueError: a name is not that of a child.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.models import resnet18
        >>> from functorch_port.vision.models._utils import IntermediateLayerGetter
        >>> body = IntermediateLayerGetter(resnet18(), {"layer1": "low", "layer3": "high"})
        >>> [(name, tuple(out.shape)) for name, out in body(torch.rand(1, 3, 64, 64)).items()]
        [('low', (1, 64, 16, 16)), ('high', (1, 256, 4, 4))]
    """

    _version = 2

    def __init__(self, model: Module, return_layers: dict[str, str]) -> None:
        children = dict(model.named_children())
        if not children.keys() >= return_layers.keys():
            raise ValueError("return_layers are not present in model")
        wanted = {str(old): str(new) for old, new in return_layers.items()}
        last = max(list(children).index(name) for name in wanted)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = wanted

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of ``divisor`` next to ``v``, at least ``min_value`` and not less than nine tenths of ``v``."""
    near = max(divisor if min_value is None else min_value, int(v + divisor / 2) // divisor * divisor)
    return near if near >= 0.9 * v else near + divisor


def draw(
    network: Module, linear: Callable[[Tensor], Any] = functools.partial(init.normal_, std=0.01)
) -> None:
    """Draw the weights of a MobileNet, or of a network like it.

    Args:
        linear: draws those of linear layers.
    """
    for module in network.modules():
        if isinstance(module, Conv2d):
            init.kaiming_normal_(module.weight, mode="fan_out")
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, BatchNorm2d | GroupNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, Linear):
            linear(module.weight)
            init.zeros_(module.bias)


def kwonly_to_pos_or_kw(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let arguments that a function takes by keyword alone come by position too, with a warning."""
    parameters = inspect.signature(fn).parameters.values()
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    positional = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        args, more = args[:positional], args[positional:]
        if more:
            named = dict(zip(keywords, more, strict=False))
            *some, last = (f"'{name}'" for name in named)
            listed = f"{', '.join(some)} and {last}" if some else last
            warnings.warn(
                f"Using {listed} as positional parameter(s) {_SINCE}. Please use keyword parameter(s) instead.",
                stacklevel=2,
            )
            kwargs.update(named)
        return fn(*args, **kwargs)

    return called


def handle_legacy_interface(**weights: tuple[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for functions that take weights: they take what torchvision took before version 0.13 too.

    Args:
        weights: by the name of an argument, the one that it had, and the weights that True stood for there; a
            function of the arguments may choose them.
    """

    def decorate(build: Callable[..., Any]) -> Callable[..., Any]:
        @kwonly_to_pos_or_kw
        @functools.wraps(build)
        def called(*args: Any, **kwargs: Any) -> Any:
            for name, (old, default) in weights.items():
                _modernize(kwargs, name, old, default, build.__name__)
            return build(*args, **kwargs)

        return called

    return decorate


def _modernize(kwargs: dict[str, Any], name: str, old: str, default: Any, model: str) -> None:
    """Put weights in place of what one gave before there were enums."""
    value = kwargs.get(name)
    if (value is None and (name in kwargs or old not in kwargs)) or isinstance(value, WeightsEnum | str):
        return
    given = value if name in kwargs else kwargs[old]
    chosen = default(kwargs) if given and callable(default) else default if given else None
    if given and chosen is None:
        raise ValueError(f"No weights available for model {model}")
    if name not in kwargs:
        warnings.warn(f"The parameter '{old}' {_SINCE}, please use '{name}' instead.", stacklevel=4)
    text = (
        f"Arguments other than a weight enum or `None` for '{name}' {_SINCE.replace('is', 'are', 1)}. The current"
        f" behavior is equivalent to passing `{name}={chosen}`."
    )
    if chosen is not None:
        text += (
            f" You can also use `{name}={type(chosen).__name__}.DEFAULT` to get the most up-to-date weights."
        )
    warnings.warn(text, stacklevel=4)
    kwargs.pop(old, None)
    kwargs[name] = chosen


def _ovewrite_named_param(kwargs: dict[str, Any], param: str, new_value: Any) -> None:
    """Set an argument that the weights determine; raise ValueError if another value was given."""
    kwargs[param] = _ovewrite_value_param(param, kwargs.get(param, new_value), new_value)


def _ovewrite_value_param(param: str, actual: Any, expected: Any) -> Any:
    if actual is not None and actual != expected:
        raise ValueError(f"The parameter '{param}' expected value {expected} but got {actual} instead.")
    return expected


def builder(
    name: str,
    enum: Any,
    make: Callable[..., Module],
    text: str,
    legacy: str | None = "IMAGENET1K_V1",
    given: Callable[[Any, dict[str, Any]], None] | None = None,
) -> Callable[..., Any]:
    """The public function of a model, which is registered.

    Args:
        name: of the model.
        enum: its weights.
        make: makes the model from keyword arguments.
        text: what the model is, in one line.
        legacy: the member of ``enum`` that ``pretrained=True`` stands for; None if there is none.
        given: what else of the arguments the weights determine.
    """
    member = enum.__members__.get(legacy)

    def build(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> Module:
        weights = enum.verify(weights)
        if weights is not None:
            if weights.meta["categories"] is not None:
                _ovewrite_named_param(kwargs, "num_classes", len(weights.meta["categories"]))
            if given is not None:
                given(weights, kwargs)
        model = make(**kwargs)
        if weights is not None:
            model.load_state_dict(weights.get_state_dict(progress=progress, check_hash=True))
        return model

    build.__name__ = build.__qualname__ = name
    build.__module__ = enum.__module__
    build.__doc__ = f"""{text}

    Args:
        weights: a member of `{enum.__name__}`, its name, or None for weights drawn at random. Default: None.
        progress: whether a download shows its progress. Default: True.
        kwargs: arguments of the class.

    Returns:
        The model.

    Raises:
        URLError: the file of the weights is not there and cannot be downloaded; the message says where to put it.

    Reference: https://docs.pytorch.org/vision/stable/models/generated/torchvision.models.{name}.html
    """
    build.__annotations__["weights"] = enum | None
    return register_model()(handle_legacy_interface(weights=("pretrained", member))(build))
