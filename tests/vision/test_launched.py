"""``import torchvision`` in scripts that functorch-port runs."""

from __future__ import annotations

import json

import pytest
from test_cli import launch, python

IMPORTS = """
import sys
import torchvision, torchvision.models as models, torchvision.ops
from torchvision.models.resnet import Bottleneck
from torchvision.ops import nms
import torch, functorch_port, functorch_port.vision.models.resnet
assert torchvision is functorch_port.vision and models is functorch_port.vision.models
assert Bottleneck is functorch_port.vision.models.resnet.Bottleneck and nms is functorch_port.vision.ops.nms
assert torchvision.__version__ == "0.28.0" and torchvision.version.__version__ == "0.28.0"
assert torchvision.models.resnet18(num_classes=3).fc.out_features == 3 and torchvision.get_image_backend() == "PIL"
assert not [name for name in sys.modules if name.startswith("torch.vision")]
assert "PIL" not in sys.modules, "Pillow is loaded where images are opened"
assert torchvision.io.read_image.__module__ == "functorch_port.vision.io.image" and "PIL" not in sys.modules
files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
assert not any("site-packages/torch" in file for file in files)
print("fine")
"""


def test_imports_are_this_packages_own_modules():
    done = launch("-c", IMPORTS)
    assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 0)


WAY = "FUNCTORCH_PORT_VISION=installed"
MISSING = {
    "torchvision.no_such_name": ("AttributeError", "torchvision.no_such_name", WAY),
    "torchvision.transforms.v2": ("AttributeError", "import torchvision.transforms.v2"),
    "torchvision.ops.nmss": ("AttributeError", "torchvision.ops.nmss", "Close: torchvision.ops.nms", WAY),
    "from torchvision.models import resnet19": (
        "ImportError",
        "torchvision.models.resnet19",
        "models.resnet18",
        WAY,
    ),
    "from torchvision import modles": ("ImportError", "torchvision.modles", "Close: torchvision.models", WAY),
    "import torchvision.models.detection": ("ModuleNotFoundError", "torchvision.models.detection", WAY),
    "import torchvision.nothing.at_all": ("ModuleNotFoundError", "torchvision.nothing", WAY),
    "import torch.vision": ("ModuleNotFoundError", "torch.vision"),
    "torch.nms": ("AttributeError", "torch.nms"),
}


def test_missing_names_say_which():
    text = "import torch, torchvision, json\nimport torchvision.ops, torchvision.models\nfound = {}\n"
    for line in MISSING:
        text += (
            f"try:\n    {line}\nexcept Exception as e:\n    found[{line!r}] = [type(e).__name__, str(e)]\n"
        )
    text += (
        "assert not hasattr(torchvision, 'no_such_name') and getattr(torchvision.ops, 'x_y', 3) == 3\n"
        "from functorch_port import launcher\n"
        "try:\n    torchvision.models.squeezenet1_1().clasifier\n"
        "except AttributeError as e:\n    launcher.explain(e)\n    found['class'] = str(e)\n"
        "print(json.dumps(found))"
    )
    done = launch("-c", text)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "SqueezeNet.clasifier: functorch_port" in found.pop("class")
    assert {*found} == {*MISSING}
    for line, (kind, *parts) in MISSING.items():
        assert found[line][0] == kind, line
        for part in parts:
            assert part in found[line][1], found[line][1]
        assert line.startswith(("torchvision", "from", "import torchv")) or WAY not in found[line][1]


REFUSED = """
import sys, types
module = sys.modules["functorch_port.vision.refusing"] = types.ModuleType("functorch_port.vision.refusing")
def refuse(name):
    raise NotImplementedError(f"{name} is not here: do without")
module.__getattr__, module.__path__ = refuse, []
import torchvision.refusing
try:
    from torchvision.refusing import Something
except ImportError as error:
    print(error)
try:
    module.Something
except NotImplementedError as error:
    print(error)
"""


def test_what_a_module_refuses_scripts_can_do_without():
    done = launch("-c", REFUSED)
    assert done.stdout.splitlines() == ["Something is not here: do without"] * 2, done.stderr


INSTALLED = """
import torch, torchvision, functorch_port
from torchvision.ops import nms, ps_roi_align, roi_align, roi_pool
assert torch is functorch_port and "site-packages/torchvision" in torchvision.__file__
assert type(torchvision.models.squeezenet1_1()).__module__ == "torchvision.models.squeezenet"
boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5], [6, 6, 8, 8]])
print(nms(boxes, torch.tensor([0.5, 0.9, 0.7]), 0.5).tolist())
for fn in (roi_align, roi_pool):
    x = torch.rand(1, 2, 9, 9, requires_grad=True)
    fn(x, [boxes], 2).sum().backward()
    print(round(x.grad.sum().item(), 3))
try:
    ps_roi_align(x, torch.zeros(1, 5), 1)
except NotImplementedError as error:
    print(error)
"""


def test_the_installed_torchvision_runs_over_this_package():
    done = launch("-c", INSTALLED, FUNCTORCH_PORT_VISION="installed")
    assert done.returncode == 0, done.stderr[-3000:]
    wanted = [
        "[1, 2]",
        "24.0",
        "24.0",
        "torch.ops.torchvision.ps_roi_align: it is compiled for PyTorch",
    ]
    assert done.stdout.splitlines() == wanted


CHILDREN = """
import multiprocessing, os, sys
import torchvision
def where(_):
    import torch, torchvision
    return torch.__name__, os.path.basename(os.path.dirname(torch.__file__)), torchvision.__name__
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(where, [0]))
"""


@pytest.mark.parametrize("setting, name", [("", "functorch_port.vision"), ("installed", "torchvision")])
def test_children_get_the_same(setting, name, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(CHILDREN)
    done = launch(path, FUNCTORCH_PORT_VISION=setting)
    assert done.stdout == f"[('torch', 'functorch_port', '{name}')]\n", done.stderr[-3000:]


def test_without_the_launcher_nothing_changes():
    code = "import functorch_port.vision, sys; assert 'torchvision' not in sys.modules; print(functorch_port.vision)"
    done = python("-c", code)
    assert done.stdout.startswith("<module 'functorch_port.vision'"), done.stderr
