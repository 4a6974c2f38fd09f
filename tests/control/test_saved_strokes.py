"""Strokes on disk: whatever the swimmer holds, its numbers come back; what a file cannot hold is asked for by name."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn import swimmers
from geodyn._commands.stroke import verdict
from geodyn._engine.jit import traced_numbers


class Snake(gd.AbstractSlenderSwimmer):
    """A swimmer of one's own, with a plain number in it."""

    lengths: jax.Array
    drag_ratio: float = 2.0
    group: gd.groups.SE2 = gd.groups.SE2()

    def links(self, r):
        return jnp.stack([jnp.zeros(3)] * 3)


class Waves(eqx.Module):
    number: float

    def __call__(self, s):
        return jnp.cos(self.number * s) * jnp.ones(2)


def scaled(a, r):
    return a * jnp.stack([r, -r])


def optimum(swimmer):
    """A stroke of it, with numbers that a search would find."""
    one, two = jnp.array(0.5), jnp.array([1.0, 2.0])
    evidence = {"wong_residual": one, "second_variation": (one, jnp.array(1))}
    stroke, found, count = gd.FourierStroke.circle(0.7), jnp.array(gd.RESULTS.successful), jnp.array(3)
    return gd.OptimalStroke(traced_numbers(swimmer), stroke, one, two, two, one, one, two, one, found, count, evidence)


def test_a_saddle_is_not_told_as_a_minimum():
    found = optimum(swimmers.Satellite())
    assert verdict(found) == gd.RESULTS.successful.message
    for curvature in (-0.1, jnp.nan):
        saddle = eqx.tree_at(lambda x: x.evidence["second_variation"][0], found, jnp.asarray(curvature))
        assert "but not to a minimum: pass --guess" in verdict(saddle)


SPACES = [gd.spaces.Sphere(2), gd.spaces.Hyperbolic(3, "moving halfspace"), gd.spaces.Euclidean(2)]
OF_GEODYN = {
    "numbers": swimmers.Satellite(),
    "None": swimmers.Purcell(),
    "static": swimmers.ThreeSphere(finite_size=True),
    "function of geodyn": swimmers.Serpenoid(),
    "swimmer": gd.bundles.KaluzaKlein(swimmers.KinematicSnake()),
    **{repr(type(space).__name__): swimmers.TwoLegged(space, (1.0, 0.7)) for space in SPACES},
}


@pytest.mark.parametrize("swimmer", OF_GEODYN.values(), ids=OF_GEODYN)
def test_what_is_of_geodyn_is_built_again(swimmer, tmp_path):
    """The same tree: types, static fields and every bit of the numbers."""
    saved = optimum(swimmer)
    saved.save(tmp_path / "a.npz")
    assert eqx.tree_equal(gd.strokes.load_stroke(tmp_path / "a.npz"), saved)


def test_files_name_what_users_import(tmp_path):
    """So that they can be read when a room has moved."""
    optimum(swimmers.Satellite()).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as archive:
        text = str(archive["metadata"])
    assert "geodyn.swimmers:Satellite" in text and "geodyn:FourierStroke" in text and "geodyn._" not in text


@pytest.mark.parametrize(
    "ended, words",
    {
        gd.RESULTS.successful: "converged",
        gd.RESULTS.stalled: "no step along the search direction lowers the merit function",
    }.items(),
)
def test_files_that_say_in_words_how_the_search_ended(ended, words, tmp_path):
    """As they did before `gd.RESULTS` was for searches too."""
    optimum(swimmers.Satellite()).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as archive:
        arrays = dict(archive)
    text = str(arrays["metadata"]).replace('"result": "successful"', f'"result": "{words}"')
    np.savez(tmp_path / "b.npz", **arrays | {"metadata": np.array(text)})
    assert words in text and gd.strokes.load_stroke(tmp_path / "b.npz").result == ended


FOREIGN = {
    "swimmer": (lambda x: Snake(jnp.full(3, x)), "of Snake; pass"),
    "module": (lambda x: swimmers.Serpenoid(modes=Waves(x)), "of Serpenoid, which holds .*:Waves; pass"),
    "bound numbers": (
        lambda x: swimmers.PointMasses(SPACES[0], [1.0, 2.0], jax.tree_util.Partial(scaled, jnp.asarray(x))),
        "of PointMasses, which holds .*:scaled; pass",
    ),
}


@pytest.mark.parametrize("make, message", FOREIGN.values(), ids=FOREIGN)
def test_what_is_foreign_is_asked_for(make, message, tmp_path):
    """All of it is in the file but code; an instance with other numbers is refused."""
    saved, path = optimum(make(2.0)), tmp_path / "a.npz"
    saved.save(path)
    with pytest.raises(ValueError, match=message):
        gd.strokes.load_stroke(path)
    assert eqx.tree_equal(gd.strokes.load_stroke(path, make(2.0)), saved)
    with pytest.raises(ValueError, match=r"of another swimmer: .* was .*2.*, is .*3"):
        gd.strokes.load_stroke(path, make(3.0))
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["stroke.cosine"], saved.stroke.cosine)
