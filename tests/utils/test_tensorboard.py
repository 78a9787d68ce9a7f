"""`SummaryWriter` beside PyTorch's: the same files with the same records, read back by tensorboard."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port.utils.tensorboard import SummaryWriter

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto import event_pb2, graph_pb2
    from tensorboard.plugins.hparams import plugin_data_pb2
    from torch.utils.tensorboard import SummaryWriter as Theirs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def events(path: Path) -> list:
    """What is in an event file, without when it was written."""
    found = [event_pb2.Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()]
    for event in found:
        if event.wall_time != 10:
            event.wall_time = 0
    return found


def contents(folder: Path) -> dict[str, object]:
    """The files of a folder, by their names without time and process."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = re.sub(r"tfevents\.\d+\.", "tfevents.TIME.", str(path.relative_to(folder)))
            name = re.sub(r"\.\d+\.\d+(?=$|\.)", ".PROCESS", name)
            found[name] = events(path) if "tfevents" in name else path.read_text()
    return found


def write(T, writer) -> None:
    at = {"global_step": 3, "walltime": 10.0}
    writer.add_scalar("loss/train", T.tensor([1.5]), **at)
    writer.add_scalar("number", 2, **at)
    writer.add_scalar("new", np.float32(2.5), new_style=True, **at)
    writer.add_scalar("double", 0.1, new_style=True, double_precision=True, **at)
    writer.add_scalar("half", T.tensor(1.5, dtype=T.bfloat16), **at)
    writer.add_histogram("halves", T.tensor([1.5, 2.0], dtype=T.bfloat16), bins=2, **at)
    writer.add_scalars("both/x", {"a": 1, "b": T.tensor(2.0)}, **at)
    values = T.tensor([-1.0, 0.0, 0.5, 2.0, 2.0])
    writer.add_histogram("h", values, **at)
    writer.add_histogram("bins", values, bins=4, **at)
    writer.add_histogram("few", values, bins="auto", max_bins=2, **at)
    writer.add_histogram("odd", values, bins=7, max_bins=3, **at)
    writer.add_histogram("whole", T.arange(10), bins=[0, 2, 20], **at)
    writer.add_histogram_raw("raw", 0, 1, 2, 3, 4, [0.5, 1], [1, 1], **at)
    picture = T.arange(12).reshape(3, 2, 2) / 12.0
    writer.add_image("image", picture, **at)
    writer.add_image("last", picture.permute(1, 2, 0).numpy(), dataformats="HWC", **at)
    writer.add_image("gray", T.arange(4).reshape(2, 2).to(T.uint8), dataformats="HW", **at)
    writer.add_image("channel", T.arange(4).reshape(1, 2, 2).to(T.uint8), **at)
    writer.add_images("images", T.arange(10 * 12).reshape(10, 3, 2, 2) / 120.0, **at)
    writer.add_text("notes", "# hällo", **at)
    writer.add_audio("sound", T.linspace(-1, 1, 8)[None], sample_rate=8000, **at)
    labels, predictions = T.tensor([0, 1, 1, 0, 1]), T.tensor([0.1, 0.9, 0.4, 0.6, 1.0])
    writer.add_pr_curve("pr", labels, predictions, num_thresholds=5, **at)
    writer.add_pr_curve("weighted", labels, predictions, weights=np.array([1.0, 2, 3, 4, 5]), **at)
    counts = [T.tensor([2.0, 1]), T.tensor([1.0, 0]), T.tensor([0.0, 1]), T.tensor([0.0, 1])]
    writer.add_pr_curve_raw("given", *counts, T.tensor([0.6, 1]), T.tensor([1, 0.5]), num_thresholds=2, **at)
    writer.add_pr_curve_raw(
        "lists", [2, 1], [1, 0], [0, 1], [0, 1], [0.6, 1], [1, 0.5], num_thresholds=2, **at
    )
    points = T.arange(6).reshape(3, 2).float()
    writer.add_embedding(points, tag="../a%b\\c/d", global_step=1)
    writer.add_embedding(points, metadata=["a", "b", "c"], tag="points", global_step=2)
    writer.add_embedding(points, metadata=[["a", "1"], ["b", "2"], ["c", "3"]], metadata_header=["x", "y"])
    runs = {"lr": 0.1, "name": "x", "flag": True, "tensor": T.tensor([2.0]), "none": None}
    writer.add_hparams(
        runs, {"acc": 0.5}, {"lr": [0.1, 0.2], "name": ["x", "y"]}, run_name="run", global_step=4
    )


def test_the_files_are_torchs(tmp_path) -> None:
    for name, T, Writer in (("ours", ft, SummaryWriter), ("theirs", torch, Theirs)):
        writer = Writer(str(tmp_path / name), filename_suffix=".end")
        write(T, writer)
        assert writer.get_logdir() == str(tmp_path / name)
        writer.close()
    ours, theirs = contents(tmp_path / "ours"), contents(tmp_path / "theirs")
    assert list(ours) == list(theirs)
    for name, found in ours.items():
        expected = theirs[name]
        if not isinstance(found, list):
            assert found == expected, name
            continue
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            value, wanted = (next(iter(e.summary.value), None) for e in (one, other))
            if value is not None and value.metadata.plugin_data.plugin_name == "hparams":
                read = plugin_data_pb2.HParamsPluginData.FromString
                parsed = [read(v.metadata.plugin_data.content) for v in (value, wanted)]
                assert parsed[0] == parsed[1]
                assert value.tag == wanted.tag and one.step == other.step
            else:
                assert one == other, value and value.tag


