"""`to_variables`, `load_variables`: convert the weights of layers that flax has, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import nn
from ..func import load_pytree
from ..nn._module import Module
from ._load import nnx

__all__ = ["load_variables", "to_variables"]

Tree = dict[str, Any]


class _Layer:
    """The conversion of one kind of layer; this one maps weights one to one.

    Args:
        names: a dict from this package's names to flax's.
        to, back: the conversions of ``weight`` to flax's layout and back.
        stats: a dict from this package's buffers to flax's running statistics.
    """

    def __init__(self, names: Mapping[str, str], to: Any = None, back: Any = None, stats: Any = None) -> None:
        self.names, self.to, self.back, self.stats = names, to, back or to, stats or {}

    def export(self, layer: Module) -> tuple[Tree, Tree]:
        """The layer's parameters and running statistics in flax's layout."""
        params = {theirs: _array(layer, ours) for ours, theirs in self.names.items() if _has(layer, ours)}
        kernel = self.names["weight"]
        if self.to is not None and kernel in params:
            params[kernel] = self.to(params[kernel])
        return params, {
            theirs: _array(layer, ours) for ours, theirs in self.stats.items() if _has(layer, ours)
        }

    def restore(self, layer: Module, params: Tree, stats: Tree) -> tuple[Tree, Tree]:
        """flax's parameters and running statistics in this package's layout."""
        ours = {ours: params[theirs] for ours, theirs in self.names.items() if _has(layer, ours)}
        if self.back is not None and "weight" in ours:
            ours["weight"] = self.back(ours["weight"])
        return ours, {ours: stats[theirs] for ours, theirs in self.stats.items() if _has(layer, ours)}


def _has(layer: Module, name: str) -> bool:
    return getattr(layer, name, None) is not None


def _array(layer: Module, name: str) -> np.ndarray[Any, Any]:
    return np.asarray(getattr(layer, name)._value)


def _last_to_front(kernel: Any) -> Any:
    """(spatial..., in, out) -> (out, in, spatial...)"""
    return np.moveaxis(kernel, (-1, -2), (0, 1))


def _front_to_last(weight: Any) -> Any:
    """(out, in, spatial...) -> (spatial..., in, out)"""
    return np.moveaxis(weight, (0, 1), (-1, -2))


def _flipped(x: Any, axes: range) -> Any:
    return np.flip(x, tuple(axes))


def _transposed_there(weight: Any) -> Any:
    """(in, out, spatial...) -> (spatial..., in, out); flax does not flip the kernel."""
    return np.moveaxis(_flipped(weight, range(2, weight.ndim)), (0, 1), (-2, -1))


def _transposed_back(kernel: Any) -> Any:
    return _flipped(np.moveaxis(kernel, (-2, -1), (0, 1)), range(2, kernel.ndim))


class _ConvTranspose(_Layer):
    def export(self, layer: Module) -> tuple[Tree, Tree]:
        if layer.groups != 1:
            raise NotImplementedError(
                f"{layer!r}: flax's ConvTranspose has no groups; only groups=1 can be converted"
            )
        return super().export(layer)


class _Cell(_Layer):
    """A recurrent cell, whose gates are one matrix here and a layer each in flax.

    Args:
        gates: the names of the gates, in this package's order.
        biases: by gate, the halves ("i": input, "h": state) in which flax has a bias.
    """

    def __init__(self, gates: str, biases: Mapping[str, str]) -> None:
        self.gates, self.biases = gates, biases

    def export(self, layer: Module) -> tuple[Tree, Tree]:
        params: Tree = {}
        for half, weight in (("i", "weight_ih"), ("h", "weight_hh")):
            for gate, part in zip(self.gates, np.split(_array(layer, weight), len(self.gates)), strict=True):
                params[half + gate] = {"kernel": part.T}
        if layer.bias:
            of_input, of_state = (
                dict(zip(self.gates, np.split(_array(layer, n), len(self.gates)), strict=True))
                for n in ("bias_ih", "bias_hh")
            )
            for gate in self.gates:
                where = self.biases[gate]
                if len(where) == 2:
                    params["i" + gate]["bias"], params["h" + gate]["bias"] = of_input[gate], of_state[gate]
                else:
                    params[where + gate]["bias"] = of_input[gate] + of_state[gate]
        else:
            for gate in self.gates:
                for half in self.biases[gate]:
                    params[half + gate]["bias"] = np.zeros_like(params[half + gate]["kernel"][0])
        return params, {}

    def restore(self, layer: Module, params: Tree, stats: Tree) -> tuple[Tree, Tree]:
        params = self._unpacked(params)
        ours: Tree = {}
        for half, end in (("i", "ih"), ("h", "hh")):
            parts = [params[half + gate] for gate in self.gates]
            ours[f"weight_{end}"] = np.concatenate([np.asarray(p["kernel"]).T for p in parts])
            biases = [p.get("bias", np.zeros_like(p["kernel"][0])) for p in parts]
            if layer.bias:
                ours[f"bias_{end}"] = np.concatenate(biases)
            elif any(np.any(b) for b in biases):
                raise ValueError(f"{layer!r} has no bias, but flax's cell has a nonzero one")
        return ours, {}

    def _unpacked(self, params: Tree) -> Tree:
        """NNX's layout as Linen's: splits a layer of all gates, and strips the underscore of a reserved name."""
        out = {name.rstrip("_"): tree for name, tree in params.items()}
        for half in "ih":
            whole = out.pop(f"dense_{half}", None)
            for i, gate in enumerate(self.gates) if whole is not None else ():
                out[half + gate] = {
                    k: np.split(np.asarray(v), len(self.gates), -1)[i] for k, v in whole.items()
                }
        return out

    def packed(self, params: Tree, like: Tree) -> Tree:
        """Linen's layout as that of the NNX cell with the parameters ``like``."""
        if "dense_i" not in like:
            return {(name if name in like else f"{name}_"): tree for name, tree in params.items()}
        out: Tree = {}
        for half in "ih":
            parts = [params[half + gate] for gate in self.gates]
            out[f"dense_{half}"] = {"kernel": np.concatenate([p["kernel"] for p in parts], -1)}
            biases = [p.get("bias", np.zeros_like(p["kernel"][0])) for p in parts]
            if "bias" in like[f"dense_{half}"]:
                out[f"dense_{half}"]["bias"] = np.concatenate(biases)
            elif any(np.any(b) for b in biases):
                raise ValueError(
                    f"flax's NNX cell has no bias for '{half}' parts, but the source has a nonzero one"
                )
        return out


