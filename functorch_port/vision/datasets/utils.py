"""Downloads: files from the network, checked by their MD5 sums, and archives."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from functorch_port._base.atomic import atomic
from functorch_port._base.bars import bars
from functorch_port.vision._refused import refusing as _refusing

__all__ = [
    "calculate_md5", "check_integrity", "check_md5", "download_and_extract_archive", "download_url", "extract_archive",
    "list_dir", "list_files", "verify_str_arg",
]  # fmt: skip

_CHUNK = 1 << 20


def calculate_md5(fpath: str | Path, chunk_size: int = _CHUNK) -> str:
    """The MD5 sum of a file, in hexadecimal digits. It tells a broken file, not a forged one."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while chunk := file.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(fpath: str | Path, md5: str, **kwargs: Any) -> bool:
    """Whether a file has this MD5 sum."""
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath: str | Path, md5: str | None = None) -> bool:
    """Whether a file is there, and has this MD5 sum if one is given."""
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def download_url(
    url: str, root: str | Path, filename: str | Path | None = None, md5: str | None = None
) -> None:
    """Download a file into a folder, if it is not there yet; it appears only when it is complete and checked.

    Args:
        url: its address; ``file://`` addresses are allowed.
        root: the folder, which is made if it is not there.
        filename: the file's name there. Default: that in the address.
        md5: its MD5 sum. Without one it is not checked.

    Raises:
        RuntimeError: the file is corrupted; it is not kept.
        URLError: the address cannot be reached.
    """
    root = os.path.expanduser(root)
    path = os.path.join(root, filename or os.path.basename(urlparse(url).path))
    if check_integrity(path, md5):
        return
    os.makedirs(root, exist_ok=True)
    request = urllib.request.Request(url, headers={"User-Agent": "functorch_port"})
    digest = hashlib.md5(usedforsecurity=False)
    with urllib.request.urlopen(request) as source, atomic(path) as file:
        length = source.headers.get("Content-Length")
        name, total = os.path.basename(path), None if length is None else int(length)
        with bars(lambda: {name: total}, "DownloadColumn", "TransferSpeedColumn") as advance:
            while chunk := source.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                advance(name, len(chunk))
        if md5 is not None and digest.hexdigest() != md5:
            raise RuntimeError(
                f"File not found or corrupted. {url} has the MD5 sum {digest.hexdigest()}, but {md5} is expected"
            )


def download_from(urls: Sequence[str], root: str, filename: str, md5: str) -> None:
    """Download a file from the first of several addresses that has it.

    Raises:
        RuntimeError: none has it; the message names the file, its folder and the addresses.
    """
    errors = []
    for url in urls:
        try:
            return download_url(url, root, filename, md5)
        except (OSError, RuntimeError) as error:  # an URLError is an OSError
            errors.append(f"Tried {url}, got:\n{error}\n")
    raise RuntimeError(
        f"Error downloading {filename}:\n{''.join(errors)}"
        f"Without a network, copy {filename} (MD5 sum {md5}) into {os.path.abspath(root)} by other means. "
        f"It is at {' and '.join(urls)}"
    )


def extract_archive(
    from_path: str | Path, to_path: str | Path | None = None, remove_finished: bool = False
) -> str:
    """Unpack an archive (.tar, also compressed, or .zip), or a single file that is compressed with gzip.

    Args:
        from_path: the archive.
        to_path: the folder of what is in it, or the path of the single file. Default: beside the archive.
        remove_finished: whether to delete the archive then.

    Returns:
        The path of what was unpacked.

    Raises:
        RuntimeError: the file is of no kind that is known here.
    """
    path = os.fspath(from_path)
    target = os.path.dirname(path) if to_path is None else os.fspath(to_path)
    if path.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(target)
    elif path.endswith((".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")):
        with tarfile.open(path) as tar:
            tar.extractall(target, filter="data")
    elif path.endswith(".gz"):
        if to_path is None or os.path.isdir(target):
            target = os.path.join(target, os.path.basename(path).removesuffix(".gz"))
        with gzip.open(path) as source, atomic(target) as file:
            shutil.copyfileobj(source, file)
    else:
        raise RuntimeError(
            f"Unknown compression or archive type of {path}; known are .tar, .tgz, .zip and .gz"
        )
    if remove_finished:
        os.remove(path)
    return target


def download_and_extract_archive(
    url: str,
    download_root: str | Path,
    extract_root: str | Path | None = None,
    filename: str | Path | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """Download an archive with `download_url`, and unpack it with `extract_archive`."""
    root = os.path.expanduser(download_root)
    name = filename or os.path.basename(urlparse(url).path)
    download_url(url, root, name, md5)
    extract_archive(os.path.join(root, name), extract_root or root, remove_finished)


def list_dir(root: str | Path, prefix: bool = False) -> list[str]:
    """The folders in a folder; with ``prefix`` their paths."""
    return _listed(root, prefix, os.path.isdir)


def list_files(root: str | Path, suffix: str, prefix: bool = False) -> list[str]:
    """The files in a folder whose names end with ``suffix``; with ``prefix`` their paths."""
    return _listed(root, prefix, lambda path: os.path.isfile(path) and path.endswith(suffix))


def _listed(root: str | Path, prefix: bool, counts: Callable[[str], bool]) -> list[str]:
    root = os.path.expanduser(root)
    names = [name for name in os.listdir(root) if counts(os.path.join(root, name))]
    return [os.path.join(root, name) for name in names] if prefix else names


def verify_str_arg(
    value: Any,
    arg: str | None = None,
    valid_values: Iterable[str] | None = None,
    custom_msg: str | None = None,
) -> Any:
    """Return an argument that must be one of several strings.

    Args:
        value: what was given.
        arg: the name of the argument, for the error.
        valid_values: the strings. Default: any.
        custom_msg: the error for another string.

    Raises:
        ValueError: it is no string, or none of these.
    """
    if not isinstance(value, str):
        of = "" if arg is None else f" for argument {arg}"
        raise ValueError(f"Expected type str{of}, but got type {type(value)}.")
    if valid_values is None or value in (allowed := list(valid_values)):
        return value
    listed = ", ".join(repr(one) for one in allowed)
    raise ValueError(
        custom_msg or f"Unknown value '{value}' for argument {arg}. Valid values are {{{listed}}}."
    )


__getattr__ = _refusing(
    __name__,
    ("download_file_from_google_drive",),
    "a copy of the file, downloaded by other means; download_url checks its MD5 sum and does not download it again",
)
