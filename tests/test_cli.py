"""The command line and the launcher, each in a process of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from functorch_port import cli, compiler, fft, launcher
from functorch_port._base import cache, settings

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "examples" / "tutorial_style.py"


def python(*arguments, cwd=None, **environment):
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "2", **environment}
    settings["PYTHONPATH"] = str(ROOT)
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=settings)


def launch(*arguments, **options):
    return python("-m", "functorch_port", "run", *map(str, arguments), **options)


@pytest.fixture
def script(tmp_path):
    def write(text, name="script.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


IMPORTS = """
import sys
import torch, torch.nn as nn, torch.nn.functional as F, torch.utils.data, torch.optim
from torch import Tensor, no_grad
from torch.nn import Linear
from torch.autograd import Variable
from torch.utils.data import DataLoader
from torch.optim.sgd import SGD
import functorch_port, functorch_port.nn.functional
assert torch is functorch_port and F is functorch_port.nn.functional and torch.nn.functional is F
assert torch.utils.data is functorch_port.utils.data and SGD is torch.optim.SGD
assert Linear is nn.Linear is functorch_port.nn.Linear and Tensor is torch.Tensor
assert torch.__version__.startswith("2.13.0+") and torch.__spec__.name == "functorch_port"
assert F.__spec__.name == "functorch_port.nn.functional" and F.__name__ == "functorch_port.nn.functional"
import importlib
assert importlib.import_module("torch.nn.functional") is F
assert "torch._C" not in sys.modules
files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
assert not any("site-packages/torch/" in file for file in files)
print("fine")
"""


def test_imports_are_this_packages_own_modules(script):
    done = launch(script(IMPORTS))
    assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 0)


MISSING = {
    "torch.no_such_name": ("AttributeError", "torch.no_such_name"),
    "torch.nn.functional.rellu": ("AttributeError", "torch.nn.functional.rellu", "torch.nn.functional.relu"),
    "torch.nn.Linaer": ("AttributeError", "torch.nn.Linaer", "torch.nn.Linear"),
    "from torch import missing": ("ImportError", "torch.missing"),
    "from torch.nn import Linaer": ("ImportError", "torch.nn.Linaer", "torch.nn.Linear"),
    "from torch.nn.functional import rellu": ("ImportError", "torch.nn.functional.rellu", "functional.relu"),
    "import torch.nothing": ("ModuleNotFoundError", "torch.nothing"),
    "import torch.nothing.at.all": ("ModuleNotFoundError", "torch.nothing"),
    "from torch.optin import SGD": ("ModuleNotFoundError", "torch.optin", "torch.optim"),
    "from torch.utils.data.dataloder import X": ("ModuleNotFoundError", "torch.utils.data.dataloder"),
}


def test_missing_names_say_which(script):
    text = "import torch, torch.nn.functional, json\nfound = {}\n"
    for line in MISSING:
        text += (
            f"try:\n    {line}\nexcept Exception as e:\n    found[{line!r}] = [type(e).__name__, str(e)]\n"
        )
    text += "assert not hasattr(torch, 'no_such_name') and getattr(torch, 'x_y', 3) == 3\n"
    text += "print(json.dumps(found))"
    done = launch(script(text))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for line, (kind, *parts) in MISSING.items():
        assert found[line][0] == kind, line
        assert "functorch_port" in found[line][1] and "does not have it" in found[line][1]
        for part in parts:
            assert part in found[line][1], found[line][1]


ATTRIBUTES = {
    "torch.ones(2).sumn()": ("torch.Tensor.sumn", "torch.Tensor.sum"),
    "torch.ones(2).no_such_method": ("torch.Tensor.no_such_method",),
    "torch.ones(2).hann_window": ("torch.Tensor.hann_window", "Close: ", "torch.hann_window"),
    "torch.nn.Linera(3, 3)": ("torch.nn.Linera", "Close: torch.nn.Linear"),
    "torch.Tensor.sumn": ("torch.Tensor.sumn", "torch.Tensor.sum"),
    "torch.nn.Linear(2, 2).wieght": ("torch.nn.Linear.wieght", "torch.nn.Linear.weight"),
    "Net().register_bufer": ("torch.nn.Module.register_bufer", "torch.nn.Module.register_buffer"),
    "torch.optim.SGD(Net().parameters(), 0.1).zero_grads()": ("torch.optim.SGD.zero_grads", "SGD.zero_grad"),
}


def test_missing_attributes_say_which(script):
    text = """
import json, torch
from functorch_port import launcher
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
found = {}
for line in json.loads(LINES):
    try:
        eval(line)
    except AttributeError as error:
        launcher.explain(error)
        found[line] = str(error)
