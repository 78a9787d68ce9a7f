"""Tensors on meshes of several processes: parts and wholes, their gradients, tensor parallelism."""

import numpy as np
import pytest

import functorch_port as ft

PARTS = """
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
assert mesh.get_local_rank() == mesh.get_rank() == rank
own = (torch.arange(6.0).reshape(2, 3) + 10 * rank).double().requires_grad_()
rows = DTensor.from_local(own, mesh, [Shard(0)])
columns = DTensor.from_local(own, mesh, [Shard(1)])
assert rows.shape == (4, 3) and columns.shape == (2, 6)
weight = torch.arange(12.0).reshape(4, 3).double()
(rows * distribute_tensor(weight, mesh, [Shard(0)])).sin().sum().backward()
first = own.grad.tolist()
part = columns.redistribute(mesh, [Shard(0)]).to_local()
assert part.shape == (1, 6)
(part * (rank + 1)).sum().backward()
found = [first, own.grad.tolist(), part.tolist(), rows.full_tensor().tolist()]

# dtypes and placements of gradients: the numbers are PyTorch's
x = distribute_tensor(torch.tensor([1.0, 2.0, 3.0, 4.0]).double(), mesh, [Replicate()]).requires_grad_()
for place, want in ((Partial(), 3.0), (Replicate(), 2.0)):
    x.grad = None
    y = x.to_local(grad_placements=[place])
    (y * (rank + 1 if want == 3.0 else want)).sum().backward()
    assert x.grad.full_tensor().tolist() == [want] * 4, x.grad
w = distribute_tensor(torch.tensor([1.0, 2.0, 3.0, 4.0]) / 3, mesh, [Shard(0)]).requires_grad_()
z = w.redistribute(mesh, [Replicate()], forward_dtype=torch.bfloat16, backward_dtype=torch.float16)
assert z.dtype is torch.bfloat16
assert z.full_tensor().double().tolist() == [0.333984375, 0.66796875, 1.0, 1.3359375]
z.sum().backward()
assert w.grad.dtype is torch.float32 and w.grad.full_tensor().tolist() == [1.0] * 4
own = torch.ones(2, 3, requires_grad=True)
whole = DTensor.from_local(own, mesh, [Shard(0)], shape=(4, 3), stride=(3, 1), grad_placements=[Shard(0)])
(whole.to_local(grad_placements=[Shard(0)]) * (rank + 1)).sum().backward()
assert own.grad.tolist() == [[rank + 1.0] * 3] * 2


def refused(error, fn, *args, **kwargs):
    try:
        fn(*args, **kwargs)
    except error:
        return
    raise AssertionError(kwargs)


refused(RuntimeError, DTensor.from_local, own, mesh, [Shard(0)], shape=(4, 3))
refused(NotImplementedError, DTensor.from_local, own, mesh, [Shard(0)], shape=(5, 3), stride=(3, 1))
refused(NotImplementedError, DTensor.from_local, own, mesh, [Shard(0)], grad_placements=[Replicate()])
refused(NotImplementedError, w.to_local, grad_placements=[Replicate()])
refused(NotImplementedError, w.full_tensor, grad_placements=[Partial()])
# what was computed is whole everywhere, and a tensor on the mesh still
v = distribute_tensor(torch.arange(4.0).double(), mesh, [Shard(0)]).requires_grad_()
for run in (lambda f: f, torch.compile):
    v.grad = None
    loss = run(lambda x: (x * v).sum().full_tensor())(v.detach())
    loss.backward()
    assert loss.item() == 14.0 and v.grad.full_tensor().tolist() == [0.0, 1.0, 2.0, 3.0]
for look in (rows.tolist, rows.nonzero, rows.unique, lambda: rows[rows > 0]):
    try:
        look()
    except RuntimeError as error:
        assert "Look at x.full_tensor()" in str(error), error
    else:
        raise AssertionError("numbers of other processes")
print(json.dumps(found))
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_parts_and_wholes_with_gradients(job, devices):
    found = job(PARTS, options=(f"--devices-per-proc={devices}",)).values()
    parts = [ft.arange(6.0).reshape(2, 3).double().add(10 * rank).requires_grad_() for rank in range(2)]
    weight = ft.arange(12.0).reshape(4, 3).double()
    (ft.cat(parts) * weight).sin().sum().backward()
    first = [p.grad.tolist() for p in parts]
    side_by_side = ft.cat(parts, 1)
    (side_by_side * ft.tensor([[1.0], [2.0]])).sum().backward()
    for rank, (before, after, part, whole) in enumerate(found):
        np.testing.assert_allclose(before, first[rank], rtol=1e-12)
        np.testing.assert_allclose(after, parts[rank].grad.tolist(), rtol=1e-12)
        np.testing.assert_allclose(part, side_by_side[rank : rank + 1].tolist())
        np.testing.assert_allclose(whole, ft.cat(parts).tolist())


TRAIN = """
nn, F = torch.nn, torch.nn.functional


def trained(parallel):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5)).double()
    if parallel:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for i in range(5):
        torch.manual_seed(i)  # the same batch in all processes
        opt.zero_grad()
        loss = F.cross_entropy(net(torch.rand(20, 10).double()), torch.randint(0, 5, (20,)))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_tensor_parallel(job, devices):
    script = TRAIN + "\ndist.init_process_group('gloo')\nprint(json.dumps(trained(True)))"
    space = {"torch": ft}
    exec(TRAIN, space)
    want = space["trained"](False)
    for found in job(script, options=(f"--devices-per-proc={devices}",)).values():
        np.testing.assert_allclose(found, want, rtol=1e-10)


def test_a_checkpoint_of_what_is_the_same_everywhere(job, tmp_path):
    found = job(
        f"""
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
if rank == 0:
    torch.save(model.module.state_dict(), {str(tmp_path / "model.pt")!r})
print(json.dumps(sum(p.sum().item() for p in model.parameters())))
"""
    ).values()
    total = sum(t.sum().item() for t in ft.load(tmp_path / "model.pt").values())
    np.testing.assert_allclose(found, [total, total], rtol=1e-6)
