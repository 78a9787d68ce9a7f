"""Answering ``import torch`` with this package, and running scripts that way.

After `install()`, ``torch`` and every ``torch.*`` module are the modules of this package (no copies,
nothing imported twice), and PyTorch, if it is there, is not loaded. A name that is missing says so in full.
"""

from __future__ import annotations

import difflib
import dis
import importlib
import io
import os
import runpy
import sys
from collections.abc import Iterable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

from functorch_port.torch_version import TorchVersion
from functorch_port.version import __version__, torch_version

_OURS = "functorch_port"
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def install() -> None:
    """Make ``torch`` mean this package in this process, from now on.

    Raises:
        RuntimeError: PyTorch itself has been imported already.

    Example:
        >>> from functorch_port import launcher
        >>> launcher.install()  # doctest: +SKIP
        >>> import torch.nn.functional as F  # doctest: +SKIP
    """
    torch = importlib.import_module(_OURS)
    if sys.modules.get("torch", torch) is not torch:
        raise RuntimeError(
            "PyTorch is already imported in this process, so `import torch` cannot mean functorch_port; call"
            " functorch_port.launcher.install() before anything imports torch"
        )
    if not any(isinstance(finder, _TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder())
        torch.__version__ = TorchVersion(torch_version)  # scripts compare it with PyTorch's releases
    _alias_loaded()


class _TorchFinder(MetaPathFinder):
    """Finds ``torch.a.b`` as ``functorch_port.a.b``, and nothing else under that name.

    Attributes:
        looking: how many names are being looked for at the moment.
    """

    looking = 0

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        _TorchFinder.looking += 1
        try:
            module = _our_module(fullname)
        finally:
            _TorchFinder.looking -= 1
        return ModuleSpec(fullname, _Alias(module), is_package=hasattr(module, "__path__"))


class _Alias(Loader):
    """Loads a module by handing out one that exists."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has just put the alias's there
        _alias_loaded()


def _our_module(fullname: str) -> ModuleType:
    ours = _OURS + fullname[len("torch") :]
    try:
        return importlib.import_module(ours)
    except ModuleNotFoundError as error:
        if not f"{ours}.".startswith(f"{error.name}."):
            raise  # something that our module needs
    parent, _, child = fullname.rpartition(".")
    value = getattr(sys.modules[parent], child, None)
    if isinstance(value, ModuleType):
        return value
    raise ModuleNotFoundError(_missing(sys.modules[parent], child), name=fullname) from None


def _alias_loaded() -> None:
    """Register every loaded module of this package under its ``torch`` name too."""
    if _TorchFinder.looking:  # not yet: a name that appears while it is being looked for is loaded twice
        return
    for name, module in list(sys.modules.items()):
        if name == _OURS or name.startswith(f"{_OURS}."):
            alias = "torch" + name[len(_OURS) :]
            sys.modules.setdefault(alias, module)
            if not isinstance(module.__dict__.get("__getattr__"), _Explain):
                module.__getattr__ = _Explain(module)  # type: ignore[method-assign]


class _Explain:
    """A module's ``__getattr__`` that names what is missing; for ``from m import x`` as ImportError."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.own = module.__dict__.get("__getattr__")

    def __call__(self, name: str) -> Any:
        if self.own is not None:
            try:
                found = self.own(name)
            except AttributeError:
                pass
            else:
                _alias_loaded()  # what was loaded for it
                return found
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.module.__name__!r} has no attribute {name!r}")
        caller = sys._getframe(1)
        if caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
            raise ImportError(_missing(self.module, name), name=self.module.__name__)
        raise AttributeError(_missing(self.module, name))


def _missing(module: ModuleType, name: str) -> str:
    elsewhere = [
        f"{alias}.{name}"
        for alias, other in list(sys.modules.items())
        if alias.startswith("torch.") and "._" not in alias and name in vars(other).get("__all__", ())
    ]
    return _missing_text("torch" + module.__name__[len(_OURS) :], name, dir(module), elsewhere)


def _missing_text(owner: str, name: str, names: Iterable[str], elsewhere: Iterable[str] = ()) -> str:
    close = difflib.get_close_matches(name, [n for n in names if not n.startswith("_") and n != name], n=3)
    hints = dict.fromkeys([*(f"{owner}.{match}" for match in close), *elsewhere])
    text = f"{owner}.{name}: functorch_port {__version__} does not have it"
    return f"{text}. Close: {', '.join(hints)}" if hints else text


def explain(error: BaseException) -> None:
    """Let an AttributeError of a Tensor, module, optimizer or another class of this package say what is missing."""
    if not isinstance(error, AttributeError) or error.name is None:
        return
    owner = error.obj if isinstance(error.obj, type) else type(error.obj)
    base = next((c for c in owner.__mro__ if c.__module__.split(".")[0] == _OURS), None)
    if base is not None:
        elsewhere = [f"torch.{error.name}"] if hasattr(sys.modules[_OURS], error.name) else []
        error.args = (_missing_text(_class_name(base), error.name, dir(error.obj), elsewhere),)
        error.name = None  # Python would add a guess of its own


def _class_name(cls: type) -> str:
    """Where users find a class: "torch.Tensor", "torch.nn.Linear"."""
    for home in ("", ".nn", ".optim", ".optim.lr_scheduler", ".utils.data"):
        if getattr(sys.modules.get(_OURS + home), cls.__name__, None) is cls:
            return f"torch{home}.{cls.__name__}"
    return f"torch{cls.__module__[len(_OURS) :]}.{cls.__name__}"


def run(script: str, arguments: list[str], as_module: bool = False) -> int:
    """Run a script, or a module as ``python -m`` does, as ``__main__`` with ``torch`` being this package.

    Args:
        script: path of a script, of a directory or zip file with a ``__main__.py``, or a module's name.
        arguments: what the script finds in ``sys.argv[1:]``.
        as_module: ``script`` is a module's name.

    Returns:
        The exit status: 0, or 1 after an uncaught exception, which has been printed. ``SystemExit`` passes.
    """
    install()
    plain = not as_module and os.path.isfile(script)
    start = os.path.realpath(script)
    sys.argv = [script, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd() if as_module else os.path.dirname(start)
    try:
        if as_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        elif plain and not script.endswith((".zip", ".pyz")):
            _execute(os.path.abspath(script))
        else:
            runpy.run_path(script, run_name="__main__")
    except Exception as error:
        _report(error)
        return 1
    return 0


def _execute(path: str) -> None:
    """What Python does with a script: a fresh ``__main__`` that stays there until the process ends."""
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=path,
        __builtins__=__builtins__,
        __loader__=SourceFileLoader("__main__", path),
        __annotations__={},
    )
    sys.modules["__main__"] = main
    with io.open_code(path) as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _report(error: Exception) -> None:
    """Print the traceback from the script on, without the launcher's own frames."""
    explain(error)
    inner: TracebackType | None = error.__traceback__
    hidden = {__file__, runpy.__file__, "<frozen runpy>"}
    while inner is not None and inner.tb_frame.f_code.co_filename in hidden:
        inner = inner.tb_next
    sys.excepthook(type(error), error.with_traceback(inner), inner)
