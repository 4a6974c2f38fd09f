"""MOTION: strokes, paths of shape. Any callable t → r on [0, 1] is a stroke; these series have coefficients.

A stroke that is not smooth everywhere names the times of its corners in an attribute `breaks`, and quadratures step
from break to break.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._checks import numbers
from geodyn._typing import Array, Float, Number, Scalar, TypeAliasType

Stroke = TypeAliasType("Stroke", Callable[[Scalar], Float[Array, " m"]])


def floating(value) -> Array:
    """Numbers as floating-point arrays of the working precision."""
    return numbers("shapes, coefficients and numbers of bodies", value).astype(float)


class FourierStroke(eqx.Module):
    """`r(t) = mean + Σ_k cosine_k cos 2πkt + sine_k sin 2πkt`, k = 1…K, of period 1.

    Strokes are pytrees of arrays: `eqx.filter_jit(stroke)` compiles one, `jax.jit(stroke)` cannot, for want of a hash.
    Raises ValueError if the shapes of mean, cosine and sine do not agree.
    """

    mean: Float[Array, " m"] = eqx.field(converter=floating)
    cosine: Float[Array, "m K"] = eqx.field(converter=floating)
    sine: Float[Array, "m K"] = eqx.field(converter=floating)

    def __check_init__(self):
        mean, cosine, sine = (jnp.shape(x) for x in (self.mean, self.cosine, self.sine))
        if len(mean) != 1 or len(cosine) != 2 or cosine != sine or cosine[0] != mean[0]:
            raise ValueError(
                f"FourierStroke: got mean {mean}, cosine {cosine}, sine {sine}; want mean[m], cosine[m, K], sine[m, K]:"
                " one row for each shape variable, one column for each harmonic."
            )

    @classmethod
    def circle(cls, radius: Number, harmonics: int = 1, centre=(0.0, 0.0)) -> "FourierStroke":
        """The circle `centre + radius (cos 2πt, sin 2πt)` in two shape variables, with room for more harmonics."""
        zeros = jnp.zeros((2, harmonics))
        return cls(centre, zeros.at[0, 0].set(radius), zeros.at[1, 0].set(radius))

    @classmethod
    def fit(cls, stroke: Stroke, harmonics: int) -> "FourierStroke":
        """The Fourier series of any stroke, up to the given harmonic, from 4 × harmonics equidistant samples."""
        samples = 4 * harmonics
        waves = jnp.fft.rfft(jax.vmap(stroke)(jnp.arange(samples) / samples), axis=0).T * 2 / samples
        return cls(waves[:, 0].real / 2, waves[:, 1 : harmonics + 1].real, -waves[:, 1 : harmonics + 1].imag)

    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t."""
        angle = 2 * jnp.pi * t * jnp.arange(1, self.cosine.shape[1] + 1)
        return self.mean + self.cosine @ jnp.cos(angle) + self.sine @ jnp.sin(angle)


