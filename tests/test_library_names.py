"""What libraries import at the top of their files: jit, fx, hub, distributed, library, trees, versions, checks."""

from __future__ import annotations

import collections
import copy
import hashlib
import importlib
import io
import itertools
import pathlib
import pickle
import subprocess
import sys
import urllib.error
import warnings

import numpy as np
import pytest
import torch
from nn_programs import same, tries
from twins import plain

import functorch_port as ft


def module(T, name):
    return importlib.import_module(f"{T.__name__}.{name}")


def test_jit_gives_back_what_it_gets():
    jit = ft.jit

    def f(x):
        return x + 1

    net = ft.nn.Linear(2, 2)
    for made in (
        jit.script(f), jit.trace(f, ft.ones(1)), jit.ignore(f), jit.ignore(drop=True)(f), jit.unused(f), jit.export(f),
        jit.script_if_tracing(f), jit.script_method(f),
    ):  # fmt: skip
        assert made is f
    assert jit.script(net) is net and jit.freeze(net) is net and jit.trace_module(net, {}) is net
    assert jit.annotate(list, 3) == 3 and not jit.is_scripting() and not jit.is_tracing()
    assert jit.wait(jit.fork(f, 2)) == 3 and not isinstance(net, jit.ScriptModule)
    assert (
        jit.isinstance([1], list[int])
        and not jit.isinstance([1], list[str])
        and jit.isinstance(1, (str, int))
    )
    assert jit.isinstance({"a": (1, "b")}, dict[str, tuple[int, str]]) and jit.isinstance(None, int | None)
    for refused in (lambda: jit.save(net, "x"), lambda: jit.load("x"), lambda: jit.CompilationUnit("")):
        with pytest.raises(NotImplementedError, match="TorchScript"):
            refused()
    with jit.optimized_execution(True), jit.strict_fusion():
        assert [n for n in torch.jit.__all__ if not hasattr(jit, n)] == []


def test_fx_names():
    @ft.fx.wrap
    def f(x):
        return x

    assert ft.fx.wrap("len") == "len" and not isinstance(f, ft.fx.Proxy)

    class Mine(ft.fx.Tracer):
        pass

    for refused in (Mine, ft.fx.Graph, lambda: ft.fx.symbolic_trace(f), lambda: ft.fx.GraphModule(f, None)):
        with pytest.raises(NotImplementedError, match="FX graphs"):
            refused()
    with pytest.raises(RuntimeError, match="callable or string"):
        ft.fx.wrap(3)


def test_distributed_without_a_group():
    def program(T):
        D = module(T, "distributed")
        return [
            D.is_available(),
            D.is_initialized(),
            D.is_torchelastic_launched(),
            torch.version.cuda is None and D.is_nccl_available(),  # a build of PyTorch with CUDA has it
            *tries(
                lambda: D.get_rank(),
                lambda: D.get_world_size(),
                lambda: D.get_backend(),
                lambda: D.barrier(),
                lambda: D.all_reduce(T.ones(1)),
                lambda: D.get_node_local_rank(),
                lambda: D.get_node_local_rank(2),
            ),
        ]

    same(program)


def test_data_parallel_and_sync_batch_norm():
    def program(T):
        T.manual_seed(0)
        nn = T.nn
        net = nn.Sequential(
            nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(3, affine=False))
        )
        weight = net[1].weight
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
        data = nn.DataParallel(net[:2])
        out = [repr(net), repr(data), list(data.state_dict()), net[1].weight is weight]
        out += [
            plain(data(T.ones(2, 2, 2, 2)).sum().detach().round(decimals=3)),
            plain(dict(net[1].named_buffers())),
        ]
        return out + tries(lambda: net[1](T.ones(3)))

    same(program, 1e-5)


def test_hub(tmp_path, monkeypatch):
    path = tmp_path / "net-0000.pt"
    ft.save({"w": ft.ones(2)}, path)
    monkeypatch.setattr(ft.hub, "_hub_dir", None)  # it is put back
    ft.hub.set_dir(tmp_path)
    loaded = ft.hub.load_state_dict_from_url(path.as_uri(), weights_only=True)
    assert loaded["w"].tolist() == [1, 1] and (tmp_path / "checkpoints" / "net-0000.pt").exists()
    with pytest.raises(RuntimeError, match="invalid hash value"):
        ft.hub.load_state_dict_from_url(path.as_uri(), str(tmp_path / "other"), check_hash=True)
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['math']\ndef net(n):\n    'Doc.'\n    return n + 1\n"
    )
    assert ft.hub.load(tmp_path, "net", 2, source="local") == 3
    assert ft.hub.list(tmp_path) == ["net"] and ft.hub.help(tmp_path, "net") == "Doc."
    with pytest.raises(NotImplementedError, match="local"):
        ft.hub.load("a/b", "net")
    with pytest.raises(RuntimeError, match="Cannot find callable"):
        ft.hub.load(tmp_path, "no", source="local")


