"""Files: arrays and metadata in one .npz, written whole or not at all."""

import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax
import numpy as np


def write_archive(path: str | os.PathLike, arrays: dict[str, np.ndarray], meta: dict) -> None:
    """Arrays and JSON metadata in one .npz, written beside its place and moved there."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez(file, metadata=np.array(json.dumps(meta | {"geodyn": _version()})), **arrays)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_archive(path: str | os.PathLike, wanted: str) -> tuple[dict[str, np.ndarray], dict]:
    """What `write_archive` wrote; ValueError where the file is foreign, truncated, or of another format."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(str(arrays.pop("metadata")))
        found = meta["format"]
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is no file of geodyn, or it is truncated ({type(error).__name__}: {error})") from None
    if found != wanted:
        raise ValueError(f"{path} holds a {found!r}, wanted a {wanted!r}")
    if any(a.dtype == np.float64 for a in arrays.values()) and not jax.config.read("jax_enable_x64"):
        raise ValueError(
            f"{path} was saved in double precision, but JAX runs in single: put "
            "jax.config.update('jax_enable_x64', True) before anything else"
        )
    return arrays, meta


def _version():
    try:
        return version("geodyn")
    except PackageNotFoundError:
        return "unknown"
