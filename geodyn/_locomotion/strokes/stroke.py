"""MOTION: strokes, which are curves in shape space, as Fourier and Legendre series.

Any callable t → r on [0, 1] is a stroke. A stroke that is not smooth everywhere gives the times of its corners in an
attribute `breaks`; quadratures put the ends of steps there.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Scalar, TypeAliasType

Stroke = TypeAliasType("Stroke", Callable[[Scalar], Float[Array, " m"]])


def floating(value: Any, name: str = "shapes, coefficients and numbers of bodies") -> Array:
    """Numbers, the argument `name`, as floating-point arrays of the working precision."""
    return floats(name, value)


def floating_unless_none(name: str) -> Callable[[Any], Array | None]:
    """The converter of a field that may be None: `floating` for the argument `name`, while None stays None."""

    def convert(value: Any) -> Array | None:
        return None if value is None else floating(value, name)

    return convert


@checked
class FourierStroke(eqx.Module):
    """A closed stroke as a Fourier series, `r(t) = mean + Σ_k cosine_k cos 2πkt + sine_k sin 2πkt`, k = 1…K.

    The period is 1. Call it to get the shape, `stroke(t) -> r[m]`. `FourierStroke.circle(radius)` is a circle in two
    shape variables, and `FourierStroke.fit(stroke, harmonics)` the series of any other stroke. Any function t -> r[m]
    written with `jax.numpy` is a stroke as well; this one has coefficients, which can be differentiated with respect
    to.

    Strokes are pytrees of arrays: `eqx.filter_jit(stroke)` compiles one; `jax.jit(stroke)` fails, because arrays cannot
    be hashed.

    Args:
        mean: mean shape [m].
        cosine: coefficients [m, K] of the cosines, one row for each shape variable and one column for each harmonic.
        sine: coefficients [m, K] of the sines.

    Raises:
        ValueError: if the shapes of mean, cosine and sine do not agree.

    Example:
        >>> ellipse = gd.FourierStroke(mean=[1.0, 0.0], cosine=[[0.5], [0.0]], sine=[[0.0], [0.2]])
        >>> print(ellipse(0.0), ellipse(0.25).round(6))
        [1.5 0. ] [1.  0.2]
    """

    mean: Float[Array, " m"] = eqx.field(converter=floating)
    cosine: Float[Array, "m K"] = eqx.field(converter=floating)
    sine: Float[Array, "m K"] = eqx.field(converter=floating)

    def __check_init__(self):
        mean = jnp.shape(self.mean)
        cosine = jnp.shape(self.cosine)
        sine = jnp.shape(self.sine)
        if len(mean) != 1 or len(cosine) != 2 or cosine != sine or cosine[0] != mean[0]:
            raise ValueError(
                f"FourierStroke: got mean {mean}, cosine {cosine}, sine {sine}; want mean[m], cosine[m, K], sine[m, K]:"
                " one row for each shape variable, one column for each harmonic."
            )

    @classmethod
    @checked
    def circle(
        cls,
        radius: Number,
        harmonics: Count = 1,
        centre: Float[Array, "2"] = (0.0, 0.0),  # pyright: ignore[reportArgumentType]: the gate makes an array of it
    ) -> "FourierStroke":
        """The circle `centre + radius (cos 2πt, sin 2πt)` in two shape variables, with room for more harmonics."""
        zeros = jnp.zeros((2, harmonics))
        return cls(centre, zeros.at[0, 0].set(radius), zeros.at[1, 0].set(radius))

    @classmethod
    @checked
    def fit(cls, stroke: Stroke, harmonics: Count) -> "FourierStroke":
        """The Fourier series of any stroke, up to the given harmonic, from 4 × harmonics equidistant samples."""
        samples = 4 * harmonics
        shapes = jax.vmap(stroke)(jnp.arange(samples) / samples)
        # cosine − i sine of each harmonic from 0 on, of which the first is twice the mean.
        coefficients = jnp.fft.rfft(shapes, axis=0).T * 2 / samples
        mean = coefficients[:, 0].real / 2
        waves = coefficients[:, 1 : harmonics + 1]
        return cls(mean, waves.real, -waves.imag)

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t."""
        angle = 2 * jnp.pi * t * jnp.arange(1, self.cosine.shape[1] + 1)
        return self.mean + self.cosine @ jnp.cos(angle) + self.sine @ jnp.sin(angle)


