"""How a computation can end: a motion, a search for a stroke, a family of strokes."""

import enum

import equinox as eqx

from geodyn._foundations.typing import Array, Bool, Int


class RESULTS(enum.IntEnum):
    """How a computation ended; the property `message` says what that means and what to do.

    The `result` of a trajectory, an optimal stroke and an optimal design is such a number, and so is the `end` of a
    family of strokes. Inside jit, vmap and grad, where nothing can be raised, it is how failures are told. Files keep
    these numbers and names.

    Example:
        >>> trajectory = gd.integrate(gd.ODE(lambda t, y: -y), [1.0], t1=1.0, steps=10)
        >>> result = gd.RESULTS(int(trajectory.result))
        >>> print(result.name, "-", result.message)
        successful - what was asked for was computed
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
    # Of searches for strokes and designs.
    too_many_iterations = 14
    stalled = 15
    cost_not_finite = 16
    too_few_harmonics = 17
    astray = 18
    # Of families of strokes.
    end_of_interval = 19
    farthest = 20
    at_bounds = 21
    enough_points = 22
    lost = 23
    # Of periodic motions.
    no_periodic_motion = 24
    # Of strokes of bodies that balance forces.
    has_corners = 25
    # Of plans.
    obstructed = 26
    # Of searches by a cost of one's own.
    largest = 27

    @property
    def message(self) -> str:
        """What the result means, and what to do: one sentence."""
        return (
            "what was asked for was computed",
            "the equations of the step did not converge: take more steps, or a method with fewer stages",
            "a value was not finite: the step was too long, take more steps; or the motion ran into a singular point "
            "of the chart, the metric or a force; or a distance was not found: gd.distance says when, and elements "
            "take nodes=…",
            "it was interrupted; what was computed until then is kept",
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
            "one that goes along, Hyperbolic(n, 'moving halfspace'), Sol('moving') or Sphere(n, 'stereographic pair')",
            "a step, or the energy, has no correct digit, so the motion is much faster than the steps: take more "
            "steps, or, where it passes by a singular point of its chart, a chart that is regular there",
            "q0 or v0 violates a constraint, or q0 is no configuration of the system, as a quaternion without unit "
            "length is none: start from q0, v0 = gd.project(system, q0, v0), or from what bodies.state(…) returns",
            "the limit of iterations was reached before the KKT residual fell below the tolerance",
            "no step along the search direction lowers the merit function",
            "the objective or a constraint is not finite",
            "a stroke was found, but too few harmonics= and steps= leave its own equations unsolved beyond a tolerance",
            "converged on the steps of the search, but the stroke leads elsewhere on twice as many",
            "the parameter reached an end of the interval",
            "no larger displacement is possible: dE/dD is infinite",
            "the strokes reached the bounds, of the shape or of its rates",
            "the number of points was reached",
            "Newton's method fails even for small steps: the strokes need more harmonics and steps, or the family ends",
            "no periodic motion was found, or one that has others beside it, as without a restoring force",
            "the least of strokes with so many harmonics, whose power is not constant: a stroke with corners is better",
            "the plan keeps clear of the obstacles at the ends of its steps, but not between them: give more steps= of "
            "the method, or larger obstacles",
            "the cost is the largest of all strokes beside it, and not the least: has the density the wrong sign?",
        )[self]


class AbstractOutcome(eqx.Module):
    """What a computation that may fail returns. An ensemble tells from it how each member ended."""

    result: eqx.AbstractVar[Int[Array, "..."]]

    @property
    def successful(self) -> Bool[Array, "..."]:
        """Whether what was asked for was computed; `gd.RESULTS(int(result)).message` says what was not."""
        return self.result == RESULTS.successful
