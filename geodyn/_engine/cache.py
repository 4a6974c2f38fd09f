"""The cache of compiled programs between processes, which is JAX's own."""

import os
import sys
from pathlib import Path

import jax

from geodyn._engine import internals
from geodyn._engine.tracing import setting
from geodyn._foundations.gate import checked

MOST_BYTES = 2**30


@checked
def cache(folder: str | os.PathLike | None = None, *, max_bytes: int = MOST_BYTES) -> Path:
    """Keep compiled programs on the disk, so that the next process does not compile them again.

    Call it once, before the first computation; the command line of geodyn does so by itself. The folder is JAX's
    compilation cache: the programs that were not used for longest are deleted first, several processes may share it,
    and it may be deleted at any time. The warnings of XLA about machine code that it reads from there are turned off.

    Args:
        folder: where to keep them; by default the folder that JAX has been given (`JAX_COMPILATION_CACHE_DIR`), or
            `geodyn` in the user's folder for caches (`$XDG_CACHE_HOME`, or `~/.cache`; `~/Library/Caches` on macOS;
            `%LOCALAPPDATA%` on Windows).
        max_bytes: the size that the folder may have at most, in bytes; default 2³⁰ (1 GiB).

    Returns:
        The path of the folder, which exists then.

    Raises:
        ValueError: for a size that is not positive, and a folder that is not a path.
        OSError: where the folder can neither be made nor written to.

    Example:
        >>> folder = gd.cache()
        >>> print(folder.is_dir())
        True
    """
    if not isinstance(max_bytes, int | float) or not max_bytes > 0:
        raise ValueError(f"max_bytes must be a positive number of bytes, got {max_bytes!r}")
    if not isinstance(folder, str | os.PathLike | None):
        raise ValueError(f"folder must be a path, or None for the user's folder for caches, got {folder!r}")
    path = Path(folder or setting("jax_compilation_cache_dir") or _users_folder() / "geodyn").expanduser()
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
        raise PermissionError(f"the folder {path} cannot be written to: give another one, gd.cache(folder)")
    internals.silence()
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_compilation_cache_max_size", int(max_bytes))
    # A small program is compiled in less than JAX's second, but there are hundreds of them.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return path


def _users_folder() -> Path:
    """The user's folder for caches."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME") or Path.home() / ".cache")
