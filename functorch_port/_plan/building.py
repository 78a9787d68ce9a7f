"""From a script and options to a plan, in a process of its own: its ``build`` is called with what it asks for."""

from __future__ import annotations

import importlib.util
import inspect
import json
import linecache
import os
import signal
import site
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import launcher
from .._base import dtypes
from .._trace.compiled import compiled_of
from ..nn import Module
from .planning import plan
from .report import Plan
from .topology import BadTopology, described_mesh, devices_of, parsed_mesh
from .worker import OPTIONS, Question

__all__ = ["BadInput", "main", "planned", "told"]

_DTYPES = {"bf16": "bfloat16", "fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16"}
#: what ``build`` may ask for, with the option that gives it
_NUMBERS = {
    "batch": "rows, of all devices together",
    "length": "tokens of a row, or whatever it is made of",
    "microbatches": "parts of the batch, which are computed one after the other",
}


class BadInput(Exception):
    """What is asked for cannot be planned; the text is for the user."""


def main(write: int) -> None:
    """Answer the question on standard input, by lines of JSON to a file descriptor (see `worker`)."""
    question = Question(*json.loads(sys.stdin.readline()))

    def wait() -> None:  # for the end of who asked, however that comes
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()

    def say(kind: str, what: str) -> None:
        data = (json.dumps([kind, what]) + "\n").encode()
        while data:
            data = data[os.write(write, data) :]

    try:
        if question.asks == "takes":
            say("plan", json.dumps(asked_for(question)))
        else:
            say("plan", planned(question, lambda phase: say("phase", phase)).to_json())
    except BadInput as error:
        say("failed", str(error))
    except BaseException as error:
        say("failed", told(error))
    time.sleep(60)  # until it is ended: at its own end it would wait for the compiler's threads


def asked_for(question: Question) -> dict[str, str]:
    """The options that the function of a script asks for, with their defaults as text: "none" without one.

    Raises:
        BadInput: there is no such function, or what is given cannot be used with any mesh.
    """
    named, takes_all = _parameters(_called_with(question, varied=True)[0])
    return {
        name: _as_text(named[name].default if name in named else None)
        for name in OPTIONS
        if takes_all or name in named
    }


def _as_text(default: Any) -> str:
    """A default as the option that gives it."""
    return "none" if default is inspect.Parameter.empty else str(default).rpartition(".")[2].lower()


def _named(question: Question) -> tuple[str, str]:
    """The script and the name of the function."""
    file, colon, name = question.script.rpartition(":")
    return (file, name or "build") if colon else (question.script, "build")


