"""Graphs of scalar expressions without common subexpressions."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from geodyn._engine.internals import Primitive

IN_NUMPY = """
    eq equal, ne not_equal, lt less, le less_equal, gt greater, ge greater_equal, max maximum, min minimum,
    and bitwise_and, or bitwise_or, not bitwise_not, sin sin, cos cos, exp exp, expm1 expm1, log log, sqrt sqrt,
    sinh sinh, cosh cosh, abs abs, sign sign, real real, imag imag, conj conj, is_finite isfinite
"""
FOLDED = {name: getattr(np, function) for name, function in (pair.split() for pair in IN_NUMPY.split(","))}


class Node:
    """A number that is computed while the program runs. (Constants are numpy numbers.)"""

    __slots__ = ("args", "dtype", "index", "name", "params")

    name: str
    args: "tuple[Operand, ...]"
    dtype: np.dtype
    index: int
    params: dict | None


# A number of an expression: computed while the program runs, or known now.
Operand = Node | np.generic


class Graph:
    """Numbers and the operations between them: `apply` adds a node."""

    def __init__(self):
        self.nodes: dict[Hashable, Node] = {}
        self.order: list[Node] = []

    def node(
        self, name: str, args: tuple[Operand, ...], dtype: np.dtype, key: Hashable = None, params: dict | None = None
    ) -> Node:
        """The node of an operation on these arguments. The same name, `key` and arguments give the same node."""
        key = (name, key, *[x.index if isinstance(x, Node) else (x.dtype, x.tobytes()) for x in args])
        node = self.nodes.get(key)
        if node is None:
            node = Node()
            node.name, node.args, node.dtype, node.index = name, args, dtype, len(self.order)
            node.params = params
            self.nodes[key] = node
            self.order.append(node)
        return node

    def input(self, value: Any) -> Node:
        """The node of a number that is given, of the type of this value."""
        return self.node("given", (), value.dtype, key=len(self.order))

    def apply(self, primitive: Primitive, params: dict, args: tuple[Operand, ...], dtype: np.dtype) -> Operand:
        """The number primitive(*args), simplified by rules such as x·1 = x that change at most the sign of a zero."""
        name = primitive.name
        if name in ARITHMETIC:
            return ARITHMETIC[name](self, *args)
        if name == "integer_pow":
            return self.power(args[0], params["y"])
        if all(not isinstance(x, Node) for x in args) and name in FOLDED:
            return np.asarray(FOLDED[name](*args), dtype)[()]
        return self.node(name, args, dtype, key=tuple(map(str, params.items())), params=params)

    def add(self, a: Operand, b: Operand) -> Operand:
        a, b = _in_order(a, b)
        if not isinstance(b, Node):
            return a + b
        if _is(a, 0):
            return b
        if isinstance(b, Node) and b.name == "neg":
            return self.subtract(a, b.args[0])
        if isinstance(a, Node) and a.name == "neg":
            return self.subtract(b, a.args[0])
        return self.node("add", (a, b), b.dtype)

    def subtract(self, a: Operand, b: Operand) -> Operand:
        if not isinstance(a, Node) and not isinstance(b, Node):
            return a - b
        if _is(b, 0):
            return a
        if _is(a, 0):
            return self.negative(b)
        if isinstance(b, Node) and b.name == "neg":
            return self.add(a, b.args[0])
        return self.node("sub", (a, b), a.dtype)

    def negative(self, a: Operand) -> Operand:
        if not isinstance(a, Node):
            return -a
        if a.name == "neg":
            return a.args[0]
        if a.name == "sub":
            return self.subtract(*a.args[::-1])
        return self.node("neg", (a,), a.dtype)

    def multiply(self, a: Operand, b: Operand) -> Operand:
        a, b = _in_order(a, b)
        if not isinstance(b, Node):
            return a * b
        if _is(a, 0) and np.issubdtype(b.dtype, np.integer):  # A float may be infinite.
            return a
        if _is(a, 1):
            return b
        if _is(a, -1):
            return self.negative(b)
        if isinstance(a, Node) and a.name == "neg":
            return self.negative(self.multiply(a.args[0], b))
        if b.name == "neg":
            return self.negative(self.multiply(a, b.args[0]))
        return self.node("mul", (a, b), b.dtype)

    def divide(self, a: Operand, b: Operand) -> Operand:
        if not isinstance(a, Node) and not isinstance(b, Node) and not np.issubdtype(a.dtype, np.integer):
            return a / b
        if _is(b, 1):
            return a
        return self.node("div", (a, b), a.dtype)

    def power(self, a: Operand, exponent: int) -> Operand:
        if exponent < 0:
            one: Operand = np.ones((), a.dtype)[()]
            return self.divide(one, self.power(a, -exponent))
        result: Operand = np.ones((), a.dtype)[()]
        while exponent:
            result, a, exponent = self.multiply(result, a) if exponent & 1 else result, a, exponent >> 1
            a = self.multiply(a, a) if exponent else a
        return result

    def select(self, which: Operand, *cases: Operand) -> Operand:
        if not isinstance(which, Node):
            return cases[int(which)]
        if all(case is cases[0] or _same(case, cases[0]) for case in cases):
            return cases[0]
        return self.node("select_n", (which, *cases), cases[0].dtype)

    def convert(self, a: Operand, dtype: np.dtype) -> Operand:
        if a.dtype == dtype:
            return a
        if not isinstance(a, Node) and _is_plain(a.dtype, dtype):
            return a.astype(dtype)
        return self.node("convert", (a,), dtype, key=str(dtype))


def _in_order(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Numbers first, then nodes by age, so that a + b and b + a are one node."""
    swap = not isinstance(b, Node) or (isinstance(a, Node) and b.index < a.index)
    return (b, a) if swap else (a, b)


def _is(x: Operand, number: int) -> bool:
    return not isinstance(x, Node) and x == number


def _is_plain(dtype: np.dtype, wanted: np.dtype) -> bool:
    """Whether numpy and JAX agree in this conversion for every number, even one that the type cannot represent."""
    if any(np.issubdtype(x, np.complexfloating) for x in (dtype, wanted)):
        return False
    return np.issubdtype(wanted, np.floating) or not np.issubdtype(dtype, np.floating)


def _same(a: Operand, b: Operand) -> bool:
    return not isinstance(a, Node) and not isinstance(b, Node) and a == b


ARITHMETIC = {"add": Graph.add, "add_any": Graph.add, "sub": Graph.subtract, "mul": Graph.multiply}
ARITHMETIC |= {"div": Graph.divide, "neg": Graph.negative, "select_n": Graph.select}
ARITHMETIC |= {"square": lambda graph, a: graph.multiply(a, a)}
ARITHMETIC |= dict.fromkeys(("copy", "copy_p", "stop_gradient"), lambda graph, a: a)
