# ruff: noqa: E501 (tables, a line per subject)
"""Random programs whose function reads and changes Python state, and whose caller changes it between calls.

A `Program` is text: how the state is made, a function ``run(x)`` that reads it and may change it, and what happens between
calls. PyTorch runs it as it is; here it is run compiled. After every call the result and all of the state are compared.
"""

from __future__ import annotations

import random
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MODULE = "random_state_program"
PRELUDE = """
import collections, dataclasses, functools, types
import numpy as np

class Thing:
    bias = 0.5
    def __init__(self, x):
        self.x, self.mode, self.inner, self.items = x, "a", None, [x, 1.0]
    @property
    def twice(self):
        return self.x * 2
    def method(self, y):
        return y + self.x

class Small:
    __slots__ = ("x",)

@dataclasses.dataclass
class Config:
    x: float = 1.0
    sizes: tuple = (1.0, 2.0)

def tensor(v):
    return T.full((2,), float(v), dtype=T.float64)
"""

#: kinds of state. ``#`` is the number of the variable, ``@`` a number drawn anew.
#: (how it is made, expressions that read it, what the caller does, what the function does)
KINDS: list[tuple[str, list[str], list[str], list[str]]] = [
    (
        "g# = @",
        ["g#", "min(g#, 2.0)", "(1.0 if g# > 1 else 3.0)"],
        ["g# = @"],
        ["g# = g# + 1", "g# *= 0.5", "g# = @"],
    ),
    (
        "i# = 2",
        ["i#", "(x * 0 + i#)", "sum(range(i#))"],
        ["i# = (i# + 1) % 5", "i# = 3"],
        ["i# += 1", "i# = (i# + 1) % 3"],
    ),
    ("b# = True", ["(1.5 if b# else -1.5)"], ["b# = not b#"], ["b# = not b#", "b# = False"]),
    (
        "s# = 'a'",
        ["{'a': 1.0, 'b': 2.0, 'c': 3.0}[s#]", "len(s#)"],
        ["s# = 'b'", "s# = 'c'", "s# = 'a'"],
        ["s# = 'b'"],
    ),
    ("n# = None", ["(1.0 if n# is None else 2.0)"], ["n# = None", "n# = 1"], ["n# = 1"]),
    (
        "t# = tensor(@)",
        ["t#", "t#.sum()", "t#[0]"],
        ["t# = tensor(@)", "t# = t# * 2", "t#.mul_(0.5)", "t#.data = tensor(@)"],
        ["t#.add_(1)", "t# = t# + 1"],
    ),
    (
        "d# = {'a': @, 'b': @}",
        [
            "d#['a']",
            "sum((i + 1) * v for i, v in enumerate(d#.values()))",
            "d#.get('c', 0.25)",
            "(1.0 if next(iter(d#)) == 'a' else 2.0)",
        ],
        ["d#['a'] = @", "d#['c'] = @", "d#['a'] = d#.pop('a')", "d# = {'b': @, 'a': @}", "d#.pop('c', None)"],
        ["d#['a'] += 1", "d#['b'] = d#['a'] * 0.5", "d#['b'] = d#.pop('b')", "d#['c'] = 1.0"],
    ),
    (
        "e# = {'w': tensor(@), 'v': tensor(@)}",
        ["e#['w']", "sum((i + 1) * v for i, v in enumerate(e#.values()))"],
        [
            "e#['w'] = tensor(@)",
            "e#['v'] = e#.pop('v')",
            "e#['u'] = tensor(@)",
            "e#['w'], e#['v'] = e#['v'], e#['w']",
        ],
        ["e#['w'] = e#['w'] * 0.5", "e#['v'].add_(1)"],
    ),
    (
        "l# = [@, @]",
        ["l#[0]", "sum(l#)", "len(l#)", "max(l#)"],
        ["l#[0] = @", "l#.append(@)", "l#.reverse()", "l# = [@]", "l#[:] = [@, @]"],
        ["l#[0] += 1", "l#.append(1.0)", "l#.sort()"],
    ),
    (
        "k# = [tensor(@), tensor(@)]",
        ["k#[0]", "sum(k#)", "k#[-1]"],
        ["k#[0] = tensor(@)", "k#.append(tensor(@))", "k#.reverse()"],
        ["k#[0] = k#[0] + 1", "k#[-1].mul_(0.5)"],
    ),
    ("u# = (@, [@])", ["u#[0]", "u#[1][0]"], ["u# = (@, [@])", "u#[1][0] = @"], ["u#[1][0] += 1"]),
    (
        "q# = collections.deque([@, @], maxlen=3)",
        ["sum(q#)", "q#[0]"],
        ["q#.append(@)", "q#.rotate()"],
        ["q#.append(1.0)"],
    ),
    (
        "z# = {1.0, 2.0}",
        ["sum(z#)", "(1.0 if 3.0 in z# else 2.0)"],
        ["z#.add(3.0)", "z#.discard(1.0)"],
        ["z#.add(5.0)"],
    ),
    (
        "o# = Thing(@)",
        [
            "o#.x",
            "o#.twice",
            "o#.method(1.0)",
            "o#.bias",
            "(1.0 if o#.mode == 'a' else 2.0)",
            "(o#.inner.x if o#.inner else 0.5)",
            "o#.items[0]",
            "getattr(o#, 'extra', 0.125)",
            "sum(v for v in vars(o#).values() if isinstance(v, float))",
        ],
        [
            "o#.x = @",
            "o#.mode = 'b'",
            "o#.mode = 'a'",
            "o#.inner = Thing(@)",
            "o#.inner = None",
            "o#.items[0] = @",
            "o#.extra = @",
            "o#.__dict__.pop('extra', None)",
            "Thing.bias = @",
            "o#.bias = @",
            "o# = Thing(@)",
            "o#.method = lambda y: y * 3",
            "Thing.method = lambda self, y: y - self.x",
        ],
        ["o#.x += 1", "o#.mode = 'b'", "o#.extra = o#.x", "o#.items.append(0.5)", "o#.x *= 0.5"],
    ),
    (
        "p# = Thing(tensor(@))",
        ["p#.x", "p#.twice"],
        ["p#.x = tensor(@)", "p#.x = p#.x + 1"],
        ["p#.x = p#.x * 0.5", "p#.x.add_(1)"],
    ),
    ("m# = Small(); m#.x = @", ["m#.x"], ["m#.x = @"], ["m#.x += 1"]),
    (
        "c# = Config(@)",
        ["c#.x", "sum(c#.sizes)", "c#.sizes[0]"],
        ["c#.x = @", "c#.sizes = (@, @)", "c# = Config(@)", "c# = dataclasses.replace(c#, x=@)"],
        ["c#.x += 1"],
    ),
    (
        "a# = np.array([@, @])",
        ["float(a#[0])", "T.tensor(a#)", "float(a#.sum())"],
        ["a#[0] = @", "a# = np.array([@, @])", "a# *= 2"],
        ["a#[1] += 1"],
    ),
    (
        "f# = lambda y, k=@: y * k",
        ["f#(1.0)", "f#(x)"],
        ["f# = lambda y, k=@: y + k", "f#.__defaults__ = (@,)"],
        [],
    ),
    (
        "h# = functools.partial(lambda y, k: y * k, k=@)",
        ["h#(x)"],
        ["h#.keywords['k'] = @", "h# = functools.partial(lambda y, k: y + k, k=@)"],
        [],
    ),
    ("w#_get, w#_set = make_cell(@)", ["w#_get()"], ["w#_set(@)"], ["w#_set(w#_get() + 1)"]),
    (
        "r# = T.nn.LeakyReLU(0.5)",
        ["r#(x)"],
        [
            "r#.negative_slope = @",
            "r#.forward = lambda y: y * 3",
            "vars(r#).get('forward') and delattr(r#, 'forward')",
        ],
        ["r#.negative_slope = 0.25"],
    ),
    (
        "y# = T.nn.BatchNorm1d(2).double()",
        ["y#(x)"],
        [
            "y#.momentum = 0.5",
            "y#.eps = 0.25",
            "y#.eval()",
            "y#.train()",
            "y#.momentum = None",
            "y#.weight.data.mul_(2)",
            "y#.running_mean = tensor(@)",
        ],
        ["y#.momentum = 0.75"],
    ),
    (
        "v# = T.nn.Linear(2, 2).double()",
        ["v#(x)", "v#.weight.sum()", "(x @ v#.weight)"],
        [
            "v#.weight = T.nn.Parameter(T.full((2, 2), @, dtype=T.float64))",
            "v#.bias = None",
            "v#.requires_grad_(False)",
            "v#.weight.data.mul_(0.5)",
        ],
        [],
    ),
    (
        "j# = T.nn.ParameterList([T.nn.Parameter(tensor(@)) for _ in range(2)])",
        ["sum(j#)", "j#[1]"],
        ["j#[1] = T.nn.Parameter(tensor(@))"],
        [],
    ),
    (
        "x# = types.SimpleNamespace(x=@)",
        ["x#.x"],
        ["x#.x = @", "x# = types.SimpleNamespace(x=@)"],
        ["x#.x += 1"],
    ),
    (
        "aa# = T.nn.Parameter(tensor(@)); bb# = T.optim.SGD([aa#], lr=0.125, momentum=0.5)",
        ["aa#.detach().sum()"],
        [
            "bb#.param_groups[0]['lr'] = 0.25",
            "bb#.state.clear()",
            "bb#.param_groups[0]['momentum'] = 0.0",
            "bb#.state.get(aa#, {}).pop('momentum_buffer', None)",
            "bb# = T.optim.SGD([aa#], lr=0.5)",
            "bb#.param_groups[0]['lr'] = T.tensor(0.0625, dtype=T.float64)",
        ],
        ["bb#.zero_grad(); (aa# * aa#).sum().backward(); bb#.step()"],
    ),
]

