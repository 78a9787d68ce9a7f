"""Progress bars for people who wait at a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

__all__ = ["bars"]


@contextlib.contextmanager
def bars(
    totals: Callable[[], Mapping[str, int | None]], *columns: str, transient: bool = False
) -> Iterator[Callable[..., None]]:
    """A progress bar for each task, if rich is installed and stderr is a terminal.

    Args:
        totals: returns the names of the tasks, and how much each is in all (None: unknown). Called if bars are shown.
        columns: names of columns in `rich.progress`, which follow that of the task and the bar.
        transient: whether the bars go away in the end.

    Returns:
        A function that is called with the name of a task, and with how much more of it is done. Default: 1.
    """
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        yield lambda name, count=1: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda name, count=1: None
        return
    shown = [getattr(progress, column)() for column in ("BarColumn", *columns)]
    name = progress.TextColumn("{task.description}")
    with progress.Progress(name, *shown, console=console, transient=transient) as bar:
        tasks = {task: bar.add_task(task, total=total) for task, total in totals().items()}
        yield lambda name, count=1: bar.advance(tasks[name], count)
