"""Processes that share a machine's accelerators have one each, under the number that PyTorch's scripts give it."""

SCRIPT = """
from functorch_port._base import device as devices
from torch.nn.parallel import DistributedDataParallel as DDP

# A process's CPU stands for its GPU.
devices._JAX_PLATFORMS["cuda"] = "cpu"
here = devices._local_devices("cpu")[0]
own = f"cuda:{rank}"
for where in (own, "cuda", "cuda:0"):
    assert devices.to_jax(torch.device(where)) == here
assert (torch.cuda.device_count(), torch.cuda.current_device()) == (2, rank)
assert devices.count("cpu") == 1 and [*devices.numbered("cpu")] == [0]
torch.cuda.set_device(rank)
assert torch.ones(2).to(own).tolist() == torch.ones(2).cuda(rank).tolist() == [1.0, 1.0]
net = torch.nn.Linear(2, 1).to(own)
path = sys.argv[1] + str(rank)
torch.save(net.state_dict(), path)
for where in ({"cuda:0": own}, own, torch.device("cuda", rank)):
    torch.load(path, map_location=where)
try:
    torch.ones(2).to(f"cuda:{rank + 2}")
except RuntimeError as error:
    other = str(error)

dist.init_process_group("gloo")

# --- the scaler of gradients that lie on all devices
def trained(scaled):
    torch.manual_seed(0)
    net = DDP(torch.nn.Linear(3, 2), device_ids=[rank])
    opt = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2, enabled=scaled)
    x = torch.arange(12.0).view(4, 3) * (rank + 1) / 10
    for i in range(4):
        loss = (net(x) ** 2).mean() * (torch.inf if scaled and i == 1 and rank == 1 else 1.0)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if scaled or i != 1:
            scaler.step(opt)
        scaler.update()
    return [p.detach().sum().item() for p in net.parameters()], scaler.get_scale()

(want, _), (got, scale) = trained(False), trained(True)
assert max(abs(a - b) for a, b in zip(want, got)) < 1e-6, (want, got)
assert scale == 2.0**10, scale

# --- an index of 64 bits that lies on all devices
model = DDP(torch.nn.Embedding(10, 4))
for index in (10, 2**32):
    try:
        model(torch.tensor([[index]]))
    except IndexError as error:
        assert "index out of range" in str(error)
    else:
        raise AssertionError(index)
print(json.dumps(other), flush=True)
dist.barrier()
"""


def test_a_process_has_its_accelerator_under_its_local_rank(job, tmp_path):
    found = job(SCRIPT, str(tmp_path / "saved")).values()
    assert found == [
        f"invalid device ordinal: cuda:{rank + 2} was asked for, and this process has cuda:{rank} alone, that of its "
        "LOCAL_RANK"
        for rank in range(2)
    ]
