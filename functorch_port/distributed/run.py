"""The launcher, ``functorch-port launch``: starts the processes of a job, as PyTorch's ``torchrun``.

It serves the store by which they find each other, prints their output with the rank before each line, and ends all when
one fails. One launcher runs on each machine; those of several machines watch each other by the store.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ._store import DistError, PrefixStore, TCPStore
from ._table import Late

__all__ = ["get_args_parser", "main", "run"]

DESCRIPTION = """\
Run an unchanged PyTorch script in several processes, with torchrun's arguments and environment variables (RANK,
WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, ...). The processes are connected before the script begins:
torch.distributed.init_process_group() then returns at once.

Give a process all the devices of a machine, not one: on a TPU start one process on each machine."""

EPILOG = """\
examples
  functorch-port launch --nproc 2 train.py --epochs 3
  functorch-port launch --nproc 2 --devices-per-proc 4 train.py       each process has 4 virtual CPU devices
  functorch-port launch --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --nproc 1 train.py
  functorch-port launch --nproc 2 --watchdog 300 --max-restarts 3 train.py
"""


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the launcher's arguments: torchrun's names, and some of our own."""

    def add(*names: str, **how: Any) -> None:
        spelled = [s for n in names for s in dict.fromkeys((n, n[:2] + n[2:].replace("-", "_")))]
        name = next(n for n in names if n.startswith("--"))[2:].replace("-", "_")
        told = os.environ.get(f"PET_{name.upper()}")  # as torchrun's options
        if told is not None:
            how["default"] = told == "1" if how.get("action") == "store_true" else told
        parser.add_argument(*spelled, **how)

    add("--nproc-per-node", "--nproc", metavar="N", default="1",
        help="processes on this machine: a number, or auto, cpu, gpu, tpu (default: 1)")  # fmt: skip
    add("--nnodes", metavar="N", default="1", help="number of machines (default: 1)")
    add("--node-rank", metavar="K", type=int, default=None,
        help="number of this machine, from 0 on (default: 0; with c10d in the order in which they come)")  # fmt: skip
    add("--master-addr", metavar="A", default="", help="address of machine 0 (default: this machine)")
    add("--master-port", metavar="P", type=int, default=None,
        help="port there (default: 29500; of one machine a free one)")  # fmt: skip
    add("--rdzv-endpoint", metavar="A:P", default="", help="--master-addr and --master-port in one")
    add(
        "--rdzv-backend",
        metavar="NAME",
        default="static",
        help="static or c10d: there no --node-rank is needed",
    )
    add("--rdzv-id", metavar="ID", default="", help="the job's name")
    add(
        "--rdzv-conf",
        metavar="K=V,...",
        default="",
        help="timeout=SECONDS: how long to wait for machine 0 (600)",
    )
    add("--standalone", action="store_true", help="one machine, a free port")
    add("--max-restarts", metavar="N", type=int, default=0, help="start all again after a failure, so often")
    add(
        "--monitor-interval",
        metavar="S",
        type=float,
        default=0.1,
        help="seconds between looks at the processes",
    )
    add("--shutdown-timeout", metavar="S", type=float, default=None,
        help="seconds from SIGTERM to SIGKILL (default: TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 10)")  # fmt: skip
    add("--devices-per-proc", metavar="K", type=int, default=None, help="virtual CPU devices in each process")
    add("--watchdog", metavar="S", type=float, default=None,
        help="a failure if a process makes no progress for so many seconds: no step, collective, ...")  # fmt: skip
    add("--role", metavar="NAME", default="default", help="a name for the workers")
    add(
        "--local-ranks-filter", metavar="R,...", default="", help="print only the output of these local ranks"
    )
    add("--log-dir", metavar="DIR", default=None, help="write the output of each rank to files there, too")
    for name in ("--redirects", "--tee"):
        add(name, f"-{name[2]}", metavar="X", default="0", help="output to files is by --log-dir")
    for name in ("--start-method", "--event-log-handler", "--local-addr", "--logs-specs", "--numa-binding",
                 "--signals-to-handle", "--duplicate-stdout-filters", "--duplicate-stderr-filters"):  # fmt: skip
        add(name, default=None, help=argparse.SUPPRESS)
    for name in ("--no-python", "--run-path", "--virtual-local-rank"):
        add(name, action="store_true", help=argparse.SUPPRESS)
    add("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument(
        "words",
        metavar="SCRIPT",
        nargs=argparse.PARSER,
        help="the path of the script, and the script's own arguments",
    )


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of the launcher's arguments."""
    parser = argparse.ArgumentParser(
        prog="functorch-port launch",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_to(parser)
    return parser


def main(args: list[str] | None = None) -> None:
    """Run the launcher with these arguments (default: those of the process), and exit."""
    sys.exit(run(get_args_parser().parse_args(args)))


class _Job(NamedTuple):
    """What the arguments say."""

    processes: int
    machines: int
    machine: int | None
    host: str
    port: int
    name: str
    restarts: int
    grace: float
    arrival: timedelta
    shown: set[int]
    options: argparse.Namespace


def _job(options: argparse.Namespace) -> _Job:
    machines = options.nnodes.split(":")
    if len({*machines}) != 1:
        raise ValueError(
            f"--nnodes {options.nnodes}: the number of machines cannot change while a job runs; give one number"
        )
    for name, why in (
        ("no_python", "SCRIPT must be Python"),
        ("run_path", "SCRIPT is run by its path anyway: leave it out"),
        ("virtual_local_rank", "devices are chosen by JAX: leave it out"),
        ("numa_binding", "use numactl or taskset"),
    ):
        if getattr(options, name):
            raise ValueError(f"--{name.replace('_', '-')} is not supported: {why}")
    if options.rdzv_backend not in ("static", "c10d"):
        raise ValueError(f"--rdzv-backend {options.rdzv_backend} is not supported: give c10d or static")
    count = _whole("--nnodes", machines[0], 1)
    host, port = options.master_addr, options.master_port
    if options.rdzv_endpoint and not options.standalone:
        end_host, _, end_port = options.rdzv_endpoint.rpartition(":")
        host = end_host or options.rdzv_endpoint
        port = _whole("--rdzv-endpoint HOST:PORT, PORT", end_port) if end_host else port
    if options.standalone:
        host, port, count = "", 0, 1
    if count > 1 and not host:
        raise ValueError("--nnodes needs --master-addr, the address of machine 0")
    if port is None:
        port = 29500 if count > 1 else 0
    machine = options.node_rank
    if machine is None and (count == 1 or options.rdzv_backend == "static"):
        machine = 0
    if machine is not None and not 0 <= machine < count:
        raise ValueError(f"--node-rank {machine} is not one of {count} machines: give 0 to {count - 1}")
    grace = options.shutdown_timeout
    if grace is None:
        grace = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "10"))
    processes = _processes(options.nproc_per_node)
    what = options.words[0]
    if not options.module and what != "-" and not os.path.exists(what):
        raise ValueError(f"can't open file {what!r}: no such file or directory")
    name = options.rdzv_id or str(uuid.uuid4())
    told = {key: value for key, _, value in (each.partition("=") for each in options.rdzv_conf.split(","))}
    seconds = _whole("--rdzv-conf timeout=SECONDS,", told.get("join_timeout", told.get("timeout", "600")))
    ranks = {_whole("--local-ranks-filter", each) for each in options.local_ranks_filter.split(",") if each}
    if not ranks <= {*range(processes)}:
        raise ValueError(f"--local-ranks-filter {options.local_ranks_filter}: there are 0 to {processes - 1}")
    if options.devices_per_proc is not None:
        _whole("--devices-per-proc", options.devices_per_proc, 1)
    if options.log_dir:
        try:
            os.makedirs(options.log_dir, exist_ok=True)
        except OSError as error:
            raise ValueError(f"--log-dir {options.log_dir}: {error}") from error
    return _Job(
        processes=processes,
        machines=count,
        machine=machine,
        host=host or "localhost",
        port=port,
        name=name,
        restarts=_whole("--max-restarts", options.max_restarts),
        grace=grace,
        arrival=timedelta(seconds=seconds),
        shown=ranks or {*range(processes)},
        options=options,
    )


