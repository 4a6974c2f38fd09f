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
    assert sorted(found) == ["AbstractLagrangianSystem", "ButcherTableau", "Gauss", "Harmonic", "Sphere", "Tilted"]
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


def test_contacts_with_friction_in_steps_of_moreau():
    """The steps, the law of impacts and that of friction, which stand in base classes of the wall."""
    floor = gd.Wall(lambda x: x[1], restitution=0.0, friction=0.4)
    block = gd.System(gd.spaces.Euclidean(2), [1.0], floor)
    slid = gd.integrate(block, [[0.0, 0.0]], [[1.0, 0.0]], t1=0.1, steps=2, method=gd.methods.Moreau())
    assert {"Moreau", "AbstractContact", "AbstractFrictionalContact"} < {*names(slid)}


def test_friction_and_any_tableau():
    assert names(gd.friction.DryFriction(1.0)) == ["AbstractFriction"]
    assert names(gd.methods.Collocation(gd.tableaus.rk4())) == ["Collocation", "ButcherTableau"]


def test_an_optimal_stroke_and_its_method():
    """It has the source of the problem, that of the body, and not that of the method, which is named beside it."""
    method = gd.Direct(harmonics=2, steps=8)
    best = gd.optimal_stroke(gd.swimmers.SymmetricPurcell(), [0.5, 0.5], displacement=0.01, method=method)
    found = names(best)
    assert found[0] == "OptimalStroke" and "SymmetricPurcell" in found and "Direct" not in found
    both = gd.cite(best, method)
    assert both.startswith(gd.cite(best)) and both.endswith(gd.cite(method).split("\n")[-1])
    with pytest.raises(ValueError, match=r"more\[1\] must be"):
        gd.cite(best, method, 3.0)


def test_what_has_no_source():
    assert names(gd.spaces.Euclidean(2)) == []


@pytest.mark.parametrize("wrong", [None, 3.0, "Gauss", gd.Gauss, gd])
def test_what_is_no_object_of_geodyn_is_refused(wrong):
    with pytest.raises(ValueError, match=r"what must be a Module.*a trajectory, an optimal stroke, or anything"):
        gd.cite(wrong)
