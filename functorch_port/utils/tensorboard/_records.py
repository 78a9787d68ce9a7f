"""What a `SummaryWriter` writes, as TensorBoard's protocol buffers."""

from __future__ import annotations

import io
import math
import warnings
import wave
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from ..._base.dtypes import bfloat16
from ..._base.optional import optional
from ..._tensor.tensor import Tensor

__all__ = [
    "audio",
    "histogram",
    "hparams",
    "image",
    "image_of",
    "pr_curve",
    "proto",
    "scalar",
    "text",
    "to_numpy",
]


@cache
def proto(name: str) -> Any:
    """A module of tensorboard's."""
    return optional(f"tensorboard.{name}", "torch.utils.tensorboard", "tensorboard")


def to_numpy(value: Any) -> np.ndarray:
    """Numbers of a tensor, an array or one number.

    Raises:
        NotImplementedError: it is something else, such as a list.
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return np.asarray((value.float() if value.dtype == bfloat16 else value).numpy())  # type: ignore[attr-defined]
    if isinstance(value, jax.Array) or np.isscalar(value):
        return np.asarray(value)
    raise NotImplementedError(f"Got {type(value)}, but numpy array or torch tensor are expected.")


def _value(tag: str, **content: Any) -> Any:
    summary = proto("compat.proto.summary_pb2").Summary
    return summary(value=[summary.Value(tag=tag, **content)])


def _plugin(name: str, content: bytes = b"") -> Any:
    metadata = proto("compat.proto.summary_pb2").SummaryMetadata
    return metadata(plugin_data=metadata.PluginData(plugin_name=name, content=content))


def _tensor(dtype: str, shape: Sequence[int] = (), **values: Any) -> Any:
    shapes = proto("compat.proto.tensor_shape_pb2").TensorShapeProto
    return proto("compat.proto.tensor_pb2").TensorProto(
        dtype=dtype,
        tensor_shape=shapes(dim=[shapes.Dim(size=n) for n in shape]) if shape else None,
        **values,
    )


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number."""
    array = to_numpy(value).squeeze()
    if array.ndim:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {array.size} and {array.ndim} "
            "dimensions."
        )
    number = float(array)
    if not new_style:
        return _value(tag, simple_value=number)
    made = (
        _tensor("DT_DOUBLE", double_val=[number])
        if double_precision
        else _tensor("DT_FLOAT", float_val=[number])
    )
    return _value(tag, tensor=made, metadata=_plugin("scalars"))


