"""`MixtureOfExperts`, a layer of which each token uses a few parts, and `ExpertParallel`, which splits it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .._run.bind import function
from .._tensor.creation import arange as _arange
from .._tensor.creation import empty
from .._tensor.tensor import Tensor
from ..nn import functional as F
from ..nn import init
from ..nn._module import Module
from ..nn.parameter import Parameter
from .device_mesh import DeviceMesh
from .tensor._api import distribute_in_place, gathered, is_own, laid, whole
from .tensor.parallel.style import ParallelStyle
from .tensor.placement_types import Replicate, Shard

__all__ = ["ExpertParallel", "MixtureOfExperts", "Routed"]

_einsum = function("einsum")


class Routed(NamedTuple):
    """What `MixtureOfExperts` returns.

    Attributes:
        output: of the input's shape.
        balance_loss: 1 if all experts get as many tokens, more otherwise; to be added to the loss with a small factor.
        z_loss: large if the router's logits are.
        dropped: the share of choices that found no room, a number that carries no gradient.
    """

    output: Tensor
    balance_loss: Tensor
    z_loss: Tensor
    dropped: Tensor


class MixtureOfExperts(Module):
    r"""A feed-forward layer of many experts: a router chooses ``top_k`` of them for each token.

    With the router's probabilities :math:`p`, the output is :math:`\sum_{e \in topk} g_e f_e(x)`, where :math:`g_e` is
    :math:`p_e`, divided by the sum of the chosen ones if ``normalize``. An expert has room for
    :math:`C = \lceil c k T / E \rceil` of the :math:`T` tokens of a group. First choices go before second ones, and
    earlier tokens before later ones; a choice that finds no room adds nothing.

    The losses are :math:`E \sum_e f_e P_e`, with the share :math:`f_e` of choices and the mean probability :math:`P_e`
    of an expert, and the mean of :math:`(\log \sum_e \exp l_e)^2` of the logits :math:`l`.

    Args:
        dim: the size of a token.
        hidden_dim: the inner size of an expert.
        num_experts: E.
        top_k: k.
        capacity_factor: c; None: there is room for all.
        normalize: by default if ``top_k`` is more than 1.
        activation: between the two products.
        gated: an expert multiplies the activation with a third product (SwiGLU with ``F.silu``).
        groups: the tokens are split into so many groups, in their order. On a mesh, take as many as there are parts of
            the batch: then where a token goes is found without communication.

    Shape:
        (\*, dim), with a number of tokens that ``groups`` divides; a `Routed` with an output of that shape.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.experts import MixtureOfExperts
        >>> layer = MixtureOfExperts(8, 16, num_experts=4)
        >>> routed = layer(torch.randn(2, 6, 8))
        >>> routed.output.shape
        torch.Size([2, 6, 8])

    Reference: GShard, https://arxiv.org/abs/2006.16668; Switch Transformers, https://arxiv.org/abs/2101.03961
        (equations 3 to 6); the z loss is equation 5 of ST-MoE, https://arxiv.org/abs/2202.08906
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        num_experts: int,
        top_k: int = 2,
        capacity_factor: float | None = 1.25,
        *,
        normalize: bool | None = None,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        gated: bool = False,
        groups: int = 1,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not 1 <= top_k <= num_experts:
            raise ValueError(f"top_k must be between 1 and the number of experts, {num_experts}, got {top_k}")
        if capacity_factor is not None and not capacity_factor > 0:
            raise ValueError(f"capacity_factor must be positive or None, got {capacity_factor}")
        self.dim, self.hidden_dim, self.num_experts, self.top_k = dim, hidden_dim, num_experts, top_k
        self.capacity_factor, self.groups = capacity_factor, groups
        self.normalize = top_k > 1 if normalize is None else normalize
        self.activation, self.gated = activation, gated
        self.mesh: DeviceMesh | None = None
        made = lambda *shape: Parameter(empty(*shape, device=device, dtype=dtype))
        wide = 2 * hidden_dim if gated else hidden_dim
        self.router = made(num_experts, dim)
        self.weight1, self.bias1 = made(num_experts, dim, wide), made(num_experts, wide)
        self.weight2, self.bias2 = made(num_experts, hidden_dim, dim), made(num_experts, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters, each expert's as those of a `Linear`."""
        for name, param in self.named_parameters():
            bound = 1 / math.sqrt(self.hidden_dim if name.endswith("2") else self.dim)
            init.uniform_(param, -bound, bound)

    def capacity(self, tokens: int) -> int:
        """For how many of the tokens of a group an expert has room."""
        if self.capacity_factor is None:
            return tokens
        return min(tokens, math.ceil(self.capacity_factor * self.top_k * tokens / self.num_experts))

    def forward(self, x: Tensor) -> Routed:  # type: ignore[override]
        if self.mesh is not None:
            x = whole(x, self.mesh)
        shape = x.shape
        x = x.reshape(self.groups, -1, self.dim)
        logits = F.linear(x, self.router)
        if logits.dtype.itemsize < 4:  # a softmax of half precision would choose other experts
            logits = logits.float()
        probs = F.softmax(logits, -1)
        choice = self._chosen(probs.detach())  # (group, token, k, expert)
        gates = (probs.unsqueeze(-2) * choice).sum(-1)
        if self.normalize:
            gates = gates / gates.sum(-1, keepdim=True)
        place, kept = self._places(choice)
        room = (place.unsqueeze(-1) == _arange(self.capacity(x.size(1)), device=x.device)).to(gates.dtype)
        room = room * kept.unsqueeze(-1)
        to = _einsum("gtke,gtkc->gtec", choice.to(gates.dtype), room)
        back = _einsum("gtk,gtke,gtkc->gtec", gates, choice.to(gates.dtype), room)
        outputs = self._by_experts(_einsum("gtec,gtd->egcd", to.to(x.dtype), x))
        output = _einsum("gtec,egcd->gtd", back.to(x.dtype), outputs).reshape(shape)
        share = choice.to(probs.dtype).mean((0, 1, 2))
        balance = self.num_experts * (share * probs.mean((0, 1))).sum()
        return Routed(output, balance, logits.logsumexp(-1).square().mean(), 1 - kept.to(probs.dtype).mean())

    def _chosen(self, probs: Tensor) -> Tensor:
        """The ``top_k`` largest, each as a one among zeros. XLA would gather the batch for a `topk`."""
        each = _arange(self.num_experts, device=probs.device)
        found = []
        for _ in range(self.top_k):
            one = probs.argmax(-1, keepdim=True) == each
            found.append(one)
            probs = probs.masked_fill(one, -1.0)
        return function("stack")(found, -2).long()

    def _places(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        """The place of each choice within its expert, and whether there is room."""
        groups, tokens, k, experts = choice.shape
        in_order = choice.transpose(1, 2).reshape(groups, k * tokens, experts)
        before = in_order.cumsum(1) - in_order
        place = (before * in_order).sum(-1).reshape(groups, k, tokens).transpose(1, 2)
        kept = place < self.capacity(tokens)
        return place.where(kept, place.new_zeros(())), kept

    def _experts(self, x: Tensor) -> Tensor:
        h = _einsum("egcd,edh->egch", x, self.weight1) + self.bias1[:, None, None]
        if self.gated:
            h, gate = h.chunk(2, -1)
            h = self.activation(h) * gate
        else:
            h = self.activation(h)
        return _einsum("egch,ehd->egcd", h, self.weight2) + self.bias2[:, None, None]

    def _by_experts(self, x: Tensor) -> Tensor:
        """What the experts give for the tokens of each, on the devices that have them."""
        mesh = self.mesh
        if mesh is None:
            return self._experts(x)
        if is_own(x):  # as all processes have it
            return gathered(self._experts(laid(whole(x, mesh), mesh, Shard(0))), mesh)
        if self.groups % mesh.size():  # each device has all tokens
            return laid(self._experts(laid(x, mesh, Shard(0))), mesh, Shard(0))
        x = laid(laid(x, mesh, Shard(1), Shard(1)), mesh, Shard(0), Shard(0))  # an all-to-all
        return laid(laid(self._experts(x), mesh, Shard(0), Shard(0)), mesh, Shard(1), Shard(1))

    def extra_repr(self) -> str:
        return (
            f"{self.dim}, {self.hidden_dim}, num_experts={self.num_experts}, top_k={self.top_k}, "
            f"capacity_factor={self.capacity_factor}, groups={self.groups}"
        )


class ExpertParallel(ParallelStyle):
    """The style for `parallelize_module` that gives each device of a mesh some of the experts.

    Args of the module: with ``groups`` a multiple of the size of the mesh, each device sends its tokens to their
    experts, and these send them back (two all-to-alls). Otherwise each device has all tokens. In several processes an
    input of each has to be the same in all, as for `ColwiseParallel`, and all have all tokens.

    Raises:
        NotImplementedError: the module is no `MixtureOfExperts`.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.experts import ExpertParallel, MixtureOfExperts
        >>> from functorch_port.distributed.tensor.parallel import parallelize_module
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> layer = parallelize_module(MixtureOfExperts(8, 16, 4), mesh, ExpertParallel())
        >>> layer.weight1.placements
        (Shard(dim=0),)

    Reference: GShard, https://arxiv.org/abs/2006.16668
    """

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if not isinstance(module, MixtureOfExperts):
            raise NotImplementedError("ExpertParallel is for MixtureOfExperts")
        for name, param in module.named_parameters():
            placement = Replicate() if name == "router" else Shard(0)
            distribute_in_place(param, device_mesh, [placement], self.src_data_rank)
        module.mesh = device_mesh
        return module
