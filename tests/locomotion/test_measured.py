"""Connections from measured forms and motions, against bodies whose connection is known."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._locomotion.connections.polynomials import exponents

SWIMMER = gd.swimmers.Purcell()
STROKE = gd.FourierStroke([0.1, -0.1], [[0.6], [0.1]], [[0.0], [0.5]])


def rng():
    return np.random.default_rng(0)


def polynomial(group, m=2, degree=3):
    """A body whose form is a polynomial with random coefficients, in a box around 0 that differs from that of data."""
    powers = exponents(degree, m)
    coefficients = 0.3 * rng().normal(size=(group.dim, m, len(powers))) / (1 + np.arange(len(powers)))
    return gd.bundles.MeasuredConnection(group, jnp.asarray(coefficients), -jnp.ones(m), 1.5 * jnp.ones(m), powers, 0.0)


def wander(t):
    """A closed curve that fills the square and passes everywhere in two directions."""
    a = 2 * jnp.pi * t
    return jnp.stack([0.9 * jnp.sin(5 * a + 0.3), jnp.sin(4 * a)])


@eqx.filter_jit
def forms_of(body, shapes):
    return jax.vmap(body.form)(jnp.asarray(shapes))


def form_error(body, truth, shapes):
    """The relative rms error of the form."""
    true = forms_of(truth, shapes)
    return float(jnp.linalg.norm(forms_of(body, shapes) - true) / jnp.linalg.norm(true))


def record(body, curve, samples):
    """(shapes, poses) at equal intervals, exact to 1e-12."""
    return jax.vmap(curve)(jnp.arange(samples + 1) / samples), gd.path(body, curve, steps=960)[:: 960 // samples]


def noisy(group, poses, size):
    kicks = jnp.asarray(size * rng().normal(size=(len(poses), group.dim)))
    return jax.vmap(lambda g, xi: group.compose(g, group.exp(xi)))(poses, kicks)


@pytest.fixture(scope="module")
def fitted():
    """Purcell's swimmer from 400 forms at random shapes."""
    shapes = rng().uniform(-1, 1, (400, 2))
    return gd.bundles.fit_connection(gd.groups.SE2(), shapes, forms=forms_of(SWIMMER, shapes), degree=8)


def test_forms_give_strokes_and_curvature(fitted):
    """Measured: 6e-7 and 1.2e-5."""
    np.testing.assert_allclose(gd.holonomy(fitted, STROKE), gd.holonomy(SWIMMER, STROKE), atol=1e-6)
    np.testing.assert_allclose(gd.curvature(fitted, [0.3, -0.4]), gd.curvature(SWIMMER, [0.3, -0.4]), atol=1e-4)


def test_the_error_is_that_of_other_data(fitted):
    """Of forms at new shapes in the box, and at a low degree as well; on a grid, whose rows come one after the other,
    too."""
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 15), np.linspace(-1, 1, 15)), axis=-1).reshape(-1, 2)
    low = gd.bundles.fit_connection(gd.groups.SE2(), grid, forms=forms_of(SWIMMER, grid), degree=3)
    for body, size in ((fitted, 1e-5), (low, 1e-2)):
        error = form_error(body, SWIMMER, rng().uniform(-1, 1, (500, 2)))
        assert error / 3 < body.error < 3 * error and error < size


@pytest.mark.parametrize(
    "group",
    [
        *(
            pytest.param(group, marks=pytest.mark.long)
            for group in (gd.groups.Translation(1), gd.groups.SO2(), gd.groups.SO3())
        ),
        gd.groups.SE2(),
    ],
    ids=["Translation", "SO2", "SO3", "SE2"],
)
def test_a_polynomial_is_found_with_its_degree(group):
    """From forms to rounding; from a motion with 320 samples to 1e-6."""
    truth, shapes = polynomial(group), rng().uniform(-1, 1, (100, 2))
    body = gd.bundles.fit_connection(group, shapes, forms=forms_of(truth, shapes))
    assert body.degree == 3 and body.error < 1e-13 and form_error(body, truth, shapes) < 1e-13
    curve, poses = record(truth, wander, 320)
    assert form_error(gd.bundles.fit_connection(group, curve, poses=poses, degree=3), truth, shapes) < 2e-6


