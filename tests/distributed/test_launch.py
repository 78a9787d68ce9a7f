"""The launcher: environment, output, failures, restarts, several machines."""

import json
import os
import signal
import sys
import time

import pytest


def test_environment_arguments_and_devices(job):
    """The script sees torchrun's variables, its own arguments, virtual devices, and tensors before the group."""
    found = job(
        """
import jax
x = torch.ones(3) * rank
names = ("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME "
         "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID MASTER_ADDR").split()
dist.init_process_group("gloo")
print("to stderr", file=sys.stderr)
print(json.dumps([[os.environ[n] for n in names], sys.argv[1:], __name__, os.path.basename(sys.argv[0]),
    torch.__file__.split('/')[-2],
    jax.device_count(), jax.local_device_count(), x.tolist(), str(x.device), dist.is_torchelastic_launched()]))
""",
        "--lr",
        "3",
        "--",
        options=("--devices-per-proc=2", "--rdzv_id=job7", "--max_restarts=2"),
    )
    for rank, values in enumerate(found.values()):
        r = str(rank)
        environment = [r, r, "2", "2", "0", "1", r, "2", "default", "0", "2", "job7", "localhost"]
        x = [float(rank)] * 3
        assert values == [
            environment,
            ["--lr", "3", "--"],
            "__main__",
            "script0.py",
            "functorch_port",
            4,
            2,
            x,
            "cpu",
            True,
        ]
        assert f"[rank{rank}]: to stderr" in found.err


def test_variables_are_those_of_torchrun(started, ended, launching, script):
    path = script("print(sorted(set(os.environ) - {*sys.argv[1].split()}))", head="import os, sys\n")
    known = " ".join(os.environ)
    ours = ended(started(launching(path, known, nproc=1)))
    theirs = ended(
        started([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", path, known])
    )
    names = {
        name: {*eval(found.out.removeprefix("[rank0]: "))}
        for name, found in (("ours", ours), ("torch", theirs))
    }
    # of threads, of NCCL, of files and handlers that only torchrun has; it sets more when it is imported
    without = {"OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCHELASTIC_ERROR_FILE",
               "TORCHELASTIC_SIGNALS_TO_HANDLE", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"}  # fmt: skip
    assert names["torch"] - names["ours"] <= without


def test_an_error_ends_all_and_is_shown_last(job):
    found = job(
        """
dist.init_process_group()
if rank == 1:
    raise ValueError("the first error")
dist.all_reduce(torch.ones(2))
""",
        status=1,
    )
    assert found.seconds < 30
    last = found.err[found.err.index("Root Cause") :]
    assert "rank      : 1 (local_rank: 1)" in last and "ValueError: the first error" in last
    assert "script0.py" in last and "launcher" not in last
    assert '[rank1]:     raise ValueError("the first error")' in found.err


def test_an_exit_status_ends_all(job):
    found = job("if rank == 0: sys.exit(7)\ntime.sleep(60)", status=1)
    assert found.seconds < 30 and "exit status 7" in found.err[found.err.index("Root Cause") :]


def test_a_program_that_keeps_sigterm_is_killed(job, tmp_path):
    """Also what it has started: nothing is left behind."""
    found = job(
        """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if rank == 0:
    child = subprocess.Popen(["sleep", "1000"])
    print(child.pid, flush=True)
    time.sleep(60)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
    open(sys.argv[1], "w")
time.sleep(0.5)
raise ValueError
""",
        str(tmp_path / "flag"),
        options=("--shutdown-timeout=1",),
        status=1,
    )
    assert found.seconds < 30
    time.sleep(0.2)
    assert not alive(int(found.of(0)[-1]))


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_launcher(started, launching, script, how):
    path = script("print(os.getpid(), flush=True)\ntime.sleep(100)", head="import os, time\n")
    process = started(launching(path))
    pids = [int(process.stdout.readline().rpartition(" ")[2]) for _ in range(2)]
    process.send_signal(how)
    assert process.wait(timeout=20) == (128 + how if how == signal.SIGTERM else -how)
    end = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(alive, pids))


def test_restarts(job):
    found = job(
        """
count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group()
if count < 2 and rank == count % 2:
    raise ValueError(f"attempt {count}")
t = torch.tensor([count])
dist.all_reduce(t)
print(json.dumps(t.item()))
""",
        options=("--max-restarts=3",),
    )
    assert found.values() == [4, 4]
    assert "restart 2 of 3" in found.err


def test_a_module_and_filtered_output(started, ended, launching, tmp_path):
    (tmp_path / "mod.py").write_text(
        "import torch, sys\nprint(torch.__file__.split('/')[-2], sys.argv[1:])\nassert __name__ == '__main__'"
    )
    command = launching("--local-ranks-filter=1", f"--log-dir={tmp_path}/logs", "-m", "mod", "-x")
    found = ended(started(["env", f"--chdir={tmp_path}", *command]))
    assert found.status == 0, found.err
    assert found.out == "[rank1]: functorch_port ['-x']\n"
    assert (tmp_path / "logs/attempt_0/0/stdout.log").read_text() == "functorch_port ['-x']\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--nproc=0", "x.py"], "--nproc-per-node 0"),
        (["--nnodes=1:4", "x.py"], "cannot change"),
        (["--nnodes=2", "x.py"], "needs --master-addr"),
        (["--nnodes=2", "--master-addr=h", "--node-rank=2", "x.py"], "--node-rank 2"),
        (["--no-python", "x.py"], "must be Python"),
        (["--nnodes=a", "x.py"], "--nnodes a: give a whole number"),
        (["--rdzv-endpoint=h:p", "x.py"], "--rdzv-endpoint HOST:PORT, PORT p: give"),
        (["--rdzv-backend=etcd", "x.py"], "give c10d or static"),
        (["--rdzv-conf=timeout", __file__], "timeout=SECONDS"),
        (["--local-ranks-filter=1", __file__], "--local-ranks-filter 1: there are 0 to 0"),
        (["--devices-per-proc=0", __file__], "--devices-per-proc 0"),
        (["--max-restarts=-1", __file__], "--max-restarts -1"),
        ([f"--log-dir={__file__}/x", __file__], "Not a directory"),
        (["absent.py"], "can't open file 'absent.py'"),
    ],
)
def test_refused_arguments(capsys, arguments, text):
    from functorch_port.distributed import run

    assert run.run(run.get_args_parser().parse_args(arguments)) == 2
    assert text in capsys.readouterr().err


