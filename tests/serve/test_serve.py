"""``functorch-port serve``: a real process on a loopback port, and the parts that no process shows well."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")

import functorch_port as ft
from functorch_port import nn
from functorch_port._serve._app import Limits, Service
from functorch_port._serve._batching import Batcher
from functorch_port._serve._bodies import JSON, NPZ, SAFETENSORS, Malformed, read
from functorch_port._serve._model import Model, Wrong
from functorch_port.export import Dim, export, load, save
from functorch_port.safetensors import load as load_safetensors
from functorch_port.safetensors import save as save_safetensors

ROOT = Path(__file__).parents[2]


class Net(nn.Module):
    """Two inputs of other types and a fixed number; two outputs and one that is no tensor."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(16, 4), nn.Linear(4, 3)

    def forward(self, x, ids, scale=2.0):
        h = self.fc(x + self.table(ids).sum(1)) * scale
        return {"scores": h.softmax(-1), "best": h.argmax(-1), "kind": "net"}


def program(batch=Dim("batch"), length=Dim("length")):
    ft.manual_seed(0)
    net = Net().eval()
    x, ids = ft.randn(3, 4), ft.randint(0, 16, (3, 2))
    shapes = ({0: batch}, {0: batch, 1: length}, None)
    return net, export(net, (x, ids, 2.0), dynamic_shapes=shapes)


def inputs(rng, rows, length=2):
    return {
        "x": rng.standard_normal((rows, 4), np.float32),
        "ids": rng.integers(0, 16, (rows, length)),
    }


def expected(net, given):
    with ft.no_grad():
        out = net(ft.from_numpy(given["x"].copy()), ft.from_numpy(given["ids"].copy()))
    return {"scores": out["scores"].numpy(), "best": out["best"].numpy()}


class Server:
    """The command in a process of its own."""

    def __init__(self, path, *arguments):
        settings = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "2"}
        command = [
            sys.executable,
            "-m",
            "functorch_port",
            "serve",
            str(path),
            "--port",
            "0",
            *map(str, arguments),
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.port = int(re.fullmatch(r"functorch-port serve: \S+ on http://127.0.0.1:(\d+)\n", line)[1])

    def wait_until_ready(self):
        end = time.monotonic() + 60
        while self.ask("GET", "/ready")[0] != 200:
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.05)
        return self

    def ask(self, method, path, body=None, kind=JSON, connection=None):
        if connection is None:
            with self.connected() as connection:
                return self.ask(method, path, body, kind, connection)
        connection.request(method, path, body, {"Content-Type": kind} if body is not None else {})
        answer = connection.getresponse()
        return answer.status, answer.read(), {key.lower(): value for key, value in answer.getheaders()}

    def connected(self):
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30))

    def predict(self, given, **options):
        body = json.dumps({name: value.tolist() for name, value in given.items()})
        status, content, _ = self.ask("POST", "/predict", body, **options)
        return status, json.loads(content)

    def stop(self, sig=signal.SIGTERM):
        with self.process:
            self.process.send_signal(sig)
            _, log = self.process.communicate(timeout=60)
        return self.process.returncode, log


@pytest.fixture(scope="module")
def net_and_file(tmp_path_factory):
    net, made = program()
    path = tmp_path_factory.mktemp("serve") / "net.pt2"
    save(made, path)
    return net, path


@pytest.fixture(scope="module")
def net(net_and_file):
    return net_and_file[0]


@pytest.fixture(scope="module")
def server(net_and_file):
    server = Server(net_and_file[1], "--max-batch", 8, "--body-limit", "100kB").wait_until_ready()
    yield server
    if server.process.poll() is None:
        code, log = server.stop()
        assert code == 0 and "Traceback" not in log


def assert_answer(found, want):
    assert found["kind"] == "net" and np.array_equal(found["best"], want["best"])
    np.testing.assert_allclose(found["scores"], want["scores"], rtol=1e-5, atol=1e-6)


