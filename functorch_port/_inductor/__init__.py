"""``torch._inductor``: the settings of PyTorch's compiler, which are accepted; here XLA compiles."""

from .._dynamo import Settings

__all__ = ["config"]

#: accepted settings; none of them changes anything
config = Settings(
    coordinate_descent_tuning=False,
    coordinate_descent_check_all_directions=False,
    conv_1x1_as_mm=False,
    epilogue_fusion=True,
    force_fuse_int_mm_with_mul=False,
    freezing=False,
    fx_graph_cache=True,
    max_autotune=False,
    triton=Settings(cudagraphs=False, unique_kernel_names=True),
    use_mixed_mm=False,
)
