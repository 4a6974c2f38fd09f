"""`geodyn info`."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import jax

from geodyn._engine.native import engine
from geodyn._version import __version__

OTHERS = ("jax", "jaxlib", "equinox", "llvmlite", "numpy", "scipy")
SETTINGS = ("JAX_", "XLA_")


def info() -> int:
    """Prints on what the numbers of a computation depend besides its inputs."""
    devices = jax.devices()
    kinds = {device.platform: device.device_kind for device in devices}
    rows = {
        "geodyn": __version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        **{name: _installed(name) for name in OTHERS},
        "platform": f"{platform.platform()}, {platform.machine()}",
        "devices": ", ".join(f"{sum(d.platform == name for d in devices)} {name} ({kinds[name]})" for name in kinds),
        **{f"engine on {name}": engine(name) for name in kinds},
        "precision": "double (x64) in these commands; in a program as its jax.config.jax_enable_x64 says",
        "settings": ", ".join(f"{name}={x}" for name, x in sorted(os.environ.items()) if name.startswith(SETTINGS)),
    }
    for name, value in rows.items():
        print(f"{name:<16}{value or 'none'}")
    return 0


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
