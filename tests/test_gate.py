"""What the check of arguments does with errors that come up behind it, and with what only looks wrong."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, ArrayLike, Float


class Mine(ValueError):
    """An error of a user."""


def fails(error):
    def function(member):
        raise error

    return function


@pytest.mark.parametrize("kind", [TypeError, KeyError, IndexError, AttributeError, OverflowError])
def test_an_error_in_a_function_of_the_user_names_it_and_stays_what_it_is(kind):
    with pytest.raises(kind, match=f"^function must be a function as described: {kind.__name__}: .*gone") as caught:
        gd.ensemble(fails(kind("gone")), jnp.arange(3.0))
    assert isinstance(caught.value, ValueError) and type(caught.value.__cause__) is kind


@pytest.mark.parametrize("error", [Mine("gone"), AssertionError("gone"), ZeroDivisionError("gone")])
def test_other_errors_of_the_user_are_left_alone(error):
    with pytest.raises(type(error)) as caught:
        gd.ensemble(fails(error), jnp.arange(3.0))
    assert caught.value is error


def test_what_does_not_fit_is_told_without_blame():
    with pytest.raises(TypeError, match=r"the call failed on what was given for function, members of shape \(3,\)"):
        gd.ensemble(lambda member: {"a": object()}, jnp.arange(3.0))


def test_a_class_is_a_function_of_what_it_needs():
    settings = gd.Direct(harmonics=2, steps=8, max_iterations=1)
    with pytest.raises(ValueError, match="swimmer must be a function of 1 argument, got the class dict"):
        gd.design.optimal_design(dict, 1.0, [1.0, 1.0], displacement=0.05, method=settings)


WRONG = {
    "a scalar for forces": (lambda: gd.loads.PointLoad(3), "force must be"),
    "seven arguments": (lambda: gd.hamilton.poisson_bracket(lambda a, b, c: a, lambda q, p: q @ p), "f must be a func"),
    "no such hamiltonian": (lambda: gd.hamilton.hamiltonian_field(lambda q: q @ q), "hamiltonian must be a function"),
    "a mask": (lambda: gd.ensemble(jnp.sin, np.ma.masked_array([1.0, 2.0], [True, False])), "members must .* mask"),
    "a member that is none": (lambda: gd.ensemble(jnp.sin, [1.0, np.nan]), r"members\[1\] must be finite"),
    "a joint too many": (lambda: gd.linkages.Linkage([(0, 2)], 1.0, {0: [0.0, 0.0]}), "edges must join all joints"),
    "an axis too many": (lambda: gd.plot.linkage(chain()[0], chain()[1][None, None]), "q must be an array of shape"),
    "two configurations": (
        lambda: gd.linkages.configuration_space(chain()[0], chain()[1][None]),
        r"q must be one configuration.* got shape \(1, 3, 2\)",
    ),
    "a negative span": (lambda: gd.linkages.four_rod_point(-3.0, chain()[1]), "span must lie between 2 and 4"),
    "hinges far apart": (lambda: gd.linkages.four_rod_point(3.0, 2 * chain()[1]), "q must be hinges"),
    "a place that is none": (
        lambda: gd.rigid.RigidBodies([1.0, 1.0, 1.0], points=[(0, [0.0, np.nan, 0.0])]),
        r"points\[0\]\[1\] must be finite",
    ),
    "complex heights": (lambda: gd.plot.on_sphere(lambda X: 1j * X[0], detail=4), "what function returns must be real"),
    "an embedding of nothing": (
        lambda: gd.surfaces.sphere_quadrature(lambda X: None, gd.spaces.Euclidean(3), nodes=2),
        "embedding must return an array",
    ),
    "an angle too many": (
        lambda: gd.swimmers.Modes(gd.swimmers.NLink([1.0, 1.0, 1.0]), jnp.ones((3, 1))),
        "matrix, or rest, does not fit",
    ),
    "a place in the plane": (lambda: gd.rigid.Load(0, at=[1.0, 0.0]), r"at must be a place \[3\]"),
    "a figure without height": (lambda: gd.plot.figure(3.0, 0.0), "width and height must be positive"),
    "reach within rounding": (
        lambda: gd.spaces.Tabulated(gd.spaces.Sphere(2), [-0.5, -0.5], [0.5, 0.5], reach=1e-12),
        "is not reached with reach=.*: for coordinates as large as .*rounding alone",
    ),
}


def chain():
    return gd.linkages.pinned_chain(4, span=3.0)


@pytest.mark.parametrize("name", WRONG)
def test_what_was_taken_is_refused(name):
    run, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        run()


@checked
def given(function: Callable[[Array], Array]) -> Callable:
    return function


def two(a, b):
    return a + b


class Scaled(eqx.Module):
    """An object that is a function of one argument."""

    factor: float = 2.0

    def __call__(self, x):
        return self.factor * x


class Wide(Scaled):
    """A function of two arguments."""

    def __call__(self, x, y):
        return self.factor * x * y


ONE = Scaled(), Scaled().__call__, functools.partial(two, 1.0), jax.jit(jnp.sin), eqx.filter_jit(Scaled())


@pytest.mark.parametrize("function", ONE, ids=lambda f: type(f).__name__)
def test_what_can_be_called_with_one_argument_is_a_function_of_one(function):
    assert given(function) is function


@pytest.mark.parametrize("function", [two, Wide(), Wide().__call__, jax.jit(two), eqx.filter_jit(two)])
def test_what_takes_two_arguments_is_no_function_of_one(function):
    with pytest.raises(ValueError, match="function must be a function of 1 argument"):
        given(function)


@checked
def kept(q: Float[ArrayLike, " n"], v: Float[Array, " n"], w: Float[Array, "3"] | Float[Array, "3 3"]) -> tuple:
    return q, v, w


def test_arrays_of_numpy_stay_what_they_are_where_they_are_admitted():
    row = np.ones(3)
    q, v, w = kept(row, row, row)
    assert q is row and isinstance(v, jax.Array) and isinstance(w, jax.Array)
    assert kept([1, 2, 3], row, row)[0].dtype == jnp.result_type(float)
    with pytest.raises(ValueError, match="q must be finite"):
        kept(np.array([1.0, np.inf, 1.0]), row, row)
    with pytest.raises(ValueError, match=r"v must have shape \[n\] with n = 2 as q has it"):
        kept(row[:2], row, row)


@pytest.mark.parametrize("dtype", [">f8", "longdouble", ">i4"])
def test_numbers_of_types_that_jax_does_not_know(dtype):
    """Numbers in the order of bytes of another machine, as files of measurements have them, and long doubles were
    errors of JAX from inside."""

    def of(*numbers):
        return np.array(numbers, dtype)

    body = gd.System(gd.spaces.Euclidean(1), of(1, 2), gd.Spring([(0, 1)], of(3)[0], of(1)))
    plain = gd.System(gd.spaces.Euclidean(1), [1.0, 2.0], gd.Spring([(0, 1)], 3.0, 1.0))
    found = gd.integrate(body, of(0, 2)[:, None], of(1, 0)[:, None], t1=of(1)[0], steps=2).q
    np.testing.assert_array_equal(found, gd.integrate(plain, [[0.0], [2.0]], [[1.0], [0.0]], t1=1.0, steps=2).q)
    assert gd.distance(gd.spaces.Sphere(2), of(0, 1), of(1, 0)) == gd.distance(gd.spaces.Sphere(2), [0, 1], [1, 0])
    sums = gd.ensemble(lambda member: member["a"] + member["b"], {"a": of(1, 2), "b": jnp.arange(2.0)})
    np.testing.assert_array_equal(sums, [1.0, 3.0])
    swimmer = gd.swimmers.Purcell(lengths=of(1, 2, 1), drag=of(1)[0])
    np.testing.assert_array_equal(
        gd.connection(swimmer, of(1, 2)), gd.connection(gd.swimmers.Purcell(lengths=(1.0, 2.0, 1.0)), [1.0, 2.0])
    )


class Unwilling:
    """An object that becomes no array, and has no words for itself."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not me")

    def __repr__(self):
        raise RuntimeError("no words")


