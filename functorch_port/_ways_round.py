"""What to use in place of names of PyTorch that are not here, and what names do that mean less here.

Errors for a missing name say it (`launcher`), and so does ``functorch-port check``.
"""

from __future__ import annotations

__all__ = ["approximate", "way_round"]

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


#: by the beginning of the full name: what is here, but means less than in PyTorch
_APPROXIMATE = {
    "torch.jit": "functions and modules come back as they are: there is no TorchScript; torch.compile compiles",
    "torch.fx": "there are no graphs: its classes are for isinstance alone; torch.export gives programs",
    "torch._dynamo.config": "settings are accepted, without effect",
    "torch._dynamo.graph_break": "it does nothing: a compiled function is one program",
    "torch.compiler.disable": "the function cannot be called in a compiled one, which is one program",
    "torch.backends.": "what has no meaning for XLA is stored, without effect",
    "torch.set_num_threads": "it is stored, without effect: XLA makes its threads as the process starts",
    "torch.set_num_interop_threads": "it is stored, without effect: XLA makes its threads as the process starts",
    "torch.set_flush_denormal": "it returns False: XLA decides about denormal numbers",
    "torch.Stream": "a device has one queue, in the order of calls",
    "torch.cuda.Stream": "a device has one queue, in the order of calls",
    "torch.cuda.stream": "a device has one queue, in the order of calls",
    "torch.cuda.empty_cache": "it does nothing: JAX manages memory",
    "torch.multiprocessing.Queue": "tensors are copied to other processes, not shared",
    "torch.multiprocessing.set_sharing_strategy": "tensors are copied to other processes, not shared",
    "torch.distributed.checkpoint": "checkpoints are orbax's folders; those of PyTorch are read",
    "torch.distributed.fsdp": "a tensor on a mesh is the whole tensor, and XLA communicates",
    "torch.nn.parallel.DistributedDataParallel": "one program has the batches of all, and XLA adds up gradients",
    "torch.ao.quantization": "models can be defined for quantization, but not be quantized",
    "torch.library": "operators are Python functions, which run on every device",
    "torch.sparse": "sparse tensors are in coordinates (COO) alone",
    "torch.utils.cpp_extension": "what is compiled for PyTorch cannot be loaded",
}


def _of_longest(table: dict[str, str], name: str) -> str | None:
    found = [known for known in table if name.startswith(known)]
    return table[max(found, key=len)] if found else None


def way_round(name: str) -> str | None:
    """What to use in place of a name that is not here: of all beginnings of it that are known, the longest has it."""
    return _of_longest(_WAYS, name)


def approximate(name: str) -> str | None:
    """What a name that is here means less than in PyTorch; None if it means the same."""
    return _of_longest(_APPROXIMATE, name)
