"""The text of a compiled program, also where the compiler has instructions that jaxlib cannot print."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

__all__ = ["compiled_with_text"]


def compiled_with_text(lowered: Any, platform: str) -> tuple[Any, str]:
    """Compile a lowered function; its text as the compiler has it.

    ``as_text`` of jaxlib 0.10.2 refuses much of what libtpu 0.0.51 makes for TPU7x, and for v5p where a gather is done
    apart. So the compiler for TPUs writes the text to a folder.

    Args:
        lowered: what ``jax.jit(f).lower(...)`` gives.
        platform: that it is for.

    Returns:
        the compiled function, and the text of its optimised program.

    Raises:
        FileNotFoundError: the compiler has written no text.
    """
    if platform != "tpu":
        compiled = lowered.compile()
        return compiled, compiled.as_text()
    with tempfile.TemporaryDirectory() as folder:
        compiled = lowered.compile(compiler_options={"xla_dump_to": folder, "xla_dump_hlo_as_text": True})
        written = [*Path(folder).glob("*.after_codegen.txt")]
        if not written:
            raise FileNotFoundError("the compiler for TPUs has not written the program's text")
        return compiled, max(written, key=lambda path: path.stat().st_size).read_text()
