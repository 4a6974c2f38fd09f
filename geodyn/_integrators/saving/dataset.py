"""Trajectories as xarray datasets, for their named dimensions and their files."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from geodyn._foundations.files.archive import named_arrays
from geodyn._foundations.results import RESULTS
from geodyn._integrators.saving.inputs import description
from geodyn._integrators.saving.schema import structure
from geodyn._version import __version__

NAMES = {"q": "position", "v": "velocity", "p": "momentum", "multipliers": "multiplier, positive where it pushes"}


def dataset(trajectory: Any) -> Any:
    """The data set that `Trajectory.to_xarray` returns."""
    try:
        import xarray
    except ImportError:
        raise ImportError("to_xarray needs xarray: pip install 'geodyn[xarray]'") from None
    if trajectory.t.ndim != 1:
        raise ValueError("a batch of trajectories has no one dataset: take jax.tree.map(lambda x: x[i], trajectory)")
    # q is [time, point, coordinate], or [time, coordinate] of a body that is not made of points.
    of_q = ("time", *("point", "coordinate")[3 - trajectory.q.ndim :])
    # Where there is not one momentum for each coordinate, momenta have a dimension of their own.
    of_p = of_q if trajectory.p.shape == trajectory.q.shape else ("time", "quasi-velocity")
    dims = {"q": of_q, "v": of_q, "p": of_p, "multipliers": ("time", "constraint")}
    arrays = {name: np.asarray(getattr(trajectory, name)) for name in dims}
    variables: dict[str, Any] = {
        name: (dims[name], x, {"long_name": NAMES[name]}) for name, x in arrays.items() if x.size
    }
    if "p" in variables:
        variables["energy"] = ("time", np.asarray(trajectory.energy), {"long_name": "energy"})
    if trajectory.impacts is not None:
        count = int(trajectory.impacts.count)
        for name, x in named_arrays(trajectory.impacts).items():
            variables[f"impact_{name}"] = ("impact", x[:count], {"long_name": f"{name} of the impact"})
    time = ("time", np.asarray(trajectory.t), {"long_name": "time"})
    return xarray.Dataset(variables, {"time": time}, _attributes(trajectory))


def table(data: Any, names: Iterable[str], rows: Iterable[str]) -> Any:
    """The named arrays of a data set as a table of pandas, with a row for each place along the dimensions `rows`. An
    array that lacks one of them is repeated along it. The other dimensions of an array become columns, with the index
    at the end of their names: `q0`, `q1`."""
    columns = {}
    for name in names:
        x = data.variables[name]
        others = [axis for axis in x.dims if axis not in rows]
        for place in np.ndindex(*(x.sizes[axis] for axis in others)):
            columns[_column(name, place)] = x.isel(dict(zip(others, place, strict=True)))
    # xarray wants to be told of those dimensions only that a column has.
    rows = [name for name in rows if any(name in x.dims for x in columns.values())]
    axes = {name: data.variables[name] for name in rows if name in data.variables}
    # The class of the data is that of xarray, which need not be installed to import this file.
    return type(data)(columns, axes).to_dataframe(dim_order=rows)


def _column(name: str, place: tuple[int, ...]) -> str:
    """The name of the column of one component, such as `q1`, or `x1_0` where the name of the array ends in a digit."""
    separator = "_" if place and name[-1].isdigit() else ""
    return name + separator + "_".join(map(str, place))


def _attributes(trajectory: Any) -> dict:
    """The inputs as attributes: texts as they are, and numbers as JSON, which keeps every digit."""
    numbers = named_arrays({"inputs": trajectory.inputs, "system": trajectory.system, "stats": trajectory.stats})
    counts = trajectory.inputs and {
        name: getattr(trajectory.inputs, name) for name in ("steps", "save_every", "max_impacts")
    }
    return {
        "units": "any consistent units",
        "result": RESULTS(int(trajectory.result)).name,
        "system": structure(trajectory.system),
        "method": json.dumps(trajectory.method and description(trajectory.method)),
        "numbers": json.dumps({name: x.tolist() for name, x in numbers.items()} | (counts or {})),
        "geodyn": __version__,
    }
