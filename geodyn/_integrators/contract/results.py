"""How an integration can end."""

import enum


class RESULTS(enum.IntEnum):
    """How an integration ended; the property `message` says what that means and what to do.

    `trajectory.result` is such a number. Inside jit, vmap and grad, where nothing can be raised, it is how failures are
    told.

    Example:
        >>> trajectory = gd.integrate(gd.ODE(lambda t, y: -y), [1.0], t1=1.0, steps=10)
        >>> result = gd.RESULTS(int(trajectory.result))
        >>> print(result.name, "-", result.message)
        successful - the integration reached its end
    """

    successful = 0
    not_converged = 1
    not_finite = 2
    interrupted = 3
    too_many_impacts = 4
    overlapping = 5
    pressed_at_rest = 6
    charts_disagree = 7
    friction_at_rest = 8
    impact_unsolved = 9
    contact_unresolved = 10
    digits_lost = 11
    under_resolved = 12
    inconsistent_start = 13

    @property
    def message(self) -> str:
        """What the result means, and what to do: one sentence."""
        return (
            "the integration reached its end",
            "the equations of the step did not converge: take more steps, or a method with fewer stages",
            "a value was not finite: the step was too long, take more steps; or the motion ran into a singular point "
            "of the chart, the metric or a force; or a distance was not found: gd.distance says when, and elements "
            "take nodes=…",
            "the integration was interrupted; what was computed until then is kept",
            "there are more impacts than max_impacts allows: give more; where they pile up, a restitution below 1 "
            "lets up to 8 contacts at once come to rest",
            "contacts are violated at the start: start from gaps ≥ 0",
            "a contact of restitution 1 is pressed at rest at the start: construct the System with resting=True",
            "the energy was not the same in the next chart: the metrics of the charts must agree, and every element "
            "must be a function of the points, as by gd.distance or space.embed, not of their coordinates",
            "a contact with friction came to rest, or slides: Gauss and Radau follow its impacts only, take "
            "method=gd.methods.Moreau()",
            "no impulses in the friction cones were found for an impact of several contacts: separate them, or lower "
            "the friction",
            "a contact closed but was not struck: the gradient of a gap must be finite and not vanish where it closes; "
            "where many contacts come near at once, give more max_impacts",
            "fewer than four digits of the positions are left, so far is the motion from the centre of its chart: take "
            "one that goes along, Hyperbolic(n, 'moving halfspace') or Sphere(n, 'stereographic pair')",
            "a step, or the energy, has no correct digit, so the motion is much faster than the steps: take more "
            "steps, or, where it passes by a singular point of its chart, a chart that is regular there",
            "q0 or v0 violates a constraint, or q0 is no configuration of the system, as a quaternion without unit "
            "length is none: start from q0, v0 = gd.project(system, q0, v0), or from what bodies.state(…) returns",
        )[self]