def _called_with(question: Question, varied: bool = False) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function of a script, and what it is called with.

    Args:
        question: what is planned.
        varied: whether sizes of the mesh, remat and microbatches are for a sweep to give.

    Raises:
        BadInput: that is not possible.
    """
    file, name = _named(question)
    try:
        count = len(devices_of(question.topology))
        texts = dict(question.options)
        if varied and "mesh" in texts:
            texts["mesh"] = f"all={count}"
        given = {option: _parsed(option, text, question.topology) for option, text in texts.items()}
        build = _build_of(file, name)
        left = {"remat": False, "microbatches": 1} if varied else {}
        return build, _arguments(build, name, given, left, question.topology)
    except (BadTopology, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            raise
        raise BadInput(str(error)) from None


def planned(question: Question, tell: Callable[[str], None]) -> Plan:
    """Build the step of a script, and plan it.

    Raises:
        BadInput: that is not possible.
    """
    tell("building")
    file, name = _named(question)
    build, asked = _called_with(question)
    try:
        made = build(**asked)
    except Exception as error:
        raise BadInput(f"{name}() of {file} failed:\n\n{_trace_of(error)}") from None
    step, args, kwargs = _step_of(made, name)
    try:
        return plan(
            step, args, kwargs, topology=question.topology, mesh=asked.get("mesh"), tokens=question.tokens,
            price=question.price, tell=tell,
        )  # fmt: skip
    except BadTopology as error:
        raise BadInput(str(error)) from None
    except Exception as error:
        if _is_ours(error):
            raise
        raise BadInput(told(error)) from None


def _parsed(name: str, text: str, topology: str) -> Any:
    """An option as ``build`` gets it."""
    if name == "mesh":
        return described_mesh(topology, parsed_mesh(text))
    if name in _NUMBERS:
        if not text.isdecimal() or not int(text):
            raise BadInput(f"--{name} is a number of {_NUMBERS[name]}; got {text!r}")
        return int(text)
    if name == "dtype":
        found = getattr(dtypes, _DTYPES.get(text, text), None)
        if not isinstance(found, dtypes.dtype):
            raise BadInput(f"--dtype is bf16, fp16, fp32 or the name of another dtype; got {text!r}")
        return found
    return {"": True, "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(
        text, text
    )


def _build_of(file: str, name: str) -> Callable[..., Any]:
    """A function of a script, whose ``import torch`` imports this package."""
    path = Path(file)
    if not path.is_file():
        raise BadInput(
            f"there is no file {file!r}: functorch-port plan SCRIPT.py:FUNCTION --topology v5e:16x16"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{file!r} is no script of Python: its name is to end with .py")
    launcher.install()
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [str(path)]
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{file} failed when it was imported:\n\n{_trace_of(error)}") from None
    build = getattr(module, name, None)
    if not callable(build):
        raise BadInput(_no_build(file, name, module))
    return build  # type: ignore[no-any-return]


def _no_build(file: str, name: str, module: ModuleType) -> str:
    functions = [k for k, v in vars(module).items() if _builds(v, module)]
    have = f"; it has {', '.join(functions)}" if functions else ""
    return (
        f"{file} has no function {name!r}{have}. Name one as {file}:FUNCTION. It is to return the step and the "
        "arguments that it is called with:\n\n"
        f"  def {name}(mesh, batch=256):\n"
        '      with torch.device("meta"):\n'
        "          net, x = Net(), torch.zeros(batch, 1024)\n"
        "      fully_shard(net, mesh=mesh)\n"
        "      ...\n"
        "      return step, [x]"
    )


def _builds(value: Any, module: ModuleType) -> bool:
    """Whether a value of a script is a function, maybe a partial one, that asks for something that plan gives."""
    is_own = inspect.isfunction(value) and value.__module__ == module.__name__
    return (is_own or isinstance(value, partial)) and not _parameters(value)[0].keys().isdisjoint(OPTIONS)


def _parameters(build: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """Those that can be given by name, and whether ``build`` takes all others, too."""
    parameters = inspect.signature(build).parameters.values()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return named, any(p.kind is p.VAR_KEYWORD for p in parameters)


def _arguments(
    build: Callable[..., Any], name: str, given: dict[str, Any], left: dict[str, Any], topology: str
) -> dict[str, Any]:
    """What ``build`` is called with, by name: what is given, and of the rest that it asks for what is left."""
    named, takes_all = _parameters(build)
    for option in given:
        if option not in named and not takes_all:
            raise BadInput(
                f"--{option} was given, and {name}({', '.join(named)}) does not ask for it: give it a parameter named "
                f"{option!r}"
            )
    found = {**{option: value for option, value in left.items() if option in named}, **given}
    if "mesh" in named:
        found.setdefault("mesh", described_mesh(topology))
    missing = [p.name for p in named.values() if p.default is p.empty and p.name not in found]
    for option in missing:
        if option in OPTIONS:
            raise BadInput(f"{name}() asks for {option!r}: give it by --{option}")
        raise BadInput(
            f"{name}() asks for {option!r}, which plan does not have: it gives {', '.join(OPTIONS)}. Give that "
            "parameter a default"
        )
    return found


def _step_of(made: Any, name: str) -> tuple[Any, list[Any], dict[str, Any]]:
    """The step, and what it is called with."""
    step, args, kwargs = (
        (*made, {})[:3] if isinstance(made, tuple) and len(made) in (2, 3) else (None, None, None)
    )
    works = callable(step) or isinstance(step, Module) or compiled_of(step) is not None
    if not works or not isinstance(args, (list, tuple)) or not isinstance(kwargs, dict):
        what = f"a tuple of {len(made)}" if isinstance(made, tuple) else type(made).__name__
        raise BadInput(
            f"{name}() is to return the step and a list of its arguments: return step, [x, y]; or a dict of those by "
            f"name as the third. It returned {what}"
        )
    return step, list(args), dict(kwargs)


# ---------------------------------------------------------------------- what went wrong, and where


def _folders() -> tuple[str, ...]:
    """Where code lies that is not the user's."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = sysconfig.get_paths()
    return (package, paths["stdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages(), "<")


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of the user's code, the innermost last."""
    others = _folders()
    return [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(others)
    ]


def _is_ours(error: BaseException) -> bool:
    """Whether no code of the user's has to do with an error."""
    return not _own_frames(error)


def _trace_of(error: BaseException) -> str:
    """The traceback from where the user's code begins; that of code that is none has the line alone."""
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(error)).rstrip()
    frames = list(traceback.extract_tb(error.__traceback__))
    others = _folders()
    start = next((i for i, frame in enumerate(frames) if not frame.filename.startswith(others)), 0)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[start:])]
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()


def told(error: BaseException) -> str:
    """An error of a step, and where in the user's code it came up."""
    what = f"{type(error).__name__}: {error}"
    frames = _own_frames(error)
    if not frames:
        return f"{what}\n\n{_trace_of(error)}"
    where = frames[-1]
    line = (where.line or linecache.getline(where.filename, where.lineno or 0)).strip()
    return f"the step cannot be planned: {what}\n\nat {where.filename}:{where.lineno}, in {where.name}:\n    {line}"
