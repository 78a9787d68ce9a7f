"""How processes find each other without the launcher: URLs, stores, clusters; a world of one; what is refused."""

import json
import threading
from datetime import timedelta

import pytest

import functorch_port.distributed as dist

ALL = """
t = torch.tensor([rank + 1.0])
dist.all_reduce(t)
print(json.dumps([t.item(), dist.get_rank(), dist.get_world_size()]))
"""


def values(found):
    assert [each.status for each in found] == [0] * len(found), [each.err for each in found]
    return [json.loads(each.out.splitlines()[-1]) for each in found]


def test_tcp_with_a_query_and_again(plain):
    found = plain(
        """
rank = int(sys.argv[2])
url = f"{sys.argv[1]}?rank={rank}&world_size=2"
dist.init_process_group("gloo", url)
dist.destroy_process_group()
dist.init_process_group("gloo", url)
"""
        + ALL
    )
    assert values(found) == [[3, 0, 2], [3, 1, 2]]


def test_file(plain, tmp_path):
    found = plain(
        f"""
rank = int(sys.argv[2])
dist.init_process_group("gloo", "file://{tmp_path}/meet", rank=rank, world_size=2)
"""
        + ALL
    )
    assert values(found) == [[3, 0, 2], [3, 1, 2]]


def test_env(plain):
    """By variables, without a launcher."""
    found = plain(
        """
rank = int(sys.argv[2])
host, at = sys.argv[1].removeprefix("tcp://").split(":")
os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=host, MASTER_PORT=at)
dist.init_process_group("gloo")
"""
        + ALL
    )
    assert values(found) == [[3, 0, 2], [3, 1, 2]]


def test_a_store(plain):
    found = plain(
        """
rank = int(sys.argv[2])
host, at = sys.argv[1].removeprefix("tcp://").split(":")
store = dist.TCPStore(host, int(at), 2, rank == 0)
dist.init_process_group("gloo", store=dist.PrefixStore("mine", store), rank=rank, world_size=2)
"""
        + ALL
    )
    assert values(found) == [[3, 0, 2], [3, 1, 2]]


@pytest.mark.parametrize("cluster", ["Open MPI", "SLURM"])
def test_clusters(plain, port, cluster):
    """The variables that these set; JAX reads them."""
    job = port()
    if cluster == "SLURM":
        same = {"SLURM_JOB_ID": f"{job}", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
        own = ("SLURM_PROCID", "SLURM_LOCALID")
    else:
        head = f"{job << 12}.0;tcp://127.0.0.1:34911"
        same = {"OMPI_MCA_orte_hnp_uri": head, "OMPI_COMM_WORLD_SIZE": "2"}
        own = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
    variables = [{**same, **dict.fromkeys(own, str(rank))} for rank in (0, 1)]
    found = plain("dist.init_process_group()\nrank = dist.get_rank()" + ALL, variables=variables)
    assert values(found) == [[3, 0, 2], [3, 1, 2]]


def test_a_world_of_one(plain):
    """Without jax.distributed, also after tensors."""
    (found,) = plain(
        """
import jax
t = torch.ones(3) * 2
dist.init_process_group("gloo", sys.argv[1], rank=0, world_size=1)
dist.all_reduce(t)
dist.broadcast(t, 0)
parts = [torch.zeros(3)]
dist.all_gather(parts, t)
dist.barrier()
box = [None]
dist.all_gather_object(box, {"a": 1})
o = torch.zeros(3)
dist.reduce_scatter(o, [t])
dist.all_to_all_single(o, t)
group = dist.new_group([0])
dist.destroy_process_group()
states = jax.distributed.is_initialized(), dist.is_initialized()
print(json.dumps([t.tolist(), parts[0].tolist(), box, o.tolist(), *states]))
""",
        ranks=[0],
    )
    assert values([found]) == [[[2.0] * 3, [2.0] * 3, [{"a": 1}], [2.0] * 3, False, False]]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (dict(init_method="tcp://localhost", rank=0, world_size=1), ValueError, "port number missing"),
        (dict(init_method="tcp://localhost:1"), ValueError, "rank parameter missing"),
        (dict(init_method="tcp://localhost:1", rank=0), ValueError, "world size parameter missing"),
        (dict(init_method="file://", rank=0, world_size=1), ValueError, "path missing"),
        (dict(init_method="what://x"), RuntimeError, "No rendezvous handler for what://"),
        (dict(init_method="env://"), ValueError, "environment variable RANK expected, but not set"),
        (dict(backend="foo", init_method="env://"), ValueError, "Invalid backend"),
        (dict(timeout=3), TypeError, "Expected timeout argument"),
        (dict(init_method="env://", rank=2, world_size=2), ValueError, "MASTER_ADDR"),
    ],
)
def test_refused(monkeypatch, arguments, error, text):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(error, match=text):
        dist.init_process_group(**arguments)
    assert not dist.is_initialized()


def stores(tmp_path):
    yield dist.HashStore(), None
    yield dist.FileStore(str(tmp_path / "store"), 1), None
    master = dist.TCPStore("localhost", 0, is_master=True)
    yield master, master
    yield dist.PrefixStore("p", master), master


def test_stores(tmp_path):
    """As PyTorch's; `get` waits for what another thread sets."""
    for store, master in stores(tmp_path):
        store.set("a", "1")
        assert store.get("a") == b"1"
        assert [store.add("n", 3), store.add("n", 4), store.get("n")] == [3, 7, b"7"]
        assert store.check(["a", "n"]) and not store.check(["a", "b"])
        assert store.compare_set("a", "2", "3") == b"1"
        assert store.compare_set("a", "1", "3") == b"3" == store.get("a")
        assert store.compare_set("new", "", "x") == b"x"
        store.append("a", b"\xff")
        assert store.get("a") == b"3\xff"
        assert [store.delete_key("a"), store.delete_key("a")] == [True, False]
        store.multi_set(["u", "v"], ["1", "2"])
        assert store.multi_get(["u", "v"]) == [b"1", b"2"]
        with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: /absent"):
            store.wait(["absent"], timedelta(milliseconds=50))
        thread = threading.Timer(0.1, store.set, ["late", "here"])
        thread.start()
        assert store.get("late") == b"here"
        thread.join()
        if master is not None and store is not master:
            assert master.get("p/u") == b"1"
            master._close()


def test_a_port_that_is_taken():
    first = dist.TCPStore("localhost", 0, is_master=True)
    with pytest.raises(dist.DistNetworkError, match="Another job may use the port"):
        dist.TCPStore("localhost", first.port, is_master=True)
    first._close()


def test_sampler_takes_the_group(job):
    found = job(
        """
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
dist.init_process_group()
sampler = DistributedSampler(range(10), seed=3)
sampler.set_epoch(2)
loader = DataLoader(TensorDataset(torch.arange(10)), batch_size=2, sampler=DistributedSampler(range(10), shuffle=False))
print(json.dumps([sampler.num_replicas, sampler.rank, list(sampler), [b.tolist() for (b,) in loader]]))
"""
    ).values()
    assert [each[:2] for each in found] == [[2, 0], [2, 1]]
    assert sorted(found[0][2] + found[1][2]) == [*range(10)]
    assert [each[3] for each in found] == [[[0, 2], [4, 6], [8]], [[1, 3], [5, 7], [9]]]