def test_weights_from_urls_are_those_of_torch(tmp_path, capsys):
    source = tmp_path / "source"
    source.mkdir()
    torch.save({"w": torch.ones(2)}, source / "net.pth")
    digest = hashlib.sha256((source / "net.pth").read_bytes()).hexdigest()
    for name in (f"net-{digest[:8]}.pth", "net-0123abcd.pth"):
        (source / name).write_bytes((source / "net.pth").read_bytes())

    def program(lib, folder):
        def attempt(name, **options):
            try:
                url = (source / name).as_uri()
                options = {"progress": False, **options}
                return lib.hub.load_state_dict_from_url(url, str(folder), **options)["w"].tolist()
            except Exception as error:
                return type(error).__name__, str(error)[:40]

        out = [
            attempt("net.pth"),
            attempt(f"net-{digest[:8]}.pth", check_hash=True),
            attempt("net-0123abcd.pth", check_hash=True),
            attempt("net-0123abcd.pth"),
            attempt("net-0123abcd.pth", check_hash=True),  # it is there
            attempt("net.pth", file_name="other.pth", weights_only=True),
            attempt("nothing.pth"),
        ]
        modes = {path.name: path.stat().st_mode for path in sorted(folder.iterdir())}
        with pytest.raises(ValueError, match="Invalid input: model should be a string of function name"):
            lib.hub.load(folder, 3, source="local")
        return out, modes, [text.replace(str(folder), "FOLDER") for text in capsys.readouterr()]

    folders = [tmp_path / "torch", tmp_path / "port"]
    for folder in folders:
        folder.mkdir()
        (folder / "hubconf.py").write_text("")
    assert program(torch, folders[0]) == program(ft, folders[1])
    url = "https://functorch-port.invalid/absent.pth"
    with pytest.raises(urllib.error.URLError) as error:
        ft.hub.load_state_dict_from_url(url, str(folders[1]))
    text = str(error.value)
    assert (
        f"cannot download {url}" in text
        and f"copy the file to {folders[1] / 'absent.pth'} by other means" in text
    )
    assert not [path for path in folders[1].iterdir() if "partial" in path.name]


def test_custom_operators():
    @ft.library.custom_op("functorch_test::cube", mutates_args=())
    def cube(x):
        return x * x * x

    cube.register_fake(lambda x: ft.empty_like(x))

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    cube.register_autograd(lambda ctx, g: 5 * ctx.saved_tensors[0] ** 2 * g, setup_context=keep)
    x = ft.tensor([1.0, 2.0], requires_grad=True)
    ft.ops.functorch_test.cube(x).sum().backward()
    assert cube(x).tolist() == [1, 8] and x.grad.tolist() == [5, 20]  # the gradient that was given
    with pytest.raises(ValueError, match="namespace::name"):
        ft.library.custom_op("bad", mutates_args=())
    made = ft.library.Library("functorch_test", "FRAGMENT")
    made.define("twice(Tensor x) -> Tensor")
    made.impl("twice", lambda x: 2 * x, "CompositeExplicitAutograd")
    assert ft.ops.functorch_test.twice.default(ft.ones(1)).tolist() == [2]
    with pytest.raises(AttributeError, match="no such operator"):
        ft.ops.aten.no_such_operator(ft.ones(1))
    with pytest.raises(OSError, match="compiled for PyTorch"):
        ft.ops.load_library("x.so")
    with pytest.raises(NotImplementedError, match="custom_op"):
        ft.library.triton_op("a::b")


def test_trees():
    point = collections.namedtuple("point", "a b")

    def program(T):
        P = module(T, "utils._pytree")
        tree = {
            "b": 1,
            "a": [2, None, (3,)],
            "c": point(4, {"x": 5}),
            "d": collections.OrderedDict(x=1),
            "e": collections.defaultdict(list, {"q": [1]}),
            "f": collections.deque([1, 2]),
        }
        leaves, spec = P.tree_flatten(tree)
        pairs = P.tree_leaves_with_path(tree)
        return [
            leaves,
            str(spec),
            (spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf()),
            str(P.tree_unflatten([10 * (x or 0) for x in leaves], spec)),
            [(P.keystr(path), leaf) for path, leaf in pairs],
            P.tree_map(lambda a, b: (a, b), [1, {"k": 2}], [3, {"k": [4]}]),
            P.tree_map_only(int, lambda x: x + 1, [1, "a"]),
            P.tree_any(lambda x: x is None, tree),
            P.tree_all(lambda x: x is None, tree),
            P.tree_map_with_path(lambda p, x: P.keystr(p), [1, {"k": 2}]),
            P.tree_leaves([1, [2]], is_leaf=lambda x: x == [2]),
            spec == P.tree_structure(tree),
            *tries(
                lambda: P.tree_unflatten([1], spec),
                lambda: P.tree_map(lambda a, b: a, [1], [1, 2]),
                lambda: P.tree_map(lambda a, b: a, [1], (1,)),
                lambda: P.register_pytree_node(list, None, None),
            ),
        ]

    same(program)