@pytest.mark.long
def test_three_shape_variables():
    truth = polynomial(gd.groups.SE2(), m=3, degree=2)

    def curve(t):
        return 0.9 * jnp.sin(2 * jnp.pi * t * jnp.array([13.0, 10.0, 6.0]) + jnp.array([0.3, 0.0, 1.0]))

    shapes, poses = record(truth, curve, 960)
    body = gd.bundles.fit_connection(gd.groups.SE2(), shapes, poses=poses)
    assert body.degree == 2 and body.coefficients.shape == (3, 3, 10)
    assert form_error(body, truth, rng().uniform(-0.9, 0.9, (50, 3))) < 1e-6


@pytest.mark.long
def test_order_six_in_the_time_between_samples():
    """13 samples to a stroke have the error 9e-6, 27 have 1e-7; below 1e-9, smoothing is what is left."""
    truth, shapes = polynomial(gd.groups.SE2()), rng().uniform(-0.9, 0.9, (50, 2))
    errors = {}
    for samples in (60, 120, 480):
        curve, poses = record(truth, wander, samples)
        errors[samples] = form_error(
            gd.bundles.fit_connection(gd.groups.SE2(), curve, poses=poses, degree=3), truth, shapes
        )
    assert errors[120] < errors[60] / 2**5.5 and errors[60] < 2e-5 and errors[480] < 3e-9


@pytest.mark.long
def test_a_motion_of_purcell():
    """The displacement of another stroke; `error` tells that of the form within a factor of 3."""
    shapes, poses = record(SWIMMER, wander, 480)
    for degree, near in ((4, 1e-3), (None, 1e-5)):
        body = gd.bundles.fit_connection(gd.groups.SE2(), shapes, poses=poses, degree=degree)
        np.testing.assert_allclose(gd.holonomy(body, STROKE), gd.holonomy(SWIMMER, STROKE), atol=near)
        error = form_error(body, SWIMMER, shapes)
        assert error / 3 < body.error < 3 * error
    assert body.degree >= 6


@pytest.mark.long
def test_noise_averages_out():
    """Noise of 1e-3 in each pose, a third of its changes between samples: measured 0.019 from 60 samples and
    0.012 from 960, of which the degree makes 0.01."""
    shapes, poses = record(SWIMMER, wander, 960)
    errors = {}
    for every in (16, 1):
        body = gd.bundles.fit_connection(
            gd.groups.SE2(), shapes[::every], poses=noisy(gd.groups.SE2(), poses, 1e-3)[::every], degree=3
        )
        errors[every] = form_error(body, SWIMMER, shapes)
        assert errors[every] / 3 < body.error < 3 * errors[every]
    assert errors[1] < 0.015 and errors[1] < 0.8 * errors[16]
    chosen = gd.bundles.fit_connection(gd.groups.SE2(), shapes, poses=noisy(gd.groups.SE2(), poses, 1e-3))
    assert 3 <= chosen.degree <= 7 and form_error(chosen, SWIMMER, shapes) < 0.02
    np.testing.assert_allclose(gd.holonomy(chosen, STROKE), gd.holonomy(SWIMMER, STROKE), atol=8e-3)


@pytest.mark.long
def test_no_unit_of_length_enters():
    """In millimetres the same degree and error, though the angles stay radians; and turning by angles beyond π."""
    shapes, poses = record(SWIMMER, wander, 320)
    poses = noisy(gd.groups.SE2(), gd.groups.SE2().exp(jnp.array([1.0, 2.0, 3.0])) @ poses, 1e-3)
    longer = poses.at[:, :2, 2].multiply(1000.0)
    one, other = (gd.bundles.fit_connection(gd.groups.SE2(), shapes, poses=each) for each in (poses, longer))
    assert one.degree == other.degree
    np.testing.assert_allclose(other.error, one.error, rtol=1e-6)
    np.testing.assert_allclose(other.coefficients[:2], 1000 * one.coefficients[:2], rtol=1e-6, atol=1e-6)


@pytest.mark.long
def test_times_of_samples():
    """At irregular times, which are needed then."""
    truth = polynomial(gd.groups.SE2())
    kept = np.flatnonzero(rng().uniform(size=961) < 0.5)
    shapes, poses = (each[kept] for each in record(truth, wander, 960))
    errors = [
        form_error(
            gd.bundles.fit_connection(gd.groups.SE2(), shapes, poses=poses, times=times, degree=3), truth, shapes
        )
        for times in (kept / 960, None)
    ]
    assert errors[0] < 1e-5 and errors[1] > 10 * errors[0]


