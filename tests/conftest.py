"""Tests run on the CPU, and PyTorch, which they compare with, takes one thread."""

import ctypes.util
import gc
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import pytest
import torch
import torch._dynamo  # brings 220,000 objects, which are to be there before the rest is frozen

from functorch_port._base import settings
from functorch_port._base.tuning import tuning
from functorch_port._cpu import tiers

torch.set_num_threads(1)
if "DEVICES" in os.environ:  # see tests/devices
    jax.config.update("jax_num_cpu_devices", int(os.environ["DEVICES"]))
tuning.background = False  # when something is compiled is not to depend on time
tuning.kept_traces = 0  # nor how often something is traced on what is on the disk
tuning.compilations = 1 << 62  # tests count compilations; see `forget_programs`

#: Of a test with more cases than this a run of the whole suite takes one in four.
MANY = 18


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A sample of the large families, as each case compiles programs of its own; with WHOLE_DATABASE=1 all, and where
    single files or tests are asked for. With ONE_IN=n every nth test of what is left. On the plain backend none of
    those marked `cpu`.
    """
    if settings.PLAIN:
        _leave_out(config, items, [item for item in items if item.get_closest_marker("cpu") is None])
    _sample_families(config, items)
    _leave_out(config, items, items[:: int(os.environ.get("ONE_IN", "1"))])


def _leave_out(config: pytest.Config, items: list[pytest.Item], but: list[pytest.Item]) -> None:
    stay = set(map(id, but))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in stay])
    items[:] = but


def _sample_families(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (
        os.environ.get("WHOLE_DATABASE") == "1"
        or "DEVICES" in os.environ
        or any(Path(arg).name != "tests" for arg in config.args)
    ):
        return
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        families.setdefault(item.nodeid.split("[")[0], []).append(item)
    gone = {
        id(item)
        for cases in families.values()
        if len(cases) > MANY
        for i, item in enumerate(cases)
        if (i + len(cases)) % 4
    }
    _leave_out(config, items, [item for item in items if id(item) not in gone])


@pytest.fixture
def tuned() -> Iterator[Callable[..., None]]:
    """``tuned(replay_after=3)`` sets numbers of `tuning` until the test is over."""
    with ExitStack() as stack:
        yield lambda **numbers: stack.enter_context(tuning.having(**numbers))


@pytest.fixture(
    scope="module",
    params=[0] if settings.PLAIN else [4096, 0],
    ids=["XLA"] if settings.PLAIN else ["host", "XLA"],
)
def both_ways(request: pytest.FixtureRequest):
    """Small values in numpy on the host, as is the default on a CPU, and everything by XLA; on the plain backend the
    latter alone."""
    with tuning.having(numpy_elements=request.param), pytest.MonkeyPatch.context() as patch:
        if not request.param:  # not the functions that were written before, either
            patch.setattr(tiers, "known", lambda *_: (None, False))
        yield


def pytest_collection_finish() -> None:
    freeze()


def freeze() -> None:
    """Have the collector pass over all that is there: each trace looks through all of its objects, and none of those
    of PyTorch, of the collection and of tests before matters to it.
    """
    gc.collect()
    gc.freeze()


#: bytes of memory from which on compiled programs are forgotten
_much = 1200 << 20


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Forget compiled programs once they take too much memory: a heap of gigabytes slows every collection of garbage,
    and each program takes maps of memory, of which Linux grants 65,530.
    """
    global _much
    if resident() > _much:
        forget_programs()
        _much = max(_much, resident() + (200 << 20))  # what stays is not to be looked for after every test
    freeze()


def resident() -> int:
    """Bytes of memory that the process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def forget_programs() -> None:
    """Let go of what was compiled, and give the memory back."""
    jax.clear_caches()
    gc.unfreeze()
    gc.collect()
    libc = ctypes.util.find_library("c")
    if libc and hasattr(trim := ctypes.CDLL(libc), "malloc_trim"):
        trim.malloc_trim(0)