def test_tensorboard_reads_them(tmp_path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", ft.tensor(1.0 / (step + 1)), step)
        writer.add_histogram("weights", ft.ones(5), 1)
        writer.add_image("picture", ft.rand(3, 4, 5), 1)
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in read.Scalars("loss")] == [
        (0, 1.0),
        (1, 0.5),
        (2, pytest.approx(1 / 3)),
    ]
    assert read.Histograms("weights")[0].histogram_value.num == 5
    (picture,) = read.Images("picture")
    assert (picture.height, picture.width) == (4, 5)


def test_figures(tmp_path) -> None:
    from matplotlib.figure import Figure

    def figure():
        drawn = Figure(figsize=(2, 1), dpi=50)
        drawn.subplots().plot([1, 3, 2])
        return drawn

    for Writer, name in ((SummaryWriter, "ours"), (Theirs, "theirs")):
        with Writer(str(tmp_path / name)) as writer:
            writer.add_figure("f", figure(), 1, walltime=10.0)
            writer.add_figure("list", [figure(), figure()], 1, walltime=10.0)
    assert list(contents(tmp_path / "ours").values()) == list(contents(tmp_path / "theirs").values())


def test_purged_steps_and_what_comes_after_the_end(tmp_path) -> None:
    for Writer, name in ((SummaryWriter, "ours"), (Theirs, "theirs")):
        writer = Writer(str(tmp_path / name), purge_step=3)
        writer.flush()
        writer.close()
        writer.add_scalar("later", 1.0, walltime=10.0)
        writer.close()
    ours, theirs = (list(contents(tmp_path / name).values()) for name in ("ours", "theirs"))
    assert ours == theirs and len(list((tmp_path / "ours").iterdir())) == 2


def test_the_default_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for Writer in (SummaryWriter, Theirs):
        Writer(comment="_mine").close()
    names = {re.sub(r"\d\d-\d\d-\d\d", "TIME", path.name) for path in (tmp_path / "runs").iterdir()}
    assert len(names) == 1 and names.pop().endswith("_mine")


def test_graphs(tmp_path) -> None:
    model = ft.nn.Sequential(ft.nn.Linear(2, 3), ft.nn.ReLU(), ft.nn.Dropout(0.5))
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, ft.ones(4, 2))
        with pytest.raises(ValueError, match="input_to_model"):
            writer.add_graph(model)
    assert model.training and model[2].training
    (path,) = tmp_path.iterdir()
    (graph,) = [graph_pb2.GraphDef.FromString(e.graph_def) for e in events(path) if e.graph_def]
    nodes = {node.name: node for node in graph.node}
    (product,) = [node for node in graph.node if node.op == "dot_general"]
    assert product.name.startswith("model/0/dot_general")
    assert [dim.size for dim in product.attr["_output_shapes"].list.shape[0].dim] == [4, 3]
    assert {"model/0/weight", "model/0/bias", "input/0", "output/0"} <= set(nodes)
    for node in graph.node:  # nothing refers to what is not there
        assert all(name.partition(":")[0] in nodes for name in node.input)


WRONG = [
    lambda T, w: w.add_scalar("x", "a"),
    lambda T, w: w.add_scalar("x", T.ones(2)),
    lambda T, w: w.add_histogram("x", []),
    lambda T, w: w.add_histogram("x", np.array([])),
    lambda T, w: w.add_hparams(1, 2),
    lambda T, w: w.add_hparams({"a": [1]}, {}),
    lambda T, w: w.add_image("x", T.ones(2, 2)),
    lambda T, w: w.add_embedding(T.ones(2)),
    lambda T, w: w.add_embedding(T.ones(2, 2), metadata=["a"]),
    lambda T, w: w.add_pr_curve("a", T.ones(2), T.ones(3)),
    lambda T, w: w.add_text("a", 1),
    lambda T, w: w.add_figure("a", None),
    lambda T, w: w.add_histogram_raw("a", 0, 1, 1, 1, 1, [1], []),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_errors_are_torchs(number, tmp_path) -> None:
    kinds = []
    for T, Writer in ((ft, SummaryWriter), (torch, Theirs)):
        with Writer(str(tmp_path)) as writer:
            with pytest.raises(Exception) as caught:
                WRONG[number](T, writer)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


def test_what_is_not_here_says_so(tmp_path) -> None:
    theirs = {name for name in dir(Theirs) if name.startswith("add_")}
    assert theirs == {name for name in dir(SummaryWriter) if name.startswith("add_")}
    with SummaryWriter(tmp_path) as writer:
        for name in ("add_video", "add_mesh", "add_custom_scalars", "add_onnx_graph"):
            with pytest.raises(NotImplementedError, match="SummaryWriter"):
                getattr(writer, name)("x", None)
        with pytest.raises(NotImplementedError, match="label_img"):
            writer.add_embedding(ft.ones(2, 2), label_img=ft.ones(2, 3, 2, 2))
