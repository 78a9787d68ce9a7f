"""Run the examples with PyTorch and with functorch_port, and write what both print into README.md beside this file.

`make examples` does it for all of them, in about ten minutes; names on the command line choose some, and the rows of
the others stay as they are.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.progress import track

FOLDER = Path(__file__).parent
IMPORT = "import functorch_port as torch\n"
EXAMPLES = {
    "resnet": "image classification, BatchNorm, learning-rate schedule",
    "unet": "segmentation, transposed convolutions",
    "lstm_lm": "language model, truncated backpropagation, detached state",
    "translation": "Transformer encoder-decoder, padding and causal masks",
    "gpt": "language model, tied weights, scaled_dot_product_attention",
    "generate": "sampling with a static key/value cache in a while_loop, beside the growing context",
    "vae": "variational autoencoder, noise handed in",
    "gan": "two networks, two optimizers, one step",
    "siamese": "shared weights, contrastive loss",
    "graph_network": "messages summed by index_add",
    "actor_critic": "reinforcement learning, several backward calls",
}
LIBRARIES = ("torch", "functorch_port")
HEAD = """\
# Examples

Each file is a program of its own in plain PyTorch, with `--help`; the step is compiled unless `--eager` is given. The
line `import functorch_port as torch` is all that ties it to this package: with `import torch` in its place it runs on
PyTorch. `digits_cnn.py` is what `make demo` runs, `tutorial_style.py` a script that `functorch-port run` takes as it
is, and `resume.py` may be killed and started again (by `functorch_port.utils.resume`, which PyTorch has not).
`plan_gpt.py` is for `functorch-port plan`, which runs nothing. `gpt_pod.py` trains GPT-2 or Llama
(`language_models.py`) on one device, on a mesh, in several processes, and is planned for a pod (`docs/pod.md`).
`trainer.py` is a loop to copy: progress bar, validation, checkpoints, early stopping, gradient accumulation, clipping,
mixed precision, a log, one device or all.

What both libraries print at the end, from the same seed in float32, PyTorch eager and functorch_port compiled. Rounding
differs, and hundreds of steps amplify it; the first thirty losses agree to 1e-8 in float64
(`tests/test_examples.py`). `make examples` writes this table.

| example | what it shows | PyTorch | functorch_port |
|---|---|---|---|
"""


def source(name: str, library: str) -> str:
    """The text of an example, with the one line that imports the library changed."""
    text = (FOLDER / f"{name}.py").read_text()
    if text.count(IMPORT) != 1:
        raise ValueError(f"{name}: exactly one line must be {IMPORT!r}")
    return text.replace(IMPORT, "import torch\n") if library == "torch" else text


def printed(name: str, library: str) -> str:
    """The last two lines that an example prints."""
    settings = {"OMP_NUM_THREADS": "1", **os.environ, "COLUMNS": "200"}
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FOLDER.parent), settings.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{name}.py"
        script.write_text(source(name, library))
        command = [sys.executable, str(script), *(["--eager"] if library == "torch" else [])]
        done = subprocess.run(command, capture_output=True, text=True, env=settings)
    if done.returncode:
        raise RuntimeError(f"{name} with {library} failed:\n{done.stderr[-2000:]}")
    return "<br>".join(done.stdout.splitlines()[-2:])


def main() -> None:
    """Run what was asked for and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(EXAMPLES)}")
    names = parser.parse_args().names or list(EXAMPLES)
    if unknown := set(names) - set(EXAMPLES):
        parser.error(f"no such example: {', '.join(sorted(unknown))}; there are {', '.join(EXAMPLES)}")

    page = FOLDER / "README.md"
    old = page.read_text() if page.exists() else ""
    rows = {name: row for row, name in re.findall(r"^(\| `(\w+)\.py` .*)$", old, re.MULTILINE)}
    for name in track(names, "examples"):
        with ThreadPoolExecutor(len(LIBRARIES)) as pool:
            both = pool.map(partial(printed, name), LIBRARIES)
        rows[name] = " | ".join([f"| `{name}.py`", EXAMPLES[name], *both]) + " |"
        written = [rows[n] for n in EXAMPLES if n in rows]
        end = f"\nLast written with Python {platform.python_version()}.\n"
        page.write_text(HEAD + "\n".join(written) + "\n" + end)


if __name__ == "__main__":
    main()
