"""Train GPT-2, Llama or Mixtral on a file of tokens: on a laptop, on eight devices, on several machines, on a pod.

The same command line with another --mesh is the same run: the same batches, and the same losses but for rounding. A run
that is stopped (Ctrl-C, SIGTERM, kill -9, a preempted machine) goes on where it was when it is started again with the
same --out. Without --tokens it learns to write like the Python manual, byte by byte.

    python examples/gpt_pod.py --steps 200
    XLA_FLAGS=--xla_force_host_platform_device_count=8 python examples/gpt_pod.py --mesh fsdp=4,tp=2 --model llama-tiny
    functorch-port launch --nproc 4 examples/gpt_pod.py --mesh fsdp=4
    functorch-port plan examples/gpt_pod.py:llama_7b --topology v5e:16x16 --mesh fsdp=64,tp=4
"""

import argparse
import contextlib
import json
import math
import signal
import time
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

import grain
import jax
import language_models
import numpy as np
from jax.sharding import PartitionSpec as P
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import functorch_port as torch
import functorch_port.distributed as dist
import functorch_port.distributed.checkpoint as dcp
from functorch_port.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from functorch_port.distributed.sharding import shard
from functorch_port.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from functorch_port.distributed.tensor.experimental import local_map
from functorch_port.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from functorch_port.utils.tensorboard import SummaryWriter

nn, F = torch.nn, torch.nn.functional

# ------------------------------------------------------------------------------------------------------------- data


class Pieces:
    """Pieces of ``length + 1`` tokens of a file that is mapped into memory; neighbours share one token.

    Args:
        file: a one-dimensional ``.npy`` of integers, or a raw ``.bin`` of 16-bit ones.
        length: tokens that are read from a piece; the next of each is to be told.
        part: which part of the file, as two numbers between 0 and 1.
        vocab: how many tokens the model has (default: bytes). Others are an error, as a TPU takes another in silence.
    """

    def __init__(self, file, length, part=(0.0, 1.0), vocab=256):
        self.file, self.vocab, kind = file, vocab, Path(file).suffix
        if kind not in (".npy", ".bin") or (kind == ".bin" and vocab > 1 << 16):
            raise ValueError(
                f"{file}: tokens are in a .npy of integers, or in a .bin of 16 bits if the model has at most 65,536; "
                f"it has {vocab:,}"
            )
        try:
            tokens = np.load(file, mmap_mode="r") if kind == ".npy" else np.memmap(file, np.uint16, "r")
        except ValueError as error:
            raise ValueError(f"{file} is no whole file of tokens: {error}") from None
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise ValueError(
                f"{file} must have integers in one dimension, and has {tokens.dtype} {tokens.shape}"
            )
        start, stop = (round(edge * len(tokens)) for edge in part)
        self.tokens, self.length = tokens[start:stop], length
        if len(self) < 1:
            raise ValueError(
                f"{file}: {stop - start} tokens from {start} on are too few for pieces of {length + 1}"
            )

    def __len__(self):
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, i):
        i = int(i) * self.length
        piece = self.tokens[i : i + self.length + 1].astype(np.int64)
        for token in (piece.min(), piece.max()):
            if not 0 <= token < self.vocab:
                raise ValueError(
                    f"{self.file} has the token {token}, and those of the model are 0 to {self.vocab - 1}"
                )
        return piece


def batches(pieces, size, seed):
    """An iterator over shuffled batches without end, whose position is `get_state` and `set_state`.

    All processes read the same ones; each puts its own rows on its devices.
    """
    data = grain.MapDataset.source(pieces).seed(seed).shuffle().repeat().batch(size)
    return iter(data.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)))


def manual(folder):
    """The Python manual as a file of bytes, which the standard library carries."""
    file = folder / "manual.npy"
    if not file.exists():
        text = "".join(topics.values()).encode("ascii", "ignore")
        hidden = folder / f".manual.{jax.process_index()}.npy"
        np.save(hidden, np.frombuffer(text, np.uint8))
        hidden.replace(file)
    return file


# ------------------------------------------------------------------------------------------------------------ model

