"""Pretrained weights as enums, and models by their names."""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ... import hub
from ...nn import Module
from ._presets import ImageClassification

__all__ = [
    "Weights",
    "WeightsEnum",
    "get_model",
    "get_model_builder",
    "get_model_weights",
    "get_weight",
    "list_models",
]

_URL = "https://download.pytorch.org/models/"
_HERE = Path(__file__).parent
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(eq=False)
class Weights:
    """Weights that can be downloaded.

    Args:
        url: where they are.
        transforms: makes the transform that images need; call it without arguments.
        meta: facts about them: ``categories``, ``num_params``, ``min_size``, ``recipe``, ...

    Reference: https://docs.pytorch.org/vision/stable/models.html#general-information-on-pre-trained-weights
    """

    url: str
    transforms: Callable[..., Any]
    meta: dict[str, Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Weights):
            return NotImplemented
        ours, theirs = self.transforms, other.transforms
        if isinstance(ours, partial) and isinstance(theirs, partial):
            same = (ours.func, ours.args, ours.keywords) == (theirs.func, theirs.args, theirs.keywords)
        else:
            same = ours == theirs
        return same and (self.url, self.meta) == (other.url, other.meta)


class WeightsEnum(Enum):
    """The weights that a model has; ``DEFAULT`` is the best of them.

    Example:
        >>> from functorch_port.vision.models import ResNet50_Weights
        >>> ResNet50_Weights.DEFAULT, ResNet50_Weights.IMAGENET1K_V1.meta["num_params"]
        (ResNet50_Weights.IMAGENET1K_V2, 25557032)

    Reference: https://docs.pytorch.org/vision/stable/models.html#general-information-on-pre-trained-weights
    """

    @classmethod
    def verify(cls, obj: Any) -> Any:
        """The member that ``obj`` names: itself, its name, or None for None.

        Raises:
            KeyError: there is no such name.
            TypeError: ``obj`` is something else.
        """
        if isinstance(obj, str):
            return cls[obj.removeprefix(f"{cls.__name__}.")]
        if obj is not None and not isinstance(obj, cls):
            raise TypeError(
                f"Invalid Weight class provided; expected {cls.__name__} but received {type(obj).__name__}."
            )
        return obj

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """Load the weights.

        Args:
            args, kwargs: as in `hub.load_state_dict_from_url`, which keeps the file.

        Raises:
            URLError: the file is not there and cannot be downloaded; the message says where to put it.
        """
        return hub.load_state_dict_from_url(self.url, *args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    @property
    def url(self) -> str:
        """Where the file is."""
        return self.value.url  # type: ignore[no-any-return]

    @property
    def transforms(self) -> Callable[..., Any]:
        """Makes the transform of images."""
        return self.value.transforms  # type: ignore[no-any-return]

    @property
    def meta(self) -> dict[str, Any]:
        """Facts about the weights."""
        return self.value.meta  # type: ignore[no-any-return]


@cache
def _table() -> tuple[dict[str, Any], list[str]]:
    """What is known of the weights, and the classes of ImageNet."""
    return json.loads((_HERE / "weights.json").read_text()), (
        _HERE / "imagenet_classes.txt"
    ).read_text().splitlines()


def weights_of(name: str, module: str) -> Any:
    """The enum ``name`` of a module of models, as `weights.json` has it."""
    table, classes = _table()
    members: dict[str, Weights] = {}
    for member, facts in table[name].items():
        if isinstance(facts, str):  # another name of a member
            members[member] = members[facts]
            continue
        meta = {"categories": classes, **facts["meta"], "min_size": tuple(facts["meta"]["min_size"])}
        known: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in facts["transforms"].items()
        }
        members[member] = Weights(_URL + facts["file"], partial(ImageClassification, **known), meta)
    make: Any = WeightsEnum  # called with members, an enum without any makes one
    return make(name, members, module=module)


#: functions that make a model, by its name
BUILTIN_MODELS: dict[str, Callable[..., Module]] = {}


def register_model(name: str | None = None) -> Callable[[_F], _F]:
    """A decorator: `get_model` and `list_models` know the function.

    Args:
        name: of the model. Default: the function's.

    Raises:
        ValueError: the name is taken.
    """

    def register(fn: _F) -> _F:
        key = fn.__name__ if name is None else name
        if key in BUILTIN_MODELS:
            raise ValueError(f"An entry is already registered under the name '{key}'.")
        BUILTIN_MODELS[key] = fn
        return fn

    return register


