"""Every public name explains itself: what it takes and gives, by sections that tools understand, and by an example that
runs and prints what stands under it."""

import doctest
import inspect
import os
import re
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib import pyplot

import geodyn as gd

SECTIONS = ("Args", "Returns", "Raises", "Example", "Source")
ROOMS = {"gd": gd} | {f"gd.{name}": room for name in gd.__all__ if inspect.ismodule(room := getattr(gd, name))}
PUBLIC = {
    f"{room}.{name}": value
    for room, module in ROOMS.items()
    for name in module.__all__
    if callable(value := getattr(module, name))
}


def sections(docstring: str) -> dict[str, str]:
    """The text of each section, by its name."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", PUBLIC)
def test_sections(name):
    """Each parameter is explained under Args, a function says what it returns, and all have an example."""
    value = PUBLIC[name]
    found = sections(value.__doc__)
    assert "Example" in found and ">>>" in found["Example"], f"{name} has no example"
    if inspect.isabstract(value) or (inspect.isclass(value) and issubclass(value, BaseException | int)):
        return
    given = [p for p in inspect.signature(value).parameters if p not in ("self", "args", "kwargs")]
    heads = " ".join(re.findall(r"^ {4}(\S[^:]*):", found.get("Args", ""), re.MULTILINE))
    missing = [p for p in given if not re.search(rf"\b{p}\b", heads)]
    assert not missing, f"Args of {name} say nothing of {missing}"
    assert inspect.isclass(value) or "Returns" in found, f"{name} does not say what it returns"


@pytest.fixture(autouse=True)
def close_figures():
    """Of many open ones matplotlib warns."""
    yield
    pyplot.close("all")


def marks(name):
    """Those of the root are run on the newest JAX as well."""
    return (pytest.mark.long, *([pytest.mark.newest] if name.count(".") == 1 else []))


class Checker(doctest.OutputChecker):
    """Takes -0. for 0.: the sign of a rounded zero is the processor's."""

    def check_output(self, want, got, optionflags):
        """Whether `got` is what was wanted."""
        return super().check_output(without_signs_of_zero(want), without_signs_of_zero(got), optionflags)


def without_signs_of_zero(text):
    """The text with 0. for each -0. in it, and without the space for a sign after a bracket."""
    unsigned = re.sub(r"(?<![\w.])-(0\.0*(?:e[+-]\d+)?)(?![\w.])", r"\1", text)
    return re.sub(r"\[ +", "[", unsigned)


def test_signs_of_zero():
    """Only those of zeros are left out."""
    assert without_signs_of_zero("[ 1. -0. -0.00 -0.5 1e-0.] -0.0e+00") == "[1. 0. 0.00 -0.5 1e-0.] 0.0e+00"


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in PUBLIC])
def test_example(name, tmp_path):
    """What it prints stands under it."""
    known = {"gd": gd, "jax": jax, "jnp": jnp, "np": np, "eqx": eqx}
    example = doctest.DocTestParser().get_doctest(inspect.cleandoc(PUBLIC[name].__doc__), known, name, None, 0)
    if name == "gd.cache":  # It changes the settings of its process.
        code = "import geodyn as gd\n" + "".join(part.source for part in example.examples)
        options = {"env": os.environ | {"XDG_CACHE_HOME": str(tmp_path)}, "capture_output": True, "text": True}
        assert subprocess.run([sys.executable, "-c", code], **options).stdout == example.examples[-1].want
        return
    said = []
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    failed, _ = runner.run(example, out=said.append)
    assert not failed, "".join(said)