#: what tensor parallelism splits; queries, keys and values of GPT-2 are one matrix, whose columns it would tear apart
LLAMA_PLAN = {
    "model.layers.stacked.self_attn.[qkv]_proj": ColwiseParallel(),
    "model.layers.stacked.self_attn.o_proj": RowwiseParallel(),
    "model.layers.stacked.mlp.gate_proj": ColwiseParallel(),
    "model.layers.stacked.mlp.up_proj": ColwiseParallel(),
    "model.layers.stacked.mlp.down_proj": RowwiseParallel(),
}
MIXTRAL_PLAN = {name: style for name, style in LLAMA_PLAN.items() if "self_attn" in name}


def stacked(model, remat):
    """The model with its layers as one, so that a program of them does not grow with their number."""
    owner, _, name = type(model).layers.rpartition(".")
    owner = model.get_submodule(owner)
    setattr(owner, name, nn.ScanStack(getattr(owner, name), remat=remat))
    return model


def wrong_axes(names):
    """What is wrong with the names of a mesh's axes; empty if nothing is."""
    names = [*names]
    if {*names} - {"dp", "fsdp", "tp"}:
        return "its axes are dp, fsdp and tp"
    if "dp" in names and "fsdp" not in names[names.index("dp") :]:
        return "dp, along which parameters are the same, goes with fsdp after it, which splits them"
    return ""


def placed(model, mesh, dtype):
    """The model with its parameters split over the mesh, by tensor parallelism and fully sharded."""
    names = mesh.mesh_dim_names
    if wrong_axes(names):
        raise ValueError(f"a mesh of {', '.join(names)}: {wrong_axes(names)}")
    if "tp" in names:
        if not isinstance(model, language_models.Llama):
            raise ValueError(
                "tp needs a llama: GPT-2 has queries, keys and values in one matrix. Use fsdp alone"
            )
        parallelize_module(model, mesh["tp"], MIXTRAL_PLAN if model.config.experts > 1 else LLAMA_PLAN)
    for module in model.modules():
        if isinstance(module, language_models.Experts):
            spread(module, mesh)
    if "fsdp" in names:
        policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
        over = mesh["dp", "fsdp"] if "dp" in names else mesh["fsdp"]
        fully_shard(model.get_submodule(type(model).layers), mesh=over, mp_policy=policy)
        fully_shard(model, mesh=over, mp_policy=policy)
    return model


def spread(experts, mesh):
    """Each device computes its tokens, with its part of the width between the two layers of every expert."""
    if "tp" in mesh.mesh_dim_names:  # the first dimension is that of the stacked layers
        specs = {"w1": P(None, None, "tp"), "w3": P(None, None, "tp"), "w2": P(None, None, None, "tp")}
        shard(experts, specs, mesh)
    rows, sums = places(mesh), places(mesh, tp=Partial())
    wide, back = (places(mesh, data=Replicate(), tp=Shard(i)) for i in (1, 2))
    given = (rows, rows, rows, wide, back, wide)  # as `mixed` takes them
    experts.each = partial(local_map, out_placements=sums, in_placements=given, device_mesh=mesh)


def places(mesh, data=Shard(0), tp=Replicate()):
    """How a tensor lies along ``dp`` and ``fsdp``, where each device has its rows by default, and along ``tp``."""
    return [tp if name == "tp" else data for name in mesh.mesh_dim_names]


def split(tokens, mesh):
    """Tokens of which each device of the mesh has its rows; all processes have the same ones."""
    return distribute_tensor(tokens, mesh, places(mesh), src_data_rank=None)


#: of XLA: for a TPU it multiplies with the parts of a split weight as they arrive, and adds the products up in HBM. To
#: wait for the whole weight takes half of the time (docs/plan_figures.md).
OPTIONS = {"tpu": {"xla_jf_spmd_threshold_for_windowed_einsum_mib": 1_000_000}}