@checked
class LegendreStroke(eqx.Module):
    """A loop that starts and ends at the shape `base`, where it may have a corner, as a series of Legendre polynomials.

    `r(t) = base + Σ_k c_k (P_{k+1}(x) − P_{k−1}(x))`, x = 2t − 1, k = 1…K. The brackets are
    `(4k+2) ∫₀ᵗ P_k(2s − 1) ds`; so they vanish at both ends, and their rates are orthogonal on [0, 1]. The rates
    at the two ends may differ: the best loop through a given shape has a corner there.
    `gd.optimal_stroke(..., base=...)` returns strokes of this kind. Call it to get the shape, `stroke(t) -> r[m]`;
    the time is taken modulo 1. `LegendreStroke.fit(stroke, base, terms)` fits another stroke.

    Args:
        base: shape [m] at the start and the end.
        coefficients: c [m, K], one row for each shape variable.

    Raises:
        ValueError: if the shapes of base and coefficients do not agree.

    Example:
        With one term, P₂(x) − P₀(x) = 6 t (t − 1).

        >>> loop = gd.strokes.LegendreStroke([0.2, 0.1], [[1.0], [-1.0]])
        >>> print(loop(0.0), loop(0.5), loop(1.0))
        [0.2 0.1] [-1.3  1.6] [0.2 0.1]
    """

    base: Float[Array, " m"] = eqx.field(converter=floating)
    coefficients: Float[Array, "m K"] = eqx.field(converter=floating)

    def __check_init__(self):
        base = jnp.shape(self.base)
        coefficients = jnp.shape(self.coefficients)
        if len(base) != 1 or len(coefficients) != 2 or coefficients[0] != base[0]:
            raise ValueError(
                f"LegendreStroke: got base {base}, coefficients {coefficients}; want base[m], coefficients[m, K]:"
                " one row for each shape variable."
            )

    @classmethod
    @checked
    def fit(cls, stroke: Stroke, base: Float[Array, " m"], terms: Count) -> "LegendreStroke":
        """The series that fits by least squares a stroke through the base at t = 0, from 4 × terms samples."""
        t = (jnp.arange(4 * terms) + 0.5) / (4 * terms)
        # A stroke in as many shape variables as terms, each of which is one term of the series.
        basis = jax.vmap(cls(jnp.zeros(terms), jnp.eye(terms)))(t)
        wanted = jax.vmap(stroke)(t) - base[None]
        coefficients = jnp.linalg.lstsq(basis, wanted)[0].T
        return cls(base, coefficients)

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t."""
        return self.base + self.coefficients @ bumps(jnp.mod(t, 1.0), self.coefficients.shape[1])


def bumps(t: Number, count: int) -> Float[Array, " K"]:
    """The terms of the series of strokes with given ends: `P_{k+1}(x) − P_{k−1}(x)`, x = 2t − 1, k = 1…K, which are
    zero at both ends of [0, 1]."""
    p = legendre(2 * t - 1, count + 2)
    return p[2:] - p[:-2]


def legendre(x: Number | Array, count: int) -> Float[Array, "K ..."]:
    """The first `count` Legendre polynomials P_0(x), P_1(x), …, at least two, by Bonnet's recursion."""
    p = [jnp.ones_like(x), x]
    for k in range(1, count - 1):
        p.append(((2 * k + 1) * x * p[k] - k * p[k - 1]) / (k + 1))
    return jnp.stack(p)


