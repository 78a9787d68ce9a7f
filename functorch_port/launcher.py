"""Makes ``import torch`` import this package, and runs scripts that way.

After `install()`, ``torch`` and every ``torch.*`` module are the modules of this package (without copies or second
imports), and PyTorch is not loaded even if it is installed. So are ``torchvision`` and its modules, unless
FUNCTORCH_PORT_VISION says otherwise. An error for a missing name has the full name.
"""

from __future__ import annotations

import argparse
import builtins
import difflib
import dis
import importlib
import importlib.util
import io
import multiprocessing.spawn
import os
import runpy
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

from functorch_port import library
from functorch_port._base import settings
from functorch_port._ways_round import way_round
from functorch_port.torch_version import TorchVersion
from functorch_port.version import __version__, torch_version

__all__ = ["install", "run"]

_OURS = "functorch_port"
#: what scripts import, and what they get; the inner package comes first
ROOTS = {
    "torchvision": f"{_OURS}.vision", "torchviz": f"{_OURS}.viz", "functorch": f"{_OURS}.functorch", "torch": _OURS
}  # fmt: skip
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def install() -> None:
    """Make ``import torch`` import this package, for the rest of the process.

    Raises:
        RuntimeError: PyTorch itself is already imported.

    Example:
        >>> from functorch_port import launcher
        >>> launcher.install()  # doctest: +SKIP
        >>> import torch.nn.functional as F  # doctest: +SKIP
    """
    torch = importlib.import_module(_OURS)
    if sys.modules.get("torch", torch) is not torch:
        raise RuntimeError(
            "PyTorch is already imported in this process, so `import torch` cannot import functorch_port; call"
            " functorch_port.launcher.install() before anything imports torch"
        )
    if not any(isinstance(finder, _TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder())
        torch.__version__ = TorchVersion(torch_version)  # scripts compare it with PyTorch's releases
        torch.__name__ = "torch"
        if "safetensors" in sys.modules:
            sys.modules.pop("safetensors.torch", None)
            _open_ours(sys.modules["safetensors"])
        if _is_installed("torchvision"):
            library.replacements["torchvision/_C"] = f"{_OURS}.vision.ops._registered"
        _install_in_children()
    _alias_loaded()


def _is_installed(root: str) -> bool:
    """Whether scripts get the library itself, over this package in PyTorch's place."""
    return root == "torchvision" and settings.get("VISION") == "installed"


class _Installing:
    """Unpickled, it installs the launcher."""

    def __reduce__(self) -> Any:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        code = f"import sys; sys.path.append({folder!r}); from functorch_port import launcher; launcher.install()"
        return exec, (code,)


def _install_in_children() -> None:
    """Processes that multiprocessing starts afresh get this before they run the script as a module."""
    prepared = multiprocessing.spawn.get_preparation_data
    multiprocessing.spawn.get_preparation_data = lambda name: {**prepared(name), "torch": _Installing()}


class _TorchFinder(MetaPathFinder):
    """Finds ``torch.a.b`` as ``functorch_port.a.b``, as all of `ROOTS`; ``safetensors.torch``, ``horovod.torch`` too.

    The latter libraries' own modules read and write tensors by their memory addresses.

    Attributes:
        looking: the number of lookups in progress.
    """

    looking = 0

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname == "safetensors":
            return _with_ours(PathFinder.find_spec(fullname, path))
        if fullname == "safetensors.torch":
            return ModuleSpec(fullname, _Alias(importlib.import_module(f"{_OURS}.safetensors")))
        if fullname in ("horovod", "horovod.torch"):
            return ModuleSpec(fullname, _Alias(importlib.import_module(f"{_OURS}.horovod")), is_package=True)
        root = fullname.partition(".")[0]
        if root not in ROOTS or _is_installed(root):
            return None
        _TorchFinder.looking += 1
        try:
            module = _our_module(fullname)
        finally:
            _TorchFinder.looking -= 1
        return ModuleSpec(fullname, _Alias(module), is_package=hasattr(module, "__path__"))


class _Alias(Loader):
    """Loads a module by returning an existing one."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has replaced it by the alias's
        _alias_loaded()


class _Opening(Loader):
    """Loads the library safetensors and replaces its `safe_open` by this package's."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _open_ours(module)


def _with_ours(spec: ModuleSpec | None) -> ModuleSpec | None:
    if spec is not None and spec.loader is not None:
        spec.loader = _Opening(spec.loader)
    return spec


def _open_ours(library: ModuleType) -> None:
    library.safe_open = importlib.import_module(f"{_OURS}.safetensors").safe_open  # type: ignore[attr-defined]


#: what PyTorch has no counterpart of, which scripts do not see
_HIDDEN = frozenset(
    f"torch.{n}" for n in ("_array", "_base", "_cpu", "_random", "_run", "_trace", "vision", "viz")
)


def is_hidden(fullname: str) -> bool:
    """Whether scripts do not see a module of ours."""
    return ".".join(fullname.split(".")[:2]) in _HIDDEN


def _called(name: str) -> str:
    """What scripts call one of our modules."""
    root = next((root for root, ours in ROOTS.items() if f"{name}.".startswith(f"{ours}.")), None)
    return name if root is None else root + name[len(ROOTS[root]) :]


def _ours(module: ModuleType) -> str:
    """What we call a module of ours."""
    return _OURS if module.__name__ in ROOTS else module.__name__


def _our_module(fullname: str) -> ModuleType:
    root, dot, rest = fullname.partition(".")
    ours = ROOTS[root] + dot + rest
    if is_hidden(fullname):
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
    try:
        return importlib.import_module(ours)
    except ModuleNotFoundError as error:
        if not f"{ours}.".startswith(f"{error.name}."):
            raise  # a module that ours imports is missing
    parent, _, child = fullname.rpartition(".")
    value = getattr(sys.modules[parent], child, None)
    if isinstance(value, ModuleType):
        return value
    raise ModuleNotFoundError(_missing(sys.modules[parent], child), name=fullname) from None


def _alias_loaded() -> None:
    """Register every loaded module of this package also under the name that scripts have for it."""
    if _TorchFinder.looking:  # a name that is registered during its own lookup would be loaded twice
        return
    for name, module in list(sys.modules.items()):
        if not f"{name}.".startswith(f"{_OURS}."):
            continue
        alias = _called(name)
        if not is_hidden(alias) and not _is_installed(alias.partition(".")[0]):
            sys.modules.setdefault(alias, module)
            if not isinstance(module.__dict__.get("__getattr__"), _Explain):
                module.__getattr__ = _Explain(module)  # type: ignore[method-assign]


class _Explain:
    """A module's ``__getattr__`` that raises an error with the full name; ImportError for ``from m import x``."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.own = module.__dict__.get("__getattr__")

    def __call__(self, name: str) -> Any:
        refusal: NotImplementedError | None = None
        if self.own is not None:
            try:
                found = self.own(name)
            except AttributeError:
                pass
            except NotImplementedError as error:
                refusal = error
            else:
                _alias_loaded()  # `own` may have loaded modules
                return found
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.module.__name__!r} has no attribute {name!r}")
        caller = sys._getframe(1)
        text = _missing(self.module, name) if refusal is None else str(refusal)
        if caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
            half_loaded = sys.modules.get(f"{_ours(self.module)}.{name}")
            if half_loaded is not None:  # as Python does in circular imports
                return half_loaded
            raise ImportError(text, name=self.module.__name__)
        if refusal is not None and caller.f_globals.get("__name__") != "importlib._bootstrap":
            raise refusal
        raise AttributeError(text)  # which `from m import x` asks for first


def _missing(module: ModuleType, name: str) -> str:
    owner = _called(module.__name__)
    if hasattr(module, "__path__") and not is_hidden(f"{owner}.{name}"):
        if importlib.util.find_spec(f"{_ours(module)}.{name}") is not None:
            return f"{owner}.{name} is a module that has not been imported: import {owner}.{name}"
    root = owner.partition(".")[0]
    elsewhere = [
        f"{alias}.{name}"
        for alias, other in list(sys.modules.items())
        if alias.startswith(f"{root}.") and "._" not in alias and name in vars(other).get("__all__", ())
    ]
    return _missing_text(owner, name, dir(module), elsewhere)


def _missing_text(owner: str, name: str, names: Iterable[str], elsewhere: Iterable[str] = ()) -> str:
    close = difflib.get_close_matches(name, [n for n in names if not n.startswith("_") and n != name], n=3)
    hints = dict.fromkeys([*(f"{owner}.{match}" for match in close), *elsewhere])
    text = f"{owner}.{name}: functorch_port {__version__} does not have it"
    text = f"{text}. Close: {', '.join(hints)}" if hints else text
    way = way_round(f"{owner}.{name}")
    return text if way is None else f"{text}. In its place: {way}"


def explain(error: BaseException) -> None:
    """Put the full name into an AttributeError of a Tensor, module, optimizer or other class of this package."""
    if not isinstance(error, AttributeError) or error.name is None:
        return
    owner = error.obj if isinstance(error.obj, type) else type(error.obj)
    base = next((c for c in owner.__mro__ if c.__module__.split(".")[0] == _OURS), None)
    if base is not None:
        elsewhere = [f"torch.{error.name}"] if hasattr(sys.modules[_OURS], error.name) else []
        error.args = (_missing_text(_class_name(base), error.name, dir(error.obj), elsewhere),)
        error.name = None  # else Python adds its own suggestion


def _class_name(cls: type) -> str:
    """The public name of a class: "torch.Tensor", "torch.nn.Linear"."""
    for home in ("", ".nn", ".optim", ".optim.lr_scheduler", ".utils.data"):
        if getattr(sys.modules.get(_OURS + home), cls.__name__, None) is cls:
            return f"torch{home}.{cls.__name__}"
    return f"{_called(cls.__module__)}.{cls.__name__}"


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select what to run, as those of ``python``."""
    ways = parser.add_mutually_exclusive_group()
    for letter, how, text in (("-m", "module", "the name of a module"), ("-c", "code", "the code itself")):
        ways.add_argument(
            letter, dest="how", action="store_const", const=how, default="script", help=f"SCRIPT is {text}"
        )
    # PARSER leaves everything after the first word to the script, `--` too.
    parser.add_argument(
        "words",
        metavar="SCRIPT",
        nargs=argparse.PARSER,
        help="the path of the script (- for standard input), and the script's own arguments",
    )


def given(options: argparse.Namespace) -> tuple[str, list[str], str]:
    """The arguments of `run` from the parsed options.

    Raises:
        FileNotFoundError: the script does not exist.
    """
    what, *arguments = options.words[1:] if options.words[:1] == ["--"] else options.words
    if options.how == "script" and what != "-" and not os.path.exists(what):
        raise FileNotFoundError(f"can't open file {what!r}: no such file or directory")
    return what, arguments, options.how


def run(what: str, arguments: list[str], how: str = "script") -> int:
    """Run a script, a module or code as ``python`` does, where ``import torch`` imports this package.

    Args:
        what: the path of a script, or of a directory or zip file with a ``__main__.py``, or ``-`` for standard input;
            the name of a module; or code.
        arguments: the script's ``sys.argv[1:]``.
        how: ``"script"``, ``"module"`` (as ``python -m``) or ``"code"`` (as ``python -c``).

    Returns:
        The exit status: 0, or 1 after an uncaught exception, which is printed. ``SystemExit`` propagates.
    """
    install()
    return execute(what, arguments, how)


def execute(what: str, arguments: list[str], how: str = "script") -> int:
    """`run` without a change to ``import torch``."""
    try:
        if how == "module":
            _be_main(["-m", *arguments], os.getcwd())
            runpy._run_module_as_main(what)
        elif how == "code":
            main = _be_main(["-c", *arguments], "", __loader__=BuiltinImporter)
            exec(compile(what, "<string>", "exec", dont_inherit=True), main)
        elif what == "-":
            names = {"__file__": "<stdin>", "__cached__": None, "__loader__": BuiltinImporter}
            main = _be_main(["-", *arguments], "", **names)
            exec(compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True), main)
        elif os.path.isdir(what) or zipfile.is_zipfile(what):
            _be_main([what, *arguments], os.path.join(os.getcwd(), what))
            runpy._run_module_as_main("__main__", alter_argv=False)
        else:
            path = os.path.join(os.getcwd(), what)
            loader = SourceFileLoader("__main__", path)
            folder = os.path.dirname(os.path.realpath(what))
            main = _be_main([what, *arguments], folder, __file__=path, __cached__=None, __loader__=loader)
            with io.open_code(path) as file:
                source = file.read()
            exec(compile(source, path, "exec", dont_inherit=True), main)
    except Exception as error:
        _report(error, what)
        return 1
    except KeyboardInterrupt as end:  # re-raised, as Python then ends by the signal
        hook, inner = sys.excepthook, _of_script(end.__traceback__)
        sys.excepthook = lambda kind, error, trace: hook(kind, error.with_traceback(inner), inner)
        raise
    return 0


