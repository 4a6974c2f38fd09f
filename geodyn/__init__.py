"""geodyn: a metric in, motion out. Differentiable geometric mechanics on JAX.

What a first page needs stands here; the rest in submodules such as `gd.spaces`, `gd.rigid`, `gd.contact` or
`gd.swimmers`. Names are loaded at first use, so that `import geodyn` costs nothing; `__init__.pyi` lists them.
"""

from importlib.metadata import PackageNotFoundError, version

import lazy_loader

try:
    __version__ = version("geodyn")
except PackageNotFoundError:  # A copy of the source.
    __version__ = "unknown"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
