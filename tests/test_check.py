"""``functorch-port check``: what a program uses of PyTorch, found without running it."""

import json
import subprocess
import sys

import pytest
from test_cli import launch, python, script  # noqa: F401

from functorch_port._base.refused import refused_class, refused_function
from functorch_port._survey.names import found
from functorch_port._survey.report import files_of, report
from functorch_port._survey.walk import uses
from functorch_port._ways_round import approximate


def names(source):
    return [use.name for use in uses(source)]


USES = {
    "import torch\ntorch.ones(2)": ["torch", "torch.ones"],
    "import torch.nn as nn\nnn.Linear": ["torch.nn", "torch.nn.Linear"],
    "import torch.nn\ntorch.nn.Linear.forward": ["torch.nn", "torch.nn.Linear.forward"],
    "from torch import nn as n, optim\nn.ReLU; optim.SGD": [
        "torch.nn", "torch.optim", "torch.nn.ReLU", "torch.optim.SGD",
    ],
    "from torch.nn import *": ["torch.nn"],
    "import torch\nF = torch.nn.functional\ndef f(): return F.relu(1)": [
        "torch", "torch.nn.functional", "torch.nn.functional.relu",
    ],
    "import torch\ndef f(torch): torch.x": ["torch"],
    "import torch\ndef f():\n    torch = 1\n    torch.x": ["torch"],
    "import torch\nf = lambda torch: torch.x": ["torch"],
    "import torch\n[torch.x for torch in y]": ["torch"],
    "def f():\n    from torch import nn\n    nn.Linear\nnn.ReLU": ["torch.nn", "torch.nn.Linear"],
    "class A:\n    import torch\n    x = torch.ones": ["torch", "torch.ones"],
    "import importlib\nimportlib.import_module('torch.fft')": ["torch.fft"],
    "import torch\ngetattr(torch, 'sin')": ["torch", "torch.sin"],
    "import torch\ntorch.backends.cudnn.benchmark = True": ["torch", "torch.backends.cudnn"],
    "from . import torch\ntorch.x": [],
    "from .torch import nn\nnn.x": [],
    "import numpy as torch\ntorch.x": [],
    "from __future__ import annotations\nimport torch\ndef f(x: torch.Nothing) -> torch.Nothing: ...": ["torch"],
    "import torch\ndef f(x: torch.Tensor): ...": ["torch", "torch.Tensor"],
    "import torch\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torch import Nothing": ["torch"],
    "import torch\n@torch.no_grad()\ndef f(x=torch.pi): ...": ["torch", "torch.no_grad", "torch.pi"],
    "import torchvision.transforms.v2 as T\nT.Resize": [
        "torchvision.transforms.v2", "torchvision.transforms.v2.Resize",
    ],
    "import torchmetrics\ntorchmetrics.x": [],
    "import torch\ntorch.ones(2).anything.else_": ["torch", "torch.ones"],
}  # fmt: skip


@pytest.mark.parametrize("source", USES)
def test_names_are_followed(source):
    assert names(source) == USES[source]


GUARDED = {
    "try:\n    import torch.a\nexcept ImportError:\n    pass": True,
    "try:\n    import torch.a\nexcept (ValueError, ModuleNotFoundError):\n    pass": True,
    "try:\n    import torch.a\nexcept:\n    pass": True,
    "try:\n    import torch.a\nexcept ValueError:\n    pass": False,
    "try:\n    pass\nexcept ImportError:\n    import torch.a": False,
    "import torch\nif hasattr(torch, 'a'):\n    torch.a.b": True,
    "import torch\ngetattr(torch, 'a', None)\ntorch.a": True,
    "import torch\nif hasattr(torch, 'ab'):\n    torch.a": False,
}


@pytest.mark.parametrize("source", GUARDED)
def test_what_a_program_does_without(source):
    assert [use.guarded for use in uses(source) if use.name.startswith("torch.a")] == [GUARDED[source]]


def test_what_an_import_needs():
    source = "import torch\ntorch.a\nclass B(torch.b):\n    c = torch.c\n    def f(self): torch.d\ng = lambda: torch.e"
    assert {use.name: use.at_import for use in uses(source)} == {
        "torch": True, "torch.a": True, "torch.b": True, "torch.c": True, "torch.d": False, "torch.e": False,
    }  # fmt: skip


def test_lookup():
    assert found("torch.nn.functional.relu") == (None, None, ())
    assert (
        found("torch.utils.tensorboard.SummaryWriter").missing is None
    )  # a module that nobody has imported yet
    assert found("torch.nn.Linear.forward").missing is None
    assert found("torch.nn.Linaer.x").missing == "torch.nn.Linaer"
    assert "torch.nn.Linear" in found("torch.nn.Linaer").close
    assert found("torch._cpu").missing == found("torch._cpu.updates").missing == "torch._cpu"  # ours alone
    assert found("torch.ops.mine.op").missing is None and found("torch.ops.torchvision.nms").missing is None
    assert "remote" in found("torch.distributed.rpc.rpc_sync").instead
    assert "graphs" in found("torch.fx.symbolic_trace").instead
    assert found("torch.jit.script") == (None, approximate("torch.jit.script"), ())


