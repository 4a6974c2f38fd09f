"""`geodyn stroke`: all swimmers have a name and a default stroke, parameters are options, errors say what to do."""

import inspect
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn.__main__ import main
from geodyn._catalogue.bodies import BODIES
from geodyn._catalogue.options import body_of, parse
from geodyn._control.search.strokes import checked_displacement

OWN = ("PointMasses", "Modes", "Passive")
"""What needs a function or a body of the user's: for these there is module:class."""

WITHOUT_CONNECTION = ("carreau-links",)
"""Bodies without a connection, of which the studio would have nothing to draw."""

WITHOUT_OPTIMUM = ("DryLinks", "GranularLinks", "PowerLawLinks")
"""Bodies whose strokes cost the same at any pace, or whose best strokes have corners, where no search ends."""

LEFT_OUT = OWN + WITHOUT_OPTIMUM
ALL = [name for name in gd.swimmers.__all__ if not name.startswith("Abstract") and name not in LEFT_OUT]


def test_every_swimmer_has_a_name(capsys):
    assert {body.kind.__name__ for body in BODIES.values()} == set(ALL)
    assert all(body_of(name) is body_of(re.sub("(?<!^)([A-Z])", r"-\1", name).lower()) for name in ALL)
    assert main(["stroke"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed and body.title in listed for name, body in BODIES.items())


@pytest.mark.parametrize("name", BODIES)
def test_defaults_fit_each_other(name):
    """Displacement, shape to start from and region are those of one body: traced, not computed."""
    known = BODIES[name]
    body, options = parse(name, known, [])
    displacement = np.array(options["displacement"])
    posed, start = known.posed(body, displacement.size), np.asarray(known.start(body), float)
    checked_displacement(posed, displacement if displacement.size > 1 else displacement[0])
    shape = jax.ShapeDtypeStruct(start.shape, float)
    if name in WITHOUT_CONNECTION:
        assert jax.eval_shape(posed.velocity, shape, shape).shape == (posed.group.dim,)
    else:
        assert jax.eval_shape(posed.form, shape).shape == (posed.group.dim, start.size)
    if start.size > 1:
        lower, upper = (np.asarray(bound, float) for bound in known.region(body))
        assert np.all(lower < start) and np.all(start < upper)


SAME = {
    "purcell --lengths 1 0.7 1 --drag-ratio 3": gd.swimmers.Purcell((1.0, 0.7, 1.0), 3.0),
    "NLink --lengths 1 2": gd.swimmers.NLink((1.0, 2.0)),
    "three_sphere --finite-size": gd.swimmers.ThreeSphere(finite_size=True),
    "serpenoid --nodes 12": gd.swimmers.Serpenoid(nodes=12),
    "serpenoid --waves 1 2": gd.swimmers.Serpenoid(waves=(1.0, 2.0)),
    "five-link --drag-ratio 3": gd.swimmers.NLink((1.0,) * 5, 3.0),
    "constant-curvature-3": gd.swimmers.ConstantCurvature(pieces=3),
    "two-legged --space hyperbolic": gd.swimmers.TwoLegged(gd.spaces.Hyperbolic(2)),
    "two-legged --space h2xe": gd.swimmers.TwoLegged(gd.spaces.THURSTON["H2xE"]),
    "satellite --axes 0 0 1 1 0 0 0 1 0 --rotors .1 .2 .3": gd.swimmers.Satellite(
        axes=((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), rotors=(0.1, 0.2, 0.3)
    ),
}


@pytest.mark.parametrize("words, swimmer", SAME.items(), ids=SAME)
def test_parameters_are_options(words, swimmer):
    name, *rest = words.split()
    found = parse(name, body_of(name), rest)[0]
    assert jax.tree.structure(found) == jax.tree.structure(swimmer)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(swimmer), strict=True))


def test_help_is_the_docstring(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["stroke", "falling-cat", "--help"])
    told = capsys.readouterr().out
    assert inspect.getdoc(gd.swimmers.FallingCat) in told and "--axial X" in told and "--global" in told