def test_noise_alone_predicts_nothing():
    """It does describe itself, with 20 numbers for 80 forms, but not what was held out."""
    forms = rng().normal(size=(100, 3, 2))
    shapes = np.random.default_rng(1).uniform(-1, 1, (100, 2))
    assert gd.bundles.fit_connection(gd.groups.SE2(), shapes, forms=forms).degree <= 2
    assert 1.0 < gd.bundles.fit_connection(gd.groups.SE2(), shapes, forms=forms, degree=5).error < 3.0


def test_what_stands_still_and_what_does_not_turn():
    shapes = rng().uniform(-1, 1, (100, 2))
    still = gd.bundles.fit_connection(gd.groups.SE2(), shapes, forms=np.zeros((100, 3, 2)))
    assert still.error == 0 and still.degree == 1
    straight = np.asarray(forms_of(polynomial(gd.groups.SE2()), shapes)) * [[1.0], [1.0], [0.0]]
    assert gd.bundles.fit_connection(gd.groups.SE2(), shapes, forms=straight).error < 1e-13


def test_derivatives_with_respect_to_the_form(fitted):
    """Of the displacement, through jit, against differences."""

    @eqx.filter_jit
    def moved(body):
        return gd.groups.SE2().log(gd.holonomy(body, STROKE, steps=32))[0]

    slopes = jax.grad(moved)(fitted).coefficients
    change = jnp.asarray(rng().normal(size=slopes.shape))
    there, back = (
        moved(eqx.tree_at(lambda b: b.coefficients, fitted, fitted.coefficients + s * change)) for s in (1e-5, -1e-5)
    )
    np.testing.assert_allclose(jnp.sum(slopes * change), (there - back) / 2e-5, rtol=1e-6)
    assert isinstance(fitted.error, float)


def test_noise_of_shapes_does_not_bias():
    """Noise of 5e-3 in each shape, a quarter of their changes between samples; measured 0.012, and 0.22 if they are
    taken as exact."""
    shapes, poses = record(SWIMMER, wander, 960)
    body = gd.bundles.fit_connection(
        gd.groups.SE2(), shapes + 5e-3 * rng().normal(size=shapes.shape), poses=poses, degree=3
    )
    assert form_error(body, SWIMMER, shapes) < 0.02 and body.error < 0.05


@pytest.mark.long
def test_the_best_stroke_of_a_measured_planimeter():
    """The isoperimetric problem: the shortest closed curve around the area 1 has the energy 4π."""
    shapes = rng().uniform(-1, 1, (60, 2))
    forms = np.stack([-shapes[:, 1], shapes[:, 0]], axis=1)[:, None] / 2
    body = gd.bundles.KaluzaKlein(gd.bundles.fit_connection(gd.groups.Translation(1), shapes, forms=forms))
    best = gd.optimal_stroke(body, [0.0, 0.0], displacement=1.0, method=gd.Direct(harmonics=2, steps=8))
    np.testing.assert_allclose(best.cost, 4 * np.pi, rtol=1e-9)


def table(names, columns, separator=","):
    rows = (separator.join(f"{x:.17g}" for x in row) for row in np.asarray(columns))
    return "\n".join([separator.join(names), *rows, ""])


GROUPS = {
    ("x",): gd.groups.Translation(1),
    ("x", "y"): gd.groups.Translation(2),
    ("theta",): gd.groups.SO2(),
    ("x", "y", "theta"): gd.groups.SE2(),
}