class LegendreStroke(eqx.Module):
    """A loop that starts and ends at `base`: `r(t) = base + Σ_k c_k (P_{k+1}(x) − P_{k−1}(x))`, x = 2t − 1, k = 1…K.

    The brackets are `(4k+2) ∫₀ᵗ P_k`, so they vanish at both ends and their rates are orthogonal on [0, 1]. The rates
    at the two ends may differ: the best loop through a given point has a corner there. Time is taken modulo 1.
    Raises ValueError if the shapes of base and coefficients do not agree.
    """

    base: Float[Array, " m"] = eqx.field(converter=floating)
    coefficients: Float[Array, "m K"] = eqx.field(converter=floating)

    def __check_init__(self):
        base, coefficients = jnp.shape(self.base), jnp.shape(self.coefficients)
        if len(base) != 1 or len(coefficients) != 2 or coefficients[0] != base[0]:
            raise ValueError(
                f"LegendreStroke: got base {base}, coefficients {coefficients}; want base[m], coefficients[m, K]:"
                " one row for each shape variable."
            )

    @classmethod
    def fit(cls, stroke: Stroke, base: Float[Array, " m"], terms: int) -> "LegendreStroke":
        """The least-squares series of any stroke that passes through the base at t = 0, from 4 × terms samples."""
        t = (jnp.arange(4 * terms) + 0.5) / (4 * terms)
        basis = jax.vmap(cls(jnp.zeros(terms), jnp.eye(terms)))(t)
        return cls(base, jnp.linalg.lstsq(basis, jax.vmap(stroke)(t) - base[None])[0].T)

    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t."""
        return self.base + self.coefficients @ _bumps(jnp.mod(t, 1.0), self.coefficients.shape[1])


def _bumps(t: Number, count: int) -> Float[Array, " K"]:
    """`P_{k+1}(x) − P_{k−1}(x)`, x = 2t − 1, k = 1…K: zero at both ends of [0, 1]."""
    x = 2 * t - 1
    p = [jnp.ones_like(x), x]
    for k in range(1, count + 1):
        p.append(((2 * k + 1) * x * p[k] - k * p[k - 1]) / (k + 1))
    p = jnp.stack(p)
    return p[2:] - p[:-2]


class OpenStroke(eqx.Module):
    """A way from `start` to `end`: `r(t) = start + (end − start) t + Σ_k c_k (P_{k+1}(x) − P_{k−1}(x))`, x = 2t − 1.

    The series is that of `LegendreStroke`. Raises ValueError if the shapes of start, end and coefficients do not agree.
    """

    start: Float[Array, " m"] = eqx.field(converter=floating)
    end: Float[Array, " m"] = eqx.field(converter=floating)
    coefficients: Float[Array, "m K"] = eqx.field(converter=floating)

    def __check_init__(self):
        start, end, coefficients = (jnp.shape(x) for x in (self.start, self.end, self.coefficients))
        if len(start) != 1 or end != start or len(coefficients) != 2 or coefficients[0] != start[0]:
            raise ValueError(
                f"OpenStroke: got start {start}, end {end}, coefficients {coefficients}; want start[m], end[m],"
                " coefficients[m, K]: one row for each shape variable; zeros[m, 1] for a straight way."
            )

    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t of [0, 1]."""
        straight = self.start + (self.end - self.start) * t
        return straight + self.coefficients @ _bumps(jnp.asarray(t), self.coefficients.shape[1])


def shape_at(stroke: Stroke, t: Scalar) -> Float[Array, " m"]:
    """The shape r(t). Raises ValueError unless the stroke is a function of time that gives one."""
    wanted = "a stroke is a function t → r[m] written with jax.numpy, such as a gd.FourierStroke"
    if isinstance(stroke, type):
        raise ValueError(f"{wanted}; got the class {stroke.__name__}: call it.")
    if not callable(stroke):
        raise ValueError(f"{wanted}; got {'an array' if isinstance(stroke, jax.Array) else type(stroke).__name__}.")
    try:
        r = stroke(t)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as cause:
        raise ValueError(f"{wanted}; this one cannot be traced ({type(cause).__name__}).") from cause
    if not isinstance(r, jax.Array | np.ndarray) or r.ndim != 1:
        what = f"an array of shape {r.shape}" if isinstance(r, jax.Array | np.ndarray) else type(r).__name__
        raise ValueError(f"{wanted}; this one gives {what}: jnp.stack makes r of numbers.")
    return r


def shape_and_rate(stroke: Stroke, t: Number) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """The shape r(t) and its rate r'(t)."""
    t = floating(t)
    return jax.jvp(lambda t: shape_at(stroke, t), (t,), (jnp.ones_like(t),))


def breaks(stroke: Stroke) -> Float[Array, " B"]:
    """The times in [0, 1] at which a stroke says that it is not smooth, in any order."""
    return floating(getattr(stroke, "breaks", ()))


def check_closed(stroke: Stroke) -> None:
    """Raise ValueError unless a stroke ends where it starts, to half the digits; a traced one cannot be looked at."""
    r = jax.vmap(lambda t: shape_at(stroke, t))(jnp.linspace(0.0, 1.0, 65))
    if isinstance(r, jax.core.Tracer):
        return
    if not jnp.all(jnp.isfinite(r)):
        raise ValueError(f"the stroke has shapes that are not finite numbers: it starts at {np.asarray(r[0])}.")
    size = jnp.max(jnp.abs(r - r[:1]))
    if not jnp.max(jnp.abs(r[-1] - r[0])) <= jnp.sqrt(jnp.finfo(r.dtype).eps) * size:
        raise ValueError(
            f"the stroke is not closed: it starts at the shape {np.asarray(r[0])} and ends at {np.asarray(r[-1])}; give"
            " it the way back too, gd.strokes.join(stroke, back), or take a FourierStroke."
        )