def test_concurrent_requests_get_their_own_answers(server, net):
    rng = np.random.default_rng(0)
    given = [inputs(rng, int(rng.integers(1, 9)), int(rng.integers(1, 4))) for _ in range(150)]
    with ThreadPoolExecutor(24) as pool:
        answers = [*pool.map(server.predict, given)]
    for one, (status, answer) in zip(given, answers):
        assert status == 200
        assert_answer(answer, expected(net, one))
    metrics = server.ask("GET", "/metrics")[1].decode()
    together = float(re.search(r"^batch_requests_sum (\S+)", metrics, re.M)[1])
    batches = float(re.search(r"^batch_requests_count (\S+)", metrics, re.M)[1])
    assert together >= 150 and batches < together  # some were computed together
    assert re.search(r'^predict_answers_total\{status="200"\} (\S+)', metrics, re.M)


def test_every_type_of_body(server, net):
    given = inputs(np.random.default_rng(1), 3)
    want = expected(net, given)
    file = io.BytesIO()
    np.savez_compressed(file, x=np.asfortranarray(given["x"]), ids=given["ids"].astype(">i8"))
    status, content, _ = server.ask("POST", "/predict", file.getvalue(), NPZ)
    assert status == 200
    with np.load(io.BytesIO(content)) as found:
        assert_answer({**found, "kind": "net"}, want)
        assert found["scores"].dtype == np.float32 and found["best"].dtype == np.int64
    body = save_safetensors({name: ft.from_numpy(value.copy()) for name, value in given.items()})
    status, content, _ = server.ask("POST", "/predict", body, SAFETENSORS)
    assert status == 200
    assert_answer({**{k: v.numpy() for k, v in load_safetensors(content).items()}, "kind": "net"}, want)
    coded = {"base64": base64.b64encode(given["x"].tobytes()).decode(), "shape": [3, 4], "dtype": "float32"}
    body = json.dumps({"x": coded, "ids": given["ids"].tolist()})
    for kind in (JSON, "application/json; charset=utf-8", "application/x-www-form-urlencoded"):
        status, content, _ = server.ask("POST", "/predict", body, kind)
        assert status == 200
        assert_answer(json.loads(content), want)
    given["x"][0, 0] = np.nan
    body = json.dumps({"x": [["NaN", 0, 0, 0]], "ids": [[1]]})
    status, content, _ = server.ask("POST", "/predict", body)
    assert status == 200 and json.loads(content)["scores"] == [["NaN"] * 3]


def test_a_wrong_request_is_nobody_elses(server, net):
    rng = np.random.default_rng(5)
    given = [inputs(rng, 2) for _ in range(60)]
    for one in given[::7]:
        one["ids"][1, 1] = -1
    with ThreadPoolExecutor(16) as pool:
        answers = [*pool.map(server.predict, given)]
    for k, (one, (status, answer)) in enumerate(zip(given, answers)):
        assert status == (422 if k % 7 == 0 else 200)
        if status == 200:
            assert_answer(answer, expected(net, one))


def test_pages(server):
    status, page, _ = server.ask("GET", "/")
    page = page.decode()
    assert status == 200 and "x: float32[batch, 4]" in page and "up to 8 of several requests" in page
    command = re.search(r"curl .*", page)[0]
    body = re.search(r"-d '(.*)'", command)[1]  # as pasted
    assert f"http://127.0.0.1:{server.port}/predict" in command
    assert server.ask("POST", "/predict", body)[0] == 200
    assert json.loads(server.ask("GET", "/health")[1]) == {"status": "ok"}
    schema = json.loads(server.ask("GET", "/openapi.json")[1])
    takes = schema["paths"]["/predict"]["post"]["requestBody"]["content"][JSON]["schema"]
    assert takes["required"] == ["x", "ids"] and takes["properties"]["ids"]["items"]["items"] == {
        "type": "integer"
    }
    for method, path, status in (("GET", "/predict", 405), ("GET", "/nothing", 404), ("POST", "/", 405)):
        found, content, _ = server.ask(method, path)
        assert found == status and json.loads(content)["error"]


