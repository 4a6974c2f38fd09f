"""Checkpoints: a folder that holds a run as far as it got, from which the same run continues bit for bit.

`inputs.npz` identifies the run. Each further file holds the rows saved since the file before it and the state after
them, so that nothing is written twice. Every file appears whole or not at all. (orbax stores the states of a training.
The check that a run continues with the same inputs, and the appending of saved rows, would have to be added to it.)
"""

import os
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.files.archive import differences, from_named_arrays, named_arrays, read_archive, write_archive
from geodyn._foundations.typing import Array, PyTree

FORMAT = "geodyn checkpoint 3"
INPUTS = "inputs.npz"


class Piece(NamedTuple):
    """A piece of a run: the `state` after it, the `rows` and the `others` that it saved, and the number of rows that
    the run has `done` by then, including rows that are not saved."""

    state: PyTree
    rows: tuple[Array | np.ndarray, ...]
    others: tuple[Array | np.ndarray, ...]
    done: int


def open_checkpoint(folder: str | os.PathLike, inputs: dict[str, np.ndarray]) -> Path:
    """The folder of the run with these inputs, created if it does not exist. ValueError if there is something else at
    its place, or the folder of another run."""
    folder = Path(folder)
    known = folder / INPUTS
    if known.exists():
        found = differences(read_archive(known, FORMAT)[0], inputs)
        if found:
            raise ValueError(f"checkpoint={folder} is of another run: {'; '.join(found)}. Delete it, or give another")
    elif folder.exists() and not (folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())):
        raise ValueError(f"checkpoint={folder} must be a folder of geodyn, or none yet; {INPUTS} is not in it")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        write_archive(known, inputs, {"format": FORMAT})
    return folder


def remove_checkpoint(folder: str | os.PathLike) -> None:
    """Deletes a checkpoint, and nothing else that is in the folder."""
    folder = Path(folder)
    if (folder / INPUTS).exists():
        for path in [*_pieces(folder), *folder.glob(".*.npz.*.partial"), folder / INPUTS]:
            path.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def read_pieces(folder: Path, template: Piece) -> list[Piece]:
    """The pieces that the folder holds. ValueError, with the remedy, if a file is broken or missing."""
    pieces = []
    for path in _pieces(folder):
        wanted = _name(pieces[-1].done if pieces else 0)
        if path.name != wanted:
            raise ValueError(f"{folder} lacks {wanted}: delete the files after it, and the run goes on from there")
        try:
            arrays, meta = read_archive(path, FORMAT)
        except ValueError as error:
            raise ValueError(f"{error}. Delete it and those after it, and the run goes on from before it") from None
        found = jax.tree.map(jnp.asarray, from_named_arrays(arrays, template._replace(done=None)))
        pieces.append(found._replace(done=meta["done"]))
    return pieces


def write_piece(folder: Path, begin: int, pieces: list[Piece]) -> None:
    """Writes the pieces, the first of which begins after the row `begin`, to one file."""

    def join(*x: Array | np.ndarray) -> np.ndarray:
        return np.concatenate(x)

    rows, others = (jax.tree.map(join, *(getattr(piece, name) for piece in pieces)) for name in ("rows", "others"))
    last = pieces[-1]._replace(rows=rows, others=others, done=None)
    write_archive(folder / _name(begin), named_arrays(last), {"format": FORMAT, "done": pieces[-1].done})


def _pieces(folder: Path) -> list[Path]:
    return sorted(folder.glob("rows_*.npz"))


def _name(begin: int) -> str:
    return f"rows_{begin:012d}.npz"
