"""Wrong inputs: each error names the argument, what it got and what was wanted, before anything is compiled."""

import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import geodyn as gd
from geodyn._foundations.indices import check_program

FLAT = gd.spaces.Euclidean(2)
PAIR = gd.System(FLAT, [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 1.0))
RIGID = gd.System(FLAT, [1.0, 1.0], gd.Rod([(0, 1)], 1.0))
Q, V = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.5]])
TRIANGLE = gd.System(FLAT, [1.0] * 3, gd.Rod([(0, 1), (1, 2), (0, 2)], [1.0, 1.0, 2.0]))


def run(system=PAIR, q0=Q, v0=V, **options):
    return gd.integrate(system, q0, v0, **{"t1": 1.0, "steps": 10, **options})


def user(kind=gd.AbstractPotential, **body):
    """PAIR's points with one element of a user's class."""
    return gd.System(FLAT, [1.0, 1.0], type("User", (kind,), body)())


def kinetic(q, v):
    return v @ v / 2


def stroke(swimmer=None, **options):
    return gd.optimal_stroke(swimmer or gd.swimmers.Purcell(), **{"displacement": 0.1, **options})


def indefinite():
    space = gd.Manifold(lambda x: jnp.diag(jnp.array([1.0, -1.0])), 2, signature=(1, 1))
    return run(gd.System(space, [1.0, 1.0]))


def asymmetric():
    return run(gd.System(gd.Manifold(lambda x: jnp.array([[1.0, 0.5], [0.0, 1.0]]), 2), [1.0, 1.0]))


def singular():
    return run(gd.System(gd.Manifold(lambda x: jnp.diag(jnp.stack([1 / x[0], 1.0])), 2), [1.0, 1.0]))


def off(space, x):
    return run(gd.System(space, [1.0]), [x], [[0.0, 1.0]])


def falling(gap=lambda q: q[1:], **options):
    contacts = gd.systems.Contacts(gap, **options)
    gd.integrate(gd.Lagrangian(lambda q, v: v @ v / 2 - q[1], contacts=contacts), [0.0, 1.0], t1=0.1, steps=1)


def patched(switch=lambda q: 0.0 * q[:1], switched=lambda switch, q: q, frame=None):
    moving = () if frame is None else (lambda q: jnp.zeros(1), frame, lambda frame, q: q)
    charts = gd.systems.Charts(switch, switched, *moving)
    gd.integrate(gd.Lagrangian(lambda q, v: v @ v / 2, charts=charts), [0.0, 1.0], t1=0.1, steps=1)


