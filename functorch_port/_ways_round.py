"""What to use in place of names of PyTorch that are not here; errors for a missing name say it (`launcher`)."""

from __future__ import annotations

__all__ = ["way_round"]

_RUN = "start the job by functorch-port launch, which takes torchrun's options"
_PLANS = "save and load take no planner or storage of one's own: orbax writes folders, and load reads those of PyTorch"
_RULES = "average with torch.distributed.all_reduce every few steps; a DistributedDataParallel model is averaged always"
_STAGES = "one program has all stages: PipelineStage of a ScanStack, with ScheduleGPipe or Schedule1F1B"
_HOOK = "register_comm_hook takes default_hooks.allreduce_hook alone, and its error says why"
_OPTIONS = "the functions of torch.distributed take what these options say as arguments"
_INSTALLED = (
    "FUNCTORCH_PORT_VISION=installed, by which import torchvision is the library itself, over functorch_port"
)
_ONE = "nn.DataParallel, or one process that drives all devices: shard the batch over a mesh"
#: by the beginning of the full name
_WAYS = {
    "torch.distributed.rpc": "there are no remote calls: torch.distributed.send, recv and broadcast_object_list",
    "torch.distributed.autograd": "gradients go across processes by torch.distributed.nn.functional",
    "torch.distributed.launch": _RUN,
    "torch.distributed.elastic": _RUN,
    "torch.distributed.run": _RUN,
    "torch.distributed.checkpoint.optimizer": "torch.distributed.checkpoint.load, whose state may have an optimizer",
    "torch.distributed.checkpoint.load_sharded": "torch.distributed.checkpoint.load, whose state may have an optimizer",
    "torch.distributed.checkpoint.hf": "format_utils reads and writes .safetensors files",
    "torch.distributed.checkpoint.HuggingFace": "format_utils reads and writes .safetensors files",
    "torch.distributed.checkpoint.QuantizedHuggingFace": "format_utils reads and writes .safetensors files",
    "torch.distributed.checkpoint": _PLANS,
    "torch.distributed.algorithms.model_averaging": _RULES,
    "torch.distributed.algorithms.ddp_comm_hooks": _HOOK,
    "torch.distributed.BuiltinCommHookType": _HOOK,
    "torch.distributed.GradBucket": _HOOK,
    "torch.distributed.optim.PostLocalSGDOptimizer": _RULES,
    "torch.distributed.optim.DistributedOptimizer": "ZeroRedundancyOptimizer, or functorch_port.horovod's optimizer",
    "torch.distributed.optim": "torch.optim has the optimizers, and a compiled function their steps",
    "torch.distributed.pipelining": _STAGES,
    "torch.distributed.all_gather_coalesced": "torch.distributed.all_gather of one tensor that has all",
    "torch.distributed.all_reduce_coalesced": "torch.distributed.all_reduce of one tensor that has all",
    "torch.distributed.split_group": "torch.distributed.new_group",
    "torch.distributed.shrink_group": "start the job again with fewer processes, from its last checkpoint",
    "torch.distributed.breakpoint": "breakpoint() in a job of one process",
    "torch.distributed.ProcessGroup": "torch.distributed.ProcessGroup, whatever the backend",
    "torch.distributed.Reducer": "XLA adds up gradients",
    "torch.distributed.nn.RemoteModule": "there are no remote calls: parallelize_module puts a module on a mesh",
    "torch.distributed.tensor.debug.CommDebugMode": "step.programs()[0].lower().compile().as_text() shows collectives",
    "torch.distributed._symmetric_memory": "XLA manages memory: collectives of torch.distributed",
    "torch.distributed._shard": "DTensor",
    "torchvision": _INSTALLED,
    "torch.cuda.nccl": "XLA calls NCCL: torch.distributed.is_nccl_available() tells whether it is there",
    "torch.nn.parallel.comm": _ONE,
    "torch.nn.parallel.replicate": _ONE,
    "torch.nn.parallel.scatter_gather": _ONE,
    "torch.nn.parallel.parallel_apply": _ONE,
}
_WAYS |= {
    f"torch.distributed.{name}Options": _OPTIONS
    for name in (
        "AllToAll",
        "Allreduce",
        "AllreduceCoalesced",
        "Barrier",
        "Broadcast",
        "Gather",
        "Reduce",
        "Scatter",
    )
}


def way_round(name: str) -> str | None:
    """What to use in place of a name that is not here: of all beginnings of it that are known, the longest has it."""
    found = [known for known in _WAYS if name.startswith(known)]
    return _WAYS[max(found, key=len)] if found else None
