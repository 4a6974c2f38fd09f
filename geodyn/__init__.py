"""geodyn: a metric in, motion out. Differentiable geometric mechanics on JAX.

What a first page needs stands here; the rest in submodules such as `gd.spaces`, `gd.rigid`, `gd.contact` or
`gd.swimmers`. Names are loaded at first use, so that `import geodyn` costs nothing; `__init__.pyi` lists them.
"""

import lazy_loader

from geodyn._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
