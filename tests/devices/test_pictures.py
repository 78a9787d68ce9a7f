"""`visualize_sharding`: which devices are said to have which part."""

import pytest

import functorch_port as torch
from functorch_port.distributed.device_mesh import init_device_mesh
from functorch_port.distributed.tensor import Replicate, Shard, distribute_tensor
from functorch_port.distributed.tensor.debug import visualize_sharding


def _printed(capsys, shape, mesh, placements, **kwargs):
    visualize_sharding(distribute_tensor(torch.zeros(shape), mesh, placements), **kwargs)
    return [line.split("  ") for line in capsys.readouterr().out.splitlines()]


def _cells(lines):
    return [[cell.strip() for cell in line if cell.strip()] for line in lines]


def test_rows_columns_and_copies(capsys):
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    assert _cells(_printed(capsys, (4, 8), mesh, [Shard(0), Shard(1)])) == [
        ["Col 0-1", "Col 2-3", "Col 4-5", "Col 6-7"],
        ["Row 0-1", "cpu:0", "cpu:1", "cpu:2", "cpu:3"],
        ["Row 2-3", "cpu:4", "cpu:5", "cpu:6", "cpu:7"],
    ]
    assert _cells(_printed(capsys, (4, 8), mesh, [Replicate(), Shard(0)], header="weight")) == [
        ["weight"],
        ["Col 0-7"],
        ["Row 0-0", "cpu:0,4"],
        ["Row 1-1", "cpu:1,5"],
        ["Row 2-2", "cpu:2,6"],
        ["Row 3-3", "cpu:3,7"],
    ]
    assert _cells(_printed(capsys, (8,), mesh, [Shard(0), Replicate()]))[1:] == [
        ["Row 0-3", "cpu:0,1,2,3"],
        ["Row 4-7", "cpu:4,5,6,7"],
    ]
    assert _printed(capsys, (0, 8), mesh, [Replicate(), Replicate()]) == []


def test_blocks_in_colours(capsys):
    mesh = init_device_mesh("cpu", (8,))
    assert "CPU 7" in str(_printed(capsys, (8, 8), mesh, [Shard(0)], use_rich=True))


def test_what_has_no_picture():
    mesh = init_device_mesh("cpu", (8,))
    with pytest.raises(RuntimeError, match="only 1D or 2D DTensor, got 3 dimensions"):
        visualize_sharding(distribute_tensor(torch.zeros(8, 1, 1), mesh, [Shard(0)]))
    with pytest.raises(TypeError, match="distribute_tensor"):
        visualize_sharding(torch.zeros(8))
