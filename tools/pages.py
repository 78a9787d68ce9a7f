"""Pages that mkdocs makes of what is there already: the reference, the cookbook, the changelog. A hook of `mkdocs.yml`.

The reference has every public name, those of `tests/public_names.txt`, on the page of the first module that has it.
"""

from __future__ import annotations

import html
import importlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import latex2mathml.converter
from griffe import Docstring
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
logging.getLogger("griffe").setLevel(logging.ERROR)  # docstrings name no types: signatures do

names = importlib.import_module("test_public_names")

#: the modules whose pages come first; names that stand in several are on the first one's
MODULES = (
    "torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils", "torch.nn.attention",
    "torch.nn.parallel", "torch.optim", "torch.optim.lr_scheduler", "torch.optim.swa_utils", "torch.optim.functional",
    "torch.autograd", "torch.autograd.functional", "torch.func", "torch.compiler", "torch.linalg", "torch.fft",
    "torch.special", "torch.sparse", "torch.signal.windows", "torch.random", "torch.amp", "torch.distributions",
    "torch.utils.data", "torch.utils.checkpoint", "torch.utils.resume", "torch.utils.tensorboard",
    "torch.utils.benchmark", "torch.profiler", "torch.export", "torch.onnx", "torch.jit", "torch.library", "torch.hub",
    "torch.distributed", "torch.distributed.tensor", "torch.distributed.tensor.parallel", "torch.distributed.sharding",
    "torch.distributed.fsdp", "torch.distributed.checkpoint", "torch.distributed.pipelining", "torch.multiprocessing",
    "torch.accelerator", "torch.cuda", "torch.backends", "torch.testing", "torch.interchange", "torch.safetensors",
    "torch.flax", "torch.crosscheck", "torch.viz",
    "torchvision.datasets", "torchvision.io", "torchvision.models", "torchvision.ops",
    "torchvision.transforms", "torchvision.transforms.v2", "torchvision.tv_tensors", "torchvision.utils",
)  # fmt: skip


def on_config(config: Any) -> Any:
    """List the pages of the reference in the navigation."""
    first, more = (
        [{n: f"reference/{n}.md"} for n in reference() if (n in MODULES) == is_first]
        for is_first in (True, False)
    )
    listed: list[Any] = ["reference/index.md", *first, {"More": more}]
    for entry in config.nav:
        if "Reference" in entry:
            entry["Reference"] = listed
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    pages = {f"reference/{name}.md": page for name, page in reference().items()}
    pages["reference/index.md"] = _index(list(reference()))
    pages["cookbook.md"] = cookbook()
    pages["changelog.md"] = (ROOT / "CHANGELOG.md").read_text()
    pages["contributing.md"] = (ROOT / "CONTRIBUTING.md").read_text()
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


# ------------------------------------------------------------------ the reference


@cache
def reference() -> dict[str, str]:
    """The pages by the modules' names."""
    return dict(_pages())


def _pages() -> Iterator[tuple[str, str]]:
    tables = [names.LISTED[names.TORCH], names.LISTED[names.OWN]]
    shown: set[tuple[str, int]] = set()
    for module in dict.fromkeys([*MODULES, *sorted({*tables[0], *tables[1]})]):
        if module == "torch.Tensor":
            yield module, _tensor()
            continue
        listed = set().union(*(table.get(module, ()) for table in tables))
        home = names.load(
            module
        )  # what it does not have yet are modules, which are loaded when they are asked for
        values = {name: getattr(home, name) for name in sorted(listed, key=str.lower) if hasattr(home, name)}
        new = {
            name: value
            for name, value in values.items()
            if not isinstance(value, ModuleType) and not (callable(value) and (name, id(value)) in shown)
        }
        shown |= {(name, id(value)) for name, value in new.items()}
        if new:
            yield module, _module(module, new)


def _module(name: str, shown: dict[str, Any]) -> str:
    module = names.load(name)
    parts = [f"# {name}", _docstring(module.__doc__, 2)]
    parts.append(f"In Python: `import {module.__name__}`.\n")
    for title, kind in (("Classes", _is_class), ("Functions", callable), ("Values", lambda value: True)):
        found = {key: value for key, value in shown.items() if kind(value)}
        shown = {key: value for key, value in shown.items() if key not in found}
        if found:
            parts.append(f"## {title}\n")
            parts += [_entry(name, key, value) for key, value in found.items()]
    return "\n".join(parts)


def _is_class(value: Any) -> bool:
    return isinstance(value, type)


def _entry(module: str, name: str, value: Any) -> str:
    anchor = f"### {name} {{#{module}.{name}}}\n"
    if not callable(value):
        return f"{anchor}\n{_value(value)}\n"
    lines = [anchor, f"```python\n{name}{_signature(value)}\n```\n", _docstring(inspect.getdoc(value), 4)]
    if isinstance(value, type):
        lines.append(_members(value))
    return "\n".join(lines)


def _value(value: Any) -> str:
    text = repr(value)
    return f"`{text if len(text) < 100 else type(value).__name__}`"


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def _members(cls: type) -> str:
    """The methods and properties that a class defines itself."""
    rows = []
    for name, value in sorted(vars(cls).items()):
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        text = inspect.getdoc(function) if callable(function) else None
        if name.startswith("_") or not text or isinstance(function, type):
            continue
        call = "" if isinstance(value, property) else _without_self(_signature(function))
        rows.append(f"- `{name}{call}`: {_inline(text.split(chr(10) + chr(10))[0])}")
    return "\n".join(["", *rows, ""]) if rows else ""


