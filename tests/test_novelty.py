"""The benchmark of what is new: it tells when the libraries disagree, and its page says what was measured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import novelty
from novelty_programs import PROGRAMS

SCRIPT = ROOT / "benchmarks" / "novelty.py"
GRAPHS = novelty.Case("program", "graphs")


def turn(seconds, values=(1.0, 2.0), **more):
    figures = {
        "cpu": seconds,
        "import": 0.1,
        "process": seconds + 0.1,
        "compiled": 7,
        "loaded": 0,
        "peak": 1e8,
    }
    return {"seconds": seconds, "values": list(values), **figures, **more}


def result(name="graphs", kind="program", faults=(), **turns):
    made = {who: [found] for who, found in turns.items()}
    return {"name": name, "kind": kind, "turns": made, "faults": list(faults)}


def process(*words):
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "FUNCTORCH_PORT_CACHE": "0"}
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_process_says_what_it_cost_and_computed():
    want, got = (process("memory", "shapes", who, "--count", "4") for who in ("torch", "functorch_port"))
    assert len(got["values"]) == len(got["rss"]) - 1 == 4
    assert novelty.difference(novelty.Case("memory", "shapes"), want, got) is None
    assert want["compiled"] == 0 and got["compiled"] >= 0 and got["loaded"] == 0
    assert all(found[field] > 0 for found in (want, got) for field in ("seconds", "cpu", "import", "peak"))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((1.0, 2.0), None),
        ((1.0, 2.001), None),
        ((1.0, 2.1), "value 1 of 2 is 2.1, PyTorch's 2.0; 1 differ"),
        ((1.0, float("nan")), "value 1 of 2 is nan, PyTorch's 2.0; 1 differ"),
        ((1.0,), "1 values instead of PyTorch's 2"),
    ],
)
def test_a_difference_is_named(values, said):
    assert novelty.difference(GRAPHS, turn(1), turn(1, values)) == said


def test_a_case_that_did_not_end_has_no_difference():
    assert novelty.difference(GRAPHS, turn(1), {"over": True, "seconds": 600.0}) is None


def test_faults_end_the_benchmark_after_the_page_is_written(tmp_path):
    results = {
        "program: graphs": result(
            torch=turn(1.0), cold=turn(9.0, peak=3e8), warm=turn(2.0), faults=["cold: 3"]
        )
    }
    with pytest.raises(SystemExit, match="program: graphs, cold: 3"):
        novelty.write(tmp_path, results)
    lines = (tmp_path / "novelty.md").read_text().splitlines()
    assert "| graphs | 1 | 9 | 2 | **9.00 (6)** | 2.00 (3) | 7 | 7 |" in lines
    assert "| graphs | 1 | 9 | 2 | 100 | **300** | 100 |" in lines
    assert (tmp_path / "novelty.png").exists()


def test_every_kind_has_its_table():
    over = {"over": True, "seconds": 600.0, "process": 600.0}
    steps = {"steps": [1.0, 0.5]}
    looks = [2e8] * 6
    results = {
        "1": result(torch=turn(1.0), cold=over, warm=over),
        "2": result(
            "CNN", "first", torch=turn(1.0, **steps), cold=turn(2.5, **steps), warm=turn(1.2, **steps)
        ),
        "3": result("gpt", "example", torch=turn(1.9), cold=turn(2.9), warm=turn(0.9)),
        "4": result("resume", "example", cold=turn(2.9), warm=turn(0.9)),
        "5": result("shapes", "memory", torch=turn(1.0, rss=looks), cold=turn(1.0, rss=[*looks[:5], 3e8])),
    }
    text = novelty.page(results)
    assert "| graphs | 1 | > 600 | > 600 | **600.00 (6)** | **600.00 (3)** |" in text
    assert "| CNN | 1 | 2.5 | 1.2 | **+1.50 (1)** | +0.20 (0.3) | 1.5 | 1.5 | 1.5 |" in text
    assert "| gpt.py | 2 | 3 | 1 | 1.50 | 0.50 |" in text and "| resume.py |  | 3 | 1 |  |  |" in text
    assert "| those with PyTorch | 2 | 3 | 1 | 1.50 (1.5) | 0.50 (1) |" in text
    assert "| cold | 200 | 200 | 200 | 300 | 100 | **+50.0%** | 1 |" in text


def test_every_case_is_there_once():
    found = list(novelty.cases(quick=False))
    assert len({(case.kind, case.name) for case in found}) == len(found)
    assert novelty.BARS.keys() <= PROGRAMS.keys()
    assert {case.name for case in found if "torch" not in case.contestants} == set(novelty.OURS)
    files = {path.stem for path in (ROOT / "examples").glob("*.py")}
    files -= {"both", "gpt_pod", "language_models", "plan_gpt"}  # not with PyTorch
    assert {case.name for case in found if case.kind == "example"} == files