def _whole(name: str, given: Any, least: int = 0) -> int:
    try:
        number = int(given)
    except ValueError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} {given}: give a whole number, {least} or more")
    return number


def _meet(job: _Job) -> tuple[_Job, TCPStore]:
    """The store of the job, and the job with the number of this machine.

    The launchers of a job that gave them none have the same arguments: the one that can serve the store at that address
    has number 0, the others have theirs in the order in which they come.

    Raises:
        ValueError: there are more machines than the job has, or another job is served there.
    """
    store = None
    if job.machine == 0 or (job.machine is None and _is_here(job.host)):
        try:
            store = TCPStore(job.host, job.port, None, True, job.arrival)
        except DistError:
            if job.machine == 0:
                raise  # else another launcher on this machine may serve it
    number = 0 if store is not None else job.machine
    if store is None:
        store = TCPStore(job.host, job.port, None, False, job.arrival)
    told = job.options.rdzv_id
    if number == 0:
        store.set("rdzv_id", told)
    elif (of := store.get("rdzv_id").decode()) != told:
        raise ValueError(
            f"the job at {job.host}:{job.port} has --rdzv-id {of!r}, not {told!r}: give another port"
        )
    if number is None:
        number = store.add("machines", 1)
    if number >= job.machines:
        raise ValueError(f"--nnodes {job.machines}: as many launchers are at {job.host}:{job.port} already")
    return job._replace(machine=number, port=store.port), store