MAKE_CELL = """
def make_cell(v):
    def get():
        return v
    def put(new):
        nonlocal v
        v = new
    return get, put
"""


@dataclass
class Program:
    """Attributes:
    made: statements that make the state.
    lines: of the function.
    between: what the caller does before each call.
    """

    made: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    between: list[list[str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def function(self) -> str:
        body = "\n".join(f"    {line}" for line in ["y = x", *self.lines, "return y"])
        return f"def run(x):\n    global {', '.join(self.names)}\n{body}\n"

    def __str__(self) -> str:
        calls = "\n".join(f"# call {i}\n" + "\n".join(lines) for i, lines in enumerate(self.between))
        return "\n".join([*self.made, self.function(), calls])


def generate(seed: int, outside: bool = True, calls: int = 5) -> Program:
    """A program; with ``outside`` the caller changes something between the calls."""
    draw = random.Random(seed)
    program = Program()

    def text(template: str, number: int) -> str:
        template = template.replace("#", str(number))
        while "@" in template and " @ " not in template:
            template = template.replace("@", str(draw.choice((0.5, 2.0, -1.0, 0.25, 1.5, 3.0, 0.75))), 1)
        return template

    outsides: list[str] = []
    for number in range(draw.randint(1, 4)):
        made, reads, caller, function = draw.choice(KINDS)
        program.made.append(text(made, number))
        program.names += [n for n in _assigned(program.made[-1]) if n not in program.names]
        chosen = draw.sample(reads, min(len(reads), draw.randint(1, 2)))
        steps = [
            draw.choice(("y = y * 0.5 + {}", "y = y + {}", "y = y * {}")).format(text(r, number))
            for r in chosen
        ]
        if function and draw.random() < 0.4:
            steps.insert(draw.randint(0, len(steps)), text(draw.choice(function), number))
        if "aa" in made:
            steps.append(text(function[0], number))
        program.lines += steps
        outsides += [text(c, number) for c in caller]
        program.names += [n for c in outsides for n in _assigned(c) if n not in program.names]
    for i in range(calls):
        some = draw.sample(outsides, min(len(outsides), draw.choice((0, 1, 1, 2)))) if outside and i else []
        program.between.append(some)
    return program


def _assigned(statement: str) -> list[str]:
    import ast

    return [
        n.id
        for n in ast.walk(ast.parse(statement))
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]


def run(program: Program, lib: Any, compiled: bool) -> list[Any]:
    """The results of the calls, each with the state after it; an error ends the program."""
    lib.manual_seed(0)
    module = sys.modules[MODULE] = types.ModuleType(MODULE)  # where dataclasses look for it
    env = vars(module)
    env["T"] = lib
    exec(PRELUDE + MAKE_CELL, env)
    for line in program.made:
        exec(line, env)
    exec(program.function(), env)
    fn = lib.compile(env["run"]) if compiled else env["run"]
    x = lib.tensor([[1.0, -2.0], [0.5, 3.0], [2.0, 0.25]], dtype=lib.float64)
    found: list[Any] = []
    for before in program.between:
        for line in before:
            try:
                exec(line, env)
            except Exception as error:
                found.append(type(error).__name__)
        try:
            result = fn(x)
        except Exception as error:
            found.append((type(error).__name__, str(error)[:80]))
            if "nan" in str(error):
                raise
            break
        found.append(plain(result))
        found.append({n: plain(env[n]) for n in program.names if n in env})
        found.append({n: plain(getattr(env["Thing"], n)) for n in ("bias",)})
    found.append(fn.traces if compiled else 0)
    return found


def plain(value: Any) -> Any:
    """A value as numbers and strings that compare."""
    if hasattr(value, "detach"):
        return np.asarray(value.detach().tolist())
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return [(str(k), plain(v)) for k, v in value.items()]
    if isinstance(value, set):
        return sorted(map(plain, value))
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool | int | float):
        return float(value)
    if hasattr(value, "named_parameters"):
        named = [*value.named_parameters(), *value.named_buffers()]
        return [(n, plain(t)) for n, t in named] + [
            plain(getattr(value, k, None)) for k in ("momentum", "eps", "negative_slope")
        ]
    if hasattr(value, "param_groups"):
        return [plain(value.param_groups[0]["lr"]), len(value.state)]
    if isinstance(value, list | tuple) or type(value).__name__ == "deque":
        return [plain(v) for v in value]
    if hasattr(value, "__dict__") and type(value).__module__ == MODULE:
        return plain({k: v for k, v in vars(value).items() if not callable(v)})
    return type(value).__name__


def differs(a: Any, b: Any, where: str = "") -> str:
    """Where two outcomes differ; empty if nowhere."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        same = np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)
        return "" if same else f"{where}: {b} and not {a}"
    if isinstance(a, dict) and isinstance(b, dict):
        a, b = list(a.items()), list(b.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return f"{where}: {len(b)} items and not {len(a)}"
        return next(
            (d for i, (x, y) in enumerate(zip(a, b, strict=True)) if (d := differs(x, y, f"{where}[{i}]"))),
            "",
        )
    if isinstance(a, float) and isinstance(b, float):
        return "" if np.isclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True) else f"{where}: {b} and not {a}"
    return "" if a == b else f"{where}: {b!r} and not {a!r}"


def check(seed: int, lib: Any, reference: Any) -> str:
    """Run one program both ways; returns how they differ. Half of the programs are changed from outside."""
    program = generate(seed, outside=bool(seed % 2))
    expected, got = run(program, reference, False), run(program, lib, True)
    if isinstance(
        expected[-2] if len(expected) > 1 else None, tuple
    ):  # both refuse; the words are tested elsewhere
        return (
            ""
            if isinstance(got[-2], tuple) and len(got) == len(expected)
            else f"{got[-2]} and not {expected[-2]}\n{program}"
        )
    found = differs(expected[:-1], got[:-1])
    return f"{found}\n{program}" if found else ""


if __name__ == "__main__":
    import time
    import warnings

    import torch

    import functorch_port

    warnings.simplefilter("ignore")
    first, last = map(int, sys.argv[1:3])
    start, bad = time.time(), 0
    for seed in range(first, last):
        try:
            found = check(seed, functorch_port, torch)
        except Exception as error:  # a fault of either
            found = f"{type(error).__name__}: {error}\n{generate(seed, bool(seed % 2))}"
        if found:
            bad += 1
            print(f"--- {seed}\n{found}", flush=True)
    print(f"{last - first} programs, {bad} differ, {time.time() - start:.0f} s")
