"""An operation is traced once in all traces, however many places have it, and its context decides what is the same."""

import pytest

import functorch_port as torch
from functorch_port._tensor import once

nn = torch.nn


def blocks(count: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(24, 24), nn.LayerNorm(24), nn.GELU()) for _ in range(count))
    )


def gradients(model: nn.Module, x: torch.Tensor, compiled: bool) -> list[torch.Tensor]:
    def step(x):
        model.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    loss = (torch.compile(step) if compiled else step)(x)
    return [loss.detach(), *(p.grad for p in model.parameters())]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Gets an entry for each operation that is traced."""
    made: list[object] = []
    original = once._traced
    monkeypatch.setattr(once, "_traced", lambda *given: made.append(given[0]) or original(*given))
    once.forget()
    return made


def test_equal_blocks_are_traced_once(traced: list[object]) -> None:
    x = torch.randn(300, 24, generator=torch.Generator().manual_seed(1)).double()
    gradients(blocks(1).double(), x, compiled=True)
    gradients(blocks(2).double(), x, compiled=True)
    few = len(traced)
    assert few > 3
    found = gradients(blocks(6).double(), x, compiled=True)
    assert len(traced) == few
    for a, b in zip(found, gradients(blocks(6).double(), x, compiled=False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_numbers_types_and_shapes_are_told_apart(traced: list[object]) -> None:
    for x in (torch.ones(3), torch.ones(3, dtype=torch.float64), torch.ones(4)):
        for number in (2, 2.0, 3.0, -0.0, True):
            found = torch.compile(lambda x, number=number: torch.mul(x, number) ** 2 + x.sum())(x)
            assert found.dtype == x.dtype
            assert found.tolist() == [float(number) ** 2 + len(x)] * len(x)


def test_operations_of_others_are_traced_each_time(traced: list[object]) -> None:
    factor = 2.0

    @torch.library.custom_op("once::times", mutates_args=())
    def times(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    for factor in (2.0, 3.0):
        assert torch.compile(lambda x: times(x))(torch.ones(2)).tolist() == [factor] * 2
