"""The type stubs: what an editor and mypy see of the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tests" / "typed_training.py"

#: modules of which mypy is to know every public name
MODULES = """
torch torch.Tensor torch.amp torch.autograd torch.compiler torch.cuda torch.distributions torch.fft torch.func
torch.interchange torch.linalg torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.optim
torch.optim.lr_scheduler torch.random torch.return_types torch.special torch.utils torch.utils.data
""".split()
NAMES = f"""
import __future__
import functools
import functorch_port as torch
for module in {MODULES}:
    found = functools.reduce(getattr, module.split(".")[1:], torch)
    for name in dir(found):
        if not name.startswith("_") and not isinstance(getattr(found, name), __future__._Feature):
            print(f"{{module}}.{{name}}")
"""
#: a line of a script, and what is wrong with it
MISTAKES = {
    "x.relux()": '"Tensor" has no attribute "relux"',
    "torch.zerox(3)": 'Module has no attribute "zerox"',
    "torch.nn.Linaer(3, 2)": 'Module has no attribute "Linaer"',
    "torch.nn.functional.cross_entropi(x, x)": 'Module has no attribute "cross_entropi"',
    "torch.linalg.invert(x)": 'Module has no attribute "invert"',
    "torch.utils.dataset": 'Module has no attribute "dataset"',
    "torch.autograd.gradient": 'Module has no attribute "gradient"',
    "torch.sum(x, dims=0)": '"sum"',  # versions of mypy say it differently
    "torch.relu(x, inplace=True)": 'Unexpected keyword argument "inplace"',
    "torch.optim.Adam([x], lr='fast')": 'Argument "lr" to "Adam" has incompatible type "str"',
    "torch.nn.Linear('three', 2)": 'Argument 1 to "Linear" has incompatible type "str"',
    "torch.nn.Linear(3)": 'Missing positional argument "out_features"',
    "torch.zeros('three')": 'Argument 1 to "zeros" has incompatible type "str"',
    "torch.zeros(3, dtype='float32')": 'No overload variant of "zeros"',
    "x.view('rows')": 'Argument 1 to "view" of "Tensor" has incompatible type "str"',
    "x + 'one'": "Unsupported operand types for +",
    "x.shape.rows": '"Size" has no attribute "rows"',
    "x.max(dim=0).value": '"max" has no attribute "value"',
    "x.topk(1).values.relux()": '"Tensor" has no attribute "relux"',
}


def python(*arguments, cwd):
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    settings.pop("MYPYPATH", None)
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env=settings
    )


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """mypy on a text, for the first time or with what it keeps of the package, in a folder without settings."""
    folder = tmp_path_factory.mktemp("mypy")

    def run(text, *options):
        script = folder / "script.py"
        script.write_text(text)
        return python("-m", "mypy", "--config-file=", *options, script, cwd=folder)

    return run


def test_the_stubs_are_what_is_written_now(tmp_path):
    done = python(ROOT / "tools" / "stubs.py", "--check", cwd=tmp_path)
    assert not done.returncode, done.stdout + done.stderr


def test_the_stubs_have_no_mistakes_of_their_own(tmp_path):
    stubs = sorted((ROOT / "functorch_port").rglob("*.pyi"))
    assert len(stubs) == 7
    done = python("-m", "mypy", "--config-file=", "--follow-imports=silent", *stubs, cwd=tmp_path)
    assert not done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), ("--disallow-untyped-defs", "--warn-return-any"), ("--strict",)])
def test_an_ordinary_script_is_accepted(mypy, options):
    done = mypy(SCRIPT.read_text(), *options)
    assert not done.returncode, done.stdout + done.stderr


def test_what_is_accepted_runs(tmp_path):
    done = python(SCRIPT, tmp_path, cwd=tmp_path)
    assert not done.returncode, done.stderr


def test_each_mistake_is_found(mypy):
    done = mypy("\n".join(["import functorch_port as torch", "x = torch.ones(3)", *MISTAKES]))
    found = re.findall(r"script.py:(\d+): error: (.*)", done.stdout)
    for line, (mistake, error) in enumerate(MISTAKES.items(), 3):
        assert any(int(at) == line and error in text for at, text in found), (mistake, done.stdout)
    assert {int(at) for at, _ in found} == {*range(3, 3 + len(MISTAKES))}


def test_types_are_known(mypy):
    types = {
        "x.shape[0]": "int",
        "x == 1": "functorch_port._tensor.tensor.Tensor",
        "2.0 / x": "functorch_port._tensor.tensor.Tensor",
        "x.add_(1)": "functorch_port._tensor.tensor.Tensor",
        "torch.nn.Parameter(x).add_(1)": "functorch_port.nn.parameter.Parameter",
        "torch.nn.Linear(1, 2).weight": "functorch_port.nn.parameter.Parameter",
        "torch.nn.Linear(1, 2).to('cpu')": "functorch_port.nn.modules.linear.Linear",
        "torch.float32": "functorch_port._base.dtypes.dtype",
        "x.numpy().ndim": "int",
        "x.nonzero(as_tuple=True)": "tuple[functorch_port._tensor.tensor.Tensor, ...]",
        "x.max()": "functorch_port._tensor.tensor.Tensor",
        "x.max(0).indices": "functorch_port._tensor.tensor.Tensor",
        "torch.var_mean(x)": "tuple[functorch_port._tensor.tensor.Tensor, functorch_port._tensor.tensor.Tensor]",
        "torch.cuda.is_available()": "bool",
        "torch.no_grad()(len)([1])": "int",
    }
    lines = [
        "import functorch_port as torch",
        "x = torch.ones(3)",
        *(f"reveal_type({name})" for name in types),
    ]
    done = mypy("\n".join(lines))
    found = re.findall(r'Revealed type is "(.*)"', done.stdout.replace("builtins.", ""))
    assert dict(zip(types, found, strict=True)) == types


def test_every_public_name_is_known(mypy, tmp_path):
    names = python("-c", NAMES, cwd=tmp_path).stdout
    assert names.count("\n") > 2000
    done = mypy(f"import functorch_port as torch\n{names}")
    assert not done.returncode, done.stdout + done.stderr