CURVED, ENDS = gd.Manifold(lambda x: (1 + x @ x) * jnp.eye(2), 2), jnp.array([[0.0, 0.0], [0.5, 0.0]])
RIGHT = gd.FourierStroke.circle(0.3)
WRONG = {
    "steps that no memory holds": (lambda: run(steps=10**9), "steps=1000000000 .* larger save_every"),
    "steps that are no number of steps": (lambda: run(steps=10**12), "steps must be .*at most 2147483647, got 10"),
    "steps that are a flag": (lambda: run(steps=True), "steps must be a positive whole number, got True"),
    "a flag in words": (lambda: run(throw="False"), "throw must be True or False, got 'False'"),
    "impacts": (lambda: run(max_impacts=10**12), "max_impacts must be .*at most 1000000, got"),
    "stages of Gauss": (lambda: gd.Gauss(10**30), "stages must be .*at most 64, got"),
    "stages of Radau": (lambda: gd.tableaus.radau_iia(10**18), "stages must be .*at most 64, got"),
    "size of a constraint": (
        lambda: run(user(gd.AbstractConstraint, size=10**12, residual=lambda self, space, x: x[0])),
        "size of User must be at most",
    ),
    "friction of nothing": (lambda: gd.Contact(0.1, friction=[]), "friction must be one number"),
    "a weld that stretches": (
        lambda: gd.rigid.FixedJoint((0, 1), rotation=2 * np.eye(3)),
        "rotation .* must be orthogonal",
    ),
    "a slope that is a date": (
        lambda: gd.nonholonomic.Car(downhill=np.datetime64("2020-01-01")),
        "downhill must be a number",
    ),
    "a masked array": (lambda: run(q0=np.ma.masked_array(Q, Q > 0)), "q0 must be real numbers without a mask"),
    "a descriptor": (lambda: gd.load(3), "path must be a path"),
    "a descriptor of a stroke": (lambda: gd.strokes.load_stroke(3), "path must be a path"),
    "no name": (lambda: gd.strokes.load_stroke(""), "path must be a path, got ''"),
    "a folder": (lambda: gd.load("/"), "path must be the name of a file, not of a folder"),
    "no space": (lambda: gd.distance(None, Q[0], Q[1]), "space must be a Metric .*got None"),
    "a swimmer that is text": (lambda: gd.holonomy("text", RIGHT), "swimmer must be a Locomotion .*got 'text'"),
    "a pair of no points": (
        lambda: gd.plot.separation(run(), [(0, 9)]),
        "pairs must be the number of one of the 2 points",
    ),
    "a picture of nothing": (lambda: gd.plot.separation(trajectory=3), "trajectory must be a Trajectory .*got 3"),
    "a function of two": (
        lambda: gd.holonomy(gd.swimmers.Purcell(), lambda a, b: a),
        "stroke must be a function of 1 argument",
    ),
    "traced data of a picture": (
        lambda: jax.jit(lambda t: gd.plot.hysteresis(t, t))(np.ones(3)),
        "displacement must be numbers that are known",
    ),
    "steps zero": (lambda: run(steps=0), "steps must be a positive whole number, got 0"),
    "nodes of a distance": (lambda: gd.distance(CURVED, *ENDS, nodes=1.5), "nodes must be a positive .* got 1.5"),
    "nodes of a logarithm": (lambda: gd.log(CURVED, *ENDS, nodes=-1), "nodes must be a positive .* got -1"),
    "nodes of an area": (lambda: gd.cells.area(CURVED, *ENDS, ENDS[0], nodes=0), "nodes must be a positive .* got 0"),
    "a gap that is none": (lambda: gd.systems.Contacts(0.1), "gap must be a function, got 0.1 .gap: function q"),
    "friction without slip": (lambda: gd.systems.Contacts(lambda q: q, friction=0.3), "must be given together"),
    "a restitution above 1": (lambda: falling(restitution=1.5), r"restitution must be from 0 to 1, .* got 1.5"),
    "too many restitutions": (
        lambda: falling(restitution=[0.5, 0.6]),
        r"must be one number or \[1\].* got shape \(2,\)",
    ),
    "a function of one restitution": (lambda: falling(restitution=lambda q: q[0]), r"or \[1\].* got shape \(\)"),
    "friction below 0": (lambda: falling(friction=-0.1, slip=lambda q, v: v[:1, None]), "friction must be 0 or more"),
    "a slip without a row": (lambda: falling(friction=0.1, slip=lambda q, v: v[:1]), r"slip must return \[1, s\]"),
    "a gap of two axes": (lambda: falling(lambda q: q[None]), r"gap must return floats \[g\].* got shape \(1, 2\)"),
    "a switch without a row": (
        lambda: patched(lambda q: 0.0 * q[0]),
        r"switch must return numbers \[s\]; got shape \(\)",
    ),
    "a switch to fewer coordinates": (
        lambda: patched(lambda q: 0.0 * q[:1], lambda switch, q: q[:1]),
        r"switched must return an array of shape \(2,\); got \(1,\)",
    ),
    "a frame that grows": (
        lambda: patched(frame=lambda frame, switch: jnp.append(frame, switch)),
        r"moved_frame must return an array of shape \(1,\); got \(2,\)",
    ),
    "elastic for ever": (lambda: gd.systems.Contacts(lambda q: q, elastic=True), "elastic contacts need with_rest"),
    "charts without a switch": (lambda: gd.systems.Charts(None, lambda s, q: q), "switch must be a function"),
    "half a frame": (lambda: gd.systems.Charts(lambda q: q, lambda s, q: q, lambda q: q), "must be given together"),
    "contacts that are none": (
        lambda: gd.Lagrangian(lambda q, v: v @ v, contacts=0.1),
        r"contacts must be a Contacts .*got 0.1",
    ),
    "no contacts to jam": (
        lambda: gd.contact.painleve_number(gd.System(gd.spaces.Euclidean(2), [1.0]), [[0.0, 1.0]], [[0.0, 0.0]]),
        "system must have contacts",
    ),
    "steps of a geodesic": (lambda: gd.exp(CURVED, *ENDS, steps=1.5), "steps must be .* got 1.5"),
    "t1 zero": (lambda: run(t1=0.0), "t1 must be finite and another time than t0=0.0, got 0.0"),
    "t1 nan": (lambda: run(t1=math.nan), "t1 must be finite"),
    "save_every": (lambda: run(save_every=3), "save_every must divide steps=10, got 3"),
    "q0 shape": (lambda: run(q0=np.zeros((3, 2)), v0=np.zeros((3, 2))), r"q0 must have shape \(2, 2\).*got \(3, 2\)"),
    "v0 shape": (lambda: run(v0=np.zeros(2)), r"v0 must have the shape of q0, \(2, 2\); got \(2,\)"),
    "q0 nan": (lambda: run(q0=Q * np.nan), "q0 must be finite"),
    "q0 complex": (lambda: run(q0=Q * 1j), "q0 must be real numbers"),
    "q0 of dates": (lambda: run(q0=np.full(np.shape(Q), "2020", "datetime64[Y]")), "q0 must be real numbers"),
    "q0 of float16": (lambda: run(q0=np.asarray(Q, np.float16)), "q0 must be numbers of float32 or float64"),
    "q0 text": (
        lambda: run(q0=["a", "b"]),
        "q0 must be real numbers, got .'a', 'b'. .q0: the initial configuration",
    ),
    "q0 object": (lambda: run(q0=object()), "q0 must be real numbers, got <object"),
    "q0 ragged": (
        lambda: run(q0=[[0.0, 1.0], [1.0]]),
        r"q0 must be .*rows of equal length, got \[\[0",
    ),
    "q0 of one axis": (
        lambda: run(RIGID, np.zeros(2), np.zeros(2), method=gd.RadauIIA(2, "rs2")),
        r"must have shape \(2, 2\) \(masses, dim\), got 2 numbers",
    ),
    "q0 of one axis, of rigid bodies": (
        lambda: gd.project(gd.rigid.RigidBodies([1.0] * 3, 1.0, gd.rigid.Hinge((None, 0))), np.zeros(4), np.zeros(4)),
        r"must have shape \(1, 7\) \(bodies, position and quaternion\), got 4 numbers",
    ),
    "p0 of one axis": (lambda: run(PAIR, Q[0], None, p0=Q[0]), r"must have shape \(2, 2\) \(masses, dim\), got 2"),
    "v0 text": (lambda: run(v0="rest"), "v0 must be real numbers, got 'rest'"),
    "p0 ragged": (lambda: run(v0=None, p0=[[0.0], [1.0, 2.0]]), "p0 must be .*rows of equal length"),
    "t1 text": (lambda: run(t1="1"), "t1 must be real numbers, got '1'"),
    "checkpoint": (lambda: run(checkpoint=3), "checkpoint must be a path.* got 3"),
    "system of a class": (lambda: run(gd.System), "system must be .* got the class System: call it"),
    "q of energy": (lambda: gd.energy(PAIR, Q[0], Q[0]), r"must have shape \(2, 2\) \(masses, dim\), got 2 numbers"),
    "system of energy": (lambda: gd.energy(3, Q, V), "system must be a System .*got 3"),
    "v of project": (lambda: gd.project(RIGID, Q, V[0]), r"v must have the shape of q, \(2, 2\); got \(2,\)"),
    "masses of elements": (lambda: gd.System(FLAT, gd.Gravity()), "masses must be real numbers"),
    "element class": (
        lambda: gd.System(FLAT, [1.0], gd.Gravity),
        r"elements\[0\] must be .* got the class Gravity: call it",
    ),
    "element list": (lambda: gd.System(FLAT, [1.0], [gd.Gravity()]), r"one by one, not in a list: .*elements"),
    "elements of combine": (
        lambda: gd.builders.combine(gd.builders.rod(FLAT), elements=gd.Gravity()),
        "elements must be a sequence",
    ),
    "space of a rod": (
        lambda: gd.builders.rod(gd.spaces.Euclidean),
        "space must be a Manifold .* class Euclidean: call it",
    ),
    "shape of a lattice": (
        lambda: gd.builders.lattice(FLAT, "ab"),
        "shape must be a sequence, got 'ab' .shape: the numbers of points",
    ),
    "source of a mesh": (lambda: gd.builders.mesh(FLAT, 3), "source must be the name of a file or a tuple, got 3"),
    "pins": (lambda: gd.linkages.linkage(Q, [(0, 1)], pins=5), "pins must be numbers of joints, 0 to 1; got 5"),
    "joint": (lambda: gd.rigid.Hinge(3), "bodies must be a tuple of 2, got 3"),
    "strength text": (lambda: gd.Kepler("a", [0.0, 0.0]), "strength must be real numbers, got 'a'"),
    "stiffness none": (lambda: gd.Spring([(0, 1)], None, 1.0), "stiffness must be real numbers, got None"),
    "edges ragged": (lambda: gd.Spring([(0, 1), (1,)], 1.0, 1.0), "edges must be whole numbers, rows of equal length"),
    "energy vector": (
        lambda: run(user(energy=lambda self, space, x: x[0])),
        r"energy of User must return a scalar",
    ),
    "energy none": (
        lambda: run(user(energy=lambda self, space, x: None)),
        "energy of User must return an array",
    ),
    "energy arguments": (
        lambda: user(energy=lambda self, x: 0.0),
        r"energy of User must be a function \(space, x\), which may name 't' and 'masses' besides",
    ),
    "energy with math": (
        lambda: run(user(energy=lambda self, space, x: math.sin(x[0, 0]))),
        "energy of User cannot be traced .*write it with jax.numpy",
    ),
    "rayleigh vector": (
        lambda: run(user(gd.AbstractDissipation, rayleigh=lambda self, space, x, v: v[0])),
        r"rayleigh of User must return a scalar, got shape \(2,\)",
    ),
    "residual arguments": (
        lambda: user(gd.AbstractConstraint, size=1, residual=lambda self, x: x[0]),
        r"residual of User must be a function \(space, x\)",
    ),
    "size": (
        lambda: user(gd.AbstractConstraint, size="1", residual=lambda self, space, x: x[0]),
        "size of User must be",
    ),
    "masses of a gap": (
        lambda: user(gd.contact.AbstractContact, restitution=1.0, gap=lambda self, space, x, masses: x[:, 0]),
        r"gap of User must be a function \(space, x\), which may name 't' besides",
    ),
    "slip of one axis": (
        lambda: run(
            user(gd.friction.AbstractFriction, strength=jnp.ones(()), slip=lambda self, space, x, v: v[0]),
            method=gd.friction.IncrementalPotential(),
        ),
        r"slip of User must return shape \[c, d\], got \(2,\)",
    ),
    "wall arguments": (lambda: gd.Wall(lambda x, y: x[0]), r"gap must be a function \(x\).* this one is \(x, y\)"),
    "constraint matrix": (
        lambda: run(gd.Lagrangian(kinetic, lambda q: jnp.outer(q, q)), Q[0], None),
        r"constraint must return one row \[c\], got shape \(2, 2\)",
    ),
    "constraint arguments": (
        lambda: gd.Lagrangian(kinetic, lambda q, v: q @ v),
        r"constraint must be a function \(q\), which may name 't' besides, without a default; this one is \(q, v\)",
    ),
    "constraint tuple": (lambda: run(gd.Lagrangian(kinetic, lambda q: (q[0],)), Q[0], None), "array, got tuple"),
    "lagrangian arguments": (lambda: gd.Lagrangian(lambda q: q @ q), r"lagrangian must be a function \(q, v\)"),
    "lagrangian none": (
        lambda: run(gd.Lagrangian(lambda q, v: None), Q[0], None),
        "lagrangian must return an array",
    ),
    "no kinetic energy": (
        lambda: gd.friction.quasi_static(gd.Lagrangian(lambda q, v: -q @ q), Q[0], t1=1.0, steps=2),
        "lagrangian must have a kinetic energy of every velocity(.|\\n)*any mass m > 0 does",
    ),
    "a coordinate without kinetic energy": (
        lambda: run(gd.Lagrangian(lambda q, v: v[0] ** 2 - q @ q), Q[0], None),
        "lagrangian must have a kinetic energy of every velocity",
    ),
    "a constraint without kinetic energy": (
        lambda: run(gd.Lagrangian(lambda q, v: v[0] ** 2, lambda q: q[1]), Q[0], None),
        "lagrangian must have a kinetic energy of every velocity",
    ),
    "method of quasi_static": (
        lambda: gd.friction.quasi_static(PAIR, Q, t1=1.0, steps=2, method=gd.Gauss(2)),
        "method must be left out",
    ),
    **{
        f"nonholonomic {name}": (
            lambda rate=rate: run(gd.Lagrangian(kinetic, nonholonomic=rate), Q[0], None),
            r"nonholonomic\[0\] must be affine in v",
        )
        for name, rate in {
            "square": lambda q, v: v[0] ** 2,
            "odd": lambda q, v: jnp.sin(v[0]),
            "length": lambda q, v: jnp.sqrt(v @ v + 1e-8) - 1e-4,
        }.items()
    },
    "hamiltonian arguments": (
        lambda: gd.hamilton.Hamiltonian(lambda q: q @ q),
        r"hamiltonian must be a function \(q, p\)",
    ),
    "ODE arguments": (lambda: gd.ODE(lambda y: y), r"vector_field must be a function \(t, y\)"),
    "ODE tuple": (
        lambda: run(gd.ODE(lambda t, y: (y[0], y[1])), Q[0], None),
        "vector_field must return an array",
    ),
    "q0 none": (lambda: run(q0=None), "q0 must be real numbers"),
    "off the ball": (lambda: off(gd.spaces.Hyperbolic(2), [1.2, 0.0]), r"no point of Hyperbolic.*\|x\| < 1"),
    "below the halfspace": (
        lambda: off(gd.spaces.Hyperbolic(2, "halfspace"), [0.0, -1.0]),
        "a last coordinate above 0",
    ),
    "off the product": (
        lambda: off(gd.spaces.Product(gd.spaces.Hyperbolic(1), gd.spaces.Euclidean(1)), [-1.2, 0.0]),
        r"no point of Product.*\(\|x\| < 1, any x\)",
    ),
    "off the sphere": (
        lambda: gd.linkages.four_rod_configuration(3.0, jnp.array([0.0, 0.0, 2.0])),
        "point of the unit sphere",
    ),
    "configuration not in a row": (
        lambda: gd.surfaces.gaussian_curvature(gd.surfaces.LevelSet(3, lambda x: x @ x - 1), jnp.eye(3)),
        r"x must be an array of shape \[n\], got shape \(3, 3\)",
    ),
    "method": (lambda: run(method="gauss"), "method must be a Method .* got 'gauss'"),
    "masses negative": (lambda: gd.System(FLAT, [1.0, -1.0]), r"masses must be positive and finite; masses\[1\] is -1"),
    "masses nan": (lambda: gd.System(FLAT, [np.nan]), "masses must be finite"),
    "space": (lambda: gd.System("sphere", [1.0]), "space must be a Manifold .*got 'sphere'"),
    "element": (lambda: gd.System(FLAT, [1.0], 3.0), r"elements\[0\] must be a Potential"),
    "edges out of range": (lambda: gd.System(FLAT, [1.0, 1.0], gd.Spring([(0, 2)], 1.0, 1.0)), "name point 2"),
    "edges shape": (lambda: gd.Spring([0, 1], 1.0, 1.0), "edges must be pairs"),
    "edge to itself": (lambda: gd.Spring([(1, 1)], 1.0, 1.0), "two different points"),
    "stiffness": (lambda: gd.Spring([(0, 1)], -1.0, 1.0), "stiffness must be ≥ 0"),
    "stiffness count": (lambda: gd.Spring([(0, 1)], [1.0, 2.0], 1.0), "one per edge"),
    "rod length": (lambda: gd.Rod([(0, 1)], 0.0), "length must be positive"),
    "rod off q0": (
        lambda: run(RIGID, q0=2 * Q),
        r"q0 violates the constraint Rod between points \(0, 1\) by 1;.*project",
    ),
    "rod off v0": (lambda: run(RIGID, v0=V[:, ::-1]), "v0 violates the constraint.*project"),
    "redundant rods": (
        lambda: run(TRIANGLE, q0=[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], v0=np.zeros((3, 2))),
        "redundant or contradictory.*Rod between points",
    ),
    "contradictory rods": (
        lambda: gd.project(
            gd.System(FLAT, [1.0] * 3, gd.Rod([(0, 1), (1, 2), (0, 2)], [1.0, 1.0, 9.0])),
            np.eye(3, 2),
            np.zeros((3, 2)),
        ),
        "contradict",
    ),
    "Gauss with constraints": (lambda: run(RIGID, method=gd.Gauss(3)), "cannot hold.*RadauIIA"),
    "formulation": (lambda: gd.RadauIIA(3, "index4"), "formulation must be one of"),
    "rs2 with 3 stages": (lambda: gd.RadauIIA(3, "rs2"), "2 stages"),
    **{
        f"a singular tableau, {form}": (
            lambda form=form: run(RIGID, method=gd.methods.Collocation(gd.tableaus.lobatto_iiia(3), form)),
            f"'{form}'.* cannot hold .* a is singular.*RadauIIA.* or formulation='index1'",
        )
        for form in ("ggl", "index2", "index3")
    },
    "equal nodes with contacts": (
        lambda: run(
            gd.System(FLAT, [1.0, 1.0], gd.Contact([0.1, 0.1])), method=gd.methods.Collocation(gd.tableaus.rk4())
        ),
        r"distinct nodes, and those of .* are \[0.0, 0.5, 0.5, 1.0\]: take method=gd.Gauss\(3\)",
    ),
    "stages": (lambda: gd.Gauss(0), "stages must be a positive whole number, got 0"),
    "metric not a function": (lambda: gd.Manifold(np.eye(2), 2), "metric must be a function"),
    "metric shape": (lambda: gd.Manifold(lambda x: jnp.eye(3), 2), r"\(2, 2\)"),
    "metric with math": (lambda: gd.Manifold(lambda x: jnp.eye(2) * math.sin(x[0]), 2), "jax.numpy"),
    "metric with numpy": (lambda: gd.Manifold(lambda x: jnp.eye(2) * np.sin(x[0]), 2), "jax.numpy"),
    "metric asymmetric": (asymmetric, "symmetric"),
    "metric indefinite": (indefinite, "positive definite"),
    "metric infinite": (singular, "not finite"),
    "lagrangian": (lambda: gd.Lagrangian(3.0), "lagrangian must be a function"),
    "ODE shape": (lambda: run(gd.ODE(lambda t, y: y[:1]), q0=np.ones(2), v0=None), "vector_field must return shape"),
    "stroke of numbers": (
        lambda: gd.holonomy(gd.swimmers.Purcell(), [0.0, 1.0]),
        r"stroke must be a function .*got \[0.0, 1.0\]",
    ),
    "stroke of a class": (
        lambda: stroke(gd.swimmers.Purcell),
        "swimmer must be an InvariantMetric .*got the class Purcell: call it",
    ),
    "isotropic drag": (
        lambda: stroke(gd.swimmers.Purcell(drag_ratio=1.0)),
        r"no stroke of Purcell leads to 0\.1: its drag is the same .*drag_ratio=1.* curvature .* vanishes",
    ),
    "isotropic drag, a guess": (
        lambda: stroke(
            gd.swimmers.NLink(jnp.ones(4), 1.0), guess=gd.FourierStroke.circle(0.5, 1), displacement=(1, 0, 0)
        ),
        r"no stroke of NLink leads to \[1\. 0\. 0\.\]: its drag is the same",
    ),
    "isotropic drag, all starts": (
        lambda: gd.optimal_strokes(gd.swimmers.Purcell(drag_ratio=1.0), displacement=0.1),
        "its drag is the same along the links and across them",
    ),
    "component": (
        lambda: gd.plot.curvature(gd.swimmers.Purcell(), 7, (-1, -1), (1, 1)),
        "component must be one of the coordinates 0 to 2 of SE2, got 7",
    ),
    "component of a connection": (
        lambda: gd.plot.connection(gd.swimmers.Purcell(), -1, (-1, -1), (1, 1)),
        "component must be a whole number ≥ 0, got -1",
    ),
    "variables of a plot": (
        lambda: gd.plot.curvature(gd.swimmers.Purcell(), 0, (-1, -1), (1, 1), variables=(1, 1)),
        "variables must be two different ones of 2",
    ),
    "swimmer of a connection": (
        lambda: gd.connection(3, [0.0]),
        "swimmer must be a Connection .*got 3 .swimmer: body with a connection",
    ),
    "class of a swimmer": (
        lambda: gd.holonomy(gd.swimmers.Purcell, gd.FourierStroke.circle(0.5, 1)),
        "swimmer must be .* got the class Purcell: call it",
    ),
    "class of a stroke": (
        lambda: gd.holonomy(gd.swimmers.Purcell(), gd.FourierStroke),
        "stroke must be a function .* got the class FourierStroke: call it",
    ),
    "towing drag": (
        lambda: gd.efficiency(gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5, 1), drag="a"),
        "drag must be a number, got 'a'",
    ),
    "harmonics": (
        lambda: stroke(method=gd.Direct(harmonics="a")),
        "harmonics must be a positive whole number, got 'a'",
    ),
    "ends": (lambda: stroke(ends=3), "ends must be a tuple of 2, got 3"),
    "bounds": (lambda: stroke(bounds=3), "bounds must be a tuple of 2, got 3"),
    "body of a heading": (lambda: gd.bundles.Heading(3), "body must be an InvariantMetric .*got 3"),
    "trajectory of a picture": (
        lambda: gd.plot.player(3),
        "trajectory must be a Trajectory .*got 3 .trajectory: what `gd.integrate` returns",
    ),
    "corners of a picture": (
        lambda: gd.plot.curvature(gd.swimmers.Purcell(), 0, -1, 1),
        r"lower must be an array of shape \[2\], got shape \(\) .lower: the corners",
    ),
    "theta": (lambda: gd.friction.IncrementalPotential(theta="a"), "theta must be a number, got 'a'"),
    "displacement": (
        lambda: stroke(displacement="far"),
        "displacement must be a number or numbers or a sequence, got 'far'",
    ),
    "guess": (lambda: stroke(guess="circle"), "guess must be a function of 1 argument or numbers, got 'circle'"),
    "one bound": (lambda: stroke(bounds=((-1.0, -1.0),)), "bounds must be a tuple of 2, got"),
    "method of strokes": (
        lambda: stroke(method=gd.Direct),
        r"method must be a StrokeMethod .* got the class Direct: call it",
    ),
    "density": (lambda: stroke(density="torque"), "density must be a function .*, got 'torque'"),
    "ODE with v0": (lambda: run(gd.ODE(lambda t, y: y), q0=np.ones(2), v0=np.ones(2)), "v0 of an ODE must be None"),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_named(name, as_users_run):
    call, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        call()