@pytest.mark.parametrize(
    "coordinates",
    [*(pytest.param(names, marks=pytest.mark.long) for names in list(GROUPS)[:3]), ("x", "y", "theta")],
    ids=lambda names: "".join(names),
)
def test_tables_are_read(coordinates, tmp_path):
    """Forms from a path, in any order of the columns; motions from a stream: what fit_connection makes of the same."""
    group = GROUPS[coordinates]
    truth, shapes = polynomial(group), rng().uniform(-1, 1, (60, 2))
    forms = np.asarray(forms_of(truth, shapes))
    names = [f"A{name}{j}" for name in coordinates for j in (1, 2)]
    columns = np.concatenate([forms.reshape(60, -1), shapes], axis=1)
    file = tmp_path / "forms.csv"
    file.write_text("\ufeff" + table([*names, "R1", "r2"], columns).replace("theta", "θ") + "\n", encoding="utf-8")
    for place in (file, str(file)):
        body = gd.bundles.read_connection(place, degree=3)
        assert body.group == group and form_error(body, truth, shapes) < 1e-12

    curve, poses = record(truth, wander, 240)
    angles = np.arctan2(poses[:, 1, 0], poses[:, 0, 0])[:, None]
    places = {"x": poses[:, 0, -1:], "y": poses[:, -2, -1:], "theta": angles}
    times = np.arange(241.0)[:, None]
    columns = np.concatenate([times, *(places[name] for name in coordinates), curve], axis=1)
    body = gd.bundles.read_connection(io.StringIO(table(["t", *coordinates, "r1", "r2"], columns, ";")))
    known = gd.bundles.fit_connection(group, curve, poses=poses, times=times[:, 0])
    assert body.group == group
    np.testing.assert_allclose(forms_of(body, shapes), forms_of(known, shapes), atol=1e-9)


def test_times_are_read():
    truth = polynomial(gd.groups.SO2())
    kept = np.flatnonzero(rng().uniform(size=961) < 0.5)
    shapes, poses = (each[kept] for each in record(truth, wander, 960))
    angle = np.arctan2(poses[:, 1, 0], poses[:, 0, 0])[:, None]
    text = table(["t", "r1", "r2", "theta"], np.concatenate([kept[:, None] / 960, shapes, angle], axis=1))
    assert form_error(gd.bundles.read_connection(io.StringIO(text), degree=3), truth, shapes) < 1e-5


SHAPES = np.random.default_rng(1).uniform(-1, 1, (60, 2))
FORMS = np.ones((60, 3, 2))
CIRCLE = np.stack([np.cos(np.arange(60) / 3), np.sin(np.arange(60) / 3)], axis=1)
POSES = np.broadcast_to(np.eye(3), (60, 3, 3))


def holed(values, row, value=np.nan):
    values = np.array(values)
    values[row] = value
    return values


WRONG = {
    "a group by name": (
        lambda: gd.bundles.fit_connection("SE2", SHAPES, forms=FORMS),
        "group must be a LieGroup .*got 'SE2'",
    ),
    "the class of a group": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2, SHAPES, forms=FORMS),
        "got the class SE2: call it",
    ),
    "nothing measured": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES),
        r"either forms\[N, k, m\] or poses.* got neither",
    ),
    "both": (lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, forms=FORMS, poses=POSES), "got both"),
    "times of forms": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, forms=FORMS, times=range(60)),
        "times belong to poses",
    ),
    "one shape": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES[0], forms=FORMS),
        r"shapes must have the shape \(any, any\)",
    ),
    "text": (lambda: gd.bundles.fit_connection(gd.groups.SE2(), "r", forms=FORMS), "shapes must be numbers, got 'r'"),
    "one variable": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES[:, :1], forms=FORMS),
        "at least 2 variables, got 1",
    ),
    "no rows": (lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES[:0], forms=FORMS[:0]), "0 forms.* too few"),
    "forms of another group": (
        lambda: gd.bundles.fit_connection(gd.groups.SO2(), SHAPES, forms=FORMS),
        r"forms must have the shape \(60, 1, 2\), got \(60, 3, 2\)",
    ),
    "poses too few": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, poses=POSES[1:]),
        r"poses must have the shape \(60, 3, 3\), got \(59, 3, 3\)",
    ),
    "nan": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), holed(SHAPES, 7), forms=FORMS),
        r"shapes\[7\] is \[nan, nan\]: leave out",
    ),
    "a constant": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), holed(SHAPES, (slice(None), 1), 0.3), forms=FORMS),
        "shape variable 2 of 2 is 0.3 in all 60 rows: vary it, or leave it out",
    ),
    "few forms": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES[:9], forms=FORMS[:9], degree=3),
        "9 forms, a fifth of .* too few for the 10 unknown .* of degree 3 .* at least 15, or a lower degree",
    ),
    "few poses": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES[:6], poses=POSES[:6]),
        "5 changes of the pose.* 6 unknown .* degree 1.* at least 9$",
    ),
    "a line": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES[:, :1] * [[1, 2]], forms=FORMS),
        "do not determine a form of degree 1",
    ),
    "one circle": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), CIRCLE, poses=POSES),
        "degree 1, as where they stay near one curve: .* in different directions$",
    ),
    "a degree on a circle": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), CIRCLE, forms=FORMS, degree=2),
        "do not determine a form of degree 2.* or lower the degree",
    ),
    "a broken degree": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, forms=FORMS, degree=1.5),
        "degree must be a .*whole number",
    ),
    "degree zero": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, forms=FORMS, degree=0),
        "degree must be a .*whole number",
    ),
    "times that stop": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, poses=POSES, times=holed(np.arange(60.0), 8, 7.0)),
        r"times\[7\] is 7.0 and times\[8\] is 7.0: sort the rows",
    ),
    "a mirror": (
        lambda: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, poses=holed(POSES, 4, np.diag([1.0, -1.0, 1.0]))),
        r"poses\[4\] is .* no element of SE2: make poses",
    ),
    "a turn by π": (
        lambda: gd.bundles.fit_connection(
            gd.groups.SE2(), SHAPES, poses=holed(POSES, slice(20, None), np.diag([-1.0, -1.0, 1.0]))
        ),
        r"between poses\[19\] and poses\[20\] the body turns by 3.14.* more densely",
    ),
    "traced": (
        lambda: jax.jit(lambda f: gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, forms=f).coefficients)(
            jnp.asarray(FORMS)
        ),
        "must be known numbers, got traced ones",
    ),
    "no file": (lambda: gd.bundles.read_connection("nowhere.csv"), "read_connection: nowhere.csv: .*No such file"),
    "a number": (lambda: gd.bundles.read_connection(3), "source must be the path .* open stream of text.* got int"),
    "bytes": (lambda: gd.bundles.read_connection(io.BytesIO(b"r1,r2,x\n")), "got BytesIO"),
}