def test_what_does_not_become_an_array():
    for wrong in (Unwilling(), [Unwilling(), 1.0], jax.random.key(0)):
        with pytest.raises(ValueError, match="x must be real numbers"):
            gd.distance(gd.spaces.Sphere(2), wrong, [0.0, 0.0])


@pytest.mark.parametrize(
    "wrong", [3, "text", 1.5, (2,), (True, True), (1.5, 0.5), ("a", "b"), np.zeros(2, [("x", float)])]
)
def test_a_signature_is_two_numbers(wrong):
    with pytest.raises(ValueError, match=r"^signature must be \(p, q\)"):
        gd.Manifold(lambda x: jnp.eye(2), dim=2, signature=wrong)


def test_a_square_matrix_is_square():
    with pytest.raises(ValueError, match=r"g must have shape \[d, d\], got shape \(2, 3\)"):
        gd.groups.SE2().inverse(np.ones((2, 3)))


def test_a_time_of_a_stroke_is_named():
    """Errors said "shapes, coefficients and numbers of bodies", or came from inside."""
    stroke = gd.FourierStroke.circle(1.0)
    along = gd.bundles.dense_path(gd.swimmers.Purcell(), stroke, steps=4)
    curves = stroke, along, gd.strokes.reverse(stroke), gd.strokes.PolygonStroke([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    for curve in curves:
        for wrong in ([], [None], "0.5", None, 1j, np.zeros((2, 2)), np.nan):
            with pytest.raises(ValueError, match=r"^t must be"):
                curve(wrong)
    with pytest.raises(ValueError, match="parameters must be real numbers"):
        gd.design.optimal_design(gd.swimmers.Purcell, gd.spaces.Sphere, [1.0, 1.0], displacement=0.05)


def test_a_stroke_takes_one_argument():
    with pytest.raises(ValueError, match="f must be a function of 2 arguments"):
        gd.hamilton.poisson_bracket(gd.FourierStroke.circle(1.0), lambda q, p: q @ p)


def test_what_a_joined_stroke_gives_is_refused_by_its_number():
    stroke = gd.FourierStroke.circle(1.0)
    for wrong in (lambda t: (stroke(t), stroke(t)), lambda t: 1.0, lambda t: stroke(t) + 1j):
        with pytest.raises(ValueError, match=r"strokes\[1\]: a stroke is a function t → r\[m\]"):
            gd.strokes.join(stroke, wrong)


@pytest.mark.parametrize("dtype", [">f8", "longdouble", float, np.float32])
def test_what_a_program_depends_on_is_a_number_of_python(dtype, as_users_run):
    """As an array of one number it was kept as an array, of which JAX warned."""
    one = np.asarray(1.0, dtype)
    assert type(gd.friction.IncrementalPotential(theta=one).theta) is float
    assert type(gd.Direct(tolerance=np.asarray(1e-3, dtype)).tolerance) is float


def test_flags_of_numpy_are_not_traced():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    open_, plain = (gd.strokes.SplineStroke.through(corners, closed=flag) for flag in (np.bool_(False), False))
    np.testing.assert_array_equal(open_(0.3), plain(0.3))


def test_what_needs_more_memory_than_there_is():
    @checked
    def much(count: int):
        raise MemoryError("Unable to allocate 477 GiB")

    with pytest.raises(ValueError, match="the call failed on what was given for count: MemoryError: Unable") as caught:
        much(4000)
    assert isinstance(caught.value, MemoryError)


def test_places_of_a_square_and_indices(as_users_run):
    with pytest.raises(ValueError, match=r"centre must have shape \(2,\)"):
        gd.strokes.PolygonStroke.square(1.0, range(3))
    with pytest.raises(ValueError, match="index must be a whole number"):
        gd.loads.Driven(jax.random.key(0), lambda t: t)


class Reading:
    """An object that becomes an array, as those of pandas do, and is no number of Python."""

    def __init__(self, value):
        self.value = value

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.value, dtype)


def test_an_object_that_becomes_an_array_is_one(as_users_run):
    """It was handed on as it was, to where operands did not fit."""
    body = gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 1.0))
    found = gd.integrate(body, [[0.0], [2.0]], t0=Reading(0.5), t1=Reading(1.5), steps=2)
    np.testing.assert_array_equal(found.q, gd.integrate(body, [[0.0], [2.0]], t0=0.5, t1=1.5, steps=2).q)
    assert gd.Direct(tolerance=Reading(1e-3)).tolerance == 1e-3
    sums = gd.ensemble(lambda member: 2 * member["a"], {"a": Reading([1.0, 2.0])})
    np.testing.assert_array_equal(sums, [2.0, 4.0])


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_duration_is_no_whole_number(unit):
    """NumPy makes it one: some became numbers of nanoseconds without a word, others an error of Python."""
    three = np.timedelta64(3, unit)
    with pytest.raises(ValueError, match="n must be a positive whole number"):
        gd.spaces.Sphere(three)
    with pytest.raises(ValueError, match="steps must be a positive whole number"):
        gd.geodesic(gd.spaces.Sphere(2), [0.0, 0.0], [0.1, 0.1], [1.0], steps=three)
    with pytest.raises(ValueError, match="signature must be"):
        gd.Manifold(lambda x: jnp.eye(4), dim=4, signature=(three, 1))