def test_a_flag_is_no_count():
    with pytest.raises(ValueError, match="steps must be a positive whole number, got True"):
        gd.integrate(gd.Lagrangian(lambda q, v: v @ v / 2), [0.0], t1=1.0, steps=True)


def test_without_v0_a_motion_starts_from_rest():
    """Bit for bit the motion from v0 = 0, of points and of a Lagrangian."""
    for system, q0 in ((PAIR, 1.3 * Q), (gd.Lagrangian(lambda q, v: v @ v / 2 - q @ q), Q[1])):
        np.testing.assert_array_equal(run(system, q0, None).q, run(system, q0, 0 * q0).q)


def test_projection_mends_what_is_off_the_constraints():
    """The remedy that the error offers works: lengths to rounding, and nothing is left for the check to refuse."""
    q0, v0 = gd.project(RIGID, 2 * Q, V[:, ::-1])
    assert abs(np.linalg.norm(q0[0] - q0[1]) - 1) < 1e-15
    run(RIGID, q0=q0, v0=v0)


def test_double_precision_file_in_single(tmp_path):
    run().save(tmp_path / "run.npz")
    code = f"import geodyn as gd; gd.load({str(tmp_path / 'run.npz')!r})"
    environment = {"JAX_ENABLE_X64": "0", "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode and "jax_enable_x64" in done.stderr and "double precision" in done.stderr


class Tail(gd.AbstractPotential):
    def energy(self, space, x):
        return x[2, 0] ** 2


class Oar(gd.AbstractSwimmer):
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return xi[0] ** 2 + (xi[0] + rdot[1]) ** 2


LINE = gd.spaces.Euclidean(1)
TOO_FAR = {
    "lagrangian": lambda: gd.integrate(gd.Lagrangian(lambda q, v: v[0] ** 2 + v[1] ** 2), [1.0], [1.0], t1=1, steps=2),
    "vector_field": lambda: gd.integrate(gd.ODE(lambda t, y: jnp.stack([y[1], y[2]])), [1.0, 1.0], t1=1, steps=2),
    "gap": lambda: gd.integrate(gd.System(LINE, [1.0], gd.Wall(lambda x: x[1])), [[1.0]], t1=1, steps=2),
    "metric": lambda: gd.Manifold(lambda x: (1 + x[2] ** 2) * jnp.eye(2), dim=2),
    "embedding": lambda: gd.spaces.Embedded(lambda x: jnp.stack([x[0], x[1], x[2]]), ambient=3, dim=2),
    "energy of Tail": lambda: gd.integrate(gd.System(LINE, [1.0, 1.0], Tail()), [[0.0], [1.0]], t1=1, steps=2),
    "Oar.dissipation": lambda: gd.connection(Oar(), [1.0]),
}
PAIRS = jnp.array([[0, 1], [1, 2]])
BEYOND = {
    "under jit": jax.jit(lambda q, v: q[2] ** 2),
    "of a result": lambda q, v: jnp.sin(q)[-3],
    "of an array of indices": lambda q, v: jnp.sum(q[PAIRS]),
    "nothing is set": lambda q, v: jnp.sum(q.at[4].set(1.0)),
    "counted": lambda q, v: lax.fori_loop(0, 3, lambda k, total: total + q[k], 0.0),
    "counted, from the end": lambda q, v: lax.fori_loop(0, 4, lambda k, total: total + q[-k], 0.0),
    "a row for each turn": lambda q, v: lax.fori_loop(0, 2, lambda k, total: total + jnp.sum(q[PAIRS[k]]), 0.0),
    "scanned": lambda q, v: lax.scan(lambda total, k: (total + q[k], None), 0.0, jnp.arange(3))[0],
    "while": lambda q, v: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + q[c[0]]), (0, 0.0))[1],
    "a branch": lambda q, v: lax.cond(q[0] > 0, lambda: q[2], lambda: q[0]),
    "checkpointed": jax.checkpoint(lambda q, v: q[2] ** 2),
    "a derivative": lambda q, v: jax.grad(lambda q: q[2] ** 2)(q)[0],
    "mapped": lambda q, v: jnp.sum(jax.vmap(lambda k: q[k])(jnp.arange(3))),
}
INSIDE = {
    "counted": lambda q, v: lax.fori_loop(0, 2, lambda k, total: total + q[k] * q[-k], 0.0),
    "from the end": lambda q, v: jnp.sum(q[jnp.array([-2, 1])]),
    "while": lambda q, v: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + 1, c[1] + 1 + q[c[0]]), (0, 0.0))[1],
    "found": lambda q, v: q[jnp.argmax(q)] + jnp.interp(q[0], jnp.arange(3.0), jnp.arange(3.0)),
    "as asked": lambda q, v: q.at[4].get(mode="fill", fill_value=0.0) + jnp.sum(jnp.take(q, PAIRS, mode="clip")),
    "some are set": lambda q, v: jnp.sum(q.at[PAIRS[1]].set(v)),
    "of libraries": lambda q, v: jnp.linalg.det(jnp.outer(q, v)) + jnp.roll(q, 1)[0] + q[jnp.triu_indices(2)[0]].sum(),
}