def motion_with(**changes):
    """A table of a motion, with these changes of its lines, by their number."""
    lines = table(["r1", "r2", "x"], np.concatenate([SHAPES, SHAPES[:, :1]], axis=1)).splitlines()
    for place, line in changes.items():
        lines[int(place.removeprefix("line")) - 1] = line
    return "\n".join(lines)


TEXTS = {
    "": "there is nothing in it; want a line of names",
    "r1,r2,x\n": "0 changes of the pose, .* too few",
    "r1,r2,q\n1,2,3": "its columns are r1, r2, q; want poses x, or x and y",
    "r1,r2,y\n1,2,3": "its columns are r1, r2, y; want poses",
    "r1,x\n1,2": "want r1, r2, x, each once: add r2",
    "r1,r3,x\n1,2,3": "add r2 and leave out r3",
    "r1,r2,x,mass\n1,2,3,4": "want r1, r2, x, each once: leave out mass",
    "r1,r2,x,x\n1,2,3,4": "leave out x",
    "r1,r2,Ax1\n1,2,3": "want r1, r2, ax1, ax2, each once: add ax2",
    "r1,r2,Ax1,Ax2,x\n1,2,3,4,5": "leave out x",
    "r1,r2,Ay1,Ay2\n1,2,3,4": "want poses x, .* or forms of the same coordinates",
    motion_with(line4="1,2,three"): "line 4, column x: want a finite number, got 'three'",
    motion_with(line5="1,,3"): "line 5, column r2: want a finite number, got ''",
    motion_with(line6="1,nan,3"): "line 6, column r2: want a finite number, got 'nan'",
    motion_with(line7="1,2"): "line 7 has 2 cells; want 3",
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data_are_named(name, as_users_run):
    call, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_wrong_tables_are_named(text):
    with pytest.raises(ValueError, match=f"read_connection: the stream: .*({TEXTS[text]})"):
        gd.bundles.read_connection(io.StringIO(text))


def test_what_does_not_converge_is_said(monkeypatch):
    monkeypatch.setattr("geodyn._locomotion.connections.measured._ITERATIONS", 1)
    with pytest.raises(ValueError, match=r"no form was found .* more densely"):
        gd.bundles.fit_connection(gd.groups.SE2(), SHAPES, forms=FORMS, degree=2)
