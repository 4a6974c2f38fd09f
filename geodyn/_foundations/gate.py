"""The one place where the arguments of public functions are checked: against the annotations of their signatures.

`@checked` stands above a public function, method or class. What each annotation admits is said by `kinds.py`; what
an argument must be besides (a sign, a length that belongs to another argument) the function itself says. Errors are
ValueErrors that name the argument. Under jit shapes and dtypes are checked and values are not known.
"""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from geodyn._foundations.blame import documented, explained
from geodyn._foundations.kinds import (
    FILE,
    TUPLE,
    Check,
    check_place,
    kind_of,
    or_default,
    sizes_of,
    wanted_by,
    with_gaps,
)

_Public = typing.TypeVar("_Public", bound=Callable)
# {letter of a shape: (the argument that has it, what it means there)}
Known = dict[str, tuple[str, Any]]


@typing.overload
def checked(public: _Public) -> _Public: ...
@typing.overload
def checked(*, gaps: tuple[str, ...]) -> Callable[[_Public], _Public]: ...
def checked(public: Any = None, *, gaps: tuple[str, ...] = ()) -> Any:
    """The function, or the class, whose arguments are checked before it runs. Of a class without an `__init__` of its
    own the fields say what they admit. In the arguments `gaps` what is not finite means that nothing is known."""
    if public is None:
        return functools.partial(checked, gaps=gaps)
    if not inspect.isclass(public):
        return _gated(public, gaps=gaps)
    if issubclass(public, tuple):
        public.__new__ = _gated(public.__new__)
    else:
        public.__init__ = _gated(
            public.__init__, {field.name: field.type for field in dataclasses.fields(cast(Any, public))}
        )
    return public


def _gated(
    function: Callable, fields: Mapping[str, Any] = MappingProxyType({}), gaps: tuple[str, ...] = ()
) -> Callable:
    """The function, which checks its arguments first. `fields` are the annotations of a class by name."""
    # A function of `functools.singledispatch` is many functions, each with its own annotations.
    dispatch = getattr(function, "dispatch", None)
    tables: dict[Callable, _Table] = {}
    first = next(iter(inspect.signature(function).parameters), "")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        target = function if dispatch is None else dispatch(type(args[0] if args else kwargs.get(first)))
        table = tables.get(target)
        if table is None:
            table = tables[target] = _Table(target, fields, gaps)
        try:
            args = table.positional(args)
            kwargs = table.named(kwargs)
            if table.related:
                table.check_together(args, kwargs)
        except ValueError as error:
            doc = function.__doc__ or (type(args[0]).__doc__ if args else "")
            raise ValueError(f"{error}{documented(str(error), doc)}") from None
        try:
            return target(*args, **kwargs)
        except (TypeError, AttributeError, ValueError, LookupError, OverflowError, MemoryError) as error:
            at_the_call = error.__traceback__ is not None and error.__traceback__.tb_next is None
            if at_the_call:  # Arguments are missing, or are too many.
                raise
            better = explained(error, table.given(args, kwargs))
            if better is None:
                raise
            raise better from error

    return call


