"""Swimmers in a fluid: against exact solutions of Stokes's equations, closed forms and each other; laws over a zoo."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad, quad, solve_ivp

import geodyn as gd
from geodyn._locomotion.connections.connection import reduction

ANGLES = gd.FourierStroke([0.3, -0.2], [[0.5], [0.1]], [[0.0], [0.6]])
VOLUME = 8 * np.pi / 3
# The swimmer with lengths c and drag d times as large, and its stroke.
ZOO = {
    "PushMePullYou": (
        lambda c, d: gd.swimmers.PushMePullYou(VOLUME * c**3, d, finite_size=True),
        lambda c: gd.FourierStroke([7.0 * c, 4.0 * c**3], [[c], [0.0]], [[0.0], [2.0 * c**3]]),
    ),
    "ThreeSphere": (
        lambda c, d: gd.swimmers.ThreeSphere(c * np.array([1.0, 0.8, 1.2]), d),
        lambda c: gd.FourierStroke.circle(2.0 * c, centre=(6.0 * c, 7.0 * c)),
    ),
    "Purcell": (lambda c, d: gd.swimmers.Purcell((c, 0.8 * c, 1.1 * c), drag=d), lambda c: ANGLES),
    "NLink": (
        lambda c, d: gd.swimmers.NLink(c * np.array([1.0, 0.7, 1.1, 0.9]), drag=d),
        lambda c: gd.FourierStroke([0.3, -0.2, 0.1], [[0.5], [0.1], [0.2]], [[0.0], [0.6], [-0.4]]),
    ),
    "SymmetricPurcell": (lambda c, d: gd.swimmers.SymmetricPurcell(c, 1.3 * c, drag=d), lambda c: ANGLES),
    "Serpenoid": (lambda c, d: gd.swimmers.Serpenoid(c, drag=d), lambda c: gd.FourierStroke.circle(3.0)),
    "ConstantCurvature": (
        lambda c, d: gd.swimmers.ConstantCurvature(c, drag=d),
        lambda c: gd.FourierStroke.circle(3.0),
    ),
    "TriangleWave": (lambda c, d: gd.swimmers.TriangleWave(c, drag=d), lambda c: gd.FourierStroke.circle(3.0)),
}
zoo = pytest.mark.parametrize("make, stroke", ZOO.values(), ids=ZOO)


@pytest.mark.long
@zoo
def test_laws(make, stroke):
    """There and back is nowhere; and units: translations scale with lengths c, energies with drag × c³."""

    @jax.jit
    def both(swimmer, stroke):
        nowhere = gd.strokes.join(stroke, gd.strokes.reverse(stroke))
        moved = swimmer.group.log(gd.holonomy(swimmer, stroke, steps=12))
        return moved, gd.holonomy(swimmer, nowhere, steps=12), gd.cost(swimmer, stroke, steps=12)

    def run(c, d):
        return both(make(jnp.asarray(c), jnp.asarray(d)), stroke(c))

    (moved, nowhere, energy), (far, _, much) = run(1.0, 1.0), run(10.0, 3.0)
    np.testing.assert_allclose(nowhere, np.eye(len(nowhere)), atol=1e-13)
    assert np.abs(moved[0]) > 1e-3
    scale = np.where(np.arange(moved.size) < make(1.0, 1.0).group.translations, 10.0, 1.0)
    np.testing.assert_allclose(far, moved * scale, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(much, 3000 * energy, rtol=1e-12)


def test_spheres_against_stokes():
    """Against Stokes's equations with no slip on every sphere, swelling included: a least-squares collocation of Lamb's
    multipoles up to order 14 on each sphere, which gives Stimson & Jeffery's and Maude's series to 1e-10. The errors
    left are of order (radius/distance)⁴: 6e-4, 1e-5 and 9e-4, 1.4e-3, sixteen times less at twice the distance."""
    at = jnp.array([10.0, 0.3 * VOLUME])
    exact = np.array([-0.081826843151, 0.000792048889])
    np.testing.assert_allclose(-gd.connection(gd.swimmers.PushMePullYou(finite_size=True), at)[0], exact, rtol=7e-4)
    np.testing.assert_allclose(
        -gd.connection(gd.swimmers.PushMePullYou(finite_size=True), at)[0, 1], exact[1], rtol=1.1e-5
    )
    assert np.all(np.abs(-gd.connection(gd.swimmers.PushMePullYou(), at)[0] / exact - 1) > 4e-3)
    # The shape metric too, from the tractions of that flow; its mixed entry is nothing but finite size.
    metric = gd.shape_metric(gd.swimmers.PushMePullYou(finite_size=True), jnp.array([8.0, 0.3 * VOLUME]))
    np.testing.assert_allclose(
        metric, [[11.0453739, -1.11004763e-4], [-1.11004763e-4, 0.757886982]], rtol=1.1e-3, atol=4e-6
    )
    near, far = np.array([0.340545709406, -0.436955733669]), np.array([0.335933205234, -0.417521285693])
    spheres, at = gd.swimmers.ThreeSphere((1.0, 0.8, 1.2), finite_size=True), jnp.array([6.0, 8.0])
    np.testing.assert_allclose(-gd.connection(spheres, at)[0], near, rtol=1.4e-3)
    np.testing.assert_allclose(-gd.connection(spheres, 2 * at)[0], far, rtol=9e-5)
    points = gd.swimmers.ThreeSphere((1.0, 0.8, 1.2))
    assert np.all(np.abs(-gd.connection(points, at)[0] / near - 1) > 1.5e-3)


def test_two_spheres_approach():
    """Equal spheres of fixed size that approach: times Stokes's drag, 1.973680902564 by the series of Maude, *Brit. J.
    Appl. Phys.* 12 (1961) 293, at l = 2 cosh(1), and as above at l = 6. Measured 8 % and 0.4 % less: (a/l)⁴ is left."""
    for distance, drag, error in ((6.0, 1.33015366395, 0.004), (2 * np.cosh(1.0), 1.973680902564, 0.08)):
        found = gd.shape_metric(gd.swimmers.PushMePullYou(finite_size=True), jnp.array([distance, VOLUME / 2]))[0, 0]
        np.testing.assert_allclose(found, 3 * np.pi * drag, rtol=error)


def test_three_spheres_displacement():
    """Golestanian & Ajdari (2008): D = ½ K ∮ (u₁ du₂ − u₂ du₁), K = 3 a₁a₂a₃/(Σa)² (1/l₁² + 1/l₂² − 1/(l₁+l₂)²),
    for small strokes and small spheres: measured 1.6e-3 at l = 200, 1.6e-5 at l = 20000."""
    (a1, a2, a3), (l1, l2) = radii, centre = (1.0, 0.8, 1.2), (2e4, 3e4)
    k = 3 * a1 * a2 * a3 / 9 * (1 / l1**2 + 1 / l2**2 - 1 / (l1 + l2) ** 2)
    moved = gd.holonomy(gd.swimmers.ThreeSphere(radii), gd.FourierStroke.circle(10.0, centre=centre), steps=8)[0, 1]
    np.testing.assert_allclose(moved, k * np.pi * 100, rtol=1e-4)


def test_three_links_are_purcell():
    lengths, r = (0.8, 1.2, 1.0), jnp.array([0.4, -0.9])
    for three, purcell in zip(
        jax.jit(reduction)(gd.swimmers.NLink(lengths), r), jax.jit(reduction)(gd.swimmers.Purcell(lengths), r)
    ):
        np.testing.assert_allclose(three, purcell, atol=1e-15)


class Arrow(gd.AbstractSlenderSwimmer):
    """The symmetric swimmer as five links that could also drift sideways and turn."""

    lengths: jax.Array
    drag_ratio: float = 2.0
    group: gd.groups.SE2 = gd.groups.SE2()

    def links(self, r):
        arm, end = self.lengths[1] / 2, self.lengths[0] / 2
        tail = [jnp.stack([-end - arm * jnp.cos(r[0]), s * arm * jnp.sin(r[0]), -s * r[0]]) for s in (1, -1)]
        head = [jnp.stack([end + arm * jnp.cos(r[1]), s * arm * jnp.sin(r[1]), s * r[1]]) for s in (1, -1)]
        return jnp.stack([jnp.zeros(3), *tail, *head])


def test_symmetric_purcell():
    """Force balance by hand, c_n = 2 c_t, arms 1, body b: x' = 2 (sin θ₂ θ₂' − sin θ₁ θ₁') / (b + 2 Σ (1 + sin²θ));
    and neither sideways motion nor turning, as five links: measured 1e-16."""
    r, b = jnp.array([0.7, 1.1]), 1.3
    form, metric = jax.jit(reduction)(gd.swimmers.SymmetricPurcell(1.0, b), r)
    closed = 2 * np.sin(r) * [-1, 1] / (b + 2 * np.sum(1 + np.sin(r) ** 2))
    np.testing.assert_allclose(-form[0], closed, rtol=1e-14)
    whole, same = jax.jit(reduction)(Arrow(jnp.array([b, 1.0, 1.0, 1.0, 1.0])), r)
    np.testing.assert_allclose(whole[:1], form, atol=1e-15)
    np.testing.assert_allclose(whole[1:], 0.0, atol=1e-15)
    np.testing.assert_allclose(same, metric, atol=1e-14)
    # The curvature is the rotation of this field; it changes sign where θ₁ + θ₂ = π, so that the stroke that swims
    # farthest goes round the triangle below (Avron & Raz), and on a line Stokes's theorem is exact for it.
    swimmer = gd.swimmers.SymmetricPurcell(1.0, b)

    def height(r):
        return 8 * np.prod(np.sin(r)) * np.sum(np.cos(r)) / (b + 2 * np.sum(1 + np.sin(r) ** 2)) ** 2

    np.testing.assert_allclose(gd.curvature(swimmer, r)[0, 0, 1], height(r), rtol=1e-13)
    far = gd.holonomy(swimmer, gd.strokes.PolygonStroke([(0.0, 0.0), (np.pi, 0.0), (0.0, np.pi)]), steps=60)[0, 1]
    inside = dblquad(lambda y, x: height(np.array([x, y])), 0, np.pi, 0, lambda x: np.pi - x, epsabs=1e-10)[0]
    np.testing.assert_allclose(far, -inside, rtol=1e-7)  # measured 5e-9
    ends = gd.swimmers.SymmetricPurcell(1.0, b).outline(r)
    np.testing.assert_allclose(jnp.linalg.norm(ends[:, 1] - ends[:, 0], axis=1), [b, 1, 1, 1, 1], rtol=1e-14)


def test_a_bent_body():
    """An arc of constant curvature: the drag that each velocity meets, by quadrature along the arc. Measured 1e-15."""
    arc = gd.swimmers.Serpenoid(2.0, modes=lambda s: jnp.ones(1), drag_ratio=1.7, drag=0.6)
    bend, (c_t, c_n) = 1.9, (0.6, 0.6 * 1.7)

    def density(s, xi):
        angle = bend * s / 2
        x, y = 2 / bend * np.sin(angle), 2 / bend * (1 - np.cos(angle))
        u, v = xi[0] - xi[2] * y, xi[1] + xi[2] * x
        along, across = np.cos(angle) * u + np.sin(angle) * v, np.cos(angle) * v - np.sin(angle) * u
        return c_t * along**2 + c_n * across**2

    for xi in (np.array([1.0, 0.0, 0.0]), np.array([0.3, -1.0, 0.7])):
        found = arc.dissipation(jnp.array([bend]), jnp.asarray(xi), jnp.zeros(1))
        np.testing.assert_allclose(found, quad(density, -1, 1, args=(xi,), epsabs=1e-13)[0], rtol=1e-13)
    straight = gd.shape_metric(gd.swimmers.Serpenoid(modes=lambda s: jnp.ones(1)), jnp.zeros(1))
    # The heading about the middle is r(s − ½), the height r((s − ½)²/2 − 1/24) about its mean: c_n L³ ∫ height².
    np.testing.assert_allclose(straight[0, 0], 2 / 720, rtol=1e-12)


def test_a_continuous_body_is_the_limit_of_many_links():
    """The shape metric of 20 links of equal length with the same headings: measured 7e-3 of it, a quarter with 40."""
    r, joints = jnp.array([2.0, 1.5]), np.arange(21) / 20
    middle = (joints[1:] + joints[:-1]) / 2

    def turns(r):
        heading = (r[0] * jnp.sin(2 * jnp.pi * middle) - r[1] * jnp.cos(2 * jnp.pi * middle)) / (2 * jnp.pi)
        return jnp.diff(heading)

    slope = jax.jacfwd(turns)(r)
    many = slope.T @ gd.shape_metric(gd.swimmers.NLink(np.full(20, 0.05)), turns(r)) @ slope
    smooth = gd.shape_metric(gd.swimmers.Serpenoid(), r)
    np.testing.assert_allclose(many, smooth, atol=9e-3 * np.max(smooth))


@pytest.mark.long
@pytest.mark.parametrize("pieces", (2, pytest.param(3, marks=pytest.mark.long)))
def test_arcs_are_the_limit_of_many_links(pieces):
    """The shape metric of equal links with the headings of the arcs at their middles: measured 1.5e-3 of it with 60
    links, and a quarter of that with 120. One piece is a `Serpenoid` of constant mode: 1e-13."""
    r = jnp.array([3.0, -2.0, 1.0])[:pieces]

    def differs(links):
        middle = (np.arange(links) + 0.5) / links
        bent = np.clip(pieces * middle[:, None] - np.arange(pieces), 0, 1) / pieces
        slope = np.diff(bent, axis=0)
        many = slope.T @ gd.shape_metric(gd.swimmers.NLink(np.full(links, 1 / links)), slope @ r) @ slope
        smooth = gd.shape_metric(gd.swimmers.ConstantCurvature(pieces=pieces), r)
        return np.max(np.abs(many - smooth)) / np.max(smooth)

    coarse, fine = differs(60), differs(120)
    assert coarse < 3e-3
    np.testing.assert_allclose(fine / coarse, 0.25, rtol=0.02)
    one, arc = (
        gd.swimmers.ConstantCurvature(2.0, 1.7, pieces=1),
        gd.swimmers.Serpenoid(2.0, 1.7, modes=lambda s: jnp.ones(1)),
    )
    np.testing.assert_allclose(gd.connection(one, [2.5]), gd.connection(arc, [2.5]), atol=1e-12)
    np.testing.assert_allclose(gd.shape_metric(one, [0.0]), gd.shape_metric(arc, [0.0]), rtol=1e-11)


@pytest.mark.parametrize("waves, nodes", [(1.0, 96), pytest.param(2.0, 160, marks=pytest.mark.long)])
def test_corners_run_along_a_body(waves, nodes):
    """The centreline by adaptive quadrature: measured 1e-7. Half a wave turns as much as half a sine; with the
    sharpness 1 the body is the serpenoid."""
    body, r = gd.swimmers.TriangleWave(2.0, waves=waves, nodes=nodes), np.array([3.0, -1.5])
    size, phase = np.hypot(*r), np.arctan2(r[1], r[0])
    whole = quad(lambda angle: np.cos(angle) ** 21, -np.pi / 2, np.pi / 2)[0]

    def bend(s):
        return 2 / whole * size * np.cos(2 * np.pi * waves * s - phase) ** 21

    def rates(s, pose):
        return [2 * np.cos(pose[2]), 2 * np.sin(pose[2]), bend(s)]

    for end in (0.0, 1.0):
        known = solve_ivp(rates, (0.5, end), np.zeros(3), rtol=1e-11, atol=1e-12).y[:, -1]
        found = body.centreline(jnp.asarray(r), np.array([end]))[0]
        np.testing.assert_allclose(found, known, atol=2e-6)
    smooth, round_ = (
        gd.swimmers.Serpenoid(waves=(waves,), nodes=32),
        gd.swimmers.TriangleWave(waves=waves, sharpness=1, nodes=32),
    )
    np.testing.assert_allclose(gd.connection(round_, r), gd.connection(smooth, r), atol=1e-9)
    with pytest.raises(ValueError, match="TriangleWave is singular at the shape"):
        gd.connection(body, [0.0, 0.0])


def test_waves_are_modes():
    r = jnp.array([2.0, 1.0, -1.0, 0.5])

    def modes(s):
        angles = 2 * jnp.pi * s * jnp.array([1.0, 1.0, 2.0, 2.0])
        return jnp.where(jnp.array([True, False, True, False]), jnp.cos(angles), jnp.sin(angles))

    named, written = gd.swimmers.Serpenoid(waves=(1.0, 2.0)), gd.swimmers.Serpenoid(modes=modes)
    np.testing.assert_allclose(gd.connection(named, r), gd.connection(written, r), rtol=1e-13)
    with pytest.raises(ValueError, match="Serpenoid: waves must be positive"):
        gd.swimmers.Serpenoid(waves=(1.0, 0.0))


@pytest.mark.long
def test_links_about_their_centre():
    """The frame of the middle link moved to the centre of mass, by `Reframed`: measured 1e-15."""
    lengths, r = jnp.array([1.0, 0.7, 1.2, 0.9]), jnp.array([0.4, -0.9, 0.6])
    plain, centred = gd.swimmers.NLink(lengths, 1.7), gd.swimmers.NLink(lengths, 1.7, centred=True)

    def frame(r):
        x, y, angle = lengths @ plain.links(r) / jnp.sum(lengths)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return jnp.array([[cos, -sin, x], [sin, cos, y], [0.0, 0.0, 1.0]])

    known = gd.connection(gd.bundles.Reframed(plain, frame), r)
    np.testing.assert_allclose(gd.connection(centred, r), known, atol=1e-13)
    np.testing.assert_allclose(gd.shape_metric(centred, r), gd.shape_metric(plain, r), rtol=1e-12)


class Waves(eqx.Module):
    """Modes with a number in them."""

    count: jax.Array

    def __call__(self, s):
        return jnp.stack([jnp.cos(self.count * s), jnp.sin(self.count * s)])


@pytest.mark.long
@pytest.mark.float32
def test_derivatives_with_respect_to_radii_drags_and_modes():
    """Against central differences, at step eps^(1/3): measured 2e-10 relative in double precision."""
    eps = float(jnp.finfo(jnp.zeros(()).dtype).eps)

    @jax.jit
    def value(x):
        spheres = gd.swimmers.ThreeSphere(x[:3], viscosity=x[3], finite_size=True)
        pair = gd.swimmers.PushMePullYou(8 * x[4], finite_size=True)
        snake = gd.swimmers.Serpenoid(x[5], drag_ratio=2 * x[6], modes=Waves(3 * x[7]), nodes=8)
        arrow = gd.swimmers.SymmetricPurcell(x[5], x[6], drag=x[7])
        chain = gd.swimmers.NLink(x[:4], drag_ratio=1 + x[4])
        at = jnp.array([7.0, 4.0, 0.5])
        bodies = [(spheres, at[:2]), (pair, at[:2]), (snake, at[1:]), (arrow, at[1:]), (chain, at / 5)]
        return sum(jnp.sum(a) + jnp.sum(g) / 9 for a, g in (reduction(body, r) for body, r in bodies))

    x, h = jnp.linspace(0.8, 1.2, 8), eps ** (1 / 3)
    differences = jnp.stack([value(x + h * e) - value(x - h * e) for e in jnp.eye(8)]) / (2 * h)
    slope = jax.jit(jax.grad(value))(x)
    np.testing.assert_allclose(slope, differences, atol=20 * eps ** (2 / 3) * np.max(np.abs(slope)))


REFUSED = {
    "no length": (lambda: gd.swimmers.NLink([1.0, 0.0, 1.0]), "NLink: lengths must be positive"),
    "one link": (lambda: gd.swimmers.NLink([1.0]), r"two numbers or more, got shape \(1,\)"),
    "angles": (
        lambda: gd.connection(gd.swimmers.NLink([1.0, 1.0, 1.0]), jnp.zeros(3)),
        r"3 links have 2 angles.*\(3,\)",
    ),
    "radius": (lambda: gd.swimmers.ThreeSphere((1.0, -1.0, 1.0)), "ThreeSphere: radii must be positive"),
    "radii": (lambda: gd.swimmers.ThreeSphere((1.0, 1.0)), r"radii must be an array of shape \[3\], got shape \(2,\)"),
    "arm": (lambda: gd.swimmers.SymmetricPurcell(arm=0.0), "SymmetricPurcell: arm must be positive"),
    "modes": (
        lambda: gd.connection(gd.swimmers.Serpenoid(), jnp.zeros(3)),
        r"modes gives \(2,\) numbers.*r has \(3,\)",
    ),
    "overlap": (
        lambda: gd.holonomy(gd.swimmers.ThreeSphere(), gd.FourierStroke.circle(3.0, centre=(4.0, 4.0))),
        r"holonomy: ThreeSphere is singular at the shape \[1.9\d+ 6.2\d+\], t = 0.36",
    ),
    "overlap at a shape": (
        lambda: gd.curvature(gd.swimmers.ThreeSphere(), jnp.array([1.5, 4.0])),
        r"curvature: ThreeSphere is singular at the shape \[1.5 4. \]",
    ),
    "no volume": (
        lambda: gd.cost(gd.swimmers.PushMePullYou(), gd.FourierStroke.circle(3.0, centre=(9.0, 2.0))),
        "cost: PushMePullYou is singular at the shape",
    ),
}


@pytest.mark.parametrize("swim, message", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(swim, message):
    with pytest.raises(ValueError, match=message):
        swim()
