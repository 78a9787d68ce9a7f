"""Put what `make speed` measured (``run.py --only ...``) into docs/, and its table into README.md."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: page or plot among the results -> its name in docs/
PAGES = {
    "speed.md": "speed.md",
    "operations.md": "operations_speed.md",
    "operations.png": "operations.png",
    "optim_step.md": "optim_speed.md",
    "optim_step.png": "optim_step.png",
    "novelty.md": "novelty.md",
    "novelty.png": "novelty.png",
}
START, END = "<!-- speed: by `make speed` -->\n", "<!-- end of speed -->\n"
LEAD = """\
`make speed`, on a CPU, where people try it first; all take turns in one process, ratios are medians of pairs.
[All eleven models](docs/speed.md), [single operations](docs/operations_speed.md), [optimizers](docs/optim_speed.md),
[what is new](docs/novelty.md).

"""
#: the models in the README's table; the pages have all
SHOWN = ("MLP 784", "ResNet-18 224", "ViT", "GPT 0.8M", "LSTM")
#: columns of times and of ratios
TIMES = {"torch eager": "PyTorch eager, ms", "eager": "eager here, ms", "compiled": "compiled here, ms"}
RATIOS = {
    "eager / torch eager": "eager / PyTorch",
    "compiled / torch eager": "compiled / PyTorch",
    "compiled / torch.compile": "/ `torch.compile`",
    "compiled / hand-written JAX": "/ JAX by hand",
}


def speed_table(suite: dict[str, Any]) -> str:
    """Training steps in a few columns, from ``suite.json``."""
    means = suite["geometric means"]["train"]
    pairs = {pair: title for pair, title in RATIOS.items() if pair in means}
    rows = [["a training step of", *TIMES.values(), *pairs.values()]]
    rows.append(["---"] * len(rows[0]))
    for name, result in suite["cases"].items():
        if not name.startswith(SHOWN):
            continue
        train = result["train"]
        times = [f"{1e3 * train['seconds'][who]['median']:.3g}" for who in TIMES]
        rows.append([name, *times, *(f"{train['ratios'][pair]['median']:.2f}" for pair in pairs)])
    rows.append(
        [
            f"geometric mean of all {len(suite['cases'])}",
            *[""] * len(TIMES),
            *(f"{means[pair]:.2f}" for pair in pairs),
        ]
    )
    return LEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_table(readme: str, table: str) -> str:
    """The README with this table between its marks."""
    before, found, rest = readme.partition(START)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise ValueError(f"README.md lacks the lines {START!r} and {END!r}, between which the table goes")
    return f"{before}{START}\n{table}\n{END}{after}"


def publish(results: Path, docs: Path, readme: Path) -> Iterable[Path]:
    """Copy what is there; yields what was written."""
    plots = {path.name: path.name for path in results.glob("speed_*.png")}
    for name, published in (PAGES | plots).items():
        if (results / name).exists():
            yield Path(shutil.copyfile(results / name, docs / published))
    suite = results / "suite.json"
    if suite.exists():
        readme.write_text(with_table(readme.read_text(), speed_table(json.loads(suite.read_text()))))
        yield readme


def main() -> None:
    """Publish the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parent / "results"
    parser.add_argument("--results", type=Path, default=default, help="where run.py has written them")
    options = parser.parse_args()
    for path in publish(options.results, ROOT / "docs", ROOT / "README.md"):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
