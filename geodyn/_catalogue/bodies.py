"""The bodies that `geodyn stroke` knows by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

import geodyn as gd
from geodyn import swimmers
from geodyn._locomotion.motion.costs import Costly

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
    which a search begins, and `region` the box of shapes that a global search covers. If strokes of free shape have
    no optimum, `based` is True: strokes go through the start, and a global search stays inside of the region; or
    `bounded` is: all searches stay inside of the region, whose bounds keep away from a singular shape. If `heading`
    is True, a displacement of one number is the net turn, with any translation. `parameters` are values for
    parameters of the class other than its defaults. `harmonics` are those of its strokes, fewer where each takes
    long. `period` is the time of a stroke of a body with springs, whose pace matters."""

    kind: Callable[..., gd.bundles.AbstractLocomotion]
    title: str
    displacement: tuple[float, ...]
    start: Callable[[Any], Any] | None = None
    region: Callable[[Any], Any] | None = None
    asked: str = "net translation"
    based: bool = False
    bounded: bool = False
    heading: bool = False
    parameters: Mapping[str, Any] = MappingProxyType({})
    harmonics: int = 16
    period: float | None = None

    def posed(self, body: gd.bundles.AbstractLocomotion, numbers: int) -> Costly:
        """The body with a cost of strokes, so that optimal ones exist, for a displacement of `numbers` coordinates. For
        a body on wheels it is the Euclidean metric: the optimal stroke is the shortest path of shapes."""
        if isinstance(body, gd.bundles.AbstractForceBalance):
            return body
        is_posed = isinstance(body, gd.bundles.AbstractInvariantMetric)
        moving = body if is_posed else gd.bundles.KaluzaKlein(cast(gd.AbstractConnection, body))
        return gd.bundles.Heading(body=moving) if self.heading and numbers == 1 else moving


def _hinges(body: Any) -> np.ndarray:
    return np.zeros(body.lengths.size - 1)


def _all_hinges(body: Any) -> np.ndarray:
    return np.asarray(body.first_shape)


def _all_bends(body: Any) -> tuple[np.ndarray, np.ndarray]:
    return -np.pi + _all_hinges(body), np.pi + _all_hinges(body)


def _angles(count: int):
    return lambda body: (np.full(count, -np.pi), np.full(count, np.pi))


def _bends(body: Any) -> tuple[np.ndarray, np.ndarray]:
    return -np.pi + _hinges(body), np.pi + _hinges(body)


def _zeros(count: int):
    return lambda body: np.zeros(count)


def _box(count: int, half: float):
    return lambda body: (np.full(count, -half), np.full(count, half))


def _waves(body: Any) -> np.ndarray:
    return np.zeros(2 * body.waves.size)


def _pieces(body: Any) -> np.ndarray:
    return np.zeros(body.pieces)


def _modes(body: Any) -> np.ndarray:
    """The straight shape, of a body that hinges together."""
    return np.zeros(body.shapes.matrix.shape[1])


def _around(start: Callable[[Any], np.ndarray], half: float):
    return lambda body: (start(body) - half, start(body) + half)