FINE = {"x": [[0, 0.5, 1, 2]], "ids": [[1, 2]]}
WRONG = [
    (b"{", 400, "the body is not JSON"),
    (b"[1]", 400, "the JSON is a list, and should be an object with the inputs by name: x, ids"),
    (b"[" * 100000, 400, "nested too deeply"),
    ({"x": FINE["x"]}, 422, "the input 'ids' is missing; the program takes x, ids"),
    ({**FINE, "y": 1}, 422, "there is no input 'y'; the program takes x, ids"),
    ({**FINE, "x": [[1, 2, 3]]}, 422, r"x has shape \[1, 3\], and should have \[batch, 4\]"),
    ({**FINE, "x": [1, 2]}, 422, r"x should be float32\[batch, 4\], and the JSON has 1 dimensions: \[2\]"),
    ({**FINE, "x": [[1, 2, 3, 4], [1]]}, 422, "dimension 1 has 4 in the first, and there is a list of 1"),
    ({**FINE, "x": [[1, 2, 3, "a"]]}, 422, '"a" is none of numbers'),
    ({**FINE, "x": [[1, 2, 3, None]]}, 422, "null is none of numbers"),
    ({**FINE, "x": [[1, 2, 3, True]]}, 422, "true is none of numbers"),
    ({**FINE, "x": [[1, 2, 3, 1e300]]}, 422, "a number does not fit into float32"),
    (b'{"x": [[1e400, 0, 0, 0]], "ids": [[1, 2]]}', 422, "a number does not fit into float32"),
    (b'{"x": [[NaN, Infinity, 0, 0]], "x": [[0, 0, 0, 0]], "ids": [[1, 2]]}', 400, "the JSON has 'x' twice"),
    ({**FINE, "ids": [[1.5, 2]]}, 422, r"ids should be int64\[batch, length\]: 1.5 is none of integers"),
    ({**FINE, "ids": [[2**70, 2]]}, 422, "1180591620717411303424 does not fit into int64"),
    ({**FINE, "ids": [[1, 2], [3, 4]]}, 422, r"ids has shape \[2, 2\].* \(ids.size\(\)\[0\] == x.size\(\)\[0\]\)"),
    ({"x": [[0] * 4] * 9, "ids": [[0]] * 9}, 422, "x has 9 rows, and the server takes at most 8"),
    ({**FINE, "ids": [[1, 16]]}, 422, "^IndexError: index out of range in self$"),
    ({"x": [], "ids": []}, 422, "the JSON has 1 dimensions"),
    ({**FINE, "x": {"base64": "AAAA", "shape": [1, 4]}}, 422, r"3 bytes are not float32\[1, 4\]"),
    ({**FINE, "x": {"base64": "?", "shape": [1, 4]}}, 422, "not base64"),
    ({**FINE, "x": {"base64": "", "shape": [-1]}}, 422, r"its shape is \[-1\]"),
    ({**FINE, "x": {"base64": "", "shape": [0, 4], "dtype": "int8"}}, 422, "its dtype is 'int8'"),
    ({**FINE, "x": {"data": []}}, 422, "an object must have \"base64\".*it has 'data'"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code", "text"), WRONG)
def test_errors_say_what_is_wrong(server, body, code, text):
    body = body if isinstance(body, bytes) else json.dumps(body)
    status, content, _ = server.ask("POST", "/predict", body)
    found = json.loads(content)
    assert status == code and re.search(text, found["error"]), found
    assert code == 400 or found["field"] in ("x", "ids", "y") or "IndexError" in text


def test_other_limits(server):
    status, content, headers = server.ask("POST", "/predict", b"x" * 103_000)
    assert status == 413 and "--body-limit" in json.loads(content)["error"]
    status, content, _ = server.ask("POST", "/predict", b"a,b", "text/csv")
    assert status == 415 and "'text/csv' is none of application/json" in json.loads(content)["error"]
    with server.connected() as connection:
        connection.putrequest("POST", "/predict")  # a body of unknown length
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for _ in range(26):
            connection.send(b"1000\r\n" + b" " * 4096 + b"\r\n")
        assert connection.getresponse().status == 413


def mutations(count):
    """Requests that are nearly right."""
    draw = random.Random(0)
    fine = json.dumps(FINE).encode()
    npz = io.BytesIO()
    np.savez(npz, x=np.zeros((1, 4), np.float32), ids=np.zeros((1, 2), np.int64))
    tensors = save_safetensors({"x": ft.zeros(1, 4), "ids": ft.zeros(1, 2, dtype=ft.int64)})
    coded = [
        {"base64": 3, "shape": []},
        {"base64": "AA", "shape": ["a"]},
        {"base64": "", "shape": [2**39] * 5},
    ]
    values = [
        None,
        True,
        "a",
        "\ud800",
        {},
        [],
        [[]],
        [[[0]]],
        -1,
        2**63,
        1e308,
        [[1, [2]]],
        [[0] * 5],
        *coded,
    ]
    for k in range(count):
        how = k % 4
        if how == 0:
            yield (
                JSON,
                json.dumps({**FINE, draw.choice(["x", "ids", "\ud800"]): draw.choice(values)}).encode(),
            )
            continue
        kind, body = [(JSON, fine), (NPZ, npz.getvalue()), (SAFETENSORS, tensors)][how - 1]
        body = bytearray(body)
        for _ in range(draw.randint(1, 8)):
            body[draw.randrange(len(body))] = draw.randrange(256)
        yield kind, bytes(body[: draw.choice([len(body), draw.randrange(len(body))])])


def test_bad_bodies_never_break_it(server, net):
    seen = set()
    with server.connected() as connection:
        for kind, body in mutations(400):
            status, content, _ = server.ask("POST", "/predict", body, kind, connection)
            assert status == 200 or 400 <= status < 500, (kind, body, content)
            assert status == 200 or json.loads(content)["error"]
            seen.add(status)
    assert seen >= {400, 422}
    given = inputs(np.random.default_rng(2), 2)
    status, answer = server.predict(given)
    assert status == 200
    assert_answer(answer, expected(net, given))


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_loses_nothing(net_and_file, sig):
    net, path = net_and_file
    server = Server(path, "--max-wait-ms", 20).wait_until_ready()
    given = inputs(np.random.default_rng(3), 2)
    want = expected(net, given)
    answered, refused = [], []

    def ask(k):
        while True:
            with server.connected() as connection:
                try:
                    status, answer = server.predict(given, connection=connection)
                except (ConnectionRefusedError, ConnectionResetError) as error:  # it does not listen any more
                    refused.append(type(error).__name__)
                    return
                assert status == 200
                assert_answer(answer, want)
                answered.append(k)

    with ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit(ask, k) for k in range(16)]
        while len(answered) < 40:
            assert not any(job.done() for job in jobs)
            time.sleep(0.01)
        code, log = server.stop(sig)
        for job in jobs:
            job.result()
    assert code == 0 and "Traceback" not in log and len(refused) == 16
    assert f"stopped; answers given: {len(answered)}\n" in log  # all that it took came back


def test_the_pages_example(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "deployment.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "deployment.md", "exec"), {"__name__": "page"})
    assert "input   input: float32[batch, 4]" in capsys.readouterr().out
    model = Model(load("model.pt2"), 4)
    (body,) = re.findall(r"curl .* -d '(.*)'\n", page)
    ((out,),) = model([read(body.encode(), JSON, model)])
    shown = re.search(r'# \{"output":\[\[(.*)\]\]\}', page)[1].replace("...", "").split(",")
    np.testing.assert_allclose(out[0], [*map(float, shown)], atol=1e-4)


# ------------------------------------------------------------------ what cannot be served


def test_what_cannot_be_served_is_told(tmp_path, capsys):
    from functorch_port import cli

    bn = nn.BatchNorm1d(3)
    save(export(bn, (ft.ones(4, 3),)), tmp_path / "training.pt2")
    (tmp_path / "text").write_text("hello")
    batch = Dim("batch", min=4)
    save(export(nn.ReLU(), (ft.ones(4),), dynamic_shapes=({0: batch},)), tmp_path / "large.pt2")
    for arguments, text in (
        (["training.pt2"], r"writes to buffers \(running_mean.*module.eval\(\) before"),
        (["text"], "is no exported program"),
        (["nothing.pt2"], "No such file"),
        (["large.pt2", "--max-batch", "2"], "--max-batch 2 is less than the program's smallest batch, 4"),
    ):
        assert cli.main(["serve", str(tmp_path / arguments[0]), *arguments[1:]]) == 2
        assert re.search(f"functorch-port serve: .*{text}", capsys.readouterr().err)
    for wrong in (["--port", "70000"], ["--queue", "0"], ["--body-limit", "much"], ["--timeout", "0"]):
        with pytest.raises(SystemExit) as error:
            cli.main(["serve", "x.pt2", *wrong])
        assert error.value.code == 2


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(0, keepdim=True)


def test_rows_that_change_each_other_are_computed_alone():
    shapes = ({0: Dim("batch")},)
    model = Model(export(Centred(), (ft.ones(1, 3),), dynamic_shapes=shapes), 8)
    assert model.batch == "batch"
    model.compile(lambda text: None)
    assert model.batch is None and "rows change each other" in model.why_alone
    a, b = np.array([[1.0, 2, 3], [3, 4, 5]], np.float32), np.zeros((1, 3), np.float32)
    (first,), (second,) = model([[a], [b]])
    assert first.tolist() == [[-1, -1, -1], [1, 1, 1]] and second.tolist() == [[0, 0, 0]]
    model = Model(export(nn.Linear(3, 2), (ft.ones(1, 3),), dynamic_shapes=shapes), 8)
    model.compile(lambda text: None)
    assert model.batch == "batch" and model.sizes == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("fn", "example"),
    [
        (lambda x: x - x.float().mean(0), ft.zeros(2, 4, dtype=ft.int64)),
        (lambda x: x - x.max(), ft.arange(4).reshape(1, 4)),
        (lambda x: x - x.min(), ft.arange(4).reshape(1, 4)),
        (lambda x: x | x.any(0), ft.zeros(2, 4, dtype=ft.bool)),
        (lambda x: x - x.min(), ft.arange(1.0, 9).reshape(2, 4)),
        (lambda x: x - x.max(), -ft.arange(1.0, 9).reshape(2, 4)),
        (lambda x: ft.where((x > 99).any(), x * 0, x), ft.ones(2, 4)),
        (lambda x: x + 1e-6 * x.sum(0), ft.ones(2, 4)),
        (lambda x: x.cumsum(0), ft.ones(2, 4)),  # the first row is what it is alone
        (lambda x: x + ft.arange(x.shape[0])[:, None], ft.ones(2, 4)),
        (lambda x: x.float().mean(0) + x, ft.zeros(2, 4, dtype=ft.bfloat16)),
    ],
)
def test_whatever_other_rows_are(fn, example):
    class Net(nn.Module):
        def forward(self, x):
            return fn(x)

    model = Model(export(Net(), (example,), dynamic_shapes=({0: Dim("batch")},)), 4)
    model.compile(lambda text: None)
    assert model.why_alone == "rows change each other's results"


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (
            nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
            (1, 4, 4),
        ),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (5, 4)),
    ],
)
def test_rows_that_keep_to_themselves_are_computed_together(module, shape):
    shapes = ({0: Dim("batch")},)
    model = Model(export(module.eval(), (ft.zeros(1, *shape),), dynamic_shapes=shapes), 4)
    model.compile(lambda text: None)
    assert model.batch == "batch"


