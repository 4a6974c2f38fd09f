"""Isometries as images of a frame: groups of which only the metric, or its Killing fields, are known. References: the
group axioms; the closed forms of Nil; the flows of the Killing fields."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._geometry.groups.isometries import fields_of_group, group_of

TORUS = gd.Manifold(lambda x: jnp.diag(jnp.stack([1.0 + 0 * x[0], (2 + jnp.cos(x[0])) ** 2])), 2)
FOUND = {
    "Nil from its metric": lambda: gd.symmetries(gd.Manifold(gd.spaces.Nil().metric, 3), [0.1, -0.2, 0.3]),
    "a torus": lambda: gd.symmetries(TORUS, [0.3, 0.0]),
}


def vectors(group, count: int) -> jax.Array:
    return jnp.asarray(0.4 * np.random.default_rng(3).normal(size=(count, group.dim)))


@jax.jit
def facts(group):
    """Pairs of what is to be the same."""
    (a, b, c), one = jax.vmap(group.exp)(vectors(group, 3)), group.identity()
    x, y = vectors(group, 2)
    g, turned = group.exp(x), group.compose(group.compose(group.exp(x), group.exp(y)), group.inverse(group.exp(x)))

    def displaced(s):
        return group.compose(g, group.exp(s * y))

    return {
        "inverse": (group.compose(a, group.inverse(a)), one),
        "inverse on the left": (group.compose(group.inverse(b), b), one),
        "identity": (group.compose(one, a), a),
        "associative": (group.compose(group.compose(a, b), c), group.compose(a, group.compose(b, c))),
        "logarithm": (group.log(g), x),
        "adjoint": (group.exp(group.adjoint(g) @ y), turned),
        "adjoint of a product": (group.adjoint(group.compose(a, b)), group.adjoint(a) @ group.adjoint(b)),
        "bracket": (jax.jacfwd(lambda s: group.adjoint(group.exp(s * x)) @ y)(0.0), group.bracket(x, y)),
        "rate": (jax.jacfwd(displaced)(0.0), group.rate(g, y)),
        "body velocity": (group.body_velocity(g, group.rate(g, y)), y),
        "hat and vee": (group.vee(group.hat(x)), x),
        "generators": (jnp.tensordot(x, jnp.asarray(group.generators), 1), group.hat(x)),
    }


def test_axioms():
    """Measured 4e-15."""
    group = group_of(gd.spaces.SL2())
    assert isinstance(group, gd.groups.FrameGroup) and (group.dim, group.translations) == (4, 3)
    for name, (found, wanted) in facts(group).items():
        np.testing.assert_allclose(found, wanted, atol=1e-12, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND)
def test_axioms_where_only_the_metric_is_known(name):
    found = FOUND[name]()
    np.testing.assert_allclose(found.group.structure, -found.structure, atol=1e-12)
    for fact, (computed, wanted) in facts(found.group).items():
        np.testing.assert_allclose(computed, wanted, atol=1e-11, err_msg=fact)
    assert found.group.is_commutative == (name == "a torus")


@pytest.mark.long
def test_the_exponential_and_the_logarithm_have_exact_derivatives():
    """As a velocity in space it is dexp; the logarithm undoes it, in both modes and twice."""
    group = group_of(gd.spaces.SL2())
    x, y = vectors(group, 2)

    @jax.jit
    def derivatives(x, y):
        def apart(s):
            return group.log(group.compose(group.exp(x + s * y), group.exp(-x)))

        def same(x):
            return group.log(group.exp(x))

        forward = jax.jacfwd(apart)(0.0)
        return forward, group.dexp(x) @ y, jax.jacrev(same)(x), jax.jacfwd(jax.jacfwd(same))(x)

    moved, wanted, first, second = derivatives(x, y)
    np.testing.assert_allclose(moved, wanted, atol=1e-12)
    np.testing.assert_allclose(first, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(second, 0.0, atol=1e-11)


@pytest.mark.long
def test_isometries_of_nil_by_its_metric_are_those_in_closed_form():
    """The frame of the origin of Nil, whose isometries are affine maps there: both are the same matrices."""
    found, closed = gd.symmetries(gd.Manifold(gd.spaces.Nil().metric, 3), jnp.zeros(3)), group_of(gd.spaces.Nil())
    basis = found.space.killing_fields(jnp.array([0.3, -0.5, 0.7]))
    known = gd.spaces.Nil().killing_fields(jnp.array([0.3, -0.5, 0.7]))
    other = jnp.array([-0.2, 0.1, 0.4])
    rows = np.concatenate([basis, found.space.killing_fields(other)], axis=1)
    to_known = np.linalg.lstsq(rows.T, np.concatenate([known, gd.spaces.Nil().killing_fields(other)], axis=1).T)[0]
    a, b = vectors(closed, 2)
    g, h = closed.exp(a), closed.exp(b)
    np.testing.assert_allclose(found.group.exp(to_known @ a), g, atol=1e-12)
    np.testing.assert_allclose(found.group.compose(g, h), g @ h, atol=1e-12)
    np.testing.assert_allclose(found.group.inverse(g), closed.inverse(g), atol=1e-12)
    np.testing.assert_allclose(
        gd.groups.act(found.space, g, [0.3, 0.1, 0.2]), (g @ jnp.array([0.3, 0.1, 0.2, 1.0]))[:3], atol=1e-12
    )


SPACES = [
    gd.spaces.Euclidean(1),
    gd.spaces.Euclidean(2),
    gd.spaces.Euclidean(3),
    gd.spaces.Sphere(2),
    gd.spaces.Sphere(3),
    gd.spaces.Hyperbolic(2),
    gd.spaces.Hyperbolic(3),
    gd.spaces.Product(gd.spaces.Sphere(3), gd.spaces.Euclidean(1)),
    gd.spaces.Product(gd.spaces.Euclidean(3), gd.spaces.Product(gd.spaces.Hyperbolic(2), gd.spaces.Sphere(2))),
    gd.spaces.Nil(),
    gd.spaces.Sol(),
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: f"{type(space).__name__}({space.dim})")
def test_killing_fields_are_how_the_group_moves_points(space):
    """In the order of the group, which has rotations by axes."""
    group = gd.groups.isometry_group(space)
    x = jnp.asarray(0.3 * np.random.default_rng(1).normal(size=space.dim))

    @jax.jit
    def both(x):
        flow = jax.jacfwd(lambda xi: gd.groups.act(space, group.exp(xi), x))(jnp.zeros(group.dim))
        return flow.T, fields_of_group(space, x)

    flow, fields = both(x)
    np.testing.assert_allclose(flow, fields, atol=1e-14)


@pytest.mark.long
def test_a_product_with_a_group_of_frames():
    """What its factors do each for itself, where the product is not one of matrices."""
    first, second = group_of(gd.spaces.SL2()), group_of(gd.spaces.Euclidean(2))
    group = gd.groups.isometry_group(gd.spaces.Product(gd.spaces.SL2(), gd.spaces.Euclidean(2)))
    (a, b), (c, d) = vectors(first, 2), vectors(second, 2)
    g, h = group.exp(jnp.concatenate([a, c])), group.exp(jnp.concatenate([b, d]))
    for name, expected in {
        "compose": [f.compose(f.exp(x), f.exp(y)) for f, x, y in ((first, a, b), (second, c, d))],
        "inverse": [f.inverse(f.exp(x)) for f, x in ((first, a), (second, c))],
    }.items():
        made = getattr(group, name)(*([g, h] if name == "compose" else [g]))
        for part, wanted in zip(group.parts(made), expected, strict=True):
            np.testing.assert_allclose(part, wanted, atol=1e-14, err_msg=name)
    adjoint = group.adjoint(g)
    np.testing.assert_allclose(adjoint[:4, :4], first.adjoint(first.exp(a)), atol=1e-13)
    np.testing.assert_allclose(adjoint[4:, 4:], second.adjoint(second.exp(c)), atol=1e-13)
    assert not group.is_commutative and group.translations == 3


def test_what_is_no_element_and_what_is_too_far():
    group = group_of(gd.spaces.SL2())
    g = group.exp(jnp.array([0.1, 0.2, 0.3, 0.4]))
    for function in (group.log, group.inverse, group.adjoint):
        for wrong in (2 * g, g[:3], np.eye(4), [[0.0]]):
            with pytest.raises(ValueError, match="g must"):
                function(wrong)
    far = jax.jit(lambda x: (group.exp(x), jax.jacfwd(group.exp)(x)))(jnp.array([90.0, 5.0, 0.0, 60.0]))
    assert all(np.isnan(x).all() for x in far)
    with pytest.raises(ValueError, match=r"FrameGroup: space must be the space of gd.symmetries.*got a Nil"):
        gd.groups.FrameGroup(gd.spaces.Nil())
    flat = gd.symmetries(
        gd.Manifold(lambda x: jnp.diag(1 + 0.1 * jnp.sin(jnp.array([1.3, 0.7]) * x[::-1])), 2), [0.1, 0.2]
    )
    with pytest.raises(ValueError, match="no symmetry was found within the radius"):
        print(flat.group)