def _volumes(body: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    l, v = 2.5 * np.cbrt(3 * float(body.volume) / (4 * np.pi)), float(body.volume)
    return (l, 0.1 * v), (4 * l, 0.9 * v)


def _distances(body: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b, c = np.asarray(body.radii)
    touching = np.array([a + b, b + c])
    return 1.25 * touching, 5 * touching


ARCS = ("constant-curvature", *(f"constant-curvature-{pieces}" for pieces in (3, 4, 5)))


def _chain(links: int) -> Body:
    title = f"{('four', 'five', 'six', 'seven', 'eight', 'nine')[links - 4]} slender links"
    return Body(swimmers.NLink, title, (0.1,), _hinges, _bends, parameters={"lengths": (1.0,) * links})


def _ellipses(links: int) -> Body:
    title = f"the same, {('four', 'five', 'six', 'seven')[links - 4]} of them"
    return Body(swimmers.FluidLinks, title, (0.3,), _hinges, _bends, parameters={"lengths": (1.0,) * links})


def _arcs(pieces: int) -> Body:
    title = f"a slender body of {('two', 'three', 'four', 'five')[pieces - 2]} arcs"
    given = {"pieces": pieces}
    return Body(swimmers.ConstantCurvature, title, (0.03,), _pieces, _around(_pieces, 6.0), parameters=given)


def _fluid_arcs(pieces: int) -> Body:
    title = f"a chain of ellipses in {('two', 'three', 'four', 'five')[pieces - 2]} arcs"
    return Body(swimmers.fluid_arcs, title, (0.1,), _modes, _around(_modes, 6.0), parameters={"pieces": pieces})


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
    "four-link": _chain(4),
    "five-link": _chain(5),
    "nine-link": _chain(9),
    "three-link-about-its-centre": Body(
        swimmers.NLink,
        "three slender links, seen from their centre of mass",
        (0.1,),
        _hinges,
        _bends,
        parameters={"lengths": (1.0, 1.0, 1.0), "centred": True},
    ),
    "three-link-bowed": Body(
        swimmers.bowed_links, "three slender links in the modes C and S", (0.1,), _zeros(2), _box(2, 2.5)
    ),
    "four-link-bowed": Body(
        swimmers.bowed_links,
        "four slender links in the modes C and S",
        (0.1,),
        _zeros(2),
        _box(2, 2.5),
        parameters={"lengths": (1.0, 1.0, 1.0, 1.0)},
    ),
    "nine-link-waving": Body(
        swimmers.waving_links, "nine slender links in a sine and a cosine", (0.1,), _zeros(2), _box(2, 1.5)
    ),
    "serpenoid": Body(
        swimmers.Serpenoid, "a slender body that bends everywhere", (0.03,), _waves, _around(_waves, 6.0)
    ),
    "serpenoid-4": Body(
        swimmers.Serpenoid,
        "a slender body with one wave and two waves on it",
        (0.03,),
        _waves,
        _around(_waves, 6.0),
        parameters={"waves": (1.0, 2.0), "nodes": 40},
    ),
    "serpenoid-polar": Body(
        swimmers.polar_serpenoid,
        "a serpenoid by amplitude and phase",
        (0.01,),
        lambda body: (4.0, np.pi / 4),
        lambda body: ((1.0, -np.pi), (8.0, np.pi)),
        bounded=True,
    ),
    **{name: _arcs(pieces) for pieces, name in enumerate(ARCS, 2)},
    "triangle-wave": Body(
        swimmers.TriangleWave,
        "a slender body with corners that run along it",
        (0.03,),
        lambda body: (3.0, 0.0),
        _box(2, 6.0),
    ),
    "triangle-wave-2": Body(
        swimmers.TriangleWave,
        "the same, with two waves on it",
        (0.01,),
        lambda body: (3.0, 0.0),
        _box(2, 12.0),
        parameters={"waves": 2.0, "nodes": 160},
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
    "twin-rotor": Body(
        swimmers.Satellite,
        "two rotors on one axis, which enclose nothing",
        (0.0, 0.0, 0.1),
        _zeros(2),
        _angles(2),
        "net rotation vector",
        parameters={"axes": ((0.0, 0.0, 1.0), (0.0, 0.0, -1.0))},
    ),
    "beanie": Body(
        swimmers.Beanie,
        "two coaxial bodies: one angle, which encloses nothing",
        (0.1,),
        lambda body: (0.0,),
        asked="net turn",
    ),
    "passive-links": Body(
        swimmers.passive_links, "a motor in front, springs behind", (0.03,), _all_hinges, _all_bends, period=6.0
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
    "four-link-floating": Body(
        swimmers.FloatingLinks,
        "four rods afloat",
        (0.3,),
        lambda body: 1 + _hinges(body),
        _bends,
        "net turn",
        heading=True,
        parameters={"lengths": (1.0,) * 4, "masses": (1.0,) * 4},
    ),
    "fluid-links": Body(
        swimmers.FluidLinks,
        "ellipses in a perfect fluid, as a fish",
        (0.3,),
        _hinges,
        _bends,
    ),
    **{f"fluid-links-{count}": _ellipses(count) for count in (4, 5, 6, 7)},
    "fluid-links-together": Body(
        swimmers.FluidLinks,
        "three ellipses that disturb each other's water",
        (0.3,),
        _hinges,
        _box(2, 2.0),
        parameters={"aspect": 0.1, "gap": 0.05, "interaction": True},
    ),
    "fluid-links-fine": Body(
        swimmers.three_fluid_links, "three links of ten small ellipses each", (0.1,), _zeros(2), _box(2, 2.0)
    ),
    "fluid-waves": Body(
        swimmers.fluid_waves, "twenty ellipses in a sine and a cosine", (0.1,), _modes, _around(_modes, 0.5)
    ),
    "fluid-waves-4": Body(
        swimmers.fluid_waves,
        "the same, with one wave and two waves",
        (0.1,),
        _modes,
        _around(_modes, 0.5),
        parameters={"waves": (1.0, 2.0)},
    ),
    **{f"fluid-arcs-{pieces}": _fluid_arcs(pieces) for pieces in (2, 3, 4, 5)},
    "fish-tail": Body(
        swimmers.fish_tail, "a stiff head and a tail that bends as a beam", (0.1,), _zeros(2), _angles(2)
    ),
    "flapper": Body(
        swimmers.flapper, "a body with a pair of wings of two links", (0.1,), lambda body: (0.6, 0.6), _box(2, 2.0)
    ),
    "tape-measure": Body(
        swimmers.TapeMeasure,
        "a head with two fins of tape that fold",
        (0.01,),
        lambda body: (0.6, 0.6),
        lambda body: ((0.1, 0.4), (1.1, 0.8)),
        based=True,
    ),
    "tape-measure-asymmetric": Body(
        swimmers.TapeMeasure,
        "the same, each fin for itself",
        (0.01, 0.0, 0.0),
        lambda body: (0.6, 0.6, 0.6),
        lambda body: ((0.1, 0.1, 0.4), (1.1, 1.1, 0.8)),
        "net displacement",
        based=True,
        parameters={"symmetric": False},
    ),
    "carreau-links": Body(
        swimmers.CarreauLinks, "links in a fluid that thins, as mucus", (0.1,), _hinges, _bends, harmonics=4
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
    "differential-drive": Body(
        swimmers.DifferentialDrive,
        "a cart with two driven wheels",
        (0.3,),
        _zeros(2),
        _angles(2),
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
        lambda body: body.first_shape,
        lambda body: body.shape_region,
        parameters={"space": gd.spaces.Sphere(2)},
    ),
}