@pytest.mark.parametrize(
    ("module", "args", "shapes", "why"),
    [
        (nn.ReLU(), (2, 3), None, "no first dimension that changes"),
        (nn.ReLU(), (2, 3), ({1: Dim("b")},), "no first dimension that changes"),
        (nn.ReLU(), (2, 4), ({0: 2 * Dim("b")},), "no first dimension that changes"),
        (nn.ReLU(), (2, 2), ({0: Dim("b"), 1: Dim("b")},), "not only that of the first dimension"),
        (nn.Flatten(0), (2, 3), ({0: Dim("b")},), "does not have a row for each row"),
    ],
)
def test_programs_whose_rows_cannot_be_counted(module, args, shapes, why):
    model = Model(export(module, (ft.ones(*args),), dynamic_shapes=shapes), 8)
    assert model.batch is None and why in model.why_alone
    model.compile(lambda text: None)
    assert [out.size for out in model([[np.ones(args, np.float32)]])[0]] == [args[0] * args[1]]


def test_types_that_numpy_does_not_have():
    shapes = ({0: Dim("batch")},)
    model = Model(export(nn.ReLU(), (ft.ones(1, 2, dtype=ft.bfloat16),), dynamic_shapes=shapes), 2)
    array = ft.tensor([[1.5, -2.0]], dtype=ft.bfloat16)
    file, plain = io.BytesIO(), np.asarray(array.jax())
    np.savez(file, input=plain.view("V2"))
    bodies = {
        JSON: b'{"input": [[1.5, -2]]}',
        NPZ: file.getvalue(),
        SAFETENSORS: save_safetensors({"input": array}),
    }
    for kind, body in bodies.items():
        (found,) = read(body, kind, model)
        assert found.dtype == plain.dtype and found.astype(float).tolist() == [[1.5, -2]]
    with pytest.raises(Wrong, match="it is float32"):
        read(save_safetensors({"input": ft.ones(1, 2)}), SAFETENSORS, model)
    with pytest.raises(Malformed, match="unpacks to far more"):
        np.savez_compressed(file := io.BytesIO(), input=np.zeros(1 << 22))
        read(file.getvalue(), NPZ, model)


