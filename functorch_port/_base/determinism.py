"""The switch for deterministic algorithms, and PyTorch's alert for the operations that have none there."""

from __future__ import annotations

import warnings

__all__ = ["alert", "state"]

state = {"on": False, "warn_only": False}


def alert(name: str) -> None:
    """Raise (or warn) if deterministic algorithms are asked for: PyTorch has none for ``name``.

    Here it has one, but a program that asks is told so by PyTorch, and told the same here.
    """
    if not state["on"]:
        return
    text = f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
    file = "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
    if state["warn_only"]:
        warnings.warn(
            f"{text}, warn_only=True)'. You can {file}support for this operation.", UserWarning, stacklevel=2
        )
        return
    raise RuntimeError(
        f"{text})'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, "
        f"if that's acceptable for your application. You can also {file}support for this operation."
    )
