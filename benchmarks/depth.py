"""What compiling the training step of a deep GPT takes: blocks in a Sequential, and in an `nn.ScanStack`.

The model is that of ``examples/gpt.py``. Run as a script it is a fresh process without cached programs:
``python depth.py WHO LAYERS...`` prints, for each depth, the seconds that the first step takes and a later one.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

TITLE = "deep models"
WHO = ("Sequential", "ScanStack", "ScanStack, remat")
DEPTHS = (2, 6, 12, 24, 48)
QUICK = (2, 6, 12)


def first_steps(who: str, depths: list[int]) -> dict[str, dict[str, float]]:
    """Seconds of compiling and of a later step, by depth."""
    import gpt

    torch, nn, F = gpt.torch, gpt.nn, gpt.F
    found = {}
    for layers in (2, *depths):  # the first pays for what every process compiles once
        torch.manual_seed(0)
        model = gpt.GPT(characters=64, width=64, heads=4, layers=layers, context=32)
        if who != "Sequential":
            model.blocks = nn.ScanStack(model.blocks, remat=who.endswith("remat"))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        @torch.compile
        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
            return loss

        x, y = torch.randint(64, (2, 8, 32)).unbind()
        seconds = []
        for _ in range(6):
            start = time.perf_counter()
            step(x, y).item()
            for parameter in model.parameters():
                parameter.jax().block_until_ready()
            seconds.append(time.perf_counter() - start)
        later = min(seconds[2:])
        found[str(layers)] = {"compile": seconds[0] - later, "step": later}
    return found


def _draw(axes: Any, results: dict[str, Any]) -> None:
    for ax, what, title in ((axes[0], "compile", "compiling the step"), (axes[1], "step", "a step")):
        for who, by_depth in results.items():
            ax.plot([int(n) for n in by_depth], [v[what] for v in by_depth.values()], marker="o", label=who)
        ax.set(title=f"GPT: {title}", xlabel="layers", ylabel="s", ylim=(0, None))
        ax.grid(alpha=0.3)
    axes[0].legend(fontsize=7)


def run(folder: Path, effort: Any) -> None:
    """Measure, print, write ``depth.json`` and ``depth.png``."""
    from harness import figure, fresh_process, progress, save, table

    depths = [str(n) for n in (QUICK if effort.starts == 1 else DEPTHS)]
    results = {}
    with progress() as bar:
        task = bar.add_task("deep GPT", total=len(WHO))
        for who in WHO:
            results[who] = fresh_process(__file__, who, *depths)
            bar.advance(task)
    rows = [
        (who, *(f"{by_depth[n]['compile']:.1f} s, {1e3 * by_depth[n]['step']:.0f} ms" for n in depths))
        for who, by_depth in results.items()
    ]
    table("GPT: compiling, and a step afterwards", ("", *(f"{n} layers" for n in depths)), rows)
    save(folder, "depth", {"cases": results})
    figure(folder, "depth", lambda axes: _draw(axes, results), panels=2)


if __name__ == "__main__":
    print(json.dumps(first_steps(sys.argv[1], [int(n) for n in sys.argv[2:]])))
