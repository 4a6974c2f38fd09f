"""What a fault is, where it is written down, and how it is planted.

The faults of the folder geodyn/_mechanics/rigid stand in _mechanics/rigid.txt, those of files beside the folders in
geodyn.txt:

    balls.py Balls.slip: the second sphere's spin turns the other way
    - radii[0][:, None] * spins[i] + radii[1][:, None] * spins[j]
    + radii[0][:, None] * spins[i] - radii[1][:, None] * spins[j]
    > impacts/test_friction.py::test_spinning_balls_collide

In the function or class `Balls.slip` of the file, or anywhere in the file where no name is given, the expression or the
statements after `-` become those after `+`, and the tests after `>` should notice. What is to change stands there once.
It is compared as Python reads it, so neither line breaks nor the names of local variables matter; a body of `...` is
any body. A file that is not Python is changed as a text.
"""

import ast
import builtins
import symtable
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "geodyn"


class Fault(NamedTuple):
    """In `scope` of `file`, a path within geodyn, `old` becomes `new`; one of `tests` should notice."""

    name: str
    file: str
    scope: str
    old: str
    new: str
    tests: str


class Place(NamedTuple):
    """Where the old nodes stand: in a field of `parent`, in a list from the number `first` on."""

    parent: ast.AST
    field: str
    first: int
    names: dict[str, str]  # from the fault's local names to those of the file
    body: list[ast.stmt]  # what stands in the file where the fault has `...`


def read(table: Path) -> Iterator[Fault]:
    """The faults of one room."""
    room = table.relative_to(HERE).with_suffix("").as_posix()
    for paragraph in table.read_text(encoding="utf-8").strip().split("\n\n"):
        head, *lines = paragraph.split("\n")
        where, _, name = head.partition(": ")
        file, _, scope = where.partition(" ")
        old, new, tests = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+>")
        yield Fault(name, file if room == "geodyn" else f"{room}/{file}", scope, old, new, tests)


FAULTS = [fault for table in sorted(HERE.rglob("*.txt")) for fault in read(table)]


def planted(source: str, fault: Fault) -> str:
    """The text of the file with the fault in it; a ValueError where that cannot be."""
    if not fault.file.endswith(".py"):
        _check_once(source.count(fault.old), fault)
        return source.replace(fault.old, fault.new)
    tree = ast.parse(source)
    scopes = [tree]
    for name in filter(None, fault.scope.split(".")):
        scopes = [node for scope in scopes for node in _inside(scope) if node.name == name]
    old, new = _nodes(fault)
    known = {*dir(builtins), *symtable.symtable(source, fault.file, "exec").get_identifiers()}
    places = [place for scope in scopes for place in _places(scope, old, known)]
    _check_once(len(places), fault)
    foreign = _names(new) - known - {*places[0].names} - _names(scopes)
    if foreign - _bound(new):
        # Such a fault would be noticed by any test, for another reason.
        raise ValueError(
            f"{fault.file} has no {foreign} in {fault.scope or 'it'}, which {fault.new!r} of a fault reads."
        )
    _put(new, places[0], len(old))
    return ast.unparse(tree)


def _check_once(count: int, fault: Fault) -> None:
    if count != 1:
        where = f"{fault.scope} of {fault.file}" if fault.scope else fault.file
        raise ValueError(
            f"{fault.old!r} has to stand once in {where}, not {count} times; mend the fault {fault.name!r}."
        )


def _inside(scope: ast.AST) -> Iterator[Any]:
    """The functions and classes that stand in the scope, but in none of these."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node
        else:
            yield from _inside(node)


def _nodes(fault: Fault) -> tuple[list[Any], list[Any]]:
    """The old and the new: one expression each, or statements."""
    try:
        return tuple([ast.parse(f"({text}\n)", mode="eval").body] for text in (fault.old, fault.new))
    except SyntaxError:
        return ast.parse(fault.old).body, ast.parse(fault.new).body


def _places(scope: ast.AST, old: list[Any], known: set[str]) -> Iterator[Place]:
    for parent in ast.walk(scope):
        for field, value in ast.iter_fields(parent):
            row = value if isinstance(value, list) else [value]
            for first in range(len(row) - len(old) + 1):
                place = Place(parent, field, first, {}, [])
                if all(_same(a, b, place, known) for a, b in zip(old, row[first:])):
                    yield place


def _same(old: Any, now: Any, place: Place, known: set[str]) -> bool:
    """Whether the two are the same up to the names of local variables, those that are not `known` in the whole file."""
    if type(old) is not type(now):
        return False
    if isinstance(old, list):
        if old and _is_any(old[0]):
            place.body.extend(now)
            return True
        return len(old) == len(now) and all(_same(a, b, place, known) for a, b in zip(old, now))
    if isinstance(old, ast.Name | ast.arg):
        a, b = _name(old), _name(now)
        if a in known or b in known:
            return a == b
        if a not in place.names and b not in place.names.values():
            place.names[a] = b
        return place.names.get(a) == b
    if isinstance(old, ast.AST):
        return all(_same(getattr(old, field), getattr(now, field), place, known) for field in old._fields)
    return old == now


def _put(new: list[Any], place: Place, count: int) -> None:
    """The new nodes instead of so many old ones, in the names that the place has."""
    for node in (inner for outer in new for inner in ast.walk(outer)):
        if isinstance(node, ast.Name):
            node.id = place.names.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = place.names.get(node.arg, node.arg)
        elif isinstance(node, ast.stmt) and _is_any(getattr(node, "body", [None])[0]):
            node.body = place.body
    row = getattr(place.parent, place.field)
    if isinstance(row, list):
        row[place.first : place.first + count] = new
    else:
        setattr(place.parent, place.field, new[0])


def _is_any(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _name(node: ast.Name | ast.arg) -> str:
    return node.id if isinstance(node, ast.Name) else node.arg


def _names(nodes: list[Any]) -> set[str]:
    """The names of variables and arguments in the nodes."""
    inner = (node for outer in nodes for node in ast.walk(outer))
    return {_name(node) for node in inner if isinstance(node, ast.Name | ast.arg)}


def _bound(nodes: list[Any]) -> set[str]:
    """Those to which the nodes themselves give a value."""
    inner = [node for outer in nodes for node in ast.walk(outer)]
    given = (node for node in inner if isinstance(node, ast.arg) or isinstance(getattr(node, "ctx", None), ast.Store))
    return _names([*given])
