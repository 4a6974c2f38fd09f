"""The bodies that `geodyn stroke` knows by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import geodyn as gd
from geodyn import swimmers

# The Python of the spaces that bodies may swim in, by the names of options: planes, and the eight geometries.
WRITTEN = {
    "euclidean": "gd.spaces.Euclidean(2)",
    "sphere": "gd.spaces.Sphere(2)",
    "hyperbolic": "gd.spaces.Hyperbolic(2)",
    **{name.lower(): f'gd.spaces.THURSTON["{name}"]' for name in gd.spaces.THURSTON},
}
SPACES = {
    "euclidean": gd.spaces.Euclidean(2),
    "sphere": gd.spaces.Sphere(2),
    "hyperbolic": gd.spaces.Hyperbolic(2),
    **{name.lower(): space for name, space in gd.spaces.THURSTON.items()},
}


class Body(NamedTuple):
    """A body and the defaults of its stroke.

    `asked` says what the `displacement` (one number, or exponential coordinates) means. `start` is the shape around
    which a search begins, and `region` the box of shapes that a global search covers. If strokes of free shape have no
    optimum, `based` is True: strokes go through the start, and a global search stays inside of the region. If `heading`
    is True, a displacement of one number is the net turn, with any translation. `parameters` are values for parameters
    of the class without a default."""

    kind: Callable[..., gd.AbstractConnection]
    title: str
    displacement: tuple[float, ...]
    start: Callable[[Any], Any] | None = None
    region: Callable[[Any], Any] | None = None
    asked: str = "net translation"
    based: bool = False
    heading: bool = False
    parameters: dict[str, Any] = {}

    def posed(self, body: gd.AbstractConnection, numbers: int) -> gd.bundles.AbstractInvariantMetric:
        """The body with a metric of shapes, so that optimal strokes exist, for a displacement of `numbers` coordinates.
        For a body on wheels it is the Euclidean metric: the optimal stroke is the shortest path of shapes."""
        moving = body if isinstance(body, gd.bundles.AbstractInvariantMetric) else gd.bundles.KaluzaKlein(body)
        return gd.bundles.Heading(body=moving) if self.heading and numbers == 1 else moving


def _hinges(body):
    return np.zeros(body.lengths.size - 1)


def _angles(count: int):
    return lambda body: (np.full(count, -np.pi), np.full(count, np.pi))


def _bends(body):
    return -np.pi + _hinges(body), np.pi + _hinges(body)


def _volumes(body):
    l, v = 2.5 * np.cbrt(3 * float(body.volume) / (4 * np.pi)), float(body.volume)
    return (l, 0.1 * v), (4 * l, 0.9 * v)


def _distances(body):
    a, b, c = np.asarray(body.radii)
    touching = np.array([a + b, b + c])
    return 1.25 * touching, 5 * touching


BODIES = {
    "pmpy": Body(
        swimmers.PushMePullYou,
        "pushmepullyou: two spheres that exchange volume",
        (0.1,),
        lambda body: (10.0, body.volume / 2),
        _volumes,
        based=True,
    ),
    "purcell": Body(swimmers.Purcell, "Purcell's swimmer: three slender links", (0.1,), _hinges, _bends),
    "nlink": Body(
        swimmers.NLink,
        "any number of slender links",
        (0.1,),
        _hinges,
        _bends,
        parameters={"lengths": (1.0, 1.0, 1.0, 1.0)},
    ),
    "serpenoid": Body(
        swimmers.Serpenoid,
        "a slender body that bends everywhere",
        (0.03,),
        lambda body: (0.0, 0.0),
        lambda body: ((-6.0, -6.0), (6.0, 6.0)),
    ),
    "symmetric-purcell": Body(
        swimmers.SymmetricPurcell, "a body with a pair of arms at each end", (0.1,), lambda body: (1.0, 1.0), _angles(2)
    ),
    "three-sphere": Body(
        swimmers.ThreeSphere,
        "three spheres on a line, at two distances",
        (0.05,),
        lambda body: 2.5 * _distances(body)[0] / 1.25,
        _distances,
        based=True,
    ),
    "falling-cat": Body(
        swimmers.FallingCat,
        "two halves that bend at the waist",
        (0.0, 0.0, 1.0),
        lambda body: (0.0, 0.0),
        _angles(2),
        "net rotation vector",
    ),
    "satellite": Body(
        swimmers.Satellite,
        "a rigid body with rotors",
        (0.0, 0.0, 0.1),
        lambda body: np.zeros(body.rotors.size),
        lambda body: (-np.pi * np.ones(body.rotors.size), np.pi * np.ones(body.rotors.size)),
        "net rotation vector",
    ),
    "beanie": Body(
        swimmers.Beanie,
        "two coaxial bodies: one angle, which encloses nothing",
        (0.1,),
        lambda body: (0.0,),
        asked="net turn",
    ),
    "floating-links": Body(
        swimmers.FloatingLinks,
        "rods afloat, as an astronaut",
        (0.3,),
        lambda body: 1 + _hinges(body),
        _bends,
        "net turn",
        heading=True,
    ),
    "fluid-links": Body(
        swimmers.FluidLinks,
        "ellipses in a perfect fluid, as a fish",
        (0.3,),
        _hinges,
        _bends,
    ),
    "pendulum-raft": Body(
        swimmers.PendulumRaft,
        "a spherical pendulum on a raft",
        (0.1,),
        lambda body: (1.0, 0.0),
        lambda body: ((0.2, -np.pi), (2.9, np.pi)),
        "net turn",
        based=True,
        heading=True,
    ),
    "rolling-disc": Body(
        swimmers.RollingDisc, "an upright disc that rolls", (0.5,), lambda body: (0.0, 0.0), _angles(2)
    ),
    "car": Body(
        swimmers.KinematicCar,
        "rear wheels that roll and front wheels that steer",
        (0.3,),
        lambda body: (0.0, 0.0),
        lambda body: ((-np.pi, -1.2), (np.pi, 1.2)),
        "net turn",
        based=True,
        heading=True,
    ),
    "snake": Body(
        swimmers.KinematicSnake,
        "three links on wheels",
        (0.1,),
        lambda body: (0.8, -0.8),
        lambda body: ((0.3, -2.0), (2.0, -0.3)),
        based=True,
    ),
    "two-legged": Body(
        swimmers.TwoLegged,
        "a mass with two legs in curved space",
        (0.05,),
        lambda body: (0.8, 0.8),
        lambda body: ((0.3, 0.1), (1.4, 1.4)),
        parameters={"space": gd.spaces.Sphere(2)},
    ),
}