@checked
class OpenStroke(eqx.Module):
    """A stroke from the shape `start` to the shape `end`, a straight line and a series of Legendre polynomials.

    `r(t) = start + (end − start) t + Σ_k c_k (P_{k+1}(x) − P_{k−1}(x))`, x = 2t − 1, k = 1…K, with the
    brackets of `gd.strokes.LegendreStroke`, which vanish at both ends. `gd.optimal_stroke(..., ends=...)` returns
    strokes of this kind. Call it to get the shape, `stroke(t) -> r[m]`, for t from 0 to 1.

    Args:
        start: shape [m] at t = 0.
        end: shape [m] at t = 1.
        coefficients: c [m, K], one row for each shape variable; zeros [m, 1] for the straight line.

    Raises:
        ValueError: if the shapes of start, end and coefficients do not agree.

    Example:
        >>> way = gd.strokes.OpenStroke([0.0, 0.0], [1.0, 2.0], [[0.0], [1.0]])
        >>> print(way(0.0), way(0.5), way(1.0))
        [0. 0.] [ 0.5 -0.5] [1. 2.]
    """

    start: Float[Array, " m"] = eqx.field(converter=floating)
    end: Float[Array, " m"] = eqx.field(converter=floating)
    coefficients: Float[Array, "m K"] = eqx.field(converter=floating)

    def __check_init__(self):
        start = jnp.shape(self.start)
        end = jnp.shape(self.end)
        coefficients = jnp.shape(self.coefficients)
        if len(start) != 1 or end != start or len(coefficients) != 2 or coefficients[0] != start[0]:
            raise ValueError(
                f"OpenStroke: got start {start}, end {end}, coefficients {coefficients}; want start[m], end[m],"
                " coefficients[m, K]: one row for each shape variable; zeros[m, 1] for a straight way."
            )

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t of [0, 1]."""
        straight = self.start + (self.end - self.start) * t
        return straight + self.coefficients @ bumps(jnp.asarray(t), self.coefficients.shape[1])


# How messages begin that refuse what is given as a stroke.
WANTED = "a stroke is a function t → r[m] written with jax.numpy, such as a gd.FourierStroke"


def _check_callable(stroke: Any) -> None:
    if isinstance(stroke, type):
        raise ValueError(f"{WANTED}; got the class {stroke.__name__}: call it.")
    if not callable(stroke):
        raise ValueError(f"{WANTED}; got {'an array' if isinstance(stroke, jax.Array) else type(stroke).__name__}.")


def shapes_at(stroke: Stroke, times: Float[Array, " N"]) -> Float[Array, "N m"]:
    """The shapes at these times, by one compiled program, which is kept for strokes of the same kind."""
    _check_callable(stroke)
    return _shapes_at(stroke, times)


@jit
def _shapes_at(stroke: Stroke, times: Float[Array, " T"]) -> Float[Array, "T m"]:
    return jax.vmap(lambda t: shape_at(stroke, t))(times)


def shape_at(stroke: Stroke, t: Scalar) -> Float[Array, " m"]:
    """The shape r(t). Raises ValueError unless the stroke is a function of time with values r[m]."""
    _check_callable(stroke)
    try:
        r = stroke(t)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as cause:
        raise ValueError(f"{WANTED}; this one cannot be traced ({type(cause).__name__}).") from cause
    if not isinstance(r, jax.Array | np.ndarray) or r.ndim != 1:
        what = f"an array of shape {r.shape}" if isinstance(r, jax.Array | np.ndarray) else type(r).__name__
        raise ValueError(f"{WANTED}; this one gives {what}: jnp.stack makes r of numbers.")
    if jnp.iscomplexobj(r):
        raise ValueError(f"{WANTED}; this one gives complex numbers: take their real parts.")
    return r


def shape_and_rate(stroke: Stroke, t: Number) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """The shape r(t) and its rate r'(t)."""
    r, rdot = derivatives_at(stroke, t, 1)
    return r, rdot


