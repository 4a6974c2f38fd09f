"""Ensembles on the disk: one zarr group, which xarray opens, with an array for each result and the members along its
first axis.

The status of a chunk is written last, so a chunk that has one is whole; each file of zarr appears whole or not at all.
Several processes may write, since no two share a chunk. (zarr does what is hard here: chunked files that others read,
written in any order.)
"""

import os
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import File
from geodyn._scale.names import MEMBER, STATUS, TOTAL
from geodyn._version import __version__

FORMAT = "geodyn ensemble 2"
MISSING = -1
PATIENCE = 30.0


class Store:
    """The arrays of one ensemble by name, each of which can be sliced: a group of zarr or, in memory, a dictionary."""

    def __init__(self, arrays: Any, chunk: int, folder: Path | None = None):
        self.arrays = arrays
        self.chunk = chunk
        self.folder = folder

    def status(self) -> np.ndarray:
        """The status of each member, MISSING where it was not computed yet."""
        return self.arrays[STATUS][:]

    def write(self, begin: int, end: int, values: dict, totals: dict, status: Any) -> None:
        """Writes the members of one chunk, of which arrays may hold more."""
        count = end - begin
        try:
            for name, x in values.items():
                self.arrays[name][begin:end] = np.asarray(x)[:count]
            for name, x in totals.items():
                self.arrays[TOTAL + name][begin // self.chunk] = np.asarray(x)
            self.arrays[STATUS][begin:end] = np.asarray(status)[:count]
        except OSError as error:
            done = int(np.sum(self.status() != MISSING))
            raise OSError(
                error.errno,
                f"folder={self.folder} cannot be written ({error.strerror or error}). The {done} members in it are "
                "whole and can be read; make room, and the same call goes on from there",
            ) from error

    def put_axis(self, name: str, values: np.ndarray | None) -> None:
        """Keeps the coordinate of an axis in the folder, in place of one of fewer members; None if it has none."""
        import zarr

        group = zarr.open_group(self.folder, mode="r+")
        if values is not None:
            group.create_array(name, data=values, dimension_names=[name], overwrite=True)
        elif name in group:
            del group[name]

    def total(self, place: int) -> dict:
        """The total of the chunk at this place, by name."""
        return {name.removeprefix(TOTAL): self.arrays[name][place] for name in self.arrays if name.startswith(TOTAL)}


def in_memory(count: int, chunk: int, values: dict, totals: dict) -> Store:
    """A store in memory; for the arguments see `on_disk`."""
    arrays = {name: _nothing((count, *x.shape), x.dtype) for name, (x, _) in values.items()}
    arrays |= {TOTAL + name: _nothing((-(-count // chunk), *x.shape), x.dtype) for name, x in totals.items()}
    return Store(arrays | {STATUS: np.full(count, MISSING)}, chunk)


def on_disk(
    folder: File, inputs: dict, count: int, chunk: int, values: dict, totals: dict, beside: dict, times: Any = ()
) -> Store:
    """The store of the ensemble with these inputs in the folder, made if there is none. `values` has the shape of each
    array of one member and the names of its axes, `totals` the shapes of those of a chunk, `beside` the parameters of
    the members and the names of their axes; they and the `times` are coordinates. ValueError if something else is in
    the folder."""
    try:
        import zarr
    except ImportError:
        raise ImportError("folder= needs zarr: pip install 'geodyn[ensemble]'") from None
    folder = Path(folder)
    about = {"format": FORMAT} | inputs
    if not (folder / "zarr.json").exists():
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise ValueError(f"folder={folder} must be the folder of an ensemble, or none yet; zarr.json is not in it")
        if jax.process_index() == 0:
            _make(zarr, folder, about, count, chunk, values, totals, beside, times)
        _wait_for(folder / "zarr.json")
    group = zarr.open_group(folder, mode="r+")
    if found := [
        f"{name} was {group.attrs.get(name)}, is {x}" for name, x in about.items() if group.attrs.get(name) != x
    ]:
        raise ValueError(f"folder={folder} is of another ensemble: {'; '.join(found)}. Delete it, or give another")
    arrays = dict(group.arrays())
    return Store(arrays, arrays[STATUS].chunks[0], folder)


def _make(
    zarr: Any, folder: Path, about: dict, count: int, chunk: int, values: dict, totals: dict, beside: dict, times: Any
) -> None:
    """Makes the group beside its place and then moves it there, so that it appears whole."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    group = zarr.open_group(partial, mode="w")

    def add(
        name: str, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: Any, axes: tuple[str, ...], fill_value: Any
    ) -> Any:
        about = {"chunks": tuple(max(1, n) for n in chunks), "dtype": dtype, "fill_value": fill_value}
        return group.create_array(name, shape=shape, dimension_names=axes, compressors=None, **about)

    for name, (x, axes) in values.items():
        add(name, (count, *x.shape), (chunk, *x.shape), x.dtype, (MEMBER, *axes), _fill(x.dtype))
    for name, (x, axes) in beside.items():
        add(name, x.shape, x.shape, x.dtype, axes, _fill(x.dtype))[...] = x
    for name, x in totals.items():
        axes = ("chunk", *(f"{TOTAL}{name}_{i}" for i in range(len(x.shape))))
        add(TOTAL + name, (-(-count // chunk), *x.shape), (1, *x.shape), x.dtype, axes, _fill(x.dtype))
    status = add(STATUS, (count,), (chunk,), np.dtype("int64"), (MEMBER,), MISSING)
    meanings = " ".join(["not_computed", *(r.name for r in RESULTS)])
    status.attrs.update({"flag_values": [MISSING, *map(int, RESULTS)], "flag_meanings": meanings})
    coordinates = " ".join(name for name in (*beside, *times) if " " not in name)  # As xarray separates them.
    group.attrs.update(about | {"geodyn": __version__, "coordinates": coordinates})
    if folder.exists():
        folder.rmdir()
    os.replace(partial, folder)


def _wait_for(path: Path) -> None:
    """Waits until another process has made the file."""
    begin = time.monotonic()
    while not path.exists():
        if time.monotonic() - begin > PATIENCE:
            raise OSError(
                f"{path} did not appear within {PATIENCE:.0f} s: the folder must be one that all processes share"
            )
        time.sleep(0.1)


def _nothing(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.full(shape, _fill(dtype), dtype)


def _fill(dtype: Any) -> Any:
    return np.nan if np.issubdtype(dtype, np.inexact) else np.zeros((), dtype).item()
