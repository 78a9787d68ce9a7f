"""Libraries that JAX people hold, beside ours: each program gives the numbers of JAX and the library alone.

The versions are in ``requirements.txt``. A program is skipped where a library of it is absent.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
PINNED = dict(line.split("==") for line in (HERE / "requirements.txt").read_text().split() if "==" in line)
#: program: its libraries, and the relative difference that rounding may make
PROGRAMS = {
    "flax_nnx": (["flax"], 1e-4),
    "flax_linen": (["flax"], 1e-4),
    "equinox_modules": (["equinox"], 1e-5),
    "haiku_modules": (["dm-haiku"], 1e-5),
    "penzai_modules": (["penzai"], 1e-5),
    "distrax_losses": (["distrax", "tfp-nightly"], 1e-5),
    "tfp_jax": (["tfp-nightly"], 1e-5),
    "numpyro_models": (["numpyro"], 1e-4),
    "blackjax_sampling": (["blackjax"], 1e-4),
    "solvers": (["jaxopt", "optimistix"], 1e-3),
    "diffrax_ode": (["diffrax"], 1e-5),
    "orbax_state": (["orbax-checkpoint"], 1e-5),
    "grain_data": (["grain"], 1e-5),
    "chex_asserts": (["chex"], 0),
    "jaxtyping_shapes": (["jaxtyping", "beartype"], 0),
    "einops_arrays": (["einops"], 1e-5),
    "jax_tree": ([], 1e-6),
    "jax_transforms": ([], 1e-5),
}


def need(libraries):
    for library in libraries:
        try:
            importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(
                f"{library}=={PINNED[library]} is not installed: see tests/ecosystem_jax/requirements.txt"
            )


def python(*command):
    """What the command printed."""
    paths = [str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_every_program_is_run():
    assert {path.stem for path in (HERE / "programs").glob("*.py")} == {*PROGRAMS, "common"}
    assert {library for libraries, _ in PROGRAMS.values() for library in libraries} <= set(PINNED)


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_those_of_the_library_alone(name):
    libraries, bound = PROGRAMS[name]
    need(libraries)
    theirs, ours = json.loads(python(str(HERE / "run.py"), name).splitlines()[-1])
    assert list(ours) == list(theirs) and theirs
    for key, want in theirs.items():
        assert np.isfinite(want).all(), key
        scale = np.abs(want).max()
        np.testing.assert_allclose(ours[key], want, rtol=bound, atol=bound * scale, err_msg=key)