class _Attention(_Layer):
    def __init__(self) -> None:
        pass

    def _check(self, layer: Module) -> None:
        if layer.bias_k is not None or layer.add_zero_attn:
            raise NotImplementedError(
                f"{layer!r}: flax's attention has neither add_bias_kv nor add_zero_attn"
            )

    def export(self, layer: Module) -> tuple[Tree, Tree]:
        self._check(layer)
        heads, width = layer.num_heads, layer.head_dim
        if layer._qkv_same_embed_dim:
            weights = np.split(_array(layer, "in_proj_weight"), 3)
        else:
            weights = [_array(layer, f"{c}_proj_weight") for c in "qkv"]
        params: Tree = {
            name: {"kernel": w.T.reshape(-1, heads, width)}
            for name, w in zip(_PROJECTIONS, weights, strict=True)
        }
        params["out"] = {"kernel": _array(layer.out_proj, "weight").T.reshape(heads, width, -1)}
        if layer.in_proj_bias is not None:
            for name, b in zip(_PROJECTIONS, np.split(_array(layer, "in_proj_bias"), 3), strict=True):
                params[name]["bias"] = b.reshape(heads, width)
            params["out"]["bias"] = _array(layer.out_proj, "bias")
        return params, {}

    def restore(self, layer: Module, params: Tree, stats: Tree) -> tuple[Tree, Tree]:
        self._check(layer)
        size = layer.embed_dim
        weights = [np.asarray(params[n]["kernel"]).reshape(-1, size).T for n in _PROJECTIONS]
        if layer._qkv_same_embed_dim:
            ours = {"in_proj_weight": np.concatenate(weights)}
        else:
            ours = {f"{c}_proj_weight": w for c, w in zip("qkv", weights, strict=True)}
        ours["out_proj.weight"] = np.asarray(params["out"]["kernel"]).reshape(size, -1).T
        if layer.in_proj_bias is not None:
            ours["in_proj_bias"] = np.concatenate([np.reshape(params[n]["bias"], -1) for n in _PROJECTIONS])
            ours["out_proj.bias"] = params["out"]["bias"]
        return ours, {}