class Job:
    """A model, its optimizer and schedule, and the two compiled functions of a run.

    Args:
        config: the model's sizes.
        mesh: a `DeviceMesh` with dimensions ``fsdp`` and ``tp``, or one of them, and maybe ``dp`` before ``fsdp``,
            along which parameters are the same; None for one device.
        dtype: in which products are computed; parameters, gradients and the optimizer's state are float32.
        remat: what the backward pass computes again: False, True, or the name of a policy (see `nn.ScanStack`).
        accumulate: parts of a batch, one after the other: less memory, the same update.
        lr, warmup, steps, decay, clip: of AdamW: the rate rises for ``warmup`` steps, then falls to a tenth.
    """

    def __init__(
        self, config, mesh=None, dtype=torch.float32, remat=False, accumulate=1, lr=3e-4, warmup=100, steps=1000,
        decay=0.1, clip=1.0,
    ):  # fmt: skip
        self.config, self.mesh, self.dtype, self.accumulate, self.clip = config, mesh, dtype, accumulate, clip
        self.lr, self.decay = lr, decay
        with torch.device("meta"):
            model = language_models.model_of(config)
        self.model = stacked(model, remat)
        if mesh is not None:
            placed(self.model, mesh, dtype)
        stack = set(
            self.model.get_submodule(type(self.model).layers).parameters()
        )  # with a dimension of layers
        matrices = [p for p in self.model.parameters() if p.dim() - (p in stack) >= 2]
        others = [p for p in self.model.parameters() if p.dim() - (p in stack) < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}],
            lr=lr, betas=(0.9, 0.95),
        )  # fmt: skip

        def rate(step):
            if step < warmup:
                return (step + 1) / warmup
            done = min(1.0, (step - warmup) / max(1, steps - warmup))
            return 0.1 + 0.45 * (1 + math.cos(math.pi * done))

        self.rate = rate
        self.go_on(0)
        where = mesh.device_type if mesh is not None else jax.default_backend()
        self.step = torch.compile(self.step, keep_grads=False, options=OPTIONS.get(where))
        self.evaluate = torch.compile(self.evaluate)

    def go_on(self, step):
        """Have the rate and the decay be those of this job after so many steps, whatever the optimizer had before."""
        for group, decay in zip(self.optimizer.param_groups, (self.decay, 0.0), strict=True):
            group |= {"initial_lr": self.lr, "weight_decay": decay}
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.rate, last_epoch=step - 1)

    def initialise(self, seed):
        """Make the parameters, each on its devices: those of any mesh, and of PyTorch, from the same seed."""
        self.model.to_empty(device=jax.default_backend())
        torch.manual_seed(seed)
        language_models.initialise(self.model, self.config)

    def loss(self, x, y):
        """Mean loss of a batch in nats for each token."""
        is_cast = self.mesh is not None and "fsdp" in self.mesh.mesh_dim_names  # see `placed`
        low = None if is_cast or self.dtype == torch.float32 else self.dtype
        with torch.autocast(x.device.type, dtype=low or torch.bfloat16, enabled=low is not None):
            logits = self.model(x)
        logits = logits.float() if logits.dtype == torch.bfloat16 else logits
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    def step(self, x, y):
        """One update with (N, T) tokens and the tokens that follow; the loss, and the norm of the gradient."""
        self.optimizer.zero_grad()
        total = torch.zeros((), device=x.device)
        rows = (
            a.unflatten(0, (-1, self.accumulate)).unbind(1) for a in (x, y)
        )  # each device has some of each part
        for part, wanted in zip(*rows):
            loss = self.loss(part, wanted) / self.accumulate
            loss.backward()
            total = total + loss.detach()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return total, norm

    @torch.no_grad()
    def evaluate(self, x, y):
        return self.loss(x, y)

    def on_devices(self, batch):
        """Tokens and those that follow, of which each device has its rows."""
        parts = torch.from_numpy(batch[:, :-1].copy()), torch.from_numpy(batch[:, 1:].copy())
        if self.mesh is None:
            return tuple(part.to(jax.default_backend()) for part in parts)
        return tuple(split(part, self.mesh) for part in parts)


# -------------------------------------------------------------------------------------------------------------- run