def potential(function):
    return gd.Lagrangian(lambda q, v: v @ v / 2 - function(q, v))


@pytest.mark.newest
@pytest.mark.parametrize("name", BEYOND)
def test_numbers_beyond_an_end(name):
    with pytest.raises(ValueError, match=r"lagrangian takes more numbers than there are.*out of bounds for axis 0"):
        gd.integrate(potential(BEYOND[name]), [1.0, 0.5], [0.1, 0.2], t1=0.1, steps=1)


@pytest.mark.newest
@pytest.mark.parametrize("name", INSIDE)
def test_numbers_within(name):
    check_program(jax.make_jaxpr(INSIDE[name])(jnp.ones(2), jnp.ones(2)))


def test_loops_are_followed_to_a_bound():
    """What is beyond the end after more turns than are followed is not seen; a program that never ends is not run."""

    def endless(q, v):
        return lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] * 1, c[1] + q[c[0]]), (0, 0.0))[1]

    check_program(jax.make_jaxpr(endless)(jnp.ones(2), jnp.ones(2)))


@pytest.mark.parametrize("name", TOO_FAR)
def test_numbers_that_are_not_there(name):
    """JAX takes the last number of an array for every number beyond it: the motion would be that of something else."""
    with pytest.raises(ValueError, match=f"{name} takes more numbers than there are .* index [12] is out of bounds"):
        TOO_FAR[name]()


def test_a_metric_of_plain_indices_is_traced_once():
    """Where JAX has checked all indices itself, arrays of NumPy tell no more."""
    calls = []

    def metric(x):
        calls.append(x)
        return (1 + x[1] ** 2) * jnp.eye(2)

    gd.Manifold(metric, dim=2)
    assert len(calls) == 1


@pytest.mark.float32
def test_lists_need_no_other_precision():
    """In single precision lists of numbers, which numpy takes for doubles, are no reason for a warning; these are
    errors here."""
    system = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 0.5))
    motion = gd.integrate(system, [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.1], [0.0, 0.0]], t1=1.0, steps=4)
    assert motion.q.dtype == jnp.result_type(float)