print(json.dumps(found), flush=True)
torch.ones(2).sumn()
""".replace("LINES", repr(json.dumps(list(ATTRIBUTES))))
    done = launch(script(text))
    found = json.loads(done.stdout)
    for line, parts in ATTRIBUTES.items():
        for part in ("does not have it", *parts):
            assert part in found[line], found[line]
    assert done.stderr.rstrip().endswith(f"AttributeError: {found['torch.ones(2).sumn()']}")


def test_a_missing_dependency_is_reported_as_such(script):
    script("import torch.nothing_here_either", "helper.py")
    done = launch(script("import not_installed_anywhere"))
    assert done.returncode == 1 and "No module named 'not_installed_anywhere'" in done.stderr


WORLD = """
import sys, os, json
here = dict(argv=sys.argv, path0=sys.path[0], file=__file__, name=__name__, package=__package__,
            spec=__spec__, main=sys.modules["__main__"].__dict__ is globals())
print(json.dumps(here))
"""


@pytest.mark.parametrize("inside", [True, False])
def test_script_sees_the_world_python_gives_it(script, inside):
    path = script(WORLD)
    name, cwd = (path.name, path.parent) if inside else (str(path), "/")
    arguments = ["--flag", "-h", "run", "--", "x y"]
    theirs = python(name, *arguments, cwd=cwd)
    ours = launch(name, *arguments, cwd=cwd)
    assert json.loads(ours.stdout) == json.loads(theirs.stdout), ours.stderr


SEEN = """
import sys
main = sys.modules["__main__"]
spec = __spec__ and (__spec__.name, __spec__.origin)
names = sorted(n for n in vars(main) if n[:2] == "__")
print([sys.argv, sys.path[0], __name__, __package__, spec, globals().get("__file__"), names, __loader__.__class__,
       vars(main) is globals(), sys.stdin.read()])
"""
WAYS = [
    ["seen.py", "--", "y"], ["seen.py", "a", "--", "y", "--"], ["--", "seen.py", "--", "y"],
    ["./seen.py", "-m", "-c", "--help"],
    ["-m", "seen", "--", "y"], ["-m", "seen", "--help"], ["-m", "bag", "-m", "--"], ["-m", "bag.seen", "x"],
    ["-c", SEEN, "--", "y"], ["-c", SEEN, "-c", "--version"], ["-", "--", "y"], ["folder", "--", "y"],
    ["./folder/", "-h"],
    ["-m", "no_such_module"], ["-m", "bag.no_such"], ["empty"], ["-c", "import sys; sys.exit(3)"],
    ["-c", "raise SystemExit"],
]  # fmt: skip
EACH = """
import contextlib, io, json, sys
from functorch_port import cli, compiler
from functorch_port._base import cache
before, all_words = sys.path[:], json.loads(sys.argv[1])
for words in all_words:
    sys.path[:], sys.stdin = before, io.StringIO(SEEN if words[0] == "-" else "")
    for name in ("seen", "bag", "bag.seen"):
        sys.modules.pop(name, None)
    out, status = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        try:
            status = cli.main(["run", *words])
        except SystemExit as end:
            status = end.code
    print(json.dumps([out.getvalue(), status]), file=sys.__stdout__)