def is_ours(error: BaseException) -> bool:
    """Whether an import failed for want of a name of PyTorch."""
    return isinstance(error, ImportError) and (error.name or "").partition(".")[0] in {*ROOTS, _OURS}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _files(error: BaseException) -> list[str]:
    """The files that an import had come to when it failed."""
    found: dict[str, None] = {}
    for one in _chain(error):
        trace = one.__traceback__
        while trace is not None:
            name = trace.tb_frame.f_globals.get("__name__", "")
            if trace.tb_frame.f_code.co_name == "<module>" and name.partition(".")[0] != _OURS:
                found[trace.tb_frame.f_code.co_filename] = None
            trace = trace.tb_next
    return list(found)


def _be_main(argv: list[str], folder: str, **attributes: Any) -> dict[str, Any]:
    """Set up ``sys`` for a script; returns the namespace of a new ``__main__``, which lasts as long as the process."""
    sys.argv = argv
    if not sys.flags.safe_path:
        sys.path[0] = folder
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={}, **attributes)
    return main.__dict__


def _of_script(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the script on, without the frames of the launcher and its callers."""
    hidden = {__file__, runpy.__file__, "<frozen runpy>"}
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename != __file__:
        inner = inner.tb_next
    while inner is not None and inner.tb_frame.f_code.co_filename in hidden:
        inner = inner.tb_next
    return inner


def _report(error: Exception, what: str) -> None:
    """Print the traceback, as Python would; after a failed import also all else that the program lacks."""
    explain(error)
    if any(is_ours(one) for one in _chain(error)):
        lacking = importlib.import_module(f"{_OURS}._survey.lacking")
        error.add_note(lacking.told(what, _files(error)))
    inner = _of_script(error.__traceback__)
    sys.excepthook(type(error), error.with_traceback(inner), inner)