def test_a_function_within_what_is_given_is_named():
    members = jnp.arange(3.0)
    wrong = gd.ensembles.Mean(lambda value: np.sin(np.asarray(value)))
    with pytest.raises(ValueError, match=r"^reduce\.of cannot be traced: write it with jax\.numpy"):
        gd.ensemble(lambda member: member, members, reduce=wrong)
    wrong = gd.ensembles.Histogram([0.0, 1.0, 2.0], lambda value: [value, value])
    with pytest.raises(ValueError, match="of must return an array, got list"):
        gd.ensemble(lambda member: member, members, reduce=wrong)
    wrong = gd.ensembles.Quantiles(0.5, 0.0, 1.0, of=lambda value: value + 1j)
    for reduce in (wrong, gd.ensembles.Mean(lambda value: value + 1j)):
        with pytest.raises(ValueError, match=r"what of returns.* must be real numbers"):
            gd.ensemble(lambda member: member, members, reduce=reduce)


def test_our_own_functions_are_not_blamed():
    """All that are checked share the code of the check, which is part of every traceback."""

    @checked
    def outer(function: Callable[[Array], Array], q: Float[Array, " n"]) -> Array:
        return jnp.reshape(q, (-1, 2))

    with pytest.raises(ValueError, match=r"the call failed on what was given for function, q of shape \(3,\)"):
        outer(given, jnp.ones(3))