def derivatives_at(stroke: Stroke, t: Number, order: int) -> tuple[Float[Array, " m"], ...]:
    """The shape r(t) and its derivatives in time, up to one of this order."""
    t = floating(t, "t")
    if order == 0:
        return (shape_at(stroke, t),)

    def of_lower_order(t: Scalar) -> tuple[Float[Array, " m"], ...]:
        return derivatives_at(stroke, t, order - 1)

    lower, rates = jax.jvp(of_lower_order, (t,), (jnp.ones_like(t),))
    return *lower, rates[-1]  # The other rates are among the lower ones already.


def breaks(stroke: Stroke) -> Float[Array | np.ndarray, " B"]:
    """The times in [0, 1] of the attribute `breaks` of a stroke, in any order; empty if it has none."""
    given = getattr(stroke, "breaks", ())
    # Breaks that are constants, as a numpy array, stay with numpy: XLA takes seconds to sort them while it compiles.
    return np.asarray(given, jnp.result_type(float)) if isinstance(given, np.ndarray) else floating(given)


def first_corner(stroke: Stroke) -> Scalar:
    """The first time at which the rate of a stroke jumps, among its breaks and the end of a closed one; ∞ if it jumps
    at none."""
    inside = jnp.asarray(breaks(stroke))
    times = jnp.append(inside, 1.0)
    near = float(np.sqrt(jnp.finfo(times.dtype).eps))

    def change(t: Scalar, distance: float) -> Scalar:
        """How much the rate changes from so long before a time to so long after it, as a part of the rate; the end of
        the period is followed by its start."""
        later = jnp.where(t == 1, distance, t + distance)
        before = shape_and_rate(stroke, t - distance)[1]
        after = shape_and_rate(stroke, later)[1]
        return jnp.max(jnp.abs(after - before)) / jnp.max(jnp.abs(jnp.stack([before, after])))

    # Over a quarter of the distance it changes as much at a corner, but a quarter as much where the rate is smooth.
    changes = jax.vmap(lambda t: change(t, near))(times)
    closer = jax.vmap(lambda t: change(t, near / 4))(times)
    ends = jax.vmap(stroke)(jnp.array([0.0, 1.0], times.dtype))
    is_closed = jnp.max(jnp.abs(ends[1] - ends[0])) <= near * (1 + jnp.max(jnp.abs(ends)))
    is_inside = (inside > near) & (inside < 1 - near)
    is_corner = jnp.append(is_inside, is_closed) & (closer > changes / 2) & (closer > near)
    return jnp.min(jnp.where(is_corner, times, jnp.inf))


@checked
def check_closed(stroke: Stroke) -> None:
    """Check that a stroke ends at the shape at which it starts.

    It looks at 65 times from 0 to 1 and compares the two ends, to half of the digits of the working precision, relative
    to the size of the stroke. Inside jit nothing can be checked, and nothing is raised.

    Args:
        stroke: function t -> r[m], t from 0 to 1.

    Returns:
        None.

    Raises:
        ValueError: if the stroke is not closed, has shapes that are not finite, or is not a function of time that gives
            an array [m].

    Example:
        >>> gd.strokes.check_closed(gd.FourierStroke.circle(1.0))
        >>> try:
        ...     gd.strokes.check_closed(lambda t: jnp.stack([t, t**2]))
        ... except ValueError as error:
        ...     print(str(error)[:80])
        the stroke is not closed: it starts at the shape [0. 0.] and ends at [1. 1.]; gi
    """
    r = shapes_at(stroke, jnp.linspace(0.0, 1.0, 65))
    if isinstance(r, Tracer):
        return
    r = np.asarray(r)  # In numpy, since JAX would compile each of the operations below on its own.
    if not np.all(np.isfinite(r)):
        raise ValueError(f"the stroke has shapes that are not finite numbers: it starts at {r[0]}.")
    gap = np.max(np.abs(r[-1] - r[0]))
    size = np.max(np.abs(r - r[:1]))
    if not gap <= np.sqrt(np.finfo(r.dtype).eps) * size:
        raise ValueError(
            f"the stroke is not closed: it starts at the shape {r[0]} and ends at {r[-1]}; give"
            " it the way back too, gd.strokes.join(stroke, back), or take a FourierStroke."
        )