@cache
def _tensorflow_bins() -> np.ndarray:
    positive = [1e-12]
    while positive[-1] * 1.1 < 1e20:
        positive.append(positive[-1] * 1.1)
    return np.array([*(-x for x in reversed(positive)), 0.0, *positive])


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How often numbers are between limits."""
    numbers = to_numpy(values).reshape(-1)
    if not numbers.size:
        raise ValueError("The input has no element.")
    numbers = numbers.astype(float)
    counts, limits = np.histogram(
        numbers, bins=_tensorflow_bins() if isinstance(bins, str) and bins == "tensorflow" else bins
    )
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _coarser(counts, limits, len(counts) // max_bins)
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ValueError("add_histogram: no value is within the limits of the bins")
    first, last = filled[0], filled[-1]
    return histogram_of(
        tag,
        min=float(numbers.min()),
        max=float(numbers.max()),
        num=len(numbers),
        sum=float(numbers.sum()),
        sum_squares=float(numbers.dot(numbers)),
        bucket_limit=limits[first : last + 2].tolist(),
        bucket=[0, *counts[first : last + 1].tolist()],
    )


def _coarser(counts: np.ndarray, limits: np.ndarray, each: int) -> tuple[np.ndarray, np.ndarray]:
    """The same with ``each`` bins in one."""
    starts = np.arange(0, len(counts), each)
    return np.add.reduceat(counts, starts), np.append(limits[:-1][starts], limits[-1])


def histogram_of(tag: str, **numbers: Any) -> Any:
    """A histogram of which the numbers are known."""
    return _value(tag, histo=proto("compat.proto.summary_pb2").HistogramProto(**numbers))


def image_of(value: Any, dataformats: str) -> np.ndarray:
    """An image, or several side by side in rows of 8, as bytes of shape (height, width, channels)."""
    array, order = to_numpy(value), dataformats.upper()
    if len(set(order)) != len(order) or not set(order) <= set("NCHW") or not set("HW") <= set(order):
        raise AssertionError(f"dataformats has each of H, W, and maybe C and N once; got {dataformats!r}")
    if array.ndim != len(order):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {array.shape}, input_format: "
            f"{dataformats}"
        )
    missing = [c for c in "NC" if c not in order]
    array = array.reshape(*([1] * len(missing)), *array.shape)
    array = array.transpose(*("".join((*missing, *order)).index(c) for c in "NHWC"))
    if array.shape[3] == 1:
        array = np.repeat(array, 3, axis=3)
    if array.dtype != np.uint8:
        array = np.clip(array * 255, 0, 255).astype(np.uint8)
    count, height, width, channels = array.shape
    columns = min(count, 8)
    rows = math.ceil(count / columns)
    grid = np.zeros((rows * columns, height, width, channels), np.uint8)
    grid[:count] = array
    return (
        grid.reshape(rows, columns, height, width, channels)
        .swapaxes(1, 2)
        .reshape(rows * height, columns * width, channels)
    )


def image(tag: str, array: np.ndarray) -> Any:
    """An image, as a PNG."""
    pictures = optional("PIL.Image", "add_image", "tensorboard", "pillow")
    file = io.BytesIO()
    pictures.fromarray(array).save(file, format="PNG")
    height, width, channels = array.shape
    made = proto("compat.proto.summary_pb2").Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )
    return _value(tag, image=made)


def audio(tag: str, value: Any, sample_rate: int) -> Any:
    """A sound of one channel."""
    samples = to_numpy(value).squeeze()
    if np.abs(samples).max(initial=0) > 1:
        warnings.warn("audio amplitude out of range, auto clipped.")
        samples = samples.clip(-1, 1)
    if samples.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes((samples * np.iinfo(np.int16).max).astype("<i2").tobytes())
    made = proto("compat.proto.summary_pb2").Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(samples),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _value(tag, audio=made)


def text(tag: str, string: str) -> Any:
    """Markdown."""
    made = _tensor("DT_STRING", [1], string_val=[string.encode()])
    return _value(f"{tag}/text_summary", tensor=made, metadata=_plugin("text"))


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> Any:
    """Precision and recall of a classifier, by the threshold from which on a prediction counts as true."""
    true, predicted = to_numpy(labels).reshape(-1), to_numpy(predictions).reshape(-1)
    if true.shape != predicted.shape:
        raise ValueError(f"add_pr_curve: {true.size} labels and {predicted.size} predictions")
    each = np.ones(true.shape) if weights is None else to_numpy(weights).reshape(-1).astype(float)
    count = min(thresholds, 127)
    places = np.floor(predicted * (count - 1)).astype(np.int32)
    true = true.astype(float)

    def at_least(values: np.ndarray) -> np.ndarray:
        """Sums of what is predicted at each threshold or above."""
        found, _ = np.histogram(places, bins=count, range=(0, count - 1), weights=values)
        return found[::-1].cumsum()[::-1]

    tp, fp = at_least(true * each), at_least((1 - true) * each)
    return pr_curve_of(
        tag, tp, fp, fp[0] - fp, tp[0] - tp, tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp[0])
    )


def pr_curve_of(tag: str, *rows: Any) -> Any:
    """A curve of which the counts of true and false positives and negatives, precision and recall are known."""
    given = [np.asarray(row) if isinstance(row, list | tuple) else to_numpy(row) for row in rows]
    table = np.stack([row.astype(np.float64) for row in given])
    content = proto("plugins.pr_curve.plugin_data_pb2").PrCurvePluginData(
        version=0, num_thresholds=table.shape[1]
    )
    made = _tensor("DT_FLOAT", table.shape, float_val=table.reshape(-1).tolist())
    return _value(tag, tensor=made, metadata=_plugin("pr_curves", content.SerializeToString()))


def hparams(
    hparam_dict: Mapping[str, Any],
    metric_dict: Mapping[str, Any],
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> list[Any]:
    """The hyperparameters of a run: what there are, their values, and that the run is over.

    Raises:
        ValueError: a value is no number, string, bool or Tensor.
    """
    api, plugin = proto("plugins.hparams.api_pb2"), proto("plugins.hparams.plugin_data_pb2")
    infos, start = [], plugin.SessionStartInfo()
    for name, value in hparam_dict.items():
        if value is None:
            continue
        if isinstance(value, Tensor):
            value = to_numpy(value).reshape(-1)[0].item()
        if isinstance(value, str):
            start.hparams[name].string_value, kind = value, api.DataType.Value("DATA_TYPE_STRING")
        elif isinstance(value, int | float):
            start.hparams[name].number_value, kind = value, api.DataType.Value("DATA_TYPE_FLOAT64")
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        info = api.HParamInfo(name=name, type=kind)
        for one in (hparam_domain_discrete or {}).get(name, ()):
            part = info.domain_discrete.values.add()
            setattr(part, "string_value" if isinstance(one, str) else "number_value", one)
        infos.append(info)
    named = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metric_dict]
    done = plugin.SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))
    contents = {
        "_hparams_/experiment": {"experiment": api.Experiment(hparam_infos=infos, metric_infos=named)},
        "_hparams_/session_start_info": {"session_start_info": start},
        "_hparams_/session_end_info": {"session_end_info": done},
    }
    return [
        _value(
            tag, metadata=_plugin("hparams", plugin.HParamsPluginData(version=0, **part).SerializeToString())
        )
        for tag, part in contents.items()
    ]
