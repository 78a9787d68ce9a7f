"""The text of a compiled program, also where the compiler has instructions that jaxlib cannot print."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jax

__all__ = ["compiled_with_text"]


def compiled_with_text(lowered: Any, options: dict[str, Any] | None = None) -> tuple[Any, str]:
    """Compile a lowered function; its text as the compiler has it.

    What libtpu 0.0.51 makes for TPU7x, ``as_text`` of jaxlib 0.10.2 refuses. Then the program is compiled again, and
    the compiler writes its text to a folder.

    Args:
        lowered: what ``jax.jit(f).lower(...)`` gives.
        options: for the compiler.

    Returns:
        the compiled function, and the text of its optimised program.
    """
    compiled = lowered.compile(compiler_options=options)
    try:
        return compiled, compiled.as_text()
    except jax.errors.JaxRuntimeError:
        with tempfile.TemporaryDirectory() as folder:
            dump = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
            compiled = lowered.compile(compiler_options={**(options or {}), **dump})
            written = sorted(Path(folder).glob("*after_optimizations_after_buffer_assignment.txt"))
            if not written:
                raise
            return compiled, max(written, key=lambda path: path.stat().st_size).read_text()