CONTACTS = gd.systems.Contacts(
    lambda q: q[1:], restitution=0.5, friction=0.1, slip=lambda q, v: jax.jvp(lambda q: q[:1], (q,), (v,))[1][None]
)
WRONG_AGAIN = {
    "a contact that is not there": (
        lambda: CONTACTS.gap(jnp.zeros(()), [0.1, 0.2], [3]),
        "which must be numbers of contacts",
    ),
    "a negative contact": (lambda: CONTACTS.restitution([0.1, 0.2], [-1]), "which must be numbers of contacts"),
    "no configuration": (lambda: CONTACTS.friction("a", [0]), r"q must be an array of shape \[n\]"),
    "no such contact of bodies": (
        lambda: gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], gd.Contact(0.1)).contacts.gap(
            jnp.zeros(()), [0.0, 1.0], [0, 5]
        ),
        r"which must be numbers of contacts, from 0 to 0; got \[0, 5\]",
    ),
    "a point of another space": (lambda: gd.spaces.Sphere(2).coordinates([1.0, 0.0]), r"X must have shape \(3,\)"),
    "a point off the sphere": (lambda: gd.spaces.Sphere(2).coordinates([0.0, 0.0, 0.0]), "X must be on the embedded"),
    "a point of the lower sheet": (
        lambda: gd.spaces.Hyperbolic(2).coordinates([0.0, 0.0, -1.0]),
        "X must be on the embedded space",
    ),
    "a segment of complex shapes": (
        lambda: gd.strokes.segment(lambda t: jnp.stack([t, t]) + 1j, 0.0, 0.5)(0.5),
        r"a stroke is a function t → r\[m\].*complex",
    ),
    "a curve of rows": (
        lambda: gd.parallel_transport(gd.spaces.Sphere(2), lambda t: jnp.ones((1, 2)) * t, [0.1, 0.2], [0.0, 1.0]),
        r"curve must return x\[2\]",
    ),
    "a field of lists": (
        lambda: gd.killing_defect(gd.spaces.Sphere(2), lambda x: [x[0], x[1]], [0.1, 0.2]),
        "field must return an array, got list",
    ),
    "a field of one number": (
        lambda: gd.killing_defect(gd.spaces.Sphere(2), lambda x: x[:1], [0.1, 0.2]),
        r"field must return v\[2\]",
    ),
    "a cost in a list": (
        lambda: gd.cost(gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0), density=lambda swimmer, r, v: [v @ v]),
        "density must return an array, got list",
    ),
    "an optimum of a cost in a tuple": (
        lambda: gd.optimal_stroke(
            gd.swimmers.Purcell(), [0.5, 0.5], displacement=0.05, density=lambda swimmer, r, v: (v @ v, 0.0)
        ),
        "density must return an array, got tuple",
    ),
    "a degree that cannot be": (
        lambda: gd.bundles.minimum_perturbation(gd.swimmers.Purcell(), [-1.0, -1.0], [1.0, 1.0], degree=3000),
        "degree must be lower: .* 4504501 terms",
    ),
    "flags as bounds": (
        lambda: gd.design.optimal_design(
            lambda p: gd.swimmers.Purcell(lengths=p),
            jnp.ones(3),
            displacement=0.05,
            bounds=(np.ones(3, bool), 2 * np.ones(3)),
        ),
        "bounds must be real numbers",
    ),
    "a motion of nothing": (
        lambda: gd.project(
            gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], gd.Rod([(0, 1)], 1.0)), np.zeros((2, 0)), np.zeros((2, 0))
        ),
        r"q \(or q0\) must be a configuration, got shape \(2, 0\)",
    ),
}