class Run:
    """The training of a `Job`: batches, checkpoints, measurements, and an end in good order.

    Args:
        job: what is trained.
        args: the options of the command line.
    """

    def __init__(self, job, args):
        self.job, self.args, self.out = job, args, args.out
        tokens, vocab = args.tokens or manual(args.out), job.config.vocab
        held_out = args.held_out
        seen = Pieces(tokens, args.length, (0.0, 1.0 - held_out), vocab)
        self.train = batches(seen, args.batch, args.seed)
        unseen = Pieces(tokens, args.length, (1.0 - held_out, 1.0), vocab)
        #: in what a position counts
        self.counted = {
            "--batch": args.batch,
            "--length": args.length,
            "--seed": args.seed,
            "tokens": len(seen.tokens),
        }
        count = min(args.eval_batches, len(unseen) // args.batch)
        if count < 1:
            raise ValueError(
                f"--held-out {held_out}: {len(unseen)} pieces are too few for a batch of {args.batch}"
            )
        self.unseen = [
            np.stack([unseen[i * args.batch + j] for j in range(args.batch)]) for i in range(count)
        ]
        self.checkpoints = dcp.CheckpointManager(args.out / "checkpoints", keep=args.keep)
        self.stopped = False
        self.is_first = jax.process_index() == 0
        self.writer = SummaryWriter(str(args.out / "tensorboard")) if self.is_first else None

    def state(self):
        """What a checkpoint has: all that the run goes on from."""
        position = json.dumps({"at": self.train.get_state(), "counted": self.counted})
        return {"model": self.job.model, "optimizer": self.job.optimizer, "position": position}

    def restore(self):
        """Go on from the last checkpoint; returns its step, or 0.

        Raises:
            ValueError: it has a position in other batches.
        """
        state = self.state()
        step = self.checkpoints.load(state)
        if step is not None:
            position = json.loads(state["position"])
            for name, before in position["counted"].items():
                if before != self.counted[name]:
                    raise ValueError(
                        f"{self.out} was trained with {name} {before}, and its position in the tokens says nothing "
                        f"with {self.counted[name]}: give it what it had, or take another --out"
                    )
            self.train.set_state(position["at"])
            self.job.go_on(step)
        return step or 0

    def log(self, step, **numbers):
        """Add a line to ``metrics.jsonl`` and points to TensorBoard."""
        if not self.is_first:
            return
        with open(self.out / "metrics.jsonl", "a") as file:
            file.write(json.dumps({"step": step, **numbers}) + "\n")
        for name, number in numbers.items():
            if number is not None:
                self.writer.add_scalar(name, number, step)

    def evaluate(self):
        """Mean loss of the unseen pieces."""
        losses = [self.job.evaluate(*self.job.on_devices(batch)) for batch in self.unseen]
        return sum(loss.item() for loss in losses) / len(losses)

    def measured(self, since, steps):
        """Tokens per second, the part of the devices' peak that the model's operations are, and memory in use."""
        args, seconds = self.args, time.perf_counter() - since
        rate = steps * args.batch * args.length / seconds
        devices = 1 if self.job.mesh is None else self.job.mesh.size()
        flops = rate * self.job.config.flops_per_token(args.length) / devices
        stats = jax.local_devices()[0].memory_stats() or {}
        used = flops / (1e12 * args.peak_tflops) if args.peak_tflops else None
        return {"tokens_per_second": rate, "mfu": used, "peak_bytes": stats.get("peak_bytes_in_use")}

    def must_stop(self, step):
        """Whether a signal asks for an end. Several processes agree on it at the steps that are logged."""
        if jax.process_count() == 1:
            return self.stopped
        if step % self.args.log_every:
            return False
        asked = torch.tensor(float(self.stopped))
        dist.all_reduce(asked, dist.ReduceOp.MAX)
        return asked.item() > 0

    def stop(self, *_):
        self.stopped = True

    def fit(self):
        """Train until the last step or a signal; returns the losses by step."""
        args, job = self.args, self.job
        before = [(number, signal.signal(number, self.stop)) for number in (signal.SIGTERM, signal.SIGINT)]
        step = self.restore()
        if step and self.is_first:
            print(f"going on after step {step}")
        profiler = contextlib.nullcontext()
        if args.profile and args.profile[1] > step:
            first, last = max(0, args.profile[0] - step), args.profile[1] - step
            warmup = min(1, first)
            schedule = torch.profiler.schedule(
                wait=first - warmup, warmup=warmup, active=last - first, repeat=1
            )
            trace = torch.profiler.tensorboard_trace_handler(str(args.out / "profile"))
            profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=trace)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        losses, waiting, since = {}, [], time.perf_counter()
        with Progress(*columns, disable=not self.is_first) as bar, profiler as profile, self.checkpoints:
            task = bar.add_task("loss", total=args.steps, completed=step)
            while step < args.steps:
                waiting.append(job.step(*job.on_devices(next(self.train))))
                rate = job.schedule.get_last_lr()[0]
                job.schedule.step()
                step += 1
                if profile is not None:
                    profile.step()
                stops, is_last = self.must_stop(step), step == args.steps
                saves = stops or is_last or step % args.save_every == 0
                judges = is_last or step % args.eval_every == 0
                if saves or judges or step % args.log_every == 0:
                    read = [(loss.item(), norm.item()) for loss, norm in waiting]  # waits for the devices
                    losses |= {step - len(read) + 1 + i: loss for i, (loss, _) in enumerate(read)}
                    numbers = {
                        "loss": read[-1][0],
                        "gradient_norm": read[-1][1],
                        "lr": rate,
                    }
                    self.log(step, **numbers, **self.measured(since, len(read)))
                    bar.update(task, completed=step, description=f"loss {read[-1][0]:.4f}")
                    for at, (loss, norm) in enumerate(read, step - len(read) + 1):
                        if not math.isfinite(loss + norm):  # the parameters are spoilt: nothing is saved
                            raise FloatingPointError(
                                f"step {at} has the loss {loss} and a gradient of norm {norm}: lower --lr?"
                            )
                    if judges:
                        self.log(step, loss_on_unseen=self.evaluate())
                    if saves:
                        self.checkpoints.async_save(step, self.state())
                    waiting, since = [], time.perf_counter()
                if stops:
                    bar.console.print(
                        f"stopped after step {step}; start it again with --out {args.out} to go on"
                    )
                    break
        for number, handler in before:
            signal.signal(number, handler)
        if self.writer is not None:
            self.writer.close()
        return losses