def _without_self(signature: str) -> str:
    return re.sub(r"^\((?:self|cls)(?:, )?", "(", signature)


def _tensor() -> str:
    tensor = names.load("torch").Tensor
    parts = ["# torch.Tensor\n", _docstring(tensor.__doc__, 2), "## Methods and attributes\n"]
    for name in sorted(dir(tensor), key=str.lower):
        value = inspect.getattr_static(tensor, name)
        if name.startswith("_") or isinstance(value, type):
            continue
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        call = (
            ""
            if isinstance(value, property) or not callable(function)
            else _without_self(_signature(function))
        )
        text = inspect.getdoc(function) if callable(function) else ""
        parts.append(f"### {name} {{#torch.Tensor.{name}}}\n\n`{name}{call}`\n\n{_docstring(text, 4)}")
    return "\n".join(parts)


# ------------------------------------------------------------------ docstrings


def _docstring(text: str | None, level: int) -> str:
    """A docstring as Markdown."""
    if not text:
        return ""
    out = []
    for section in Docstring(inspect.cleandoc(text), parser="google").parse():
        kind, value = section.kind.value, section.value
        if kind == "text":
            out.append(_text(value))
        elif kind == "admonition":
            out.append(_admonition(str(value.annotation or section.title), section.title, value.contents))
        elif kind == "examples":
            out += [_code(part) if str(which.value) == "examples" else _text(part) for which, part in value]
        else:
            out.append(_items(kind, value))
    return "\n\n".join(out) + "\n"


_TITLES = {"parameters": "Arguments", "other parameters": "Arguments", "yields": "Gives"}


def _items(kind: str, items: Any) -> str:
    rows = []
    for item in items:
        name = getattr(item, "name", "") or ""
        kinds = str(item.annotation) if kind in ("raises", "warns") else name
        lead = f"`{kinds}`: " if kinds else ""
        rows.append(f"- {lead}{_inline(item.description)}")
    return f"**{_TITLES.get(kind, kind.capitalize())}**\n\n" + "\n".join(rows)


def _admonition(kind: str, title: str | None, text: str) -> str:
    if ">>>" in text:
        return f"**{title or kind}**\n\n{_code(text)}"
    return f"**{title or kind.capitalize()}**\n\n{_text(text)}"


def _code(text: str) -> str:
    clean = re.sub(r"\s*# doctest: \+SKIP", "", inspect.cleandoc(text))
    return f"```pycon\n{clean}\n```"


_MATH = re.compile(r"^( *)\.\. math::\n((?:\1 +.*\n?|\n)+)", re.MULTILINE)


def _text(text: str) -> str:
    """Paragraphs: double backquotes are Markdown's too; formulas become MathML, which browsers draw themselves."""
    parts, end = [], 0
    text = text + "\n"
    for found in _MATH.finditer(text):
        parts += [_inline(text[end : found.start()]), _formula(found.group(2))]
        end = found.end()
    parts.append(_inline(text[end:]))
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def _formula(text: str) -> str:
    return latex2mathml.converter.convert(inspect.cleandoc(text), display="block")


def _inline(text: str) -> str:
    """Addresses as links, formulas as MathML, and nothing that Markdown would take for HTML."""
    pieces = re.split(r"(:math:`[^`]*`|``.*?``|`[^`]*`|https?://[^\s,)]*[^\s,).])", text, flags=re.DOTALL)
    return "".join(map(_piece, pieces))


def _piece(text: str) -> str:
    if text.startswith(":math:"):
        return latex2mathml.converter.convert(text[len(":math:`") : -1])
    if text.startswith("`"):
        return text
    if text.startswith(("http://", "https://")):
        return f"<{text}>"
    return html.escape(text, quote=False).replace("*", r"\*")


def _index(pages: list[str]) -> str:
    rows = [
        "# Reference\n",
        "Every public name, from its docstring; the examples run in the tests.\n",
        "| module | |",
        "|---|---|",
    ]
    for name in pages:
        about = names.load("torch").Tensor if name == "torch.Tensor" else names.load(name)
        first = (about.__doc__ or "").split("\n")[0]
        rows.append(f"| [{name}]({name}.md) | {_inline(first).replace('|', '&#124;')} |")
    return "\n".join(rows) + "\n"


# ------------------------------------------------------------------ the cookbook


def cookbook() -> str:
    """The examples: what each is, and its program."""
    text = (ROOT / "examples" / "README.md").read_text()
    parts = [re.sub(r"^# .*", "# Cookbook", text, count=1)]
    for path in sorted((ROOT / "examples").glob("*.py")):
        program = path.read_text()
        doc = re.match(r'"""(.*?)"""', program, re.DOTALL)
        title = doc.group(1).split("\n")[0] if doc else path.stem
        body = program[doc.end() :].lstrip("\n") if doc else program
        parts.append(
            f'## {path.name}\n\n{title}\n\n??? example "The program"\n\n    ```python\n{_indented(body)}\n    ```\n'
        )
    return "\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.rstrip().split("\n"))