def test_a_registered_class_passes_through_compile():
    class Box:
        def __init__(self, x):
            self.x = x

    ft.utils._pytree.register_pytree_node(Box, lambda b: ([b.x], None), lambda v, c: Box(*v))
    out = ft.compile(lambda b: Box(b.x + 1))(Box(ft.ones(2)))
    assert isinstance(out, Box) and out.x.tolist() == [2, 2]


def test_an_import_loads_only_what_it_needs():
    program = """
import sys, functorch_port
later = ["torch", "optax", "flax", "jax.extend", "llvmlite", "functorch_port.nn", "functorch_port.optim",
         "functorch_port.compiler", "functorch_port.autograd._engine", "functorch_port._run.sparse",
         "functorch_port._cpu.native.kernels", "functorch_port._cpu.native.onednn"]
print([name for name in later if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_versions():
    def program(T):
        V = module(T, "torch_version").TorchVersion
        v, texts = V("2.13.0+cpu"), ["2.0", "2.13", "2.13.0", "2.13.1", "3", "1.13.0a0", "2.13.0rc1", "2.9.1"]
        return [
            [(v > t, v >= t, v < t, v <= t, v == t, v != t) for t in texts if t not in ("2.13", "2.13.0")],
            [V("2.13.0") == t for t in ("2.13", "2.13.0")],
            v > (2, 9),
            v < (2, 14),
            v.split("+"),
            V("2.0.0rc1") < "2.0.0",
            str(v),
        ]

    same(program)


def test_checks():
    def program(T):
        t = T.tensor
        return tries(
            lambda: T._check(False),
            lambda: T._check(False, lambda: "m"),
            lambda: T._check(False, "m"),
            lambda: T._check(1),
            lambda: T._check(t(True)),
            lambda: T._check_value(False),
            lambda: T._check_index(False, lambda: "x"),
            lambda: T._check_type(False),
            lambda: T._check_not_implemented(False),
            lambda: T._check_with(KeyError, False, lambda: "x"),
            lambda: T._check_tensor_all(t([True, False])),
            lambda: T._check_tensor_all(t([1.0])),
            lambda: T._check_tensor_all_with(KeyError, t([False]), lambda: "x"),
            lambda: T._check_tensor_all(True),
            lambda: T._assert(False, "m"),
            lambda: T._assert_async(t(0)),
            lambda: T._assert_async(t(0), "m"),
            lambda: T.frombuffer(bytearray(b"12345678"), dtype=T.int32),
            lambda: T.frombuffer(bytearray(b"1234"), dtype=T.uint8, count=2, offset=1),
            lambda: T.frombuffer(bytearray(b"1234"), dtype=T.bfloat16),
            lambda: T.frombuffer(bytearray(b"123"), dtype=T.int32),
            lambda: T.frombuffer(bytearray(b""), dtype=T.int32),
            lambda: T.frombuffer(3, dtype=T.int32),
            lambda: T.frombuffer(bytearray(b"1234"), dtype=T.uint8, offset=5),
            lambda: T.frombuffer(bytearray(b"1234"), dtype=T.uint8, count=5),
            lambda: (T.pi, T.e, T.inf, T.newaxis, T.sym_int(2.5), T.sym_max(1, 2.0), T.sym_not(True)),
            lambda: (
                T.get_device(T.ones(1)),
                T.is_distributed(T.ones(1)),
                T.typename(3),
                T.typename(T.ones(1)),
            ),
            lambda: T.overrides.is_tensor_like(T.ones(1)),
            lambda: T.overrides.has_torch_function((T.ones(1),)),
            lambda: T.onnx.is_in_onnx_export(),
            lambda: T.compiler.is_exporting(),
        )

    same(program)


def test_disabled_functions_run_outside_traces():
    @ft.compiler.disable
    def outside(x):
        return x + 1

    assert (
        outside(ft.ones(1)).item() == 2
        and ft._dynamo.disable(recursive=False)(outside)(ft.ones(1)).item() == 2
    )
    with pytest.raises(NotImplementedError, match="compiler.disable"):
        ft.compile(lambda x: outside(x))(ft.ones(1))


def test_prefixes_of_state_dicts():
    def program(T):
        state = T.nn.DataParallel(T.nn.Sequential(T.nn.Linear(1, 1))).state_dict()
        module(T, "nn.modules.utils").consume_prefix_in_state_dict_if_present(state, "module.")
        return list(state), dict(state._metadata)

    same(program)


def test_tensors_are_grouped_for_foreach():
    def program(T):
        U = module(T, "utils._foreach_utils")
        a, b, c = T.ones(1), T.ones(2).double(), T.ones(3)
        lists = [[a, b, c], [c, None, a], []]
        groups = {
            str(dtype): (
                [[None if t is None else len(t) for t in part] for part in parts],
                places,
                str(device),
            )
            for with_indices in (True, False)
            for (device, dtype), (parts, places) in U._group_tensors_by_device_and_dtype(
                lists, with_indices
            ).items()
        }
        cpu = T.device("cpu")
        return [
            dict(sorted(groups.items())),
            U._has_foreach_support([a, None], cpu),
            U._has_foreach_support([T.nn.Parameter(a)], cpu),
            U._device_has_foreach_support(T.device("meta")),
            U._get_foreach_kernels_supported_devices(),
            U._get_fused_kernels_supported_devices(),
        ]

    same(program)


def test_operators_of_pytorch_are_callables():
    for T in (torch, ft):
        aten, x = T.ops.aten, T.tensor([1.0, -2.0])
        assert aten.add.Tensor(x, x, alpha=2).tolist() == [3.0, -6.0] and aten.relu.default(x).tolist() == [
            1.0,
            0.0,
        ]
        assert aten.sum.dim_IntList(x.reshape(1, 2), [1]).tolist() == [-1.0]
        assert aten.add_.Tensor(x, 1).tolist() == x.tolist() == [2.0, -1.0]
        y = T.arange(6.0).reshape(2, 3)
        assert (
            aten.slice.Tensor(y, 1, 1, 3).tolist() == y[:, 1:3].tolist()
            and aten.alias.default(y).tolist() == y.tolist()
        )
        assert aten.index.Tensor(y, [None, T.tensor([2, 0])]).tolist() == y[:, [2, 0]].tolist()
        moved = aten._to_copy.default(y, dtype=T.float64)
        assert moved.dtype == T.float64 and aten._to_copy.default(y).data_ptr() != y.data_ptr()
        form = aten.add.Tensor
        assert form is aten.add.Tensor and form is not aten.add.Scalar and form.overloadpacket is aten.add
        assert (str(form), form.name(), aten.mm.default.name()) == (
            "aten.add.Tensor",
            "aten::add.Tensor",
            "aten::mm",
        )
        assert repr(form) == "<OpOverload(op='aten.add', overload='Tensor')>" and str(aten.add) == "aten.add"
        assert form._overloadname == "Tensor" and form.namespace == "aten"


def test_operators_within_pytorch_are_refused_when_they_are_called():
    inner = ft.ops.aten._sparse_mm_reduce_impl.default
    with pytest.raises(
        NotImplementedError, match="torch.ops.aten._sparse_mm_reduce_impl: it is a part of PyTorch"
    ):
        inner(1)
    assert not hasattr(ft.ops.aten, "no_such_operator") and not hasattr(ft.ops.aten, "__wrapped__")


@pytest.mark.parametrize("T", [torch, ft])
def test_random_numbers_like_a_result_without_dimensions(T):
    for kind in (T.float32, T.float64):
        T.manual_seed(0)
        like = T.tensor(0.5, dtype=kind).log()
        drawn = [T.rand_like(like), T.randn_like(like), like.clone().uniform_(), T.bernoulli(like.exp())]
        assert all(x.shape == () and x.dtype == kind for x in drawn)
        assert drawn[0].item() == pytest.approx(0.49625658988952637 if kind is T.float32 else drawn[0].item())


def test_names_of_streams_futures_and_settings():
    for T in (torch, ft):
        stream = T.Stream("cpu")
        assert (
            stream.query()
            and stream.device == T.device("cpu")
            and repr(stream).startswith("torch.Stream device_type=cpu")
        )
        with pytest.raises(RuntimeError, match="cpu backend doesn't support events"):
            T.Event("cpu").record()
        future = T.futures.Future()
        then = future.then(lambda f: f.value() + 1)
        later = T.futures.collect_all([future, then])
        assert not future.done() and not then.done()
        future.set_result(3)
        assert (future.value(), then.wait(), [f.value() for f in later.wait()]) == (3, 4, [3, 4])
        assert T.futures.wait_all([future, then]) == [3, 4]
        with pytest.raises(RuntimeError, match="mark a completed Future as complete again"):
            future.set_result(4)
        failed = T.futures.Future()
        after = failed.then(lambda f: f.value())
        failed.set_exception(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            failed.wait()
        with pytest.raises(
            RuntimeError, match="Got the following error when running the callback: ValueError: no"
        ):
            after.wait()
        with pytest.raises(AssertionError, match="no is of type <class 'str'>, not an Exception"):
            T.futures.Future().set_exception("no")
        seen = []
        future.add_done_callback(lambda f: seen.append(f.value()))
        assert seen == [3]
        T._dynamo.utils.warn_once
    before = ft._dynamo.config.verbose
    with ft._dynamo.config.patch(verbose=True), ft._dynamo.config.patch("cache_size_limit", 3):
        assert ft._dynamo.config.verbose is True and ft._dynamo.config.cache_size_limit == 3
    assert ft._dynamo.config.verbose is before


@pytest.mark.parametrize("name", ["complex32", "uint4", "float8_e8m0fnu", "qint8", "bits16"])
def test_names_of_types_that_jax_has_not(name):
    theirs, ours = getattr(torch, name), getattr(ft, name)
    assert (repr(ours), ours.itemsize, ours.is_complex) == (repr(theirs), theirs.itemsize, theirs.is_complex)
    assert ours.is_floating_point == theirs.is_floating_point and ft.float32 != ours == getattr(ft, name)
    assert copy.deepcopy(ours) is ours is pickle.loads(pickle.dumps(ours))
    for use in (lambda: ft.zeros(2, dtype=ours), lambda: ft.ones(2).to(ours)):
        with pytest.raises(NotImplementedError, match=f"torch.{name} is not supported"):
            use()


@pytest.mark.parametrize("dimension", [1, 2, 7, 60])
def test_quasirandom_points_are_those_of_pytorch(dimension):
    for options in ({}, {"scramble": True}, {"scramble": True, "seed": 5}):
        engines = []
        for T in (torch, ft):
            T.manual_seed(1)
            engines.append(T.quasirandom.SobolEngine(dimension, **options))
        theirs, ours = engines
        assert repr(theirs) == repr(ours)
        for count in (3, 0, 6):
            assert theirs.draw(count).tolist() == ours.draw(count).tolist()
        assert theirs.fast_forward(4).draw(2).tolist() == ours.fast_forward(4).draw(2).tolist()
        assert theirs.reset().draw_base2(3).tolist() == ours.reset().draw_base2(3).tolist()
        for T, engine in zip((torch, ft), engines):
            with pytest.raises(
                ValueError, match="require n to be a power of 2. 8 points have been previously"
            ):
                engine.draw_base2(2)
            out = T.empty(0, dtype=T.float64)
            assert engine.draw(2, dtype=T.float64).dtype == T.float64 and engine.draw(2, out=out) is out
            assert out.shape == (2, dimension)
            for wrong in (0, 21202):
                with pytest.raises(
                    ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"
                ):
                    T.quasirandom.SobolEngine(wrong)


def test_helpers_of_pytorch_that_libraries_call():
    for T in (torch, ft):
        parts = [T.arange(3.0), T.ones(2, 2)]
        flat = T._utils._flatten_dense_tensors(parts)
        back = T._utils._unflatten_dense_tensors(flat, parts)
        assert flat.tolist() == [0.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0] and [b.tolist() for b in back] == [
            p.tolist() for p in parts
        ]
        mixed = [T.ones(1), T.ones(2, dtype=T.float64), T.ones(3)]
        assert [len(p) for p in T._utils._reorder_tensors_as([mixed[1], mixed[0], mixed[2]], mixed)] == [
            1,
            2,
            3,
        ]
        assert [[len(t) for t in found] for found in T._utils._take_tensors(mixed, 12)] == [[1], [3], [2]]
        assert T._utils._get_device_index("cuda:1") == 1 and T._utils._get_device_index(2) == 2
        with pytest.raises(ValueError, match="Expected a non cpu device"):
            T._utils._get_device_index("cpu")
        try:
            raise KeyError("gone")
        except KeyError:
            wrapped = T._utils.ExceptionWrapper(where="in a worker")
        with pytest.raises(KeyError, match="Caught KeyError in a worker"):
            wrapped.reraise()
        rows = T.tensor([0, 0, 2])
        starts = T._convert_indices_from_coo_to_csr(rows, 4)
        assert starts.tolist() == [0, 2, 2, 3, 3] and starts.dtype == T.int64
        assert T._convert_indices_from_coo_to_csr(rows, 4, out_int32=True).dtype == T.int32
        columns = T.tensor([1, 3, 0])
        assert T._convert_indices_from_csr_to_coo(starts, columns).tolist() == [[0, 0, 2], [1, 3, 0]]
        assert T._convert_indices_from_csr_to_coo(starts, columns, transpose=True).tolist() == [
            [1, 3, 0],
            [0, 0, 2],
        ]
        assert T._shape_as_tensor(T.ones(2, 3)).tolist() == [2, 3]
        x, slope = T.tensor([[0.1, 0.5, -0.2]]), T.tensor([[1.0, 0.0, 2.0]])
        back = T._softmax_backward_data(slope, x.softmax(-1), -1, T.float32)
        assert [round(v, 4) for v in back[0].tolist()] == [0.0719, -0.3543, 0.2824]


def test_swapped_tensors():
    for T in (torch, ft):
        a, b = T.nn.Parameter(T.ones(2)), T.nn.Parameter(T.zeros(3), requires_grad=False)
        a.mark, layer = "a", T.nn.Linear(1, 2)
        layer.bias = a
        T.utils.swap_tensors(a, b)
        assert (a.tolist(), b.tolist(), a.requires_grad, b.requires_grad) == (
            [0.0] * 3,
            [1.0] * 2,
            False,
            True,
        )
        assert not hasattr(a, "mark") and b.mark == "a" and layer.bias is a
        (b * 2).sum().backward()
        assert b.grad.tolist() == [2.0, 2.0] and a.grad is None


def test_records_of_a_file(tmp_path):
    path = tmp_path / "state.pt"
    torch.save({"a": torch.arange(4.0)}, path)
    found = []
    for T in (torch, ft):
        reader = T.PyTorchFileReader(str(path))
        names = [n for n in reader.get_all_records() if not n.startswith(".")]
        found.append(
            (names, reader.get_record("data/0"), reader.has_record("data/0"), reader.has_record("no"))
        )
        with pytest.raises(RuntimeError, match="file not found"):
            reader.get_record("no")
    assert found[0] == found[1] and found[1][2:] == (True, False)


def test_annotations_of_public_classes_can_be_read():
    """As transformers does for models."""
    import typing

    class Model(ft.nn.Linear):
        config: int

    assert typing.get_type_hints(Model)["config"] is int
    for kind in (
        ft.Tensor,
        ft.nn.Module,
        ft.nn.Parameter,
        ft.distributions.Normal,
        ft.optim.Adam,
        ft.utils.data.Dataset,
    ):
        typing.get_type_hints(kind)


def test_numbers_of_a_tensor_as_text():
    for T in (torch, ft):
        text = T._tensor_str
        assert text._tensor_str(T.tensor([[1.0, 2.5], [3.0, -4.0]], requires_grad=True), 2) == (
            "[[ 1.0000,  2.5000],\n   [ 3.0000, -4.0000]]"
        )
        with text.printoptions(precision=2):
            assert text.PRINT_OPTS.precision == 2 and text._tensor_str(T.tensor([0.123]), 0) == "[0.12]"
        assert text.PRINT_OPTS.precision == 4 and not hasattr(text.PRINT_OPTS, "no_such_option")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is known on Linux alone")
def test_instructions_of_the_processor():
    assert ft.backends.cpu.get_cpu_capability() == torch.backends.cpu.get_cpu_capability()


@pytest.mark.parametrize("T", [torch, ft], ids=["torch", "port"])
def test_names_in_other_homes(T):
    assert module(T, "functional").einsum is T.einsum and set(torch.functional.__all__) == set(
        ft.functional.__all__
    )
    assert module(T, "jit").annotations.List is module(T, "jit.annotations").List
    assert T.legacy_contiguous_format is T.contiguous_format
    assert T._cast_Long(T.tensor([1.5])).dtype == T.int64
    assert T.sym_sum([1, 2]) == T.sym_sum(1, 2) == 3 and T.sym_ite(False, 1, 2) == 2
    assert not isinstance(T.ones(1), T.TensorType) and module(T, "utils.data.dataloader")._collate_fn_t
    assert T.Tensor.grad.__get__ in T.overrides.get_default_nowrap_functions()
    assert T.Tensor.shape.__get__ not in T.overrides.get_default_nowrap_functions()
    c10d = module(T, "distributed").distributed_c10d
    assert T.distributed._rank_not_in_group(c10d.GroupMember.NON_GROUP_MEMBER)
    assert c10d.Backend.default_device_backend_map["cuda"] == "nccl"
    net, tensors = T.nn.Linear(1, 1), {"weight": T.ones(1, 1), "bias": T.ones(1)}
    own = net.weight
    with T.nn.utils.stateless._reparametrize_module(net, tensors):
        assert net.weight is tensors["weight"] and net(T.ones(1)).item() == 2
    assert net.weight is own
    module(T, "distributed._tensor.experimental").implicit_replication
    summaries = module(T, "utils.tensorboard.summary").hparams({"lr": 0.1}, metric_dict={"loss": 0.0})
    assert [s.value[0].tag.rpartition("/")[2] for s in summaries] == [
        "experiment", "session_start_info", "session_end_info",
    ]  # fmt: skip


def test_refused_names():
    with pytest.raises(NotImplementedError, match="ExecutionTraceObserver: .* export_chrome_trace"):
        ft.profiler.ExecutionTraceObserver()
    with pytest.raises(NotImplementedError, match="reductions.reduce_event: processes do not share memory"):
        ft.multiprocessing.reductions.reduce_event(None)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_distributed_checkpoints_can_be_imported_without_orbax(tmp_path):
    script = f"""