REFUSED = {
    "body": ("purcel", "there is no body 'purcel': did you mean 'purcell'"),
    "at any pace": (
        "granular-links",
        "no search for strokes of 'granular-links': its forces do not",
    ),
    "dry": ("dry_links", "do not depend on the speed.*gd.holonomy and gd.cost"),
    "corners": ("power-law-links", "its best strokes have corners"),
    "option": ("purcell --drag-raito 3", "purcell knows no '--drag-raito': did you mean --drag-ratio"),
    "parameter": ("purcell --lengths 1 2", r"lengths must be an array of shape \[3\], got shape \(2,\)"),
    "rows": ("satellite --axes 1 0", "--axes takes rows of 3 numbers, got 2"),
    "one variable": ("beanie", "no closed stroke moves it"),
    "no picture": ("satellite --animate", "no picture in the plane of a body that moves in SO3"),
    "one bound": ("purcell --lower -1 -1", "give both"),
    "global": ("pmpy --global --base 10 4", "--global looks everywhere"),
    "shape": ("pmpy --base 10", "--base needs 2 numbers, .* got"),
    "harmonics": ("purcell --harmonics 0", "--harmonics must be at least 1"),
    "no such class": ("nowhere:Snake", "module:class, importable from here"),
    "displacement": ("satellite --displacement 0.1", "must be a vector of 3 coordinates"),
}


@pytest.mark.parametrize("words, message", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_told_at_once(words, message, tmp_path, capsys):
    assert main(["stroke", *words.split(), "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and "Traceback" not in error


SNAKE = """
import geodyn as gd, jax.numpy as jnp

class Blob(gd.AbstractSwimmer):
    depth: float
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return jnp.sum(rdot**2) + (xi[0] + self.depth * r[1] * rdot[0]) ** 2
"""


@pytest.mark.long
def test_a_swimmer_of_ones_own(tmp_path, monkeypatch, capsys):
    """The isoperimetric problem, whose optimum is a circle: E = 4π D/depth. Measured 2e-15 relative. Unseen, it is
    drawn as numbers; cut off, the search tells where it stood. Circles at speed 2πρ have D = 2πρ², 0.358 at speed 1.5,
    which ends their family."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blobs.py").write_text(SNAKE)
    options = "--depth 2 --displacement 0.3 --guess 0 0 --harmonics 2 --rates 1.5 inf --family 1 --out out"
    words = ["stroke", "blobs:Blob", *options.split()]
    assert main(words) == 0
    optimum = gd.strokes.load_stroke("out/blobs.Blob_stroke.npz", body_of("blobs:Blob").kind(2.0))
    np.testing.assert_allclose(optimum.cost, 4 * np.pi * 0.3 / 2, rtol=1e-10)
    assert (tmp_path / "out" / "blobs.Blob_stroke.png").stat().st_size > 10_000
    family = json.loads((tmp_path / "out" / "blobs.Blob_stroke_family.json").read_text())
    assert "reached the bounds" in family["ends because"] and family["to"] < 0.36

    def failing(*args, rates, **options):
        assert rates == [1.5, np.inf]
        raise gd.StrokeError("optimal_stroke: stalled", optimum)

    monkeypatch.setattr(gd, "optimal_stroke", failing, raising=False)
    (tmp_path / "out" / "blobs.Blob_stroke.npz").unlink()
    assert main(words) == 1
    told = capsys.readouterr()
    assert "stalled" in told.err and "where the search stood: out/blobs.Blob_stroke.npz" in told.out
    assert (tmp_path / "out" / "blobs.Blob_stroke.npz").exists()


@pytest.mark.long
@pytest.mark.parametrize("words", ["serpenoid-polar", "serpenoid-polar --waves 2"])
def test_strokes_by_amplitude_and_phase_keep_away_from_the_straight_body(words, tmp_path, capsys):
    """Where the phase changes nothing: free strokes lead there with any number of harmonics, and have a corner."""
    assert main(["stroke", *words.split(), "--harmonics", "8", "--out", str(tmp_path)]) == 0
    best = gd.strokes.load_stroke(tmp_path / "serpenoid-polar_stroke.npz")
    amplitudes = jax.vmap(best.stroke)(np.linspace(0.0, 1.0, 64))[:, 0]
    assert amplitudes.min() > 0.95
    assert best.second_order > 0


def test_the_heading_alone():
    """Whatever the place: the turn and the energy of the body. Measured 2e-16 and 1e-16."""
    body, stroke = gd.swimmers.FloatingLinks((1.0, 0.8, 1.2)), gd.FourierStroke.circle(0.8, centre=(1.0, 0.7))
    heading = gd.bundles.Heading(body)
    turned, whole = (gd.holonomy(b, stroke, steps=16) for b in (heading, body))
    np.testing.assert_allclose(turned, whole[:2, :2], atol=1e-13)
    assert abs(whole[0, 1]) > 0.01
    r = jnp.array([0.3, 0.9])
    np.testing.assert_allclose(gd.shape_metric(heading, r), gd.shape_metric(body, r), rtol=1e-13)
    with pytest.raises(ValueError, match="body must move in SE2, got SO3"):
        gd.bundles.Heading(gd.swimmers.FallingCat())
