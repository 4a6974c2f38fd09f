"""Wrong input, one argument at a time, as tests/fuzz.py makes it: named, never taken, never endless."""

import collections

import fuzz
import jax.numpy as jnp
import pytest

import geodyn as gd

SAMPLE = ["gd.distance", "gd.Spring", "gd.FourierStroke", "gd.nonholonomic.Car", "gd.groups.quaternion"]
SAMPLE += ["gd.linkages.Linkage", "gd.rigid.Load", "gd.plot.Labels", "gd.loads.PointLoad", "gd.spaces.Sphere"]
# Of 200 wrong arguments: errors from inside, or such that do not name the argument. None is taken.
MOST_UNNAMED = 1


def told(found) -> str:
    bad = [line for line in found if line["kind"] in ("raw", "silent", "hang", "crash", "unnamed", "example")]
    return "\n".join(f"{line['kind']}: {line.get('case', line.get('name'))}: {line['said']}" for line in bad)


@pytest.mark.long
def test_a_sample_is_refused_by_name():
    found = fuzz.outcomes(SAMPLE, seed=3, most=12)
    assert len(found) > 120
    assert not told(found), told(found)


@pytest.mark.long
def test_wrong_arguments_are_named():
    """A twentieth of the public names; `python tests/fuzz.py` goes through all of them."""
    found = fuzz.outcomes(list(fuzz.chosen([]))[7::20], seed=4, most=3)
    kinds = collections.Counter(line["kind"] for line in found)
    assert not any(kinds[kind] for kind in ("crash", "hang", "example", "silent")), told(found)
    assert 200 * (kinds["raw"] + kinds["unnamed"]) <= MOST_UNNAMED * len(found), told(found)


WRONG = {"None": None, "text": "text", "complex": 1j, "a matrix": jnp.ones((7, 5))}


def elements(wrong):
    """Runs with a function that gives what is wrong, by the name of that function."""

    def gives(*args):
        return wrong

    def run(body, q0=((0.0, 1.0),), v0=None):
        return gd.integrate(body, jnp.asarray(q0), v0, t1=0.1, steps=2)

    def point(element):
        return run(gd.System(gd.spaces.Euclidean(2), [1.0], element))

    sleigh = gd.nonholonomic.Sleigh()
    rigid = gd.rigid.RigidBodies([1.0, 1.0, 2.0], 1.0, gd.rigid.Load(0, torque=gives))
    return {
        "lagrangian": lambda: run(gd.Lagrangian(gives), [1.0]),
        "constraint": lambda: run(gd.Lagrangian(lambda q, v: v @ v / 2, constraint=gives), [1.0]),
        "vector_field": lambda: gd.integrate(gd.ODE(gives), [1.0], t1=0.1, steps=2),
        "hamiltonian": lambda: run(gd.hamilton.Hamiltonian(gives), [1.0], [0.0]),
        "gap": lambda: point(gd.Wall(gives)),
        "slip": lambda: point(gd.Wall(lambda x: x[1], friction=0.1, slip=gives)),
        "motion": lambda: point(gd.loads.Driven(0, gives)),
        "force": lambda: point(gd.loads.PointLoad(gives)),
        "torque": lambda: run(rigid, *rigid.state()),
        "basis": lambda: run(gd.nonholonomic.QuasiVelocities(sleigh, gives), jnp.zeros(3)),
    }


@pytest.mark.parametrize("name", elements(None))
@pytest.mark.parametrize("given", WRONG)
def test_what_a_function_gives_is_refused(name, given):
    with pytest.raises(ValueError, match=name):
        elements(WRONG[given])[name]()
