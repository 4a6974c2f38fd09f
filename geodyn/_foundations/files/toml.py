"""TOML with line numbers: the tables of a file are read key by key, and every error begins with `file:line: …`.

tomllib and tomlkit parse the text, but neither tells on which line a key stands; this file only finds the lines.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np


class ScenarioError(ValueError):
    """An error in a scenario, with the file and the line."""


class Source:
    """The text of a scenario, its tables, and the line on which each key stands (tomllib does not tell)."""

    def __init__(self, path: Path):
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
            self.tables = tomllib.loads(text)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{path}: {error}") from None
        self.lines = _lines(text)

    def put(self, numbers: dict[tuple, Any]) -> "Source":
        """The same source with these numbers in the places of others; they may be traced."""
        changed = copy(self)
        changed.tables = deepcopy(self.tables)
        for key, number in numbers.items():
            changed.at(key[:-1])[key[-1]] = number
        return changed

    def fail(self, key: tuple, message: str) -> NoReturn:
        while key and key not in self.lines:
            key = key[:-1]
        where = f":{self.lines[key]}" if key else ""
        raise ScenarioError(f"{self.path}{where}: {message}")

    def at(self, key: tuple) -> Any:
        value: Any = self.tables
        for part in key:
            value = value[part]
        return value

    def allow(self, key: tuple, names: Iterable[str]) -> dict:
        """The table at `key`, refused if it has a key that is not among `names`."""
        try:
            table, names = self.at(key), list(names)
        except KeyError:
            self.fail((), f"the table [{key[0]}] is missing: it has the keys {', '.join(names)}")
        title = f"in [{key[0]}]" if key else "at the top"
        if not isinstance(table, dict):
            self.fail(key, f"{key[0]!r} must be a table, got {table!r}")
        for name in table:
            if name not in names:
                nearest = get_close_matches(name, names, 1, 0.5)
                remedy = f"did you mean {nearest[0]!r}?" if nearest else f"valid ones are {', '.join(names)}"
                self.fail((*key, name), f"unknown key {name!r} {title}: {remedy}")
        return table

    def get(self, key: tuple, kind: type | tuple[int | None, ...], *default: Any) -> Any:
        """The value at `key`: of type `kind`, or an array of the shape `kind` (None: any length)."""
        try:
            value = self.at(key)
        except (KeyError, TypeError):
            if default:
                return default[0]
            self.fail(key[:-1], f"[{key[0]}] needs the key {key[-1]!r}")
        if isinstance(kind, tuple):
            return self._array(key, value, kind)
        if kind is float and isinstance(value, jax.Array):
            return value
        if isinstance(value, bool) != (kind is bool) or not isinstance(value, (int, float) if kind is float else kind):
            self.fail(key, f"{key[-1]!r} must be of type {kind.__name__}, got {value!r}")
        return value

    def _array(self, key: tuple, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
        wanted = "×".join("n" if size is None else str(size) for size in shape)
        try:
            array = _array(value, float)
        except (TypeError, ValueError):
            self.fail(key, f"{key[-1]!r} must be an array of {wanted} numbers, got {value!r}")
        if len(array.shape) != len(shape) or any(want not in (None, got) for want, got in zip(shape, array.shape)):
            got = "×".join(str(size) for size in array.shape) or "a single number"
            self.fail(key, f"{key[-1]!r} must be an array of {wanted} numbers, got {got}")
        return array

    def choose(self, key: tuple, names: Iterable[str]) -> str:
        """The text at `key`, refused if it is not among `names`."""
        names, name = list(names), self.get(key, str)
        if name not in names:
            self.fail(key, f"{key[-1]!r} must be one of {', '.join(names)}; got {name!r}")
        return name

    def call(self, key: tuple, make: Callable[..., Any], *others: str) -> Any:
        """`make` called with the table at `key`, whose keys are its arguments; lists become arrays.

        Keys in `others` are allowed and left out.
        """
        arguments = signature(make).parameters
        table = self.allow(key, [*others, *arguments])
        for name, argument in arguments.items():
            if argument.default is argument.empty and name not in table:
                self.fail(key, f"[{key[0]}] needs the key {name!r}")
        values = {name: self._list(key, name, value) for name, value in table.items() if name not in others}
        return self.build(key, lambda: make(**values))

    def _list(self, key: tuple, name: str, value: Any) -> Any:
        try:
            return _array(value) if isinstance(value, list) else value
        except ValueError:
            self.fail((*key, name), f"{name!r} must have rows of equal length, got {value!r}")

    def build(self, key: tuple, make: Callable[[], Any]) -> Any:
        """The result of `make()`. A ValueError that it raises is raised again with the line of the first key that its
        message names, or of the table."""
        try:
            return make()
        except ScenarioError:
            raise
        except ValueError as error:
            words = re.findall(r"\w+", str(error))
            named = [place for word in words for place in [(*key, word), *self.lines] if place[-1] == word]
            self.fail(next((place for place in named if place in self.lines), key), str(error))


def _array(value: list, *dtype: Any) -> Any:
    """The list as an array: one of JAX if numbers in it are traced."""
    is_traced = any(isinstance(x, jax.Array) for x in jax.tree.leaves(value))
    return (jnp if is_traced else np).asarray(value, *dtype)


def _lines(text: str) -> dict[tuple, int]:
    """The line number of every table and key. Keys inside inline tables are not listed: the line of their parent
    serves for them."""
    lines: dict[tuple, int] = {}
    table: tuple = ()
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"#.*", "", re.sub(r'"[^"]*"|\'[^\']*\'', '""', line)).strip()
        if depth == 0 and (header := re.fullmatch(r"(\[\[?)\s*([\w.-]+)\s*\]\]?", bare)):
            table = tuple(header[2].split("."))
            if header[1] == "[[":
                lines.setdefault(table, number)
                table += (sum(key[:-1] == table and isinstance(key[-1], int) for key in lines),)
            lines[table] = number
        elif depth == 0 and (pair := re.match(r"([\w.-]+)\s*=", bare)):
            lines.setdefault((*table, *pair[1].split(".")), number)
        depth += len(re.findall(r"[\[{]", bare)) - len(re.findall(r"[\]}]", bare))
    return lines
