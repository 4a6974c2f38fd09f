"""Scenario files in TOML, read into a system with initial data; every error names the line and the remedy."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import geodyn as gd
from geodyn._foundations.files.toml import Source
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.points.system import System, killing_fields
from geodyn._plot.style import Labels

SHIPPED = files("geodyn._scenarios")
SPACES = {"euclidean": "Euclidean", "hyperbolic": "Hyperbolic", "inhomogeneous": "Inhomogeneous", "sphere": "Sphere"}
# Those of Thurston's geometries that are of three dimensions only.
GEOMETRIES: dict[str, Callable[..., AbstractManifold]] = {
    "nil": gd.spaces.Nil,
    "sol": gd.spaces.Sol,
    "sl2": gd.spaces.SL2,
    "s2xe": lambda **options: gd.spaces.Product(gd.spaces.Sphere(2, **options), gd.spaces.Euclidean(1)),
    "h2xe": lambda **options: gd.spaces.Product(gd.spaces.Hyperbolic(2, **options), gd.spaces.Euclidean(1)),
}
ELEMENTS = {"spring": "Spring", "rod": "Rod", "pin": "Pin", "gravity": "Gravity", "drag": "Drag"}
METHODS = {"gauss": "Gauss", "radau_iia": "RadauIIA"}


class Scenario(NamedTuple):
    """The contents of a scenario file: a system, its initial data, the options of `gd.integrate`, and what the axes of
    pictures say."""

    system: System
    q0: Float[Array, "N dim"]
    v0: Float[Array, "N dim"]
    options: dict[str, Any]
    source: Source
    labels: Labels

    def integrate(self, checkpoint: Path | None = None) -> Trajectory:
        """The trajectory, with a progress bar. Failure or interruption is not raised, but given by its `result`."""
        options = {"progress": True, "checkpoint": checkpoint, "throw": False, **self.options}
        run = partial(gd.integrate, self.system, self.q0, self.v0, **options)
        return self.source.build(("body",), run)


def shipped() -> dict[str, str]:
    """The names of the scenarios that come with geodyn, with the first comment line of each."""
    paths = sorted(Path(str(SHIPPED)).glob("*.toml"))
    return {path.stem: path.read_text(encoding="utf-8").split("\n")[0].lstrip("# ") for path in paths}


def read_scenario(name: str) -> Scenario:
    """The scenario in a file, or the one of this name that comes with geodyn.

    Raises ValueError `file:line: what is wrong` for an unknown key (with the nearest valid one), a missing key, a wrong
    type or shape, and for arguments that the space, the elements or the method do not accept.
    """
    path = Path(name)
    if not path.exists():
        if name not in shipped():
            nearest = get_close_matches(name, shipped(), 1)
            remedy = f"did you mean {nearest[0]!r}?" if nearest else "`geodyn simulate --list` shows the shipped ones"
            raise ValueError(f"there is no scenario {name!r}, neither as a file nor shipped: {remedy}")
        path = Path(str(SHIPPED / f"{name}.toml"))
    return scenario_of(Source(path))


def scenario_of(source: Source) -> Scenario:
    """The scenario in a file that has been read. Numbers that were put into it (`Source.put`) may be traced."""
    source.allow((), ["space", "body", "method", "time", "labels", "sweep", *ELEMENTS])
    space = _space(source)
    masses, q0, v0 = _body(source, space)
    elements = [element for name in ELEMENTS for element in _elements(source, name)]
    system = source.build(("body",), lambda: System(space, masses, *elements))
    if source.get(("body", "project"), bool, False):
        q0, v0 = gd.project(system, jnp.asarray(q0), jnp.asarray(v0))
    options = dict(_time(source))
    if "method" in source.tables:
        options["method"] = _method(source)
    return Scenario(system, jnp.asarray(q0), jnp.asarray(v0), options, source, _labels(source, space))


def _labels(source: Source, space: AbstractManifold) -> Labels:
    """The names of the coordinates of a point, and the units."""
    if "labels" not in source.tables:
        return Labels()
    table = source.allow(("labels",), Labels._fields)
    # Only for the error that `get` raises where a unit is no text.
    for unit in ("length", "time", "mass"):
        source.get(("labels", unit), str, "")
    names = table.get("coordinates", [])
    if not isinstance(names, list) or not all(isinstance(x, str) for x in names) or len(names) not in (0, space.dim):
        source.fail(("labels", "coordinates"), f"'coordinates' must be {space.dim} names, got {names!r}")
    return Labels(**{**table, "coordinates": tuple(names)})


def _space(source: Source) -> AbstractManifold:
    """The space: one by its name, or one with a given metric, a function x[n] -> g[n, n] as "module:function". With a
    metric go the `period` [n] of its coordinates, `inf` for coordinates that are not periodic, and an `embedding`, a
    function x[n] -> X[2 or 3], for pictures."""
    table = source.allow(("space",), ["name", "dim", "chart", "metric", "period", "embedding"])
    dim = source.get(("space", "dim"), int)
    if ("name" in table) == ("metric" in table):
        source.fail(("space",), "[space] needs either 'name' (a space of the zoo) or 'metric' (module:function)")
    if "metric" in table:
        period = source.get(("space", "period"), (dim,), None)
        metric = _import(source, ("space", "metric"))
        embedding = _import(source, ("space", "embedding")) if "embedding" in table else None
        return source.build(("space",), lambda: gd.Manifold(metric, dim, period=period, embedding=embedding))
    for key in ("period", "embedding"):
        if key in table:
            source.fail(("space", key), f"{key!r} goes with 'metric': the spaces of the zoo know theirs")
    name = source.choose(("space", "name"), [*SPACES, *GEOMETRIES])
    options = {"chart": source.get(("space", "chart"), str)} if "chart" in table else {}
    if name in GEOMETRIES:
        if dim != 3:
            source.fail(("space", "name"), f"{name!r} has dim = 3")
        return source.build(("space",), lambda: GEOMETRIES[name](**options))
    return source.build(("space",), lambda: getattr(gd.spaces, SPACES[name])(dim, **options))


def _import(source: Source, key: tuple) -> Any:
    """The object "module:name" that a key gives, also from modules of the working directory."""
    module, _, name = source.get(key, str).partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        source.fail(key, f"{key[-1]!r} must be module:function, importable from here; got {module}:{name} ({error})")


def _body(source: Source, space: AbstractManifold) -> tuple:
    """(masses, positions, velocities). With the key `killing` the velocities are those of one Killing field of the
    space, given by its coefficients.

    The key `project`, which moves the initial data onto the constraints, is only admitted here. `scenario_of` obeys it,
    once it has the constraints.
    """
    table = source.allow(("body",), ["masses", "positions", "velocities", "killing", "project"])
    masses = source.get(("body", "masses"), (None,))
    shape = (len(masses), space.dim)
    q0 = source.get(("body", "positions"), shape)
    if "killing" not in table:
        return masses, q0, source.get(("body", "velocities"), shape, np.zeros(shape))
    if "velocities" in table:
        source.fail(("body", "killing"), "give either 'velocities' or 'killing', not both")
    if getattr(space, "killing_fields", None) is None:
        # No closed form is known: the fields are computed from the metric, starting at the first point of the body.
        space = source.build(("body", "killing"), lambda: gd.symmetries(space, np.asarray(q0)[0]).space)
    fields = np.asarray(killing_fields(space, jnp.asarray(q0)))
    coefficients = source.get(("body", "killing"), fields.shape[1:2])
    return masses, q0, np.einsum("k,nki->ni", coefficients, fields)


def _elements(source: Source, name: str) -> list:
    """The elements of one kind, from a table [name] or several tables [[name]] with the arguments of the class."""
    make = getattr(gd, ELEMENTS[name])
    tables = source.tables.get(name, [])
    keys = [(name, index) for index in range(len(tables))] if isinstance(tables, list) else [(name,)]
    return [source.call(key, make) for key in keys]


def _method(source: Source) -> Any:
    """The method: the key `name` says which class, the other keys are its arguments."""
    make = getattr(gd, METHODS[source.choose(("method", "name"), METHODS)])
    return source.call(("method",), make, "name")


def _time(source: Source) -> dict[str, Any]:
    """The table [time], whose keys are arguments of `gd.integrate`."""
    table = source.allow(("time",), ["t1", "steps", "save_every"])
    # Only for the errors that `get` raises where a key is missing or has a wrong type.
    source.get(("time", "t1"), float)
    source.get(("time", "steps"), int)
    return table
