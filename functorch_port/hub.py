"""``torch.hub``: weights from URLs, cached in a directory, and models from local ``hubconf.py`` files."""

from __future__ import annotations

import builtins
import errno
import hashlib
import importlib.util
import os
import re
import sys
import urllib.request
from types import ModuleType
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse

from ._base.atomic import atomic
from .serialization import load as load_file

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

try:
    from tqdm import tqdm as tqdm
except ImportError:

    class tqdm:  # type: ignore[no-redef]
        """Replaces tqdm's progress bar if tqdm is not installed; shows nothing."""

        def __init__(self, iterable: Any = None, *args: Any, **kwargs: Any) -> None:
            self.iterable = iterable

        def __iter__(self) -> Any:
            return iter(self.iterable)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *exc: object) -> None:
            """Does nothing."""

        def update(self, n: Any = 1) -> None:
            """Does nothing."""


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_hub_dir: str | None = None


def get_dir() -> str:
    """The directory of downloads, from `set_dir`. Default: ``hub`` in ``$TORCH_HOME``, ``$XDG_CACHE_HOME/torch`` or
    ``~/.cache/torch``, the first that is set.

    Reference: https://docs.pytorch.org/docs/stable/hub.html#torch.hub.get_dir
    """
    if _hub_dir is not None:
        return _hub_dir
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """The cache directory of PyTorch: ``$TORCH_HOME``, ``$XDG_CACHE_HOME/torch`` or ``~/.cache/torch``."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the directory of downloads."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file; ``dst`` appears only when it is complete.

    Args:
        url: the URL.
        dst: the path of the file.
        hash_prefix: the first digits of the file's SHA-256 hash, to check.
        progress: whether to show a progress bar, if tqdm is installed.

    Raises:
        FileNotFoundError: the folder of the file does not exist.
        RuntimeError: the hash does not match.
        URLError: the URL cannot be reached.

    Reference: https://docs.pytorch.org/docs/stable/hub.html#torch.hub.download_url_to_file
    """
    dst = os.path.expanduser(dst)
    if not os.path.isdir(os.path.dirname(dst) or "."):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), dst)
    digest = hashlib.sha256()
    with atomic(dst) as file, _opened(url, dst) as source:
        length = source.headers.get("Content-Length")
        total = None if length is None else int(length)
        with tqdm(total=total, disable=not progress, unit="B", unit_scale=True, unit_divisor=1024) as bar:
            while chunk := source.read(1 << 17):
                file.write(chunk)
                digest.update(chunk)
                bar.update(len(chunk))
        found = digest.hexdigest()
        if hash_prefix is not None and found[: len(hash_prefix)] != hash_prefix:
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')


def _opened(url: str, dst: str) -> Any:
    try:
        return urllib.request.urlopen(url)
    except HTTPError:
        raise
    except URLError as error:
        raise URLError(
            f"{error.reason}: cannot download {url}. Without a network, copy the file to {dst} by other means, "
            "where load_state_dict_from_url finds it. URLs of local files begin with file://"
        ) from error


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Load a file from a URL with `functorch_port.load`; the file is downloaded once.

    Args:
        url: the URL.
        model_dir: the directory of the file. Default: ``checkpoints`` in `get_dir`.
        map_location: as in `functorch_port.load`.
        progress: as in `download_url_to_file`.
        check_hash: whether to check a downloaded file by the hash in its name, ``name-<first digits of SHA-256>.pth``.
        file_name: the name of the file. Default: that in the URL.
        weights_only: as in `functorch_port.load`, but False by default, as in PyTorch: the file may run any code.

    Raises:
        RuntimeError: the hash does not match; the file is not kept.
        URLError: the URL cannot be reached.

    Reference: https://docs.pytorch.org/docs/stable/hub.html#torch.hub.load_state_dict_from_url
    """
    model_dir = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(model_dir, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        match = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, match.group(1) if match else None, progress=progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)


def _hubconf(repo_or_dir: Any, source: str) -> ModuleType:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            "torch.hub does not download code from GitHub: clone the repository and use source='local' "
            "(its hubconf.py imports torch, so run the script through `functorch-port run`)"
        )
    path = os.path.join(os.fspath(repo_or_dir), "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.fspath(repo_or_dir))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.fspath(repo_or_dir))
    return module


def _entry(module: ModuleType, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [m for m in getattr(module, "dependencies", []) if importlib.util.find_spec(m) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Call an entry point of a local ``hubconf.py``.

    Args:
        repo_or_dir: the directory of ``hubconf.py``.
        model: the name of the entry point.
        args, kwargs: the arguments of the entry point. PyTorch's options, such as ``trust_repo``, are ignored.
        source: must be ``"local"``.

    Raises:
        NotImplementedError: ``source`` is ``"github"``, the default.
        RuntimeError: there is no such entry point, or a module of ``dependencies`` is not installed.

    Reference: https://docs.pytorch.org/docs/stable/hub.html#torch.hub.load
    """
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def list(github: Any, *args: Any, source: str = "local", **kwargs: Any) -> builtins.list[str]:
    """List the entry points of ``hubconf.py`` in the directory ``github``.

    Reference: https://docs.pytorch.org/docs/stable/hub.html#torch.hub.list
    """
    module = _hubconf(github, source)
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(github: Any, model: str, *args: Any, source: str = "local", **kwargs: Any) -> str | None:
    """Return the docstring of the entry point ``model`` of ``hubconf.py`` in the directory ``github``.

    Reference: https://docs.pytorch.org/docs/stable/hub.html#torch.hub.help
    """
    return _entry(_hubconf(github, source), model).__doc__