def get_weight(name: str) -> WeightsEnum:
    """The member of an enum of weights, by its full name.

    Args:
        name: such as ``"ResNet50_Weights.IMAGENET1K_V1"``.

    Returns:
        The member.

    Raises:
        ValueError: there is no such enum.
        KeyError: the enum has no such member.

    Example:
        >>> from functorch_port.vision.models import get_weight
        >>> get_weight("ResNet50_Weights.DEFAULT")
        ResNet50_Weights.IMAGENET1K_V2

    Reference: https://docs.pytorch.org/vision/stable/models/generated/torchvision.models.get_weight.html
    """
    enum_name, *member = name.split(".")
    if len(member) != 1:
        raise ValueError(f"Invalid weight name provided: '{name}'.")
    enum = getattr(importlib.import_module(__package__), enum_name, None)
    if not (isinstance(enum, type) and issubclass(enum, WeightsEnum)):
        raise ValueError(f"The weight enum '{enum_name}' for the specific method couldn't be retrieved.")
    return enum[member[0]]


def get_model_weights(name: Callable[..., Any] | str) -> type[WeightsEnum]:
    """The enum of a model's weights.

    Args:
        name: of the model, or the function that makes it.

    Returns:
        The enum.

    Raises:
        ValueError: there is no such model, or the function takes no weights.

    Example:
        >>> from functorch_port.vision.models import get_model_weights
        >>> list(get_model_weights("resnet50"))
        [ResNet50_Weights.IMAGENET1K_V1, ResNet50_Weights.IMAGENET1K_V2]

    Reference: https://docs.pytorch.org/vision/stable/models/generated/torchvision.models.get_model_weights.html
    """
    fn = get_model_builder(name) if isinstance(name, str) else name
    taken = inspect.signature(fn, eval_str=True).parameters.get("weights")
    if taken is None:
        raise ValueError("The method is missing the 'weights' argument.")
    members = [taken.annotation, *getattr(taken.annotation, "__args__", ())]
    enum = next((a for a in members if isinstance(a, type) and issubclass(a, WeightsEnum)), None)
    if enum is None:
        raise ValueError(
            "The WeightsEnum class for the specific method couldn't be retrieved. Make sure the typing info is correct."
        )
    return enum


def get_model_builder(name: str) -> Callable[..., Module]:
    """The function that makes a model.

    Args:
        name: of the model.

    Raises:
        ValueError: there is no such model.

    Reference: https://docs.pytorch.org/vision/stable/models/generated/torchvision.models.get_model_builder.html
    """
    fn = BUILTIN_MODELS.get(name.lower())
    if fn is None:
        raise ValueError(f"Unknown model {name}")
    return fn


def get_model(name: str, **config: Any) -> Module:
    """Make a model.

    Args:
        name: of the model.
        config: arguments of its function.

    Returns:
        The model.

    Raises:
        ValueError: there is no such model.

    Example:
        >>> from functorch_port.vision.models import get_model
        >>> get_model("squeezenet1_1", num_classes=10).num_classes
        10

    Reference: https://docs.pytorch.org/vision/stable/models/generated/torchvision.models.get_model.html
    """
    return get_model_builder(name)(**config)


def list_models(
    module: ModuleType | None = None,
    include: Iterable[str] | str | None = None,
    exclude: Iterable[str] | str | None = None,
) -> list[str]:
    """The names of the models.

    Args:
        module: only those of this module. Default: all.
        include, exclude: patterns of names, as of files.

    Returns:
        Names in alphabetical order.

    Example:
        >>> from functorch_port.vision.models import list_models
        >>> list_models(include="vgg*", exclude="*_bn")
        ['vgg11', 'vgg13', 'vgg16', 'vgg19']

    Reference: https://docs.pytorch.org/vision/stable/models/generated/torchvision.models.list_models.html
    """
    inside = None if module is None else module.__name__
    names = {n for n, fn in BUILTIN_MODELS.items() if inside in (None, fn.__module__.rpartition(".")[0])}

    def matching(patterns: Iterable[str] | str) -> set[str]:
        patterns = [patterns] if isinstance(patterns, str) else patterns
        return {name for pattern in patterns for name in fnmatch.filter(names, pattern)}

    if include:
        names = matching(include)
    return sorted(names - matching(exclude or ()))