""".replace("SEEN", repr(SEEN))


def test_a_script_sees_what_python_gives_it_whatever_way_it_is_started(script, tmp_path):
    for folder in ("bag", "folder", "empty"):
        (tmp_path / folder).mkdir()
    for name in ("seen.py", "bag/__init__.py", "bag/__main__.py", "bag/seen.py", "folder/__main__.py"):
        script(SEEN if "__init__" not in name else "", name)
    ours = python("-c", EACH, json.dumps(WAYS), cwd=tmp_path)
    assert ours.returncode == 0, ours.stderr
    for words, line in zip(WAYS, ours.stdout.splitlines(), strict=True):
        given = SEEN if words[0] == "-" else ""
        theirs = subprocess.run(
            [sys.executable, *words], input=given, capture_output=True, text=True, cwd=tmp_path
        )
        out, status = json.loads(line)
        if isinstance(status, str):  # sys.exit(text): printed, and the status is 1
            assert (status, 1) == (theirs.stderr.strip(), theirs.returncode), words
        else:
            assert (out, status or 0) == (theirs.stdout, theirs.returncode), words


def test_ctrl_c_ends_a_script_as_python_does(script):
    path = script("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(9)\n")
    ours, theirs = launch(path), python(str(path))
    assert ours.returncode == theirs.returncode
    assert ours.stderr == theirs.stderr


def test_sibling_modules_and_modules_by_name(script):
    script("import torch\nvalue = torch.ones(2).sum().item()", "sibling.py")
    main = script("import sys, sibling\nprint(sibling.value, sys.argv[1:], __name__)", "train.py")
    assert launch(main, "a").stdout == "2.0 ['a'] __main__\n"
    assert launch("-m", "train", "a", cwd=main.parent).stdout == "2.0 ['a'] __main__\n"


def test_directory_with_main(script, tmp_path):
    script("import torch\nprint(torch.ones(1).item())", "__main__.py")
    assert launch(tmp_path).stdout == "1.0\n"


@pytest.mark.parametrize(
    "ending, status",
    [
        ("", 0),
        ("sys.exit(7)", 7),
        ("sys.exit()", 0),
        ("sys.exit('bye')", 1),
        ("raise SystemExit(True)", 1),
        ("1 / 0", 1),
    ],
)
def test_exit_status(script, ending, status):
    path = script(f"import sys\nprint('before', flush=True)\n{ending}\n")
    ours, theirs = launch(path), python(str(path))
    assert ours.returncode == theirs.returncode == status
    assert ours.stdout == theirs.stdout
    assert ours.stderr == theirs.stderr  # tracebacks begin in the script


def test_syntax_error_is_shown_as_python_shows_it(script):
    path = script("def f(:\n")
    ours, theirs = launch(path), python(str(path))
    assert ours.returncode == theirs.returncode == 1 and ours.stderr == theirs.stderr


def test_classes_of_the_script_can_be_pickled(script):
    text = (
        "import pickle, torch\nclass Net(torch.nn.Module): pass\nagain = pickle.loads(pickle.dumps(Net()))\n"
    )
    assert launch(script(text + "print(type(again) is Net)")).stdout == "True\n"


def test_launching_after_pytorch_is_refused():
    done = python("-c", "import torch\nfrom functorch_port import launcher\nlauncher.install()")
    assert done.returncode == 1 and "PyTorch is already imported" in done.stderr


def test_no_such_script():
    done = launch("/no/such/script.py")
    assert done.returncode == 2 and "/no/such/script.py" in done.stderr


# A tutorial's script, unchanged, both ways.


def numbers(text):
    return [float(x) for x in re.findall(r"\d+\.\d+|\d+", text)]


def test_tutorial_script_prints_the_same_with_pytorch_and_launched(tmp_path):
    arguments = ["--epochs", "2", "--save-model", str(tmp_path / "net.pt")]
    theirs = python(str(TUTORIAL), *arguments)
    ours = launch(TUTORIAL, *arguments)
    assert theirs.returncode == 0, theirs.stderr
    assert ours.returncode == 0, ours.stderr
    words = [re.sub(r"\d+\.\d+|\d+", "#", done.stdout) for done in (ours, theirs)]
    assert words[0] == words[1]
    # Losses are printed with four digits; float32 sums in another order move the last one.
    assert numbers(ours.stdout) == pytest.approx(numbers(theirs.stdout), abs=3e-4)


# Help and info.


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["info", "--help"], ["serve", "--help"], ["plan", "--help"]]
)
def test_help_teaches(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    text = capsys.readouterr().out
    assert ended.value.code == 0 and "usage: functorch-port" in text
    assert all(len(line) <= 110 for line in text.splitlines())
    if arguments == ["--help"]:
        assert "functorch-port run train.py" in text and "import functorch_port as torch" in text


@pytest.mark.parametrize("arguments", [[], ["walk"], ["run"], ["info", "--xml"]])
def test_wrong_use_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2 and "usage:" in capsys.readouterr().err


def test_the_error_that_the_help_shows(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    error = launcher._missing_text("torch.fft", "fftt", dir(fft))
    assert f"  {error}\n" in capsys.readouterr().out


def test_info_tells_versions_devices_settings(capsys, tmp_path, monkeypatch):
    import jax

    (tmp_path / "program").write_bytes(bytes(1_234_567))
    monkeypatch.setattr(cache, "directory", lambda: str(tmp_path))
    assert cli.main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["versions"]["jax"] == jax.__version__ and facts["devices"]["backend"] == "cpu"
    assert facts["settings"]["default dtype"] == "torch.float32"
    found = facts["environment variables"]
    assert {name.removeprefix("FUNCTORCH_PORT_") for name in found} == set(settings.VARIABLES)
    assert found["FUNCTORCH_PORT_REPLAY_AFTER"] == settings.get("REPLAY_AFTER")
    stats = compiler.cache_stats()
    assert facts["compilation cache"] == {
        "files": 1,
        "megabytes": 1.2,
        "hits of this process": stats.hits,
        "misses of this process": stats.misses,
    }
    assert cli.main(["info"]) == 0
    assert "jaxlib" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["info", "crosscheck --optimizer SGD --steps 2 --against optax"])
def test_a_reader_that_goes_away_is_no_error(command):
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-m", "functorch_port", *command.split()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=settings) as process:
        process.stdout.close()  # as `head` does
        assert process.stderr.read() == "" and process.wait() == 128 + 13


def test_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("functorch_port ")


def test_scripts_do_not_see_the_engines() -> None:
    script = """
import functorch_port.launcher as launcher
launcher.install()
import importlib, torch
for name in ("_array", "_base", "_cpu", "_random", "_run", "_trace", "_cpu.install"):
    try:
        importlib.import_module(f"torch.{name}")
    except ModuleNotFoundError:
        continue
    print(name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == ""