def _is_here(host: str) -> bool:
    """Whether that is an address of this machine."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as there:
            there.bind((address[0], 0))
            return True
    return False


def _processes(text: str) -> int:
    """How many processes: of a machine with accelerators one, as one drives them all."""
    if text.isdigit() and int(text) > 0:
        return int(text)
    if text == "cpu":
        return os.cpu_count() or 1
    if text in ("auto", "gpu", "tpu"):
        return 1
    raise ValueError(f"--nproc-per-node {text}: give a number, or auto, cpu, gpu, tpu")


class _Failure(NamedTuple):
    """The failure of one process, or of what is around them.

    Attributes:
        follows: whether it is the consequence of another one.
    """

    time: float
    rank: int | None
    local_rank: int | None
    how: str
    text: str
    follows: bool = False


def run(options: argparse.Namespace) -> int:
    """Run a job; returns the exit status: 0 if all processes gave 0, else 1."""
    try:
        job = _job(options)
        job, store = _meet(job)
    except (ValueError, DistError) as error:
        print(f"functorch-port: {error}", file=sys.stderr)
        return 2
    stopped: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: stopped.append(number))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }
    try:
        for attempt in range(job.restarts + 1):
            failures = _Attempt(job, store, attempt, stopped).run()
            if not failures or stopped:
                break
            if attempt < job.restarts:
                _say(f"restart {attempt + 1} of {job.restarts} after: {_first(failures).how}")
        if stopped:
            _say(f"ended by signal {signal.Signals(stopped[0]).name}")
            return 128 + stopped[0]
        if failures:
            print(_report(job, failures), file=sys.stderr, flush=True)
        return 1 if failures else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        store._close()


def _say(text: str) -> None:
    print(f"functorch-port launch: {text}", file=sys.stderr, flush=True)


def _first(failures: list[_Failure]) -> _Failure:
    return min(failures, key=lambda failure: (failure.follows, failure.time))


def _report(job: _Job, failures: list[_Failure]) -> str:
    """What has failed, the first failure last, where it is seen."""
    first = _first(failures)
    lines = ["=" * 60, f"{job.options.words[0]} FAILED", "-" * 60]
    others = [failure for failure in failures if failure is not first]
    for title, of in (("Failures:", others), ("Root Cause (first observed failure):", [first])):
        if not of:
            continue
        lines.append(title)
        for number, failure in enumerate(of, 1 if of is others else 0):
            lines += [
                f"[{number}]:",
                f"  time      : {time.strftime('%Y-%m-%d_%H:%M:%S', time.localtime(failure.time))}",
                f"  host      : {socket.gethostname()}",
            ]
            if failure.rank is not None:
                lines.append(f"  rank      : {failure.rank} (local_rank: {failure.local_rank})")
            lines.append(f"  how       : {failure.how}")
            if failure is first and failure.text:
                lines += ["  traceback :", *(f"    {line}" for line in failure.text.rstrip().splitlines())]
        lines.append("-" * 60)
    return "\n".join([*lines[:-1], "=" * 60])


class _Worker:
    """A process, and the files that it writes."""

    def __init__(self, local_rank: int, rank: int, process: Any, folder: Path) -> None:
        self.local_rank, self.rank, self.process = local_rank, rank, process
        self.error_file, self.progress_file = folder / f"error{rank}", folder / f"progress{rank}"
        self.ended: float | None = None
        self.partial = {"stdout": b"", "stderr": b""}
        self.last_lines: deque[str] = deque(maxlen=60)

    def look(self) -> int | None:
        """The exit status, or None while the process runs."""
        status = self.process.poll()
        if status is not None and self.ended is None:
            self.ended = time.time()
        return status

    def error(self) -> dict[str, Any] | None:
        """The error that the process wrote down."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self.error_file.read_text())
        return None

    def failure(self) -> _Failure | None:
        """How the process has failed, if it has."""
        status, error = self.look(), self.error()
        if status == 0 or (status is None and error is None):
            return None
        place = self.rank, self.local_rank
        if error is not None:
            how = f"an error (pid {self.process.pid})"
            return _Failure(error["time"], *place, how, error["text"], error["follows"])
        assert status is not None and self.ended is not None
        if status < 0:
            name = signal.Signals(-status).name
            how = f"killed by {name} (pid {self.process.pid})"
            if status == -signal.SIGKILL:
                how += ": by somebody, or by the system because memory was short"
        else:
            how = f"exit status {status} (pid {self.process.pid})"
        # JAX aborts a process when another one is gone
        return _Failure(self.ended, *place, how, "\n".join(self.last_lines), status == -signal.SIGABRT)

    def stuck(self, seconds: float) -> str | None:
        """Since when and where the process has made no progress, if that is too long."""
        try:
            quiet = time.time() - self.progress_file.stat().st_mtime
            last = self.progress_file.read_text().strip()
        except OSError:
            return None  # it has not begun
        if quiet < seconds:
            return None
        return f"no progress for {quiet:.0f} s; last: {last}{'; the process is stopped' * self._is_stopped()}"

    def _is_stopped(self) -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    def signal(self, number: int) -> None:
        """Send a signal to the process and those that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class _Attempt:
    """One start of all the processes of this machine."""

    def __init__(self, job: _Job, store: TCPStore, attempt: int, stopped: list[int]) -> None:
        self.job, self.attempt, self.stopped = job, attempt, stopped
        self.store = PrefixStore(f"launch_{attempt}", store)
        self.selector = selectors.DefaultSelector()
        self.workers: list[_Worker] = []
        self.logs: dict[tuple[int, str], Any] = {}

    def run(self) -> list[_Failure]:
        """Run the processes to their end; returns the failures."""
        with tempfile.TemporaryDirectory(prefix="functorch-port-launch-") as folder:
            alive, ours = os.pipe()
            try:
                for local_rank in range(self.job.processes):
                    self.workers.append(self._start(local_rank, Path(folder), alive))
                return self._watch()
            finally:
                self._end()
                for descriptor in (alive, ours):
                    os.close(descriptor)
                for log in self.logs.values():
                    log.close()

    def _start(self, local_rank: int, folder: Path, alive: int) -> _Worker:
        job, options = self.job, self.job.options
        assert job.machine is not None
        rank = job.machine * job.processes + local_rank
        worker = _Worker(local_rank, rank, None, folder)
        told = {
            "pipe": alive,
            "error": str(worker.error_file),
            "progress": str(worker.progress_file) if options.watchdog else None,
        }
        command = [
            sys.executable, "-m", "functorch_port.distributed._worker", json.dumps(told),
            "module" if options.module else "script", *options.words,
        ]  # fmt: skip
        worker.process = subprocess.Popen(
            command,
            env=self._environment(rank, local_rank),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[alive],
            start_new_session=True,  # a group of its own, to be signalled with all that the script starts
        )
        for name in ("stdout", "stderr"):
            stream = getattr(worker.process, name)
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream, selectors.EVENT_READ, (worker, name))
        return worker

    def _environment(self, rank: int, local_rank: int) -> dict[str, str]:
        job, options = self.job, self.job.options
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(job.machines * job.processes),
            "LOCAL_WORLD_SIZE": str(job.processes),
            "GROUP_RANK": str(job.machine),
            "GROUP_WORLD_SIZE": str(job.machines),
            "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": str(job.machines * job.processes),
            "ROLE_NAME": options.role,
            "MASTER_ADDR": job.host,
            "MASTER_PORT": str(job.port),
            "TORCHELASTIC_RESTART_COUNT": str(self.attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(job.restarts),
            "TORCHELASTIC_RUN_ID": job.name,
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "PYTHONUNBUFFERED": "1",
        }
        # XLA's pool of threads on a CPU has as many as there are processors; a collective blocks one of them
        environment.setdefault("NPROC", "32")
        if options.devices_per_proc is not None:
            flags = environment.get("XLA_FLAGS", "")
            count = f"--xla_force_host_platform_device_count={options.devices_per_proc}"
            environment["XLA_FLAGS"] = f"{flags} {count}".strip()
        return environment

    def _watch(self) -> list[_Failure]:
        """Print output until all processes have ended or one has failed."""
        next_look = 0.0
        while not self.stopped:
            self._print(self.job.options.monitor_interval)
            if any(worker.failure() for worker in self.workers):
                return self._after_failure()
            done = all(worker.look() == 0 for worker in self.workers)
            now = time.monotonic()
            if now < next_look and not done:
                continue
            next_look = now + 1
            found = self._stuck() or self._elsewhere(done)
            if found:
                return found
            if done and self._all_machines_are_done():
                self._drain()
                return []
        return []

    def _after_failure(self) -> list[_Failure]:
        """Every failure, with those that are seen at the same time as the first."""
        self._print(0.3)
        self._drain()
        seen = [failure for worker in self.workers if (failure := worker.failure())]
        self._tell(_first(seen).how)
        self._end()
        self._drain()
        return seen

    def _stuck(self) -> list[_Failure]:
        """Processes without progress; of those that wait for others only if there is no other one."""
        seconds = self.job.options.watchdog
        if not seconds:
            return []
        found = {
            worker: how for worker in self.workers if worker.look() is None and (how := worker.stuck(seconds))
        }
        if not found:
            return []
        for worker in found:
            os.kill(worker.process.pid, signal.SIGUSR1)  # it prints where it is
        end = time.monotonic() + 1
        while time.monotonic() < end:
            self._print(0.1)
        self._tell("the watchdog")
        waiting = {worker for worker, how in found.items() if "last: waiting" in how}
        return [
            _Failure(time.time(), worker.rank, worker.local_rank, f"the watchdog: {how}",
                     "\n".join(worker.last_lines), worker in waiting and len(waiting) < len(found))
            for worker, how in found.items()
        ]  # fmt: skip

    # the other machines

    def _tell(self, how: str) -> None:
        if self.job.machines > 1:
            with contextlib.suppress(DistError):
                self.store.set("failed", f"machine {self.job.machine} ({socket.gethostname()}): {how}")

    def _elsewhere(self, done: bool) -> list[_Failure]:
        """A failure on another machine."""
        if self.job.machines == 1:
            return []
        how = ""
        try:
            if self.store.check(["failed"]):
                how = self.store.get("failed").decode()
            elif not done:
                self.store.add(f"alive_{self.job.machine}", 1)
        except DistError as error:
            how = f"the launcher of machine 0 is gone: {error}"
        return [_Failure(time.time(), None, None, f"a failure elsewhere: {how}", "")] if how else []

    def _all_machines_are_done(self) -> bool:
        if self.job.machines == 1:
            return True
        self.store.set(f"done_{self.job.machine}", b"")
        names = [f"done_{machine}" for machine in range(self.job.machines)]
        if not self.store.check(names):
            return False
        with contextlib.suppress(DistError, Late):  # machine 0 serves the store until all have seen that
            self.store._call("exchange", "leave", self.job.machine, [""] * self.job.machines, b"", 10.0)
        return True

    # output, and the end

    def _print(self, timeout: float) -> bool:
        """Print lines that have come; returns whether some did."""
        events = self.selector.select(timeout) if self.selector.get_map() else []
        if not events and not self.selector.get_map():
            time.sleep(timeout)
        for key, _ in events:
            worker, name = key.data
            try:
                text = os.read(key.fileobj.fileno(), 1 << 16)  # type: ignore[union-attr]
            except BlockingIOError:
                continue
            if not text:
                self.selector.unregister(key.fileobj)
                text = b"\n" if worker.partial[name] else b""
            *lines, worker.partial[name] = (worker.partial[name] + text).split(b"\n")
            self._show(worker, name, [line.decode(errors="replace") for line in lines])
        return bool(events)

    def _show(self, worker: _Worker, name: str, lines: list[str]) -> None:
        if not lines:
            return
        if name == "stderr":
            worker.last_lines.extend(lines)
        if worker.local_rank in self.job.shown:
            stream = getattr(sys, name)
            stream.write("".join(f"[rank{worker.rank}]: {line}\n" for line in lines))
            stream.flush()
        if self.job.options.log_dir:
            log = self.logs.get((worker.rank, name))
            if log is None:
                folder = Path(self.job.options.log_dir) / f"attempt_{self.attempt}" / str(worker.local_rank)
                folder.mkdir(parents=True, exist_ok=True)
                log = self.logs[worker.rank, name] = open(folder / f"{name}.log", "w")  # noqa: SIM115
            log.write("".join(f"{line}\n" for line in lines))
            log.flush()

    def _drain(self) -> None:
        """Print what is still there, for a moment: a process that was left behind may keep a pipe open."""
        end = time.monotonic() + 2
        while self._print(0.05) and time.monotonic() < end:
            pass

    def _running(self) -> Iterator[_Worker]:
        return (worker for worker in self.workers if worker.look() is None)

    def _end(self) -> None:
        """End the processes that run: SIGTERM, and SIGKILL after a while, as a program may keep SIGTERM for itself."""
        for worker in self._running():
            worker.signal(signal.SIGTERM)
            worker.signal(signal.SIGCONT)  # one that is stopped takes signals then
        end = time.monotonic() + self.job.grace
        while time.monotonic() < end and any(self._running()):
            self._print(0.05)
        for worker in self.workers:
            worker.signal(signal.SIGKILL)  # and what it has started
            worker.process.wait()


if __name__ == "__main__":
    main()