@pytest.mark.parametrize("name", WRONG_AGAIN)
def test_what_was_an_error_from_inside_is_refused(name, as_users_run):
    run, words = WRONG_AGAIN[name]
    with pytest.raises(ValueError, match=words):
        run()


def test_standard_errors_are_of_real_numbers():
    random = np.random.default_rng(0)
    shapes = random.uniform(-1, 1, (100, 2))
    forms = np.stack([-shapes[:, 1:], shapes[:, :1]], axis=2) / 2 + 0.01 * random.normal(size=(100, 1, 2))
    body = gd.bundles.fit_connection(gd.groups.Translation(1), shapes, forms=forms, degree=1)
    with pytest.raises(ValueError, match="what function returns must be real numbers"):
        gd.bundles.standard_errors(body, lambda body: body.coefficients + 1j)
    with pytest.raises(ValueError, match=r"function must return a number, .* got None"):
        gd.bundles.standard_errors(body, lambda body: None)


def test_numbers_of_other_precision_fit():
    """Derivatives want one precision in all numbers, and a loop the one with which it began."""
    q, v = np.array([0.1, 0.2]), np.array([0.3, 0.1], np.float32)
    wall = gd.System(gd.spaces.Euclidean(2), [1.0], gd.Wall(lambda x: x[1], friction=0.2)).contacts
    np.testing.assert_allclose(wall.slip(jnp.zeros(()), q, v), wall.slip(jnp.zeros(()), q, v.astype(float)))
    torus = gd.Manifold(lambda x: jnp.diag(jnp.stack([jnp.ones(()), (2 + jnp.cos(x[0])) ** 2])), dim=2)
    carried = [gd.parallel_transport(torus, lambda t: jnp.stack([t, t]), w, [0.0, 1.0]) for w in (v, v.astype(float))]
    np.testing.assert_allclose(*carried, rtol=1e-5)


def test_points_far_out_have_coordinates():
    """Where the squares of X cancel the check of it must not say more than rounding knows."""
    far = gd.spaces.Hyperbolic(2)
    for distance in (1.0, 5.0, 12.0, 17.0):
        x = far.exp(jnp.zeros(2), jnp.array([distance, 0.0]))
        np.testing.assert_allclose(far.coordinates(far.embed(x)), x, rtol=1e-6)