def mesh_of(text):
    """``dp=2,fsdp=4,tp=2`` as a `DeviceMesh` over all devices."""
    if not text and jax.process_count() > 1:
        raise SystemExit(f"--mesh: {jax.process_count()} processes need one, as fsdp={jax.device_count()}")
    if not text:
        return None
    sizes = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name or not size.isdecimal() or name in sizes:
            raise SystemExit(f"--mesh {text}: it must be like fsdp=4, tp=2, fsdp=4,tp=2 or dp=2,fsdp=2,tp=2")
        sizes[name] = int(size)
    if wrong_axes(sizes):
        raise SystemExit(f"--mesh {text}: {wrong_axes(sizes)}")
    if math.prod(sizes.values()) != jax.device_count():
        raise SystemExit(
            f"--mesh {text} has {math.prod(sizes.values())} devices, and there are {jax.device_count()}"
        )
    return dist.init_device_mesh(jax.default_backend(), tuple(sizes.values()), mesh_dim_names=tuple(sizes))


DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}


def plan(name, mesh=None, batch=256, length=None, dtype="bf16", remat=True, microbatches=1):
    """What the planner compiles: the step of a job whose parameters are described, and a described batch."""
    config = language_models.SIZES[name]
    length = length or config.context
    if length > config.context:
        raise ValueError(f"{name} has a context of {config.context:,} tokens, got length={length:,}")
    job = Job(config, mesh, DTYPES.get(dtype, dtype), remat, microbatches)
    parts = [torch.empty((batch, length), dtype=torch.int64, device="meta") for _ in range(2)]
    if mesh is not None:
        parts = [split(part, mesh) for part in parts]
    return job.step, parts


#: ``functorch-port plan examples/gpt_pod.py:llama_7b``, and so on
for _name in language_models.SIZES:
    globals()[_name.replace("-", "_").replace(".", "_")] = partial(plan, _name)


def number(kind, holds, words):
    """A type of options: numbers of which something holds."""

    def read(text):
        try:
            found = kind(text)
        except ValueError:
            found = None
        if found is None or not holds(found):
            raise argparse.ArgumentTypeError(f"expected {words}, got {text!r}")
        return found

    return read


def steps_of(text):
    """``10:13`` as a pair."""
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise argparse.ArgumentTypeError(f"expected FIRST:LAST as 10:13, got {text!r}")
    return int(first), int(last)


