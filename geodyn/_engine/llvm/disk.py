"""Machine code that is kept on the disk between processes, beside the programs that JAX keeps (`gd.cache`)."""

import contextlib
import hashlib
import os
from pathlib import Path

from geodyn._engine.tracing import setting

FOLDER = "geodyn"
DIGEST = hashlib.sha256().digest_size
# Where JAX's own cache has no bound, this many bytes.
MOST_BYTES = 2**28


def _folder() -> Path | None:
    """Where the machine code is kept, if JAX keeps anything on a disk."""
    given = setting("jax_compilation_cache_dir")
    used = given and setting("jax_enable_compilation_cache") and "://" not in given
    return Path(given) / FOLDER if used else None


def kept(name: str) -> bytes | None:
    """The machine code of this name, if it is on the disk, whole."""
    folder = _folder()
    if folder is None:
        return None
    path = folder / name
    try:
        content = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    digest, code = content[:DIGEST], content[DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def keep(name: str, code: bytes):
    """Writes the machine code to the disk; what was not used for longest goes where there is too much."""
    folder = _folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{name}.{os.getpid()}"
        unfinished.write_bytes(hashlib.sha256(code).digest() + code)
        unfinished.replace(folder / name)
        _clear(folder)


def _clear(folder: Path):
    most = setting("jax_compilation_cache_max_size")
    most = most if most > 0 else MOST_BYTES
    files = sorted(((path.stat(), path) for path in folder.iterdir()), key=lambda x: x[0].st_mtime, reverse=True)
    total = 0
    for state, path in files:
        total += state.st_size
        if total > most:
            path.unlink(missing_ok=True)