# ------------------------------------------------------------------ waiting


class Fake:
    """A model that waits until it may go on, and answers with its requests."""

    batch, sizes, max_batch = "batch", [1, 2, 4], 4

    def __init__(self):
        self.go, self.calls = threading.Event(), []

    def rows(self, arrays):
        return len(arrays[0])

    def key(self, arrays):
        return arrays[0].shape[1:]

    def __call__(self, requests):
        self.calls.append([len(arrays[0]) for arrays in requests])
        assert self.go.wait(30)
        if any(arrays[0].min() < 0 for arrays in requests if arrays[0].size):
            raise ValueError("negative")
        return [[arrays[0] * 2] for arrays in requests]


def rows(count, value=1.0, width=1):
    return [np.full((count, width), value)]


def test_requests_are_put_together_in_order():
    async def scene():
        model = Fake()
        batcher = Batcher(model, 0.0, lambda requests, rows: None)
        task = asyncio.create_task(batcher.run())
        given = [rows(1), rows(2), rows(1, width=2), rows(1), rows(3), rows(1), rows(1, -1.0)]
        jobs = []
        for one in given:
            jobs.append(asyncio.create_task(batcher.submit(one)))
            await asyncio.sleep(0.01)  # the first is being computed
        jobs.append(asyncio.create_task(batcher.submit(rows(1))))
        await asyncio.sleep(0.01)
        jobs[5].cancel()  # given up
        model.go.set()
        found = await asyncio.gather(*jobs, return_exceptions=True)
        task.cancel()
        # none overtakes one of its own width; after an error each is computed by itself
        assert model.calls == [[1], [2, 1], [1], [3, 1], [3], [1], [1]]
        assert [type(f) for f in found[5:7]] == [asyncio.CancelledError, ValueError]
        for one, answer in zip([*given[:5], rows(1)], [*found[:5], found[7]]):
            assert np.array_equal(answer[0], one[0] * 2)

    asyncio.run(scene())


