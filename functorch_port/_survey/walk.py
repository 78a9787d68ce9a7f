"""The names of PyTorch that the source of a program uses: its imports and attributes, by their full names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["ROOTS", "Use", "uses"]

#: the libraries whose names are looked up
ROOTS = ("torch", "torchvision")
_LOADING = ("import_module", "__import__")
_LACKING = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Use(NamedTuple):
    """A use of a name.

    Attributes:
        name: the full name, such as ``"torch.nn.functional.relu"``.
        line: the line of the source.
        at_import: whether it is looked up when the file is imported; False within a function.
        guarded: whether the program goes on without it: it asks by ``hasattr``, or catches the error.
        is_import: whether an import statement asks for it.
    """

    name: str
    line: int
    at_import: bool
    guarded: bool
    is_import: bool


def uses(source: str | bytes) -> list[Use]:
    """All uses in a file, in the order of lines, each name once for each line.

    Names are followed through ``import a.b as c``, ``from a import b as c``, assignments such as ``nn = torch.nn``, and
    constant names in ``getattr``, ``hasattr`` and ``importlib.import_module``. What else a program does to reach a name
    is not followed, and neither are attributes of values, such as methods of tensors.

    Args:
        source: the text of the file.

    Raises:
        SyntaxError: it is no Python.
    """
    walk = _Walk(ast.parse(source))
    found = {(use.name, use.line): use for use in walk.found}
    return [
        use._replace(guarded=use.guarded or any(f"{use.name}.".startswith(f"{name}.") for name in walk.asked))
        for use in sorted(found.values(), key=lambda use: use.line)
    ]


class _Walk(ast.NodeVisitor):
    """Visits a file with the meanings of the names of each scope."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: list[Use] = []
        self.asked: set[str] = set()
        self.guarded = self.depth = 0
        self.postponed = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in tree.body
        )
        self.scopes = [self._bound(tree.body, {})]
        self._visit_all(tree.body)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # What names mean.

    def _bound(self, body: Iterable[ast.AST], first: dict[str, str | None]) -> dict[str, str | None]:
        """The names that a scope binds, each with the full name that it stands for, or None for anything else."""
        meant = dict(first)
        aliases: list[tuple[str, ast.expr]] = []
        for node in _of_scope(body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    meant[alias.asname or root] = alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    meant[alias.asname or alias.name] = None if node.level else f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                meant.setdefault(node.id, None)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                meant.setdefault(node.name, None)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                aliases.append((node.targets[0].id, node.value))
        outer = getattr(self, "scopes", [])
        for name, value in aliases:
            if meant.get(name) is None and sum(n == name for n, _ in aliases) == 1:
                meant[name] = self._full(value, [*outer, meant])
        return meant

    def _full(self, node: ast.AST, scopes: list[dict[str, str | None]] | None = None) -> str | None:
        """The full name that an expression is, if it is one of PyTorch's."""
        if isinstance(node, ast.Attribute):
            owner = self._full(node.value, scopes)
            return None if owner is None else f"{owner}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        for scope in reversed(self.scopes if scopes is None else scopes):
            if node.id in scope:
                name = scope[node.id]
                return name if name is not None and name.partition(".")[0] in ROOTS else None
        return None

    def _use(self, name: str | None, node: ast.AST, is_import: bool = False) -> None:
        if name is not None and name.partition(".")[0] in ROOTS:
            line = getattr(node, "lineno", 0)
            self.found.append(Use(name, line, self.depth == 0, self.guarded > 0, is_import))

    # Scopes.

    def _within(self, body: Iterable[ast.AST], first: dict[str, str | None], later: bool) -> None:
        body = list(body)
        self.scopes.append(self._bound(body, first))
        self.depth += later
        self._visit_all(body)
        self.depth -= later
        self.scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._defaults(node.args)
        if not self.postponed:
            for annotation in [*(a.annotation for a in _arguments(node.args)), node.returns]:
                if annotation is not None:
                    self.visit(annotation)
        self._within(node.body, {a.arg: None for a in _arguments(node.args)}, later=True)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)
        self._within([node.body], {a.arg: None for a in _arguments(node.args)}, later=True)

    def _defaults(self, arguments: ast.arguments) -> None:
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.visit(default)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._within(node.body, {}, later=False)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _COMPREHENSIONS):
            self.scopes.append(self._bound([node], {}))
            super().generic_visit(node)
            self.scopes.pop()
        else:
            super().generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # annotations of a function's variables are not evaluated
        if not self.postponed and self.depth == 0:
            self.visit(node.annotation)
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    # What is asked for before.

    def visit_Try(self, node: ast.Try) -> None:
        catches = any(_catches(handler) for handler in node.handlers)
        self.guarded += catches
        self._visit_all(node.body)
        self.guarded -= catches
        self._visit_all([*node.handlers, *node.orelse, *node.finalbody])

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        body = [] if "TYPE_CHECKING" in ast.dump(node.test) else node.body
        self._visit_all([*body, *node.orelse])

    # Uses.

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._use(alias.name, node, is_import=True)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            return
        for alias in node.names:
            self._use(
                node.module if alias.name == "*" else f"{node.module}.{alias.name}", node, is_import=True
            )

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._full(node)
        if name is None:
            self.visit(node.value)
        elif isinstance(node.ctx, ast.Load):
            self._use(name, node)
        else:
            self._use(self._full(node.value), node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        constants = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if called in ("getattr", "hasattr") and len(node.args) > 1 and constants:
            owner = self._full(node.args[0])
            if owner is not None and (called == "hasattr" or len(node.args) > 2):
                self.asked.add(f"{owner}.{constants[0]}")
            elif owner is not None:
                self._use(f"{owner}.{constants[0]}", node)
        elif called in _LOADING and constants:
            self._use(constants[0], node, is_import=True)
        self.generic_visit(node)


def _of_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope, without what is in functions and classes within it."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _of_scope(node.decorator_list)
        elif not isinstance(node, _FUNCTIONS):
            yield from _of_scope(ast.iter_child_nodes(node))


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    some = [arguments.vararg, arguments.kwarg]
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *(a for a in some if a is not None),
    ]


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or getattr(kind, "id", None) in _LACKING for kind in kinds)
