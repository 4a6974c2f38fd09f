"""Which program stands for which of JAX's operations."""

from collections.abc import Callable

from jax import Array

from geodyn._engine.elementary.angles import reduce_far, reduced_where_far
from geodyn._engine.elementary.circular import cosine, sine, tangent
from geodyn._engine.elementary.error_function import complementary_error_function, error_function
from geodyn._engine.elementary.exponentials import (
    exponential,
    exponential_less_one,
    hyperbolic_cosine,
    hyperbolic_sine,
    hyperbolic_tangent,
    logistic,
    power_of_two,
)
from geodyn._engine.elementary.inverses import arccosine, arcsine, arctangent, arctangent_of_two
from geodyn._engine.elementary.logarithms import (
    inverse_hyperbolic_cosine,
    inverse_hyperbolic_sine,
    inverse_hyperbolic_tangent,
    logarithm,
    logarithm_of_one_and,
)
from geodyn._engine.elementary.powers import cube_root, power, reciprocal_root
from geodyn._engine.elementary.remainders import remainder

FORMULAS: dict[str, Callable[..., Array]] = {
    "sin": sine,
    "cos": cosine,
    "tan": tangent,
    "asin": arcsine,
    "acos": arccosine,
    "atan": arctangent,
    "atan2": arctangent_of_two,
    "exp": exponential,
    "exp2": power_of_two,
    "expm1": exponential_less_one,
    "sinh": hyperbolic_sine,
    "cosh": hyperbolic_cosine,
    "tanh": hyperbolic_tangent,
    "logistic": logistic,
    "log": logarithm,
    "log1p": logarithm_of_one_and,
    "asinh": inverse_hyperbolic_sine,
    "acosh": inverse_hyperbolic_cosine,
    "atanh": inverse_hyperbolic_tangent,
    "pow": power,
    "cbrt": cube_root,
    "rsqrt": reciprocal_root,
    "erf": error_function,
    "erfc": complementary_error_function,
}

FORMULAS_OF_GRAPHICS = FORMULAS | {"rem": remainder}

# What is long and seldom needed: of the function that chooses it, the one that computes it, of one number.
SELDOM: dict[str, Callable[[Array], tuple[Array, ...]]] = {
    reduced_where_far.__name__: reduce_far  # pyright: ignore[reportAttributeAccessIssue]: `jit` keeps the name
}