SUM = """
dist.init_process_group()
t = torch.tensor([rank + 1])
dist.all_reduce(t)
print(json.dumps([t.item(), os.environ["GROUP_RANK"], os.environ["LOCAL_RANK"]]))
if sys.argv[1:] == ["fail"] and rank == 1:
    raise ValueError("on the other machine")
if sys.argv[1:] == ["fail"]:
    time.sleep(60)
"""


def machines(started, launching, port, path, *arguments):
    at = f"--rdzv-endpoint=localhost:{port()}"
    return [
        started(launching("--nnodes=2", f"--node-rank={k}", at, path, *arguments, nproc=1)) for k in (1, 0)
    ]


def test_two_machines(started, ended, launching, port, script):
    found = [ended(process) for process in machines(started, launching, port, script(SUM))]
    assert [each.status for each in found] == [0, 0], found
    assert [json.loads(found[i].of(1 - i)[-1]) for i in (0, 1)] == [[3, "1", "0"], [3, "0", "0"]]


def test_two_machines_that_are_started_alike(started, ended, launching, port, script):
    at = f"--rdzv-endpoint=localhost:{port()}"
    command = launching("--rdzv-backend=c10d", "--rdzv-id=7", at, script(SUM), nproc=1)
    found = [ended(process) for process in [started(command, PET_NNODES="2") for _ in range(2)]]
    assert [each.status for each in found] == [0, 0], found
    said = sorted(
        json.loads(line.partition(": ")[2])
        for each in found
        for line in each.out.splitlines()
        if "[3," in line
    )
    assert said == [[3, "0", "0"], [3, "1", "0"]]


def test_a_failure_on_another_machine(started, ended, launching, port, script):
    found = [ended(process) for process in machines(started, launching, port, script(SUM), "fail")]
    assert [each.status for each in found] == [1, 1] and all(each.seconds < 30 for each in found)
    assert "on the other machine" in found[0].err and "a failure elsewhere: machine 1" in found[1].err