import sys
sys.modules["orbax"] = sys.modules["orbax.checkpoint"] = None
import functorch_port as torch
import functorch_port.distributed.checkpoint as dcp
for use in (
    lambda: dcp.save({{"w": torch.ones(2)}}, checkpoint_id={str(tmp_path / "new")!r}),
    lambda: dcp.async_save({{"w": torch.ones(2)}}, checkpoint_id={str(tmp_path / "new")!r}),
    lambda: dcp.load({{"w": torch.ones(2)}}, checkpoint_id={str(tmp_path / "saved")!r}),
):
    try:
        use()
    except ModuleNotFoundError as error:
        print(error)
state = {{"w": torch.zeros(2)}}
dcp.load(state, checkpoint_id={str(tmp_path / "theirs")!r})
print(state["w"].tolist())
"""
    module(ft, "distributed.checkpoint").save({"w": ft.ones(2)}, checkpoint_id=tmp_path / "saved")
    module(torch, "distributed.checkpoint").save({"w": torch.ones(2)}, checkpoint_id=tmp_path / "theirs")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
    *refused, loaded = done.stdout.splitlines()
    assert len(refused) == 3 and all("pip install orbax-checkpoint" in text for text in refused), done.stderr
    assert loaded == "[1.0, 1.0]" and not (tmp_path / "new").exists()


def test_old_classes_of_sparse_tensors():
    def program(T):
        S = T.sparse
        places, values = T.tensor([[0, 1], [2, 0]]), T.tensor([3.0, 4.0])
        made = [
            S.FloatTensor(places, values), S.FloatTensor(places, values, T.Size([2, 3])), S.FloatTensor(2, 3),
            S.FloatTensor(places, values.double(), (2, 3)), S.LongTensor(places, values.long(), T.Size([2, 3])),
        ]  # fmt: skip
        return [
            [(tuple(t.shape), plain(t.to_dense()), t.type()) for t in made],
            [isinstance(t, S.FloatTensor) for t in (*made, values)],
            repr(S.DoubleTensor),
        ]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the classes are old
        assert program(torch) == program(ft)


def test_further_names_of_libraries():
    def program(T):
        onnx = module(T, "onnx")
        return [
            *tries(T.accelerator.get_memory_info, T.accelerator.reset_peak_memory_stats),
            *tries(lambda: T.backends.mps.is_macos_or_newer(13, 0)),
            [[m.name for m in e] for e in map(lambda e: e.__members__.values(), (onnx.TrainingMode,))],
            [*onnx.OperatorExportTypes.__members__], T._C._jit_can_fuse_on_cpu(),
            T._tensor_str._add_suffixes("X([1]", ["size=1", "a" * 90], 2, True),
            T._tensor_str._str_intern(T.ones(2, dtype=T.int32), tensor_contents="[..]"),
        ]  # fmt: skip

    same(program)


def test_parts_of_the_extension_can_be_imported():
    code = "import torch; from torch._C._distributed_c10d import ReduceOp as R; print(R is torch.distributed.ReduceOp)"
    command = [sys.executable, "-m", "functorch_port", "run", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.stdout == "True\n", done.stderr


def test_the_memory_format_of_images_by_their_strides():
    def program(T):
        ask = module(T, "_prims_common").suggest_memory_format
        found = []
        for sizes in itertools.product((1, 2), (1, 2, 3), (1, 2), (1, 3)):
            x, last = T.zeros(sizes), T.zeros(sizes).contiguous(memory_format=T.channels_last)
            found += [ask(x), ask(last), ask(x.transpose(1, 2)), ask(x[:, :, ::2]), ask(last[:, :1])]
        return list(map(str, found))

    same(program)


def test_questions_about_shapes_and_dtypes():
    def program(T):
        P = module(T, "_prims_common")
        kinds = P.ELEMENTWISE_TYPE_PROMOTION_KIND
        types = (
            T.bool,
            T.uint8,
            T.int64,
            T.float16,
            T.bfloat16,
            T.float32,
            T.float64,
            T.complex64,
            T.complex128,
        )
        asks = (
            P.is_boolean_dtype, P.is_float_dtype, P.is_complex_dtype, P.is_integer_dtype, P.is_low_precision_dtype,
            P.is_grad_dtype, P.get_computation_dtype, P.dtype_to_type,
        )  # fmt: skip
        # JAX has no complex numbers of two float16
        ones = [T.ones(n, dtype=t) for t in types if t != T.float16 for n in ((), (2,))] + [True, 2, 2.5, 1j]
        images = T.ones(2, 3, 4, 5)
        return [
            [[str(ask(t)) for ask in asks] for t in types],
            [str(P.corresponding_complex_dtype(t)) for t in types[3:7]],
            [str(P.corresponding_real_dtype(t)) for t in types[7:]],
            [str(P.type_to_dtype(t)) for t in (bool, int, float, complex)],
            [str(P.elementwise_dtypes(a, b, type_promotion_kind=k)) for a in ones for b in ones for k in kinds],
            [P.canonicalize_dims(3, (-1, 0)), P.canonicalize_dim(0, -1), P.reduction_dims((2, 3), None)],
            [P.is_valid_permutation(3, (2, 0, 1)), P.is_valid_permutation(3, (2, 2, 1))],
            [list(P.apply_perm((5, 6, 7), (2, 0, 1))), list(P.invert_perm((2, 0, 1)))],
            [P.same_shape((1, 2), (1, 2)), P.is_same_shape((1,), (1, 2)), P.infer_size_shapes((2, 1, 3), (4, 3))],
            [P.make_contiguous_strides_for(s, r) for s in ((), (3,), (2, 0, 4), (5, 2, 3)) for r in (True, False)],
            [str(P.suggest_memory_format(x)) for x in (images, images.to(memory_format=T.channels_last), T.ones(2))],
            [P.is_contiguous(images.mT), P.is_contiguous_or_false(images), P.is_cpu_scalar_tensor(T.ones(()))],
            str(P.canonicalize_device("cpu")), P.prod((2, 3)), str(P.get_dtype(2.0)), str(P.dtype_or_default(None)),
            *tries(
                lambda: P.canonicalize_dim(2, 2), lambda: P.canonicalize_dim(0, 0, wrap_scalar=False),
                lambda: P.reduction_dims((2, 3), (1, -1)), lambda: P.infer_size_shapes((2, 3), (4, 3)),
                lambda: P.check(False, lambda: "no", ValueError), lambda: P.type_to_dtype(str),
            ),
        ]  # fmt: skip

    same(program)


OPERATORS = """
gelu(x)
gelu(x, approximate="tanh")
silu(x)
mish(x)
relu6(x)
hardtanh(x, -0.5, 0.5)
hardswish(x)
hardsigmoid(x)
leaky_relu(x, 0.2)
softplus(x, 2, 3)
softshrink(x, 0.3)
log_sigmoid(x)
glu(x, 1)
linear(x, x.sum(0), x[0, :, 0])
one_hot(i, 5)
pad(x, (1, 1), "reflect")
avg_pool2d(x, 2, 1, (1, 1), False, True)
adaptive_avg_pool2d(x, (2, 3))
reflection_pad1d(x, (1, 2))
reflection_pad2d(x, (1, 2, 0, 1))
replication_pad1d(x, (1, 2))
replication_pad2d(x, (1, 2, 0, 1))
scaled_dot_product_attention(x, x, x, is_causal=True)
thnn_conv2d(x[None], x[None, :, :2, :2], (2, 2), None, (1, 1), (1, 1))
slow_conv3d(x[None, None], x[None, None, :, :2, :2], (2, 2, 2))
replication_pad1d(x, 1)
reflection_pad1d(x, (9, 9))
reflection_pad2d(x, (1, 1))
replication_pad2d(x, ())
slow_conv3d(x[None, None], x[None, None, :, :2, :2], (2, 2))
thnn_conv2d(x[None], x[None, :, :2, :2], [])
thnn_conv2d(x[None], x[None, :, :2, :2], [2, 2], None, [1])
slow_conv3d(x[None, None], x[None, None, :, :2, :2], (2, 2, 2), None, 1, (1,))
thnn_conv2d(x[None], x[None, :, :2, :2], (3, 3))
"""


@pytest.mark.parametrize("program", OPERATORS.strip().split("\n"))
def test_operators_of_layers(program):
    """`torch._C._nn`, and `torch.ops.aten` where PyTorch has the operator there with these arguments."""
    for at in ("T._C._nn", "T.ops.aten"):
        found = []
        for T in (torch, ft):
            x = T.linspace(-2, 3, 48).reshape(2, 4, 6)
            try:
                value = eval(f"{at}.{program}", {"T": T, "x": x, "i": T.tensor([0, 4])})
                found.append(value.detach().numpy())
            except Exception as error:
                found.append(type(error))
        if (
            isinstance(found[0], type) and at == "T.ops.aten"
        ):  # PyTorch has it there with other arguments, or not
            continue
        if isinstance(found[0], type):
            assert found[0] is found[1] or issubclass(found[1], (TypeError, RuntimeError)), found
        else:
            np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_functions_by_their_older_name():
    assert ft._VF.gru is ft.gru and ft._C._VariableFunctions.einsum is ft.einsum
    with pytest.raises(AttributeError, match="nothing"):
        ft._VF.nothing  # noqa: B018


def test_paths_in_a_checkpoint_that_python_3_13_wrote():
    from functorch_port.distributed.checkpoint._theirs import _Unpickler

    written = pickle.dumps(pathlib.PurePosixPath("shard"), 2)
    renamed = written.replace(b"cpathlib\n", b"cpathlib._local\n")
    for text in (written, renamed):
        assert _Unpickler(io.BytesIO(text)).load().args == ("shard",)
