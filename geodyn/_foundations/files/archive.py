"""Archives of arrays and metadata, each one .npz file that is written whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from geodyn._version import __version__


def write_archive(path: str | os.PathLike, arrays: dict[str, np.ndarray], meta: dict) -> None:
    """Writes arrays and JSON metadata to one .npz file, first to a temporary file beside it, which is then renamed."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    text = json.dumps(meta | {"geodyn": __version__})
    everything: dict[str, Any] = {"metadata": np.array(text), **arrays}
    try:
        with open(partial, "wb") as file:
            np.savez(file, **everything)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_archive(path: str | os.PathLike, wanted: str) -> tuple[dict[str, np.ndarray], dict]:
    """The (arrays, metadata) that `write_archive` wrote; ValueError if the file is foreign, truncated, or of a format
    other than `wanted`."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(str(arrays.pop("metadata")))
        found = meta["format"]
    except FileNotFoundError:
        raise FileNotFoundError(f"path must be the name of a file that exists, got {os.fspath(path)!r}") from None
    except Exception as error:
        raise ValueError(f"{path} is no file of geodyn, or it is truncated ({type(error).__name__}: {error})") from None
    if found != wanted:
        raise ValueError(
            f"{path} holds a {found!r}, wanted a {wanted!r}: read it with the version that wrote it, {meta['geodyn']}"
        )
    if any(a.dtype == np.float64 for a in arrays.values()) and not jax.config.read("jax_enable_x64"):
        raise ValueError(
            f"{path} was saved in double precision, but JAX runs in single: put "
            "jax.config.update('jax_enable_x64', True) before anything else"
        )
    return arrays, meta


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by their paths, such as `elements.0.stiffness`."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(x) for path, x in leaves}


def from_named_arrays(arrays: dict[str, np.ndarray], template: Any) -> Any:
    """The pytree of `named_arrays`, in the structure of the template."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    return jax.tree.unflatten(structure, [arrays[name] for name in names])


def differences(before: dict[str, np.ndarray], now: dict[str, np.ndarray]) -> list[str]:
    """The differences of two dictionaries of arrays, compared bit for bit: a line for each name that differs."""
    lines = []
    for name in before | now:
        a = _shown(before[name]) if name in before else "missing"
        b = _shown(now[name]) if name in now else "missing"
        if a != b or name not in before or name not in now or before[name].tobytes() != now[name].tobytes():
            lines.append(f"{name} was {a}, is {b}")
    return lines


def _shown(x: np.ndarray) -> str:
    values = np.array2string(x, threshold=8, precision=17) if x.ndim else str(x)
    return values if x.dtype.kind == "U" else f"{values} ({x.dtype}{list(x.shape)})"