_PROJECTIONS = ("query", "key", "value")
_SCALED = {"weight": "scale", "bias": "bias"}
_DENSE = {"weight": "kernel", "bias": "bias"}
_LAYERS: dict[type[Module], _Layer] = {
    nn.Linear: _Layer(_DENSE, np.transpose),
    nn.Embedding: _Layer({"weight": "embedding"}),
    nn.LayerNorm: _Layer(_SCALED),
    nn.GroupNorm: _Layer(_SCALED),
    nn.RMSNorm: _Layer({"weight": "scale"}),
    nn.LSTMCell: _Cell("ifgo", dict.fromkeys("ifgo", "h")),
    nn.GRUCell: _Cell("rzn", {"r": "i", "z": "i", "n": "ih"}),
    nn.MultiheadAttention: _Attention(),
}
_CONV = _Layer(_DENSE, _front_to_last, _last_to_front)
_CONV_TRANSPOSE = _ConvTranspose(_DENSE, _transposed_there, _transposed_back)
_BATCH_NORM = _Layer(_SCALED, stats={"running_mean": "mean", "running_var": "var"})
for _n in "123":
    _LAYERS[getattr(nn, f"Conv{_n}d")] = _CONV
    _LAYERS[getattr(nn, f"ConvTranspose{_n}d")] = _CONV_TRANSPOSE
    _LAYERS[getattr(nn, f"BatchNorm{_n}d")] = _BATCH_NORM


def _layers(module: Module, names: Mapping[str, str] | None) -> list[tuple[list[str], Module, _Layer]]:
    """The path in flax's tree, the layer and its conversion, for all layers with parameters."""
    found: list[tuple[list[str], Module, _Layer]] = []
    inside: list[str] = []
    names = dict(names or {})
    for name, layer in module.named_modules():
        if any(name.startswith(prefix) for prefix in inside):
            continue
        how = next((_LAYERS[t] for t in type(layer).__mro__ if t in _LAYERS), None)
        if how is not None:
            inside.append(f"{name}." if name else "")
            path = names.pop(name, name)
            found.append((path.split(".") if path else [], layer, how))
        elif any(p is not None for p in layer._parameters.values()):
            known = ", ".join(sorted(t.__name__ for t in _LAYERS))
            raise NotImplementedError(
                f"'{name}' is a {type(layer).__name__}, whose weights have no known counterpart in flax; "
                f"supported layers: {known}"
            )
    if names:
        raise KeyError(
            f"names has {sorted(names)}, which are not layers with parameters of {type(module).__name__}"
        )
    return found


def _at(tree: Any, path: list[str], name: str) -> Any:
    for key in path:
        if key not in tree:
            raise KeyError(
                f"there is no '{'.'.join(path)}' for the layer '{name}': '{key}' is not among {list(tree)}"
            )
        tree = tree[key]
    return tree


def to_variables(module: Module, names: Mapping[str, str] | None = None) -> dict[str, Tree]:
    """Convert a module's weights to the variables of a flax Linen module with the same layers.

    Layouts change: `Linear` has a transposed kernel, convolutions are channels-last, `LSTMCell` and `GRUCell` have a
    layer for each gate (their two biases are added where flax has one), and `MultiheadAttention` has a dimension for
    heads.

    Set these in flax's layers, too, as they are not weights: ``epsilon`` (flax's default is 1e-6), ``momentum`` of
    `BatchNorm` (1 minus this package's), the padding of convolutions, the approximation of GELU. flax's `BatchNorm`
    tracks the biased variance, this package's (as PyTorch's) the unbiased one.

    Args:
        module: a Linear, Conv1d to 3d, ConvTranspose1d to 3d, Embedding, LayerNorm, GroupNorm, RMSNorm, BatchNorm1d
            to 3d, LSTMCell, GRUCell or MultiheadAttention, or a module made of them.
        names: a dict from names of layers to paths in flax's tree, such as ``{"0": "Dense_0"}``. Default: the path is
            the name.

    Returns:
        ``{"params": ..., "batch_stats": ...}`` of numpy arrays.

    Raises:
        NotImplementedError: another kind of layer has parameters.
        KeyError: a name in ``names`` is not a layer.

    Example:
        >>> import jax.numpy as jnp
        >>> from flax import linen
        >>> import functorch_port as torch
        >>> variables = torch.flax.to_variables(torch.nn.Linear(2, 3))
        >>> linen.Dense(3).apply(variables, jnp.ones((4, 2))).shape
        (4, 3)
    """
    variables: dict[str, Tree] = {"params": {}, "batch_stats": {}}
    for path, layer, how in _layers(module, names):
        for kind, exported in zip(variables, how.export(layer), strict=True):
            if exported:
                tree = variables[kind]
                for key in path:
                    tree = tree.setdefault(key, {})
                tree.update(exported)
    return variables if variables["batch_stats"] else {"params": variables["params"]}


