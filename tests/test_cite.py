"""`gd.cite` finds the sources of all that a result was computed by, wherever it stands."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import geodyn as gd


class Tilted(gd.AbstractPotential):
    """A force of a user.

    Source:
        Somebody, *A Journal* 1 (2001) 2, whose title
        takes two lines.

    """

    def energy(self, space, x):
        return x[0, 0]


def names(what):
    """The classes that are named, without the first line, which is geodyn itself."""
    first, *lines = gd.cite(what).split("\n")
    assert first == f"geodyn {gd.__version__}: The geodyn developers, https://github.com/geodyn/geodyn"
    return [line.partition(": ")[0] for line in lines]


@pytest.fixture(scope="module")
def by_gauss():
    return motion(gd.Gauss(2))


def motion(method, q0=((0.1, 0.0),)):
    body = gd.System(gd.spaces.Sphere(2), [1.0], gd.Harmonic(1.0, [0.0, 0.0]), Tilted())
    return gd.integrate(body, q0, t1=0.1, steps=2, method=method)


def test_a_motion(by_gauss):
    """Its method, what acts on it, of the user too, and from what they are derived; each once."""
    found = names(by_gauss)
    assert sorted(found) == ["AbstractLagrangianSystem", "ButcherTableau", "Gauss", "Harmonic", "Tilted"]
    other = names(motion(gd.methods.StormerVerlet()))
    assert "StormerVerlet" in other and "Gauss" not in other
    assert "Tilted: Somebody, *A Journal* 1 (2001) 2, whose title takes two lines.\n" in gd.cite(by_gauss)


def test_a_batch_and_a_member_of_it(by_gauss):
    batch = jax.vmap(lambda q: motion(gd.Gauss(2), q))(jnp.array([[[0.1, 0.0]], [[0.2, 0.0]]]))
    assert names(batch) == names(jax.tree.map(lambda x: x[0], batch)) == names(by_gauss)


def test_parts_in_containers():
    class Two(eqx.Module):
        parts: dict

    assert names(Two({"one": [gd.Gauss(1)], "other": (gd.swimmers.Purcell(),)}))[:3] == [
        "Gauss",
        "ButcherTableau",
        "Purcell",
    ]


def test_what_has_no_source():
    assert names(gd.spaces.Euclidean(2)) == []


@pytest.mark.parametrize("wrong", [None, 3.0, "Gauss", gd.Gauss, gd])
def test_what_is_no_object_of_geodyn_is_refused(wrong):
    with pytest.raises(ValueError, match=r"what must be a Module.*a trajectory, an optimal stroke, or anything"):
        gd.cite(wrong)