COUNT = number(int, lambda n: n > 0, "an integer of at least 1")
WHOLE = number(int, lambda n: n >= 0, "an integer of at least 0")
POSITIVE = number(float, lambda x: 0 < x < math.inf, "a number above 0")
SHARE = number(float, lambda x: 0 < x < 1, "a number between 0 and 1")
DECAY = number(float, lambda x: 0 <= x < math.inf, "a number of at least 0")


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    option = parser.add_argument
    option("--model", choices=language_models.SIZES, default="gpt2-tiny", help="size of a new model")
    option(
        "--weights",
        type=Path,
        help="folder with config.json and safetensors to start from, in place of --model",
    )
    option(
        "--tokens",
        type=Path,
        help="file of tokens: .npy, or .bin of 16-bit numbers; default: the manual's bytes",
    )
    option(
        "--out", type=Path, default=Path("out/gpt_pod"), help="folder for checkpoints, metrics and profiles"
    )
    option("--mesh", default="", help="how devices are laid out, as fsdp=4,tp=2 or dp=2,fsdp=4; default: one")
    option("--batch", type=COUNT, default=16, help="sequences in a step, over all devices")
    option("--length", type=COUNT, help="tokens of a sequence; default: as many as the model can have")
    option("--accumulate", type=COUNT, default=1, help="parts of a batch, one after the other: less memory")
    option("--steps", type=WHOLE, default=1000, help="updates in all")
    option("--lr", type=POSITIVE, default=3e-3, help="the largest learning rate")
    option("--warmup", type=WHOLE, default=50, help="steps until the rate is there")
    option("--decay", type=DECAY, default=0.1, help="weight decay of matrices")
    option("--clip", type=POSITIVE, default=1.0, help="largest norm of the gradient")
    option("--dtype", choices=DTYPES, default="float32", help="of products; state is float32")
    option("--remat", nargs="?", const=True, default=False, metavar="POLICY",
           help="compute layers again in the backward pass; or what to keep, as dots_saveable")  # fmt: skip
    option("--held-out", type=SHARE, default=0.1, help="part of the tokens, at the end, for evaluation")
    option("--eval-every", type=COUNT, default=200, help="steps between evaluations")
    option("--eval-batches", type=COUNT, default=8, help="batches of an evaluation at most")
    option(
        "--save-every", type=COUNT, default=200, help="steps between checkpoints, which are written meanwhile"
    )
    option("--keep", type=COUNT, default=2, help="checkpoints to keep")
    option("--log-every", type=COUNT, default=10, help="steps between lines of metrics.jsonl")
    option(
        "--peak-tflops",
        type=POSITIVE,
        help="what a device can do at best, for the MFU; v5e: 197, v5p: 459, v6e: 918",
    )
    option("--profile", type=steps_of, metavar="FIRST:LAST",
           help="profile the steps after FIRST until LAST, for TensorBoard")  # fmt: skip
    option("--save-weights", type=Path, help="folder to write config.json and safetensors to at the end")
    option("--seed", type=WHOLE, default=0, help="of the first values and of the order of the pieces")
    args = parser.parse_args(argv)

    if dist.is_torchelastic_launched():
        dist.init_process_group()
    config = language_models.read_config(args.weights) if args.weights else language_models.SIZES[args.model]
    args.length = args.length or config.context
    if args.length > config.context:
        parser.error(f"--length {args.length}: the model has places for {config.context} tokens")
    if args.batch % args.accumulate:
        parser.error(f"--accumulate {args.accumulate} must divide --batch {args.batch}")
    if args.profile and args.profile[1] > args.steps:
        parser.error(f"--profile {args.profile[0]}:{args.profile[1]}: there are {args.steps} steps")
    args.out.mkdir(parents=True, exist_ok=True)
    job = Job(
        config, mesh_of(args.mesh), DTYPES[args.dtype], args.remat, args.accumulate, args.lr, args.warmup, args.steps,
        args.decay, args.clip,
    )  # fmt: skip
    job.initialise(args.seed)
    if args.weights:
        language_models.load(job.model, args.weights)
    run = Run(job, args)
    losses = run.fit()
    if run.is_first and losses:
        print(f"{config.parameters:,} parameters; loss {losses[max(losses)]:.4f} after step {max(losses)}")
    if args.save_weights:
        language_models.save(job.model, config, args.save_weights)
    return losses


if __name__ == "__main__":
    main()