def load_variables(target: Any, source: Any, names: Mapping[str, str] | None = None) -> None:
    """Load weights from a flax module into an `nn.Module` with the same layers, or back; see `to_variables`.

    Args:
        target: the `nn.Module` or `nnx.Module` to load into.
        source: Linen variables or an `nnx.Module`; an `nn.Module` if the target is an `nnx.Module`.
        names: a dict from names of layers to paths in flax's tree.

    Raises:
        KeyError: a layer is missing in flax's tree.
        ValueError: shapes differ, or the target has no place for a bias.
        TypeError: the target or the source is of another type.

    Example:
        >>> from flax import nnx
        >>> import functorch_port as torch
        >>> theirs, ours = nnx.Linear(2, 3, rngs=nnx.Rngs(0)), torch.nn.Linear(2, 3)
        >>> torch.flax.load_variables(ours, theirs)
        >>> bool((ours.weight.numpy(force=True).T == theirs.kernel).all())
        True
    """
    if isinstance(target, Module):
        _load_ours(target, source, names)
    elif isinstance(target, nnx().Module):
        _load_nnx(target, source, names)
    else:
        raise TypeError(
            f"load_variables needs an nn.Module or an nnx.Module as target, but got {type(target).__name__}"
        )


def _load_ours(target: Module, source: Any, names: Mapping[str, str] | None) -> None:
    if not isinstance(source, Mapping):
        source = _nnx_variables(source)
    loaded = []
    for path, layer, how in _layers(target, names):
        name = ".".join(path)
        params = _at(source["params"], path, name)
        stats = _at(source["batch_stats"], path, name) if getattr(how, "stats", None) else {}
        params = jax.tree.map(np.asarray, params)
        loaded.append((layer, how.restore(layer, params, stats)))
    for layer, (params, _) in loaded:
        _check_shapes(layer, params)
    for layer, (params, buffers) in loaded:
        load_pytree(layer, params, buffers)


def _check_shapes(layer: Module, params: Tree) -> None:
    own = dict(layer.named_parameters())
    for name, value in params.items():
        if tuple(value.shape) != tuple(own[name].shape):
            raise ValueError(
                f"'{name}' of {layer!r} has shape {tuple(own[name].shape)}, got {tuple(value.shape)}"
            )


def _nnx_variables(module: Any) -> dict[str, Tree]:
    """The state of an NNX module as Linen variables."""
    if not isinstance(module, nnx().Module):
        raise TypeError(f"expected Linen variables or an nnx.Module, but got {type(module).__name__}")
    kinds = {"params": nnx().Param, "batch_stats": nnx().BatchStat}
    return {name: _text_keys(nnx().to_pure_dict(nnx().state(module, kind))) for name, kind in kinds.items()}


def _text_keys(tree: Any) -> Any:
    return {str(k): _text_keys(v) for k, v in tree.items()} if isinstance(tree, dict) else tree


def _load_nnx(target: Any, source: Any, names: Mapping[str, str] | None) -> None:
    if not isinstance(source, Module):
        raise TypeError(f"the source for an nnx.Module must be an nn.Module, but got {type(source).__name__}")
    have = _nnx_variables(target)
    new: dict[tuple[str, ...], Any] = {}
    for path, layer, how in _layers(source, names):
        params, stats = how.export(layer)
        like = _at(have["params"], path, ".".join(path))
        if isinstance(how, _Cell):
            params = how.packed(params, like)
        for value_path, value in _flat({**params, **stats}):
            new[(*path, *value_path)] = value
    state = nnx().to_flat_state(nnx().state(target))
    known = {tuple(map(str, path)): (path, variable) for path, variable in state}
    for place, value in new.items():
        if place not in known:
            raise KeyError(
                f"the NNX module has no '{'.'.join(place)}'; it has {['.'.join(p) for p in known]}"
            )
        shape = tuple(known[place][1].get_value().shape)
        if shape != value.shape:
            raise ValueError(f"'{'.'.join(place)}' of the NNX module has shape {shape}, got {value.shape}")
    changed = [(known[p][0], known[p][1].replace(jnp.asarray(v))) for p, v in new.items()]
    nnx().update(target, nnx().from_flat_state(changed))


def _flat(tree: Tree) -> list[tuple[tuple[str, ...], Any]]:
    out: list[tuple[tuple[str, ...], Any]] = []
    for key, value in tree.items():
        out += [((key, *p), v) for p, v in _flat(value)] if isinstance(value, dict) else [((key,), value)]
    return out