class _Table:
    """The check of each parameter of a function; None where anything is admitted."""

    def __init__(self, function: Callable, fields: Mapping[str, Any], gaps: tuple[str, ...]):
        parameters = inspect.signature(function).parameters
        kinds = {name: kind_of(fields.get(name, p.annotation)) for name, p in parameters.items()}
        kinds |= {name: with_gaps(check) for name, check in kinds.items() if check is not None and name in gaps}
        self.before: list[tuple[str, Check | None]] = []
        self.by_name: dict[str, Check | None] = {}
        self.rest: tuple[str, Check | None] | None = None
        for name, p in parameters.items():
            check = or_default(kinds[name], p.default)
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                self.before.append((name, check))
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                self.by_name[name] = check
            if p.kind is p.VAR_POSITIONAL:
                self.rest = (name, check)
        self.names = [name for name, _ in self.before]
        # The dimension of a space is that of its points.
        self.space = "space" if "space" in parameters else None
        sizes = {name: sizes_of(check) for name, check in kinds.items()}
        self.sizes = _shared({name: letters for name, letters in sizes.items() if letters}, self.space)
        self.files = [name for name, check in kinds.items() if check is not None and wanted_by(check) == FILE]
        self.related = bool(self.sizes or self.files)

    def positional(self, args: Sequence[Any]) -> Sequence[Any]:
        """The positional arguments, those of array kinds as arrays."""
        given = [value if check is None else check(name, value) for (name, check), value in zip(self.before, args)]
        if len(given) == len(args):
            return given
        more = args[len(given) :]
        name, check = self.rest or ("", None)
        if check is not None:
            more = [_one_of_many(name, check, i, value) for i, value in enumerate(more)]
        return (*given, *more)

    def check_together(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raises ValueError unless the shapes of arrays agree; files come last, since others may not depend on them."""
        given = dict(zip(self.names, args)) | kwargs
        space = None if self.space is None else given.get(self.space)
        known: Known = {}
        if space is not None and _is_space(type(space)):
            known = {"n": ("space", space.dim), "dim": ("space", space.dim)}
        for name, sizes in self.sizes.items():
            value = given.get(name)
            if value is not None and not callable(value):
                _check_sizes(name, np.shape(value), sizes, known)
        for name in self.files:
            if given.get(name) is not None:
                check_place(name, given[name])

    def given(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """All arguments by the names of their parameters."""
        given = dict(zip(self.names, args)) | kwargs
        if self.rest is not None and len(args) > len(self.before):
            given[self.rest[0]] = args[len(self.before) :]
        return {name: x for name, x in given.items() if name not in ("self", "cls")}

    def named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments given by name."""
        if not kwargs:
            return kwargs
        taken = {}
        for name, value in kwargs.items():
            check = self.by_name.get(name)
            taken[name] = value if check is None else check(name, value)
        return taken


def _one_of_many(name: str, check: Check, i: int, value: Any) -> Any:
    """The value, the i-th of those that are given one by one, as `check` returns it."""
    if isinstance(value, list | tuple) and wanted_by(check) != TUPLE:
        raise ValueError(f"{name} are given one by one, not in a list: *{name}")
    return check(f"{name}[{i}]", value)


def _check_sizes(name: str, shape: tuple[int, ...], sizes: str | list[str | None], known: Known) -> None:
    """Raises ValueError unless the letters `sizes` of a shape, or the one for all of it, mean what is `known` of them,
    {letter: (the argument that has it, what it means)}. What is new is added."""
    if isinstance(sizes, str):
        other, wanted = known.setdefault(sizes, (name, shape))
        if shape != wanted:
            raise ValueError(f"{name} must have the shape of {other}, {wanted}; got {shape}")
    elif len(shape) == len(sizes):
        for letter, size in zip(sizes, shape):
            other, wanted = known.setdefault(letter, (name, size)) if letter else (name, size)
            if size != wanted:
                known_from = "" if other == name else f" with {letter} = {wanted} as {other} has it"
                shown_sizes = ", ".join(map(str, sizes))
                raise ValueError(f"{name} must have shape [{shown_sizes}]{known_from}, got shape {shape}")


@functools.cache
def _is_space(kind: type) -> bool:
    """Whether a class is one of spaces, which stand right of this room; level sets are none."""
    return any(base.__name__ == "AbstractManifold" for base in kind.__mro__)


def _shared(sizes: dict[str, Any], space: str | None) -> dict[str, Any]:
    """Of the letters of the shapes of each argument those that occur more than once; None for the others."""
    whole = {name: row for name, row in sizes.items() if isinstance(row, str)}
    sizes = {name: row for name, row in sizes.items() if name not in whole}
    letters = [letter for row in sizes.values() for letter in row] + (["n", "dim"] if space else [])
    kept = {name: [x if letters.count(x) > 1 else None for x in row] for name, row in sizes.items()}
    return whole | {name: row for name, row in kept.items() if any(row)}