def test_refused_names_say_why():
    fn, kind = refused_function("torch.a.f", "use g"), refused_class("torch.a.K", "use L", base=dict)
    with pytest.raises(NotImplementedError, match=r"^torch\.a\.f: use g$"):
        fn(1, x=2)

    class Mine(kind):
        pass

    with pytest.raises(NotImplementedError, match=r"^torch\.a\.Mine: use L$"):
        Mine()
    assert issubclass(Mine, dict) and not isinstance({}, kind) and (fn.__name__, kind.__name__) == ("f", "K")


PROGRAM = """
import torch
from torch.distributed import autograd
from helper import net
torch.jit.script(net)
torch.rellu
"""


@pytest.fixture
def program(script, tmp_path):  # noqa: F811
    (tmp_path / "helper").mkdir()
    script("from . import inner\nfrom torch import nn\nnet = nn.Linaer", "helper/__init__.py")
    script("import torch\ndef f(): return torch.sinn", "helper/inner.py")
    script("import torch\ntorch.not_read", "other.py")
    return script(PROGRAM)


def test_a_script_and_what_is_beside_it(program):
    made = report(files_of(str(program)))
    assert made.files == 3
    assert [(entry.name, entry.at, entry.at_import) for entry in made.missing] == [
        ("torch.distributed.autograd", ["script.py:3"], True),
        ("torch.nn.Linaer", ["helper/__init__.py:3"], True),
        ("torch.rellu", ["script.py:6"], True),
        ("torch.sinn", ["helper/inner.py:2"], False),
    ]
    assert [entry.name for entry in made.approximate] == ["torch.jit.script"]


def test_the_command(program, tmp_path):
    done = python("-m", "functorch_port", "check", str(program))
    assert done.returncode == 1 and done.stderr == ""
    assert "3 files" in done.stdout and "torch.nn.Linaer   helper/__init__.py:3" in done.stdout
    as_json = python("-m", "functorch_port", "check", str(program), "--json")
    assert as_json.returncode == 1
    assert [entry["name"] for entry in json.loads(as_json.stdout)["missing"]][
        0
    ] == "torch.distributed.autograd"
    (tmp_path / "fine.py").write_text("import torch\ntry:\n    torch.sinn\nexcept AttributeError:\n    pass")
    fine = python("-m", "functorch_port", "check", str(tmp_path / "fine.py"))
    assert fine.returncode == 0 and "the program does without" in fine.stdout
    gone = python("-m", "functorch_port", "check", "no_such_package")
    assert gone.returncode == 2 and "no such file, folder or installed package" in gone.stderr


def test_a_package_is_not_imported(tmp_path):
    (tmp_path / "boom").mkdir()
    (tmp_path / "boom" / "__init__.py").write_text("import torch\ntorch.sinn\nraise SystemExit(9)")
    (tmp_path / "boom" / "bad.py").write_text("this is (no Python")
    code = "import sys; sys.path.insert(0, sys.argv[1])\nfrom functorch_port import cli\n"
    code += "sys.exit(cli.main(['check', 'boom']))"
    done = python("-c", code, str(tmp_path))
    assert done.returncode == 1 and "torch.sinn" in done.stdout and "bad.py cannot be read" in done.stdout


def test_a_failed_import_says_all_that_is_missing(program):
    done = launch(program)
    assert done.returncode == 1
    for name in ("torch.distributed.autograd", "torch.nn.Linaer", "torch.rellu", "torch.sinn"):
        assert f"\n  {name} (" in done.stderr


def test_a_failed_import_in_a_library_says_what_its_file_lacks(script, tmp_path):  # noqa: F811
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "library.py").write_text(
        "import torch\ntry:\n    from torch.distributed import autograd\nexcept ImportError as error:\n"
        "    raise RuntimeError('broken') from error\nfrom torch.nn import Linaer\ndef f(): torch.later"
    )
    path = script(f"import sys\nsys.path.append({str(folder)!r})\nimport library")
    done = launch(path)
    assert done.returncode == 1 and "torch.nn.Linaer (library.py:6)" in done.stderr
    assert "torch.later" not in done.stderr


def test_other_errors_say_nothing_more(script):  # noqa: F811
    done = launch(script("import torch\ntorch.sinn"))
    assert done.returncode == 1 and "all that is missing" not in done.stderr
    assert "all that is missing" not in launch(script("import no_such_module")).stderr


def test_the_walk_needs_no_start_up():
    code = "import sys, functorch_port.launcher; print('functorch_port._survey' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
