"""`SummaryWriter`: numbers, pictures and texts of a training run for TensorBoard."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from ..._base.atomic import atomic
from ..._base.optional import optional
from . import _records as records
from ._graph import graph_of
from ._records import proto

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes one event file, in a thread of tensorboard's.

    Args:
        log_dir: its folder.
        max_queue: how many events wait at most before they are written.
        flush_secs: after how many seconds they are.
        filename_suffix: the end of the file's name.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self._log_dir = str(log_dir)
        writer = proto("summary.writer.event_file_writer").EventFileWriter
        self.event_writer = writer(self._log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self._log_dir

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an ``Event``.

        Args:
            event: of tensorboard's protocol buffers.
            step: the number of the step.
            walltime: seconds since 1970. Default: now.
        """
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a ``Summary``."""
        self.add_event(proto("compat.proto.event_pb2").Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()


class SummaryWriter:
    """Writes a folder for TensorBoard: ``tensorboard --logdir runs``.

    The files, tags and numbers are those that PyTorch's class of this name writes.

    Args:
        log_dir: the folder. Default: ``runs/DATE_HOST`` with the comment.
        comment: the end of the default folder's name.
        purge_step: TensorBoard is to hide what was written for this step and later ones, before a crash.
        max_queue: how many events wait at most before they are written.
        flush_secs: after how many seconds they are.
        filename_suffix: the end of the files' names.

    Raises:
        ModuleNotFoundError: tensorboard is not installed.

    Example:
        >>> from functorch_port.utils.tensorboard import SummaryWriter
        >>> with SummaryWriter("runs/first") as writer:  # doctest: +SKIP
        ...     for step in range(10):
        ...         writer.add_scalar("loss/train", 1 / (1 + step), step)

    Reference: https://docs.pytorch.org/docs/stable/tensorboard.html
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self._options = {"max_queue": max_queue, "flush_secs": flush_secs, "filename_suffix": filename_suffix}
        #: by folder; None when they are closed
        self.all_writers: dict[str, FileWriter] | None = None
        self._embeddings: Any = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """The writer of the folder itself; after `close` a new one."""
        if self.all_writers is None:
            writer = FileWriter(self.log_dir, **self._options)  # type: ignore[arg-type]
            self.all_writers = {writer.get_logdir(): writer}
            if self.purge_step is not None:
                events = proto("compat.proto.event_pb2")
                writer.add_event(events.Event(step=self.purge_step, file_version="brain.Event:2"))
                start = events.SessionLog(status=events.SessionLog.START)
                writer.add_event(events.Event(step=self.purge_step, session_log=start))
                self.purge_step = None
        return next(iter(self.all_writers.values()))

    def get_logdir(self) -> str:
        """The folder that is written to."""
        return self.log_dir

    # ------------------------------------------------------- numbers

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number.

        Args:
            tag: its name.
            scalar_value: a number, or a tensor of one element.
            global_step: the step that it belongs to.
            walltime: seconds since 1970. Default: now.
            new_style: write a tensor, in place of a ``simple_value``.
            double_precision: of 64 bits, with ``new_style``.
        """
        summary = records.scalar(tag, scalar_value, new_style, double_precision)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write numbers that are drawn together; each is written to a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            own = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if own not in self.all_writers:
                self.all_writers[own] = FileWriter(own, **self._options)  # type: ignore[arg-type]
            self.all_writers[own].add_summary(records.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how numbers are distributed.

        Args:
            tag: the name.
            values: a tensor or an array.
            global_step: the step that they belong to.
            bins: ``tensorflow``, or what `numpy.histogram` takes.
            walltime: seconds since 1970. Default: now.
            max_bins: the number of bins at most.

        Raises:
            ValueError: there is no value.
        """
        summary = records.histogram(tag, values, bins, max_bins)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram of which the numbers are known."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        numbers = {"min": min, "max": max, "num": num, "sum": sum, "sum_squares": sum_squares}
        buckets = {"bucket_limit": list(bucket_limits), "bucket": list(bucket_counts)}
        summary = records.histogram_of(tag, **numbers, **buckets)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision and recall of a classifier.

        Args:
            tag: the name.
            labels: 0 or 1 for each example.
            predictions: the probability of 1.
            global_step: the step that they belong to.
            num_thresholds: how many points the curve has, at most 127.
            weights: of the examples.
            walltime: seconds since 1970. Default: now.
        """
        summary = records.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a curve of which the numbers are known; it has as many thresholds as there are numbers."""
        if weights is not None:
            raise ValueError("add_pr_curve_raw: the counts have weights in them, so it takes none")
        rows = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        summary = records.pr_curve_of(tag, *rows, precision, recall)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Write the hyperparameters of a run and what came of them, into a folder of its own.

        Args:
            hparam_dict: hyperparameters: numbers, strings, bools.
            metric_dict: numbers by name.
            hparam_domain_discrete: the values that hyperparameters may have.
            run_name: of the folder. Default: the time.
            global_step: the step that the metrics belong to.
        """
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        summaries = records.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        name = str(time.time()) if run_name is None else run_name
        with SummaryWriter(os.path.join(self._get_file_writer().get_logdir(), name)) as writer:
            for summary in summaries:
                writer._get_file_writer().add_summary(summary, global_step)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    # ------------------------------------------------------- pictures, sounds, texts

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image: numbers from 0 to 1, or bytes.

        Args:
            tag: the name.
            img_tensor: of the shape that ``dataformats`` says.
            global_step: the step that it belongs to.
            walltime: seconds since 1970. Default: now.
            dataformats: the order of the dimensions, such as ``CHW``, ``HWC`` or ``HW``.
        """
        summary = records.image(tag, records.image_of(img_tensor, dataformats))
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """As `add_image`, of several images in rows of 8."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of matplotlib's, or a list of them, as an image.

        Args:
            tag: the name.
            figure: the figure, or figures of one size.
            global_step: the step that it belongs to.
            close: whether to close it.
            walltime: seconds since 1970. Default: now.
        """
        agg = optional("matplotlib.backends.backend_agg", "add_figure", "viz", "matplotlib")
        drawn = []
        for one in figure if isinstance(figure, list) else [figure]:
            if not hasattr(one, "canvas"):
                raise AttributeError(f"add_figure: a figure of matplotlib is expected, got {type(one)}")
            canvas = agg.FigureCanvasAgg(one)
            canvas.draw()
            drawn.append(np.asarray(canvas.buffer_rgba())[:, :, :3])
            if close and (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
                pyplot.close(one)
        self.add_image(tag, np.stack(drawn), global_step, walltime, dataformats="NHWC")

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound of one channel: numbers from -1 to 1."""
        self._get_file_writer().add_summary(
            records.audio(tag, snd_tensor, sample_rate), global_step, walltime
        )

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a text, which TensorBoard shows as markdown."""
        self._get_file_writer().add_summary(records.text(tag, text_string), global_step, walltime)

    # ------------------------------------------------------- models and data

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Write what a module computes, in evaluation mode: the operations of JAX, grouped by module.

        Args:
            model: the module.
            input_to_model: its input, or a tuple of inputs.
            verbose: print the graph.
            use_strict_trace: of no effect: what a module returns does not matter.

        Raises:
            ValueError: there is no input.
        """
        if input_to_model is None:
            raise ValueError("add_graph: give input_to_model, an input of the model")
        graph = graph_of(model, input_to_model)
        if verbose:
            print(graph)
        event = proto("compat.proto.event_pb2").Event(graph_def=graph.SerializeToString())
        self._get_file_writer().add_event(event)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Write points for TensorBoard's projector.

        Args:
            mat: a tensor or array with a row for each point.
            metadata: a label for each point, or several.
            label_img: refused.
            global_step: the step that they belong to.
            tag: the name.
            metadata_header: what the labels of a point are called, if there are several.
        """
        if label_img is not None:
            raise NotImplementedError("add_embedding(label_img=...): there are no thumbnails; give metadata")
        points = records.to_numpy(mat)
        if points.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None and len(metadata) != len(points):
            raise AssertionError("#labels should equal with #data points")
        step = str(0 if global_step is None else global_step).zfill(5)
        escaped = tag.translate(
            {ord(c): f"%{ord(c):02x}" for c in "%/\\"}
        )  # else it could lead out of the folder
        place = os.path.join(step, escaped)
        folder = os.path.join(self._get_file_writer().get_logdir(), place)
        os.makedirs(folder, exist_ok=True)
        if self._embeddings is None:
            self._embeddings = proto("plugins.projector.projector_config_pb2").ProjectorConfig()
        info = self._embeddings.embeddings.add(tensor_name=f"{tag}:{step}")
        if metadata is not None:
            rows = metadata if metadata_header is None else ["\t".join(metadata_header), *_joined(metadata)]
            _write(os.path.join(folder, "metadata.tsv"), [str(row) for row in rows])
            info.metadata_path = os.path.join(place, "metadata.tsv")
        _write(os.path.join(folder, "tensors.tsv"), _joined(points.tolist()))
        info.tensor_path = os.path.join(place, "tensors.tsv")
        texts = optional("google.protobuf.text_format", "add_embedding", "tensorboard", "protobuf")
        config = texts.MessageToString(self._embeddings).splitlines()
        _write(os.path.join(self._get_file_writer().get_logdir(), "projector_config.pbtxt"), config)

    # ------------------------------------------------------- not here

    def add_video(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: write the frames with `add_images`."""
        raise NotImplementedError("SummaryWriter.add_video: write the frames with add_images")

    def add_mesh(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: draw the mesh by matplotlib, and write it with `add_figure`."""
        raise NotImplementedError(
            "SummaryWriter.add_mesh: draw it by matplotlib, and write it with add_figure"
        )

    def add_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: save tensors with `functorch_port.save`."""
        raise NotImplementedError(
            "SummaryWriter.add_tensor: torch.save keeps tensors, add_histogram shows them"
        )

    def add_onnx_graph(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: `add_graph` writes the graph of a module."""
        raise NotImplementedError(
            "SummaryWriter.add_onnx_graph: add_graph(model, input) writes a module's graph"
        )

    def add_image_with_boxes(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: draw the boxes by matplotlib, and write the picture with `add_figure`."""
        raise NotImplementedError(
            "SummaryWriter.add_image_with_boxes: draw them, and write it with add_figure"
        )

    def add_custom_scalars(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: `add_scalars` draws curves together."""
        raise NotImplementedError("SummaryWriter.add_custom_scalars: add_scalars draws curves together")

    add_custom_scalars_multilinechart = add_custom_scalars_marginchart = add_custom_scalars

    # ------------------------------------------------------- the end

    def flush(self) -> None:
        """Write what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files; what is added later opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _joined(rows: Sequence[Sequence[Any]]) -> list[str]:
    return ["\t".join(map(str, row)) for row in rows]


def _write(path: str, lines: Sequence[str]) -> None:
    with atomic(os.path.abspath(path)) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
