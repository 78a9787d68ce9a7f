"""`make_dot`: the autograd graph of a tensor as a picture, as torchviz draws it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .._base.optional import optional
from .._tensor.tensor import Tensor

__all__ = ["make_dot", "make_dot_from_trace"]

_STYLE = {
    "style": "filled",
    "shape": "box",
    "align": "left",
    "fontsize": "10",
    "ranksep": "0.1",
    "height": "0.2",
    "fontname": "monospace",
}
_LEAF, _OUTPUT, _SAVED, _BASE = "lightblue", "darkolivegreen1", "orange", "darkolivegreen3"
_ATTRIBUTE = "_saved_"


def make_dot(
    var: Any,
    params: Mapping[str, Tensor] | None = None,
    show_attrs: bool = False,
    show_saved: bool = False,
    max_attr_chars: int = 50,
) -> Any:
    """Draw the autograd graph that leads to a tensor.

    Blue nodes are leaves that need a gradient, green ones the outputs, orange ones saved tensors. A green node of a
    darker colour is what an output is a view of.

    Args:
        var: a Tensor, or a tuple of them.
        params: names of tensors, such as ``dict(model.named_parameters())``.
        show_attrs: have the values that a node has saved in its label.
        show_saved: have nodes for the tensors that a node has saved.
        max_attr_chars: what is longer is cut in the label.

    Returns:
        a `graphviz.Digraph`. Its ``source`` is text; ``render`` needs Graphviz's program ``dot``.

    Raises:
        ModuleNotFoundError: graphviz is not installed.
        AssertionError: a value of ``params`` is no Tensor.
        RuntimeError: a node's saved tensors are asked for, and backward has freed them.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.viz import make_dot
        >>> w = torch.ones(3, requires_grad=True)
        >>> print(make_dot((w * 2).sum(), params={"w": w}).source)  # doctest: +ELLIPSIS
        digraph {
        ...

    Reference: https://github.com/szagoruyko/pytorchviz
    """
    return _Drawing(params or {}, show_attrs, show_saved, max_attr_chars).of(var)


def make_dot_from_trace(trace: Any) -> None:
    """Raise NotImplementedError, as in torchviz: PyTorch's traces are gone; `program` draws a compiled function."""
    raise NotImplementedError(
        "make_dot_from_trace: there are no traces of torch.jit; functorch_port.viz.program(step, *args) draws a "
        "compiled function, and make_dot(tensor) the autograd graph"
    )


class _Drawing:
    """One picture.

    Attributes:
        seen: by id what was drawn, which must stay alive, as ids are the names of the nodes.
    """

    def __init__(self, params: Mapping[str, Tensor], attributes: bool, saved: bool, most: int) -> None:
        for tensor in params.values():
            if not isinstance(tensor, Tensor):
                raise AssertionError(
                    f"make_dot: params has a {type(tensor).__name__}; its values are Tensors"
                )
        self.names = {id(tensor): name for name, tensor in params.items()}
        self.attributes, self.saved, self.most = attributes, saved, most
        self.seen: dict[int, Any] = {}
        self.dot = optional("graphviz", "functorch_port.viz", "viz").Digraph(
            node_attr=_STYLE, graph_attr={"size": "12,12"}
        )

    def of(self, var: Any) -> Any:
        for tensor in var if isinstance(var, tuple) else (var,):
            self._tensor(tensor, _OUTPUT)
        lines = sum("label" in line or "->" in line for line in self.dot.body)
        side = max(12.0, 0.15 * lines)
        if side > 12:
            self.dot.graph_attr["size"] = f"{side},{side}"
        return self.dot

    def _tensor(self, tensor: Tensor, colour: str) -> None:
        """A tensor, what it came from, and what it is a view of."""
        views: list[tuple[Tensor, Tensor]] = []
        while id(tensor) not in self.seen:
            self.seen[id(tensor)] = tensor
            self._box(tensor, colour)
            if tensor.grad_fn is not None:
                self._graph(tensor.grad_fn)
                self._edge(tensor.grad_fn, tensor)
            base = tensor._base
            if base is None:
                break
            views.append((base, tensor))
            tensor, colour = base, _BASE
        for base, view in reversed(views):
            self._edge(base, view, style="dotted")

    def _graph(self, root: Any) -> None:
        """The nodes that lead to one, without recursion."""
        stack = [self._node(root)]
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
            else:
                stack.append(self._node(found))

    def _node(self, node: Any) -> Iterator[Any]:
        """Draw a node unless it is there, and give those that it leads to, each after its edge is drawn."""
        if id(node) in self.seen:
            return
        self.seen[id(node)] = node
        values = self._values(node)
        if self.saved:
            for name, value in values:
                for label, tensor in _tensors(name, value):
                    self._edge(node, tensor, dir="none")
                    self.seen[id(tensor)] = tensor
                    self._box(tensor, _SAVED, label)
        variable = getattr(node, "variable", None)
        if variable is not None:
            self.seen[id(variable)] = variable
            self._box(variable, _LEAF)
            self._edge(variable, node)
        self.dot.node(str(id(node)), self._label(node, values))
        for target, _ in node.next_functions:
            if target is not None:
                self._edge(target, node)
                yield target
        for tensor in _saved_of_function(node):
            self.seen[id(tensor)] = tensor
            self._edge(tensor, node, dir="none")
            self._box(tensor, _SAVED)

    def _values(self, node: Any) -> list[tuple[str, Any]]:
        """What a node has saved, by name."""
        if not (self.attributes or self.saved):
            return []
        names = [name for name in dir(node) if name.startswith(_ATTRIBUTE)]
        return [(name.removeprefix(_ATTRIBUTE), getattr(node, name)) for name in names]

    def _label(self, node: Any, values: Iterable[tuple[str, Any]]) -> str:
        title = type(node).__name__
        rows = [(name, self._text(value)) for name, value in values] if self.attributes else []
        if not rows:
            return title
        left, right = (max(len(row[i]) for row in rows) for i in (0, 1))
        lines = [f"{name.ljust(left)}: {text.rjust(right)}" for name, text in rows]
        return "\n".join([title, "-" * max(len(title), left + right + 2), *lines])

    def _text(self, value: Any) -> str:
        if isinstance(value, Tensor):
            text = "[saved tensor]"
        elif isinstance(value, tuple) and any(isinstance(one, Tensor) for one in value):
            text = "[saved tensors]"
        else:
            text = str(value)
        return text if len(text) <= self.most else f"{text[: self.most - 3]}..."

    def _box(self, tensor: Tensor, colour: str, name: str | None = None) -> None:
        name = self.names.get(id(tensor), "") if name is None else name
        sizes = ", ".join(str(n) for n in tensor.shape)
        self.dot.node(str(id(tensor)), f"{name}\n ({sizes})", fillcolor=colour)

    def _edge(self, start: Any, end: Any, **style: str) -> None:
        self.dot.edge(str(id(start)), str(id(end)), **style)


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, tuple):
        for i, one in enumerate(value):
            if isinstance(one, Tensor):
                yield f"{name}[{i}]", one


def _saved_of_function(node: Any) -> list[Tensor]:
    """What a function of the user has saved."""
    return [t for t in getattr(node, "saved_tensors", ()) if t is not None]