async def call(app, body=b"{}", path="/predict"):
    """A request without a server: (status, headers, JSON)."""
    sent, messages = [], [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return messages.pop(0) if messages else await asyncio.sleep(3600)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await app(scope, receive, send)
    headers = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
    return sent[0]["status"], headers, json.loads(sent[1]["body"])


def test_too_many_and_too_slow():
    _, made = program()

    async def scene():
        service = Service(Model(made, 4), Limits(queue=1, timeout=0.2), "net.pt2")
        body = json.dumps(FINE).encode()
        status, headers, answer = await call(service.app, body)
        assert status == 503 and headers["retry-after"] == "1" and "being compiled" in answer["error"]
        service.is_compiled = True  # and nobody computes
        slow = asyncio.create_task(call(service.app, body))
        await asyncio.sleep(0.05)
        status, headers, answer = await call(service.app, body)
        assert (
            status == 503 and headers["retry-after"] == "1" and "1 requests wait already" in answer["error"]
        )
        status, _, answer = await slow
        assert status == 504 and "--timeout" in answer["error"] and service.open == 0

    asyncio.run(scene())


def test_a_program_for_another_platform_is_told():
    made = export(nn.ReLU(), (ft.ones(3),), platforms=("tpu",))
    failed = []
    service = Service(Model(made, 4), Limits(), "net.pt2", failed=failed.append)  # which ends the process
    asyncio.run(service._start())
    assert "exported for platforms '('tpu',)'" in str(failed[0]) and not service.is_compiled


def test_the_file_of_a_server_needs_no_example(net_and_file):
    made = load(net_and_file[1])
    made.example_inputs = None
    model = Model(made, 4)
    assert [array.shape for array in model.example(2)] == [(2, 4), (2, 1)]
