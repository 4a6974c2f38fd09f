"""Faults that a person might make, planted one at a time; every one must make a test fail.

    python tests/faults.py                  # all of them
    python tests/faults.py saltation plot/  # those with one of these words in the name or file

The package and its tests are copied to a temporary folder, where one fault after the other is planted and the tests
that should notice are run. Prints a line for each: killed, by which test, or SURVIVED; the exit status is 1 if any
survived, or could not be planted. Compiled programs are kept in .pytest_cache/faults between runs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Fault(NamedTuple):
    """The text `old` of a file of the package, which stands in it once, becomes `new`; these tests should notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


FAULTS = [
    Fault(
        "stage times stand still when h varies",
        "integrators/slopes.py",
        "jnp.sum((k + c) * t_bar, 0)",
        "jnp.sum(c * t_bar, 0)",
        "test_gradients.py::test_the_end_moves_with_the_final_time_as_it_moves_in_time",
    ),
    Fault(
        "the same within a step",
        "integrators/collocation.py",
        "return self.t + self.h * self.tableau.c",
        "return self.t + jax.lax.stop_gradient(self.h) * self.tableau.c",
        "test_gradients.py::test_the_end_moves_with_the_final_time_as_it_moves_in_time",
    ),
    Fault(
        "no compensated summation",
        "integrators/loop.py",
        "summed(tableau.b, u) + lost_q",
        "summed(tableau.b, u) + 0 * lost_q",
        "test_integrate.py::test_rounding_does_not_add_up",
    ),
    Fault(
        "a step starts from the last stages",
        "integrators/loop.py",
        "mixed(ahead, state.history)\n",
        "state.history[:, s:]\n",
        "test_integrate.py::test_a_step_starts_from_the_last_two",
    ),
    Fault(
        "a loose tolerance",
        "integrators/loop.py",
        "(increment <= 2 * eps * scale)",
        "(increment <= 2 * jnp.sqrt(eps) * scale)",
        "test_integrate.py::test_states_of_the_exact_discrete_solution",
    ),
    Fault(
        "any stagnation is convergence",
        "integrators/loop.py",
        "stagnant = slow & (increment <= 2**14 * eps * scale)",
        "stagnant = slow",
        "test_integrate.py::test_stability_function",
    ),
    Fault(
        "statuses of a failed step exchanged",
        "integrators/loop.py",
        "jnp.where(finite, RESULTS.not_converged, RESULTS.not_finite)",
        "jnp.where(finite, RESULTS.not_finite, RESULTS.not_converged)",
        "test_trajectory.py::test_failures_are_told_apart",
    ),
    Fault(
        "one of two conjugate eigenvalues",
        "integrators/collocation.py",
        "1e-14, 2.0, 1.0)",
        "1e-14, 1.0, 1.0)",
        "test_integrate.py::test_one_jacobian_serves_all_stages",
    ),
    Fault(
        "a moving constraint stands still",
        "integrators/system.py",
        "jax.jvp(system.constraint, (t, q), (jnp.ones_like(t), v))[1]",
        "jax.jvp(system.constraint, (t, q), (jnp.zeros_like(t), v))[1]",
        "test_mechanics.py::test_car_axis_with_a_constraint_that_depends_on_time",
    ),
    Fault(
        "reactions forget how the constraint bends",
        "integrators/constraints.py",
        "(t, q, v), (one, v, vdot))[1] - wanted",
        "(t, q, v), (one, 0 * v, vdot))[1] - wanted",
        "test_constraint_forces.py::test_multipliers_of_a_state",
    ),
    Fault(
        "redundant constraints go unnoticed",
        "integrators/constraints.py",
        "if not np.all(diagonal > 0):",
        "if np.all(diagonal > 0):\n        return []\n    if not np.all(diagonal > 0):",
        "test_linkage.py::test_wrong_input",
    ),
    Fault(
        "a driven motion is conservative",
        "integrators/integrate.py",
        "return of_time and is_constant(",
        "return is_constant(",
        "test_integrate.py::test_what_is_driven_or_damped_may_gain_or_lose_energy",
    ),
    Fault(
        "a damped motion is conservative",
        "integrators/integrate.py",
        "return of_time and is_constant(lambda v: system.rayleigh_at(t, q, v), v)",
        "return of_time",
        "test_integrate.py::test_what_is_driven_or_damped_may_gain_or_lose_energy",
    ),
    Fault(
        "lost digits hide behind another failure",
        "integrators/integrate.py",
        "lost & (state.result <= RESULTS.not_finite)",
        "lost & (state.result == RESULTS.successful)",
        "test_charts.py::test_a_chart_out_of_digits_is_a_status",
    ),
    Fault(
        "evaluate takes the time of the start",
        "integrators/trajectory.py",
        "path(system, trajectory.t[i], h, state",
        "path(system, trajectory.t[0], h, state",
        "test_trajectory.py::test_between_the_steps_of_a_driven_motion",
    ),
    Fault(
        "a cubic that leaves with half the velocity",
        "integrators/trajectory.py",
        "left, arrived = length * trajectory.v[i] - moved",
        "left, arrived = length * trajectory.v[i] / 2 - moved",
        "test_steppers.py::test_a_driven_motion_has_the_times_of_its_steps",
    ),
    Fault(
        "steppers take the time of the start",
        "integrators/stepper.py",
        "n, t = state.q.shape[0], t0 + h * state.step",
        "n, t = state.q.shape[0], t0 + 0 * h * state.step",
        "test_steppers.py::test_a_driven_motion_has_the_times_of_its_steps",
    ),
    Fault(
        "Newmark's acceleration at the end of the step is of its start",
        "integrators/baselines.py",
        "_acceleration(args[0], args[1] + args[2], *end(last, args))",
        "_acceleration(args[0], args[1], *end(last, args))",
        "test_steppers.py::test_a_driven_motion_has_the_times_of_its_steps",
    ),
    Fault(
        "Verlet's last kick at the time of the first",
        "integrators/baselines.py",
        "p = middle + half * _force(system, t + h, end, middle)",
        "p = middle + half * _force(system, t, end, middle)",
        "test_steppers.py::test_a_driven_motion_has_the_times_of_its_steps",
    ),
    Fault(
        "Newmark's weights exchanged",
        "integrators/baselines.py",
        "((0.5 - beta) * a + beta * last)",
        "(beta * a + (0.5 - beta) * last)",
        "test_steppers.py::test_a_driven_motion_has_the_times_of_its_steps",
    ),
    Fault(
        "the velocity of a switch has no derivative",
        "integrators/charts.py",
        "(q,), (system.velocity(t, q, p),))",
        "(q,), (jax.lax.stop_gradient(system.velocity(t, q, p)),))",
        "test_charts.py::test_derivatives_go_through_a_change_of_charts",
    ),
    Fault(
        "charts that disagree go on",
        "integrators/charts.py",
        "jnp.where(state.alive & ~agree, RESULTS.charts_disagree, state.result)",
        "state.result",
        "test_charts.py::test_what_depends_on_the_chart_is_refused",
    ),
    Fault(
        "another program is the same run",
        "integrators/inputs.py",
        ".encode() + constants)",
        ".encode())",
        "test_checkpoint.py::test_a_table_in_a_function_belongs_to_the_run",
    ),
    Fault(
        "rows saved by their place in a part",
        "integrators/parts.py",
        "first = -(before.done + 1) % plan.kept",
        "first = plan.kept - 1",
        "test_checkpoint.py::test_goes_on_bit_for_bit",
    ),
    Fault(
        "the first checkpoint file is skipped",
        "integrators/checkpoint.py",
        "wanted = _name(pieces[-1].done if pieces else 0)",
        "wanted = path.name",
        "test_checkpoint.py::test_broken_and_foreign_files",
    ),
    Fault(
        "a file is checked by its velocity alone",
        "integrators/files.py",
        'if "recorded_energy" in arrays:',
        "if False:",
        "test_trajectory.py::test_file_gives_its_system_back_to_no_other",
    ),
    Fault(
        "gaps weigh alike in the moment of impact",
        "integrators/saltation.py",
        "weight = jnp.abs(struck.impulse) / jnp.where(self.hit, jnp.sum(jnp.abs(struck.impulse)), 1)",
        "weight = struck.pushed / jnp.maximum(jnp.sum(struck.pushed), 1)",
        "test_collisions.py::test_the_action_is_stationary_through_impacts_at_one_time",
    ),
    Fault(
        "what did not push weighs too",
        "integrators/saltation.py",
        "weight = jnp.abs(struck.impulse) / jnp.where(self.hit, jnp.sum(jnp.abs(struck.impulse)), 1)",
        "weight = jnp.ones_like(struck.impulse) / struck.impulse.size",
        "test_collisions.py::test_the_action_is_stationary_through_impacts_at_one_time",
    ),
    Fault(
        "a step after an impact is as long as it was",
        "integrators/saltation.py",
        "dlength = jnp.where(landed, dgrid - dt, 0)",
        "dlength = jnp.where(landed, dgrid, 0)",
        "test_collisions.py::test_saltation_matrix",
    ),
    Fault(
        "a gap that dips between two ends is not seen",
        "integrators/detection.py",
        "dips = ~below & (height < -noise) & ~small",
        "dips = below & (height < -noise) & ~small",
        "test_collisions.py::test_no_tunnelling",
    ),
    Fault(
        "an impact breaks rods",
        "integrators/impulse.py",
        "matrix - gram[:k, k:] @ coupling, push",
        "matrix, push",
        "test_collisions.py::test_dumbbell_against_a_wall",
    ),
    Fault(
        "soft contacts in a row are struck one by one",
        "integrators/impulse.py",
        "| near & elastic[:, None] & elastic[None, :]",
        "| near",
        "test_collisions.py::test_several_contacts_at_once",
    ),
    Fault(
        "a wall that moves stands still in the tangent",
        "integrators/impulse.py",
        "return after, (1 + e) * drift + normal",
        "return after, normal",
        "test_collisions.py::test_moving_wall",
    ),
    Fault(
        "neighbours are never renewed",
        "integrators/substep.py",
        "stale = active & (old.room < rate * left)",
        "stale = active & (old.room < 0)",
        "test_collisions.py::test_neighbours_change_nothing",
    ),
    Fault(
        "points close in at half their speed",
        "mechanics/body.py",
        "return 2 * jnp.sqrt(jnp.max(",
        "return jnp.sqrt(jnp.max(",
        "test_collisions.py::test_neighbours_see_what_comes_from_rest",
    ),
    Fault(
        "where a substep has led is not asked",
        "integrators/substep.py",
        "made = (room >= 0) | ~after.alive",
        "made = (room >= -jnp.inf) | ~after.alive",
        "test_collisions.py::test_neighbours_see_what_comes_from_rest",
    ),
    Fault(
        "what touches and leaves is held",
        "integrators/resting.py",
        "still = (jnp.abs(gap) <= noise) & (jnp.abs(rate) * h <= noise)",
        "still = jnp.abs(gap) <= noise",
        "test_resting_contacts.py::test_contacts_that_are_held",
    ),
    Fault(
        "resting contacts push without the Baumgarte term",
        "integrators/resting.py",
        "wanted = free + 2 * rate / self.settling + gap / self.settling**2",
        "wanted = free",
        "test_resting_contacts.py::test_contacts_that_are_held",
    ),
    Fault(
        "too many contacts at rest are none",
        "integrators/substep.py",
        "jnp.where(state.alive & crowded, RESULTS.too_many_impacts, state.result)",
        "state.result",
        "test_resting_contacts.py::test_contacts_that_are_held",
    ),
    Fault(
        "Moreau's forces at the end of the step",
        "integrators/moreau.py",
        "middle, none = t + h / 2,",
        "middle, none = t + h,",
        "test_steppers.py::test_a_driven_motion_has_the_times_of_its_steps",
    ),
    Fault(
        "Moreau's friction forgets that contacts turn",
        "integrators/moreau.py",
        "turn, bend = touch.turned(touch.rates_at, struck)",
        "turn, bend = 0 * touch.turned(touch.rates_at, struck)",
        "test_friction.py::test_sliding_in_a_bowl_is_of_order_two",
    ),
    Fault(
        "restitution may create energy",
        "integrators/coulomb.py",
        "return work > 64 * jnp.finfo(z.dtype).eps * size",
        "return work > jnp.inf",
        "test_friction.py::test_no_energy_from_friction",
    ),
    Fault(
        "oblique planes have the area of rectangles",
        "geometry/manifold.py",
        " - (u @ g @ v) ** 2",
        "",
        "test_manifold.py::test_sectional_curvature_is_that_of_the_plane",
    ),
    Fault(
        "a root without a guard at zero",
        "geometry/manifold.py",
        "jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, square)))",
        "jnp.sqrt(square)",
        "test_spaces.py::test_coincident_points_are_regular",
    ),
    Fault(
        "asymmetry of the metric is let through",
        "geometry/manifold.py",
        "return not np.max(np.abs(scaled - scaled.T)) > tolerance",
        "return True",
        "test_manifold.py::test_bad_metrics_are_refused_at_a_point",
    ),
    Fault(
        "the nearest image in coordinates",
        "geometry/geodesic.py",
        "[(0, 1) if p else (0,)",
        "[(0,) if p else (0,)",
        "test_periodic.py::test_the_nearest_image_of_an_oblique_torus",
    ),
    Fault(
        "geodesics too long for their steps are numbers",
        "geometry/geodesic.py",
        "(jnp.abs(change) <= jnp.finfo(x.dtype).eps ** 0.5 * scale)",
        "(jnp.abs(change) <= jnp.inf * scale)",
        "test_geodesic.py::test_geodesics_too_long_for_their_steps",
    ),
    Fault(
        "a Jacobi field with the other sign of its turning",
        "geometry/geodesic.py",
        "turning = dj - jnp.einsum",
        "turning = dj + jnp.einsum",
        "test_geodesic.py::test_a_jacobi_field_begins_as_it_is_told",
    ),
    Fault(
        "transport by nodes of the step's middle",
        "geometry/geodesic.py",
        "M = jax.vmap(generator)(t + c * h)",
        "M = jax.vmap(generator)(t + 0 * c + h / 2)",
        "test_geodesic.py::test_transport_around_a_triangle",
    ),
    Fault(
        "the second point is not checked",
        "geometry/geodesic.py",
        "jax.grad(distance, (1, 2))(space, x, y), (x, y))",
        "jax.grad(distance, (1,))(space, x, y), (x, y))",
        "test_geodesic.py::test_check_manifold",
    ),
    Fault(
        "distances without symmetry pass",
        "geometry/geodesic.py",
        "if not abs(there - back) <= enough * there:",
        "if not abs(there - back) <= there:",
        "test_geodesic.py::test_check_manifold",
    ),
    Fault(
        "far is decided too early",
        "geometry/geodesic.py",
        "jnp.where(segment > 2 * near, segment, jnp.nan)",
        "jnp.where(segment > near, segment, jnp.nan)",
        "test_geodesic.py::test_what_is_far_is_decided_late",
    ),
    Fault(
        "distances do not change with the metric",
        "geometry/between.py",
        "rate = rate + eqx.filter_jvp(lambda metric: _action(metric, x, u), (metric,), (dmetric,))[1]",
        "rate = rate + 0",
        "test_geodesic.py::test_derivatives_in_the_metric",
    ),
    Fault(
        "a guess without a bump",
        "geometry/between.py",
        "BUMP = 1e-3",
        "BUMP = 0.0",
        "test_geodesic.py::test_beyond_a_conjugate_point",
    ),
    Fault(
        "from chart to chart without the antipode",
        "geometry/travelling.py",
        "stereographic_havs(x, jnp.where(same, y, -y))",
        "stereographic_havs(x, y)",
        "test_charts.py::test_the_pair_is_one_space",
    ),
    Fault(
        "a product's domain is that of either factor",
        "geometry/spaces.py",
        "a.holds(xa) & b.holds(xb)",
        "a.holds(xa) | b.holds(xb)",
        "test_manifold.py::test_a_point_of_a_product_is_in_both_charts",
    ),
    Fault(
        "the far branch of a closed distance",
        "geometry/spaces.py",
        "(root - product - 2) / 4)",
        "(root - product - 2) / 2)",
        "test_spaces.py::test_inhomogeneous_distance_across_the_origin",
    ),
    Fault(
        "a conformal space forgets its period",
        "geometry/spaces.py",
        "self.period = period_of(space) if period is None else",
        "self.period = None if period is None else",
        "test_periodic.py::test_the_nearest_image",
    ),
    Fault(
        "a quaternion of either sign",
        "geometry/groups/rigid.py",
        "return jnp.where(q[0] < 0, -q, q)",
        "return q",
        "test_groups.py::test_exp_is_the_matrix_exponential_and_log_its_inverse",
    ),
    Fault(
        "the logarithm of a screw with a wrong coefficient",
        "geometry/groups/rigid.py",
        "(c3 - 2 * c4) / (2 * c2)",
        "(c3 - c4) / (2 * c2)",
        "test_groups.py::test_exp_is_the_matrix_exponential_and_log_its_inverse",
    ),
    Fault(
        "the translations of a product end too early",
        "geometry/groups/product.py",
        "(mixed or [len(factors)])[0] + 1]",
        "(mixed or [len(factors)])[0]]",
        "test_groups.py::test_a_product_acts_on_its_factors_apart",
    ),
    Fault(
        "the bending of the space around is left out",
        "geometry/level_set.py",
        'hessian = hessian - jnp.einsum("ck,kij->cij"',
        'hessian = hessian - 0 * jnp.einsum("ck,kij->cij"',
        "test_linkage.py::test_known_surfaces",
    ),
    Fault(
        "a singular set has curvature",
        "geometry/level_set.py",
        "return jnp.where(regular, inverted, jnp.nan) /",
        "return inverted /",
        "test_linkage.py::test_singular_is_nan",
    ),
    Fault(
        "gravity pulls up",
        "mechanics/fields.py",
        "return self.strength.astype(x.dtype) * jnp.dot(",
        "return -self.strength.astype(x.dtype) * jnp.dot(",
        "test_resting_contacts.py::test_bouncing_ball_comes_to_rest",
    ),
    Fault(
        "a load per unit mass is a load",
        "mechanics/fields.py",
        "[:, None] if self.per_mass else 1) * force * x",
        "[:, None] ** 0 if self.per_mass else 1) * force * x",
        "test_bodies.py::test_elements_see_the_masses_of_their_system",
    ),
    Fault(
        "a load has the time of the start",
        "mechanics/fields.py",
        "self.force(t) if callable",
        "self.force(0 * t) if callable",
        "test_gradients.py::test_the_end_moves_with_the_final_time_as_it_moves_in_time",
    ),
    Fault(
        "drag twice as strong",
        "mechanics/fields.py",
        'return 0.5 * jnp.dot(one_per_point("coefficient"',
        'return jnp.dot(one_per_point("coefficient"',
        "test_mechanics.py::test_drag_loses_what_the_rayleigh_function_says",
    ),
    Fault(
        "flat tetrahedra in curved space",
        "mechanics/simplices.py",
        "- curvature * jnp.outer(half[:3], half[:3])",
        "- 0 * jnp.outer(half[:3], half[:3])",
        "test_bodies.py::test_volume",
    ),
    Fault(
        "slip in the units of length where the gap has others",
        "mechanics/friction.py",
        "return size * (w - mirror",
        "return (w - mirror",
        "test_friction.py::test_a_gap_in_other_units",
    ),
    Fault(
        "the second sphere's spin turns the other way",
        "mechanics/balls.py",
        "+ radii[1][:, None] * spins[j], normal)",
        "- radii[1][:, None] * spins[j], normal)",
        "test_friction.py::test_spinning_balls_collide",
    ),
    Fault(
        "contacts of several elements have one's numbers",
        "mechanics/contact.py",
        "jnp.clip(which - start, 0, size - 1)",
        "jnp.clip(which, 0, size - 1)",
        "test_collisions.py::test_neighbours_change_nothing",
    ),
    Fault(
        "spheres larger than their product fit",
        "mechanics/contact.py",
        "return float(np.hypot(diameter(space.a), diameter(space.b)))",
        "return np.inf",
        "test_collisions.py::test_wrong_input_is_named",
    ),
    Fault(
        "angular momentum of the spin alone",
        "mechanics/rigid.py",
        "momenta = spins + jnp.cross(poses.position, self.masses[:, None] * rates.position)",
        "momenta = spins",
        "test_rigid.py::test_two_free_bodies_and_what_pushes_them",
    ),
    Fault(
        "momentum along a quaternion stays",
        "mechanics/rigid.py",
        "p = p - jnp.sum(p * unit, axis=1, keepdims=True) * unit",
        "p = p - 0 * unit",
        "test_rigid.py::test_what_is_idle_is_taken_away",
    ),
    Fault(
        "momenta of quaternions of another length",
        "mechanics/rigid.py",
        "unit, p = quaternions / length, p * length",
        "unit = quaternions / length",
        "test_rigid.py::test_what_is_idle_is_taken_away",
    ),
    Fault(
        "what is welded may turn",
        "mechanics/joints.py",
        "return jnp.concatenate([shift, _sine(turn)])",
        "return jnp.concatenate([shift, 0 * _sine(turn)])",
        "test_rigid.py::test_what_joints_leave_free",
    ),
    Fault(
        "joints are made in the opposite pose",
        "mechanics/joints.py",
        "S @ self.rotation.T.astype",
        "S @ self.rotation.astype",
        "test_rigid.py::test_what_joints_leave_free",
    ),
    Fault(
        "rods twice as heavy as their masses",
        "mechanics/linkage.py",
        "(1 + np.eye(len(self.free))) / 6",
        "(1 + np.eye(len(self.free))) / 3",
        "test_linkage.py::test_a_linkage_from_a_drawing",
    ),
    Fault(
        "springs that yield give half of their force",
        "mechanics/increment.py",
        "most * (2 * size - most)) / (2 * k))",
        "most * size) / (2 * k))",
        "test_dissipation.py::test_plastic_impact",
    ),
    Fault(
        "friction gives what it takes",
        "mechanics/dissipation.py",
        "- h * jnp.sum(forces[1:] * slips",
        "+ h * jnp.sum(forces[1:] * slips",
        "test_dissipation.py::test_oscillator_with_friction",
    ),
    Fault(
        "plastic flow takes half of its work",
        "mechanics/dissipation.py",
        "jnp.sum(most[1:] * jnp.abs(flow), axis=1)",
        "jnp.sum(most[1:] * jnp.abs(flow), axis=1) / 2",
        "test_dissipation.py::test_plastic_impact",
    ),
    Fault(
        "a basis that moves stands still",
        "mechanics/quasi_velocities.py",
        "jax.jvp(self.directions, (t, q), (jnp.ones_like(t), v))",
        "jax.jvp(self.directions, (t, q), (jnp.zeros_like(t), v))",
        "test_nonholonomic.py::test_a_basis_may_change_with_time",
    ),
    Fault(
        "a car's front axle turns once",
        "mechanics/nonholonomic.py",
        "+ 2 * v[2] * v[4])",
        "+ v[2] * v[4])",
        "test_nonholonomic.py::test_energy_of_a_car",
    ),
    Fault(
        "symmetry without what it does to velocities",
        "mechanics/hamiltonian.py",
        "return jnp.vdot(force, Y) + jnp.vdot(momentum(system, q, v, t), rate)",
        "return jnp.vdot(force, Y)",
        "test_hamiltonian.py::test_noether",
    ),
    Fault(
        "the action of a driven path at the time of its start",
        "mechanics/action.py",
        "times, weights = t + h * jnp.asarray(tableau.c, nodes.dtype)",
        "times, weights = t + 0 * jnp.asarray(tableau.c, nodes.dtype)",
        "test_least_action.py::test_action_of_a_driven_path",
    ),
    Fault(
        "damping at the time before the step",
        "mechanics/increment.py",
        "(self.t + self.theta * self.h, self.q, u)",
        "(self.t, self.q, u)",
        "test_dissipation.py::test_damping_that_grows_with_time",
    ),
    Fault(
        "dry friction in coordinates that are not orthogonal",
        "mechanics/yielding.py",
        "jnp.linalg.cholesky(space.metric(x)).T @ v",
        "jnp.linalg.cholesky(space.metric(x)) @ v",
        "test_dissipation.py::test_friction_in_oblique_coordinates",
    ),
    Fault(
        "Baumgarte's damping is weak",
        "mechanics/constraint_forces.py",
        "jnp.full(residual.size, 2.0, q.dtype)",
        "jnp.full(residual.size, 0.2, q.dtype)",
        "test_constraint_forces.py::test_what_is_off_comes_back_as_baumgarte_says",
    ),
    Fault(
        "a projection at time zero",
        "mechanics/projection.py",
        "residual = system.constraint(t, q)\n        normal",
        "residual = system.constraint(0 * t, q)\n        normal",
        "test_constraint_forces.py::test_projection_at_a_time",
    ),
    Fault(
        "brackets with the other sign in a curvature",
        "locomotion/connection.py",
        "jnp.swapaxes(slope, 1, 2) - slope - brackets",
        "jnp.swapaxes(slope, 1, 2) - slope + brackets",
        "test_connection.py::test_small_loops_have_the_holonomy_of_the_curvature",
    ),
    Fault(
        "steps composed from the wrong side",
        "locomotion/holonomy.py",
        "(group.compose(g, step),) * 2",
        "(group.compose(step, g),) * 2",
        "test_holonomy.py::test_path_ends_at_the_holonomy_and_composes",
    ),
    Fault(
        "Magnus with the other sign of its first bracket",
        "locomotion/holonomy.py",
        "c1 = -group.bracket(a1, a2)",
        "c1 = group.bracket(a1, a2)",
        "test_holonomy.py::test_order_six_on_rotations",
    ),
    Fault(
        "arms resist no turning",
        "locomotion/swimmers/links.py",
        "c_n * across**2 + c_r * rdot**2)",
        "c_n * across**2)",
        "test_swimmers.py::test_symmetric_purcell",
    ),
    Fault(
        "spheres that overlap swim",
        "locomotion/swimmers/spheres.py",
        "jnp.all(x[1:] - x[:-1] > radii[1:] + radii[:-1])",
        "jnp.all(x[1:] > x[:-1])",
        "test_swimmers.py::test_what_cannot_be_is_refused",
    ),
    Fault(
        "the pair that swells costs nothing",
        "locomotion/swimmers/spheres.py",
        "4 / 3 * jnp.sum(rdot[1] ** 2 / volumes)",
        "4 / 3 * rdot[1] ** 2 / volumes[0]",
        "test_connection.py::test_pmpy_formulas",
    ),
    Fault(
        "a later start forgets where the stroke begins anew",
        "locomotion/retiming.py",
        "times = (jnp.append(breaks(self.stroke), 0.0) - self.start) / self.rate",
        "times = (breaks(self.stroke) - self.start) / self.rate",
        "test_stroke_zoo.py::test_corners_cost_no_accuracy",
    ),
    Fault(
        "strokes joined have no corners of their own",
        "locomotion/retiming.py",
        "own = [(i + jnp.append(breaks(stroke), 0.0)) /",
        "own = [(i + jnp.zeros(1)) /",
        "test_stroke_zoo.py::test_corners_cost_no_accuracy",
    ),
    Fault(
        "the torque of the shape alone",
        "locomotion/costs.py",
        "return jnp.sum((reduction(swimmer, r)[1] @ rdot) ** 2)",
        "return jnp.sum(reduction(swimmer, r)[1] @ rdot * rdot)",
        "test_holonomy.py::test_the_torque_is_the_size_of_the_forces",
    ),
    Fault(
        "a stroke may end elsewhere",
        "locomotion/stroke.py",
        "if not jnp.max(jnp.abs(r[-1] - r[0])) <= ",
        "if not jnp.max(jnp.abs(r[-1] - r[-1])) <= ",
        "test_stroke_zoo.py::test_what_does_not_fit_is_refused",
    ),
    Fault(
        "complementarity is no part of the certificate",
        "control/minimise.py",
        "residual = jnp.maximum(feasible, _largest(s * z))",
        "residual = feasible",
        "test_strokes.py::test_where_only_a_bound_holds",
    ),
    Fault(
        "Newton's method goes up where it is concave",
        "control/minimise.py",
        "directions.divided(gradient + hessian @ normal, jnp.abs(directions.values))",
        "directions.divided(gradient + hessian @ normal, directions.values)",
        "test_strokes.py::test_minimise",
    ),
    Fault(
        "the multiplier in the units of the search",
        "control/problem.py",
        '"multiplier": scale * multipliers',
        '"multiplier": multipliers',
        "test_strokes.py::test_the_multiplier_is_the_slope_of_the_energy",
    ),
    Fault(
        "the charge moves the wrong way",
        "control/wong.py",
        "charge @ self.swimmer.group.bracket(xi, e)",
        "charge @ self.swimmer.group.bracket(e, xi)",
        "test_wong.py::test_what_is_kept",
    ),
    Fault(
        "a certificate on the steps of the search",
        "control/problem.py",
        "swimmer, stroke, steps = problem.swimmer, problem.stroke(x), 2 * problem.steps",
        "swimmer, stroke, steps = problem.swimmer, problem.stroke(x), problem.steps",
        "test_strokes.py::test_what_falls_between_the_steps_is_seen",
    ),
    Fault(
        "the force of a field with the other sign",
        "control/wong.py",
        "slope @ rdot - rdot @ slope / 2, charge @ (field @ rdot)",
        "slope @ rdot - rdot @ slope / 2, charge @ (rdot @ field)",
        "test_strokes.py::test_purcell",
    ),
    Fault(
        "the force of a metric twice as strong",
        "control/wong.py",
        "slope @ rdot - rdot @ slope / 2, charge",
        "slope @ rdot - rdot @ slope, charge",
        "test_strokes.py::test_purcell",
    ),
    Fault(
        "strokes leave their bounds as the problem changes",
        "control/minimise.py",
        "curved = hessian + dh.T @",
        "curved = hessian + 0 * dh.T @",
        "test_stroke_gradients.py::test_where_bounds_are_felt",
    ),
    Fault(
        "a family goes on beyond its bounds",
        "control/families.py",
        "if bounded and _room(",
        "if not bounded and _room(",
        "test_families.py::test_a_family_ends_at_its_bounds",
    ),
    Fault(
        "a family ends at its last parameter alone",
        "control/families.py",
        "edge = min(edges, key=lambda e, at=parameter: abs(e - at))",
        "edge = edges[1]",
        "test_families.py::test_fold",
    ),
    Fault(
        "a family has no largest displacement",
        "control/families.py",
        "if _steepness(there) > 1e3:",
        "if _steepness(there) > jnp.inf:",
        "test_families.py::test_closed_form_up_to_the_largest_displacement",
    ),
    Fault(
        "designs of any drag are compared by speed alone",
        "control/design.py",
        "else drag * size**2",
        "else size**2",
        "test_design.py::test_purcell",
    ),
    Fault(
        "twice the efficiency",
        "control/strokes.py",
        "return drag * jnp.sum(moves**2) / cost(",
        "return 2 * drag * jnp.sum(moves**2) / cost(",
        "test_design.py::test_best_efficiency_closed_form",
    ),
    Fault(
        "half the area that ζ sweeps",
        "control/variation.py",
        "* zeta[:, None], axis=2)) / 2",
        "* zeta[:, None], axis=2)) / 4",
        "test_variation.py::test_variations_are_the_derivatives",
    ),
    Fault(
        "the sign of a height function",
        "plot/strokes.py",
        "curvature_form(swimmer, r)[component, i, j]",
        "curvature_form(swimmer, r)[component, j, i]",
        "test_plot_swimmers.py::test_curvature_of_a_pair",
    ),
    Fault(
        "arrows backwards",
        "plot/strokes.py",
        "row = lambda r: -connection_form",
        "row = lambda r: connection_form",
        "test_plot_swimmers.py::test_connection_and_metric",
    ),
    Fault(
        "ellipses of the inverse of Cholesky's factor transposed",
        "plot/strokes.py",
        "np.linalg.solve(np.swapaxes(np.linalg.cholesky(metrics), 1, 2), circle[None])",
        "np.linalg.solve(np.linalg.cholesky(metrics), circle[None])",
        "test_plot_swimmers.py::test_connection_and_metric",
    ),
    Fault(
        "a stroke run through backwards",
        "plot/strokes.py",
        "tuple(r[i + 2]),\n            tuple(r[i]),",
        "tuple(r[i]),\n            tuple(r[i + 2]),",
        "test_plot_swimmers.py::test_strokes",
    ),
    Fault(
        "tangents of a family without the scale of the axes",
        "plot/strokes.py",
        "np.arctan(multiplier * wide / high)",
        "np.arctan(multiplier)",
        "test_plot_swimmers.py::test_family",
    ),
    Fault(
        "volumes as the squares of masses",
        "plot/scene.py",
        "radii = np.cbrt(masses / masses.max())",
        "radii = np.sqrt(masses / masses.max())",
        "test_plot.py::test_pictures_of_a_body",
    ),
    Fault(
        "rods drawn as springs",
        "plot/bodies.py",
        "((curves[~rigid], GREY, 1.3), (curves[rigid], INK, 2.2))",
        "((curves[rigid], GREY, 1.3), (curves[~rigid], INK, 2.2))",
        "test_plot.py::test_rods_are_heavier_than_springs",
    ),
    Fault(
        "later bodies paler",
        "plot/bodies.py",
        "np.linspace(0.35, 1.0, len(frames))",
        "np.linspace(1.0, 0.35, len(frames))",
        "test_plot.py::test_pictures_of_a_body",
    ),
    Fault(
        "times to the saved state before",
        "plot/scene.py",
        "np.abs(self.t[None, :] - times[:, None]).argmin(axis=1)",
        "np.searchsorted(self.t, times, side='right') - 1",
        "test_plot.py::test_pictures_of_a_body",
    ),
    Fault(
        "distances in the plane have a radius of curvature",
        "plot/curves.py",
        "if isinstance(space, Sphere | Hyperbolic) else",
        "if not isinstance(space, Sphere | Hyperbolic) else",
        "test_plot.py::test_separation",
    ),
    Fault(
        "residuals exchanged",
        "plot/curves.py",
        "(system.constraint(t, q), constraint_rate(system, t, q, v)))",
        "(constraint_rate(system, t, q, v), system.constraint(t, q)))",
        "test_plot.py::test_constraints",
    ),
    Fault(
        "the mean error for the largest",
        "plot/curves.py",
        "np.abs(computed - exact).max():.0e}",
        "np.abs(computed - exact).mean():.0e}",
        "test_plot.py::test_comparison_tells_the_largest_error",
    ),
    Fault(
        "a drift from zero",
        "plot/curves.py",
        "np.abs(values - values[0])[1:]",
        "np.abs(values)[1:]",
        "test_plot.py::test_energy",
    ),
    Fault(
        "the picture is projected from the nearest point",
        "plot/models.py",
        "int(np.argmin(nearest[::-1]))",
        "int(np.argmax(nearest[::-1]))",
        "test_plot.py::test_stereographic_projection_is_from_afar",
    ),
    Fault(
        "a half-space upside down",
        "plot/models.py",
        '(*_names(space.dim)[:-1], "height")',
        '("height", *_names(space.dim)[:-1])',
        "test_plot.py::test_models_show_what_they_say",
    ),
    Fault(
        "older bodies darker",
        "plot/swimmers.py",
        "0.25 + 0.75 * k / strokes",
        "1 - 0.75 * k / strokes",
        "test_plot_swimmers.py::test_where_it_goes",
    ),
    Fault(
        "time in strokes ends at one",
        "plot/swimmers.py",
        "np.linspace(0, strokes, len(place))",
        "np.linspace(0, 1, len(place))",
        "test_plot_swimmers.py::test_where_it_goes",
    ),
    Fault(
        "strokes that follow start at the first",
        "plot/swimmers.py",
        "starts = [np.linalg.matrix_power(once[-1], k)",
        "starts = [np.linalg.matrix_power(once[-1], 0)",
        "test_plot_swimmers.py::test_where_it_goes",
    ),
    Fault(
        "the player leaves the last state out",
        "plot/player.py",
        "np.unique(np.append(np.arange(0, len(drawn.t), every), len(drawn.t) - 1))",
        "np.arange(0, len(drawn.t), every)",
        "test_player.py::test_long_motions_are_thinned_out_and_say_so",
    ),
    Fault(
        "the ellipsoid of the moments themselves",
        "plot/solids.py",
        "moments.sum(axis=1, keepdims=True) - 2 * moments)",
        "moments.sum(axis=1, keepdims=True) - moments)",
        "test_player.py::test_rigid_bodies_are_shown",
    ),
    Fault(
        "polhodes of the wrong family",
        "plot/rigid.py",
        "first = 0 if level < moments[1] else 2",
        "first = 2 if level < moments[1] else 0",
        "test_rigid.py::test_pictures",
    ),
    Fault(
        "angular velocity in the body's own axes",
        "plot/rigid.py",
        "np.asarray(motion.angular_velocity[:, body]) @ directions",
        "np.asarray(motion.angular_velocity[:, body])",
        "test_rigid.py::test_components_are_those_along_the_principal_axes",
    ),
    Fault(
        "a scenario is not projected",
        "scenario.py",
        '(("body", "project"), bool, False)',
        '(("body", "projected"), bool, False)',
        "test_cli.py::test_gauss_refuses_rods_with_the_line",
    ),
    Fault(
        "a failed run ends well",
        "commands/simulate.py",
        "return int(result != RESULTS.successful)",
        "return 0",
        "test_cli.py::test_a_run_that_fails_says_so",
    ),
    Fault(
        "Killing momenta of anything",
        "commands/simulate.py",
        "and all(isinstance(e, Spring | Rod)",
        "and any(isinstance(e, Spring | Rod)",
        "test_cli.py::test_a_run_that_fails_says_so",
    ),
    Fault(
        "the component of least curvature",
        "commands/stroke.py",
        "largest = np.argmax(weights",
        "largest = np.argmin(weights",
        "test_cli.py::test_stroke_and_its_family",
    ),
    Fault(
        "a saddle is a minimum",
        "commands/stroke.py",
        'minimum = "" if optimum.second_order > 0',
        'minimum = "" if abs(optimum.second_order) > 0',
        "test_saved_strokes.py::test_a_saddle_is_not_told_as_a_minimum",
    ),
    Fault(
        "the line of another table",
        "_toml.py",
        'lines.setdefault((*table, *pair[1].split(".")), number)',
        'lines.setdefault((*table, *pair[1].split(".")), number + 1)',
        "test_cli.py::test_wrong_scenarios_are_refused_with_their_line",
    ),
    Fault(
        "a hash in a text begins a comment",
        "_toml.py",
        're.sub(r"#.*", "", re.sub(r\'"[^"]*"|\\\'[^\\\']*\\\'\', \'""\', line))',
        're.sub(r"#.*", "", line)',
        "test_cli.py::test_wrong_scenarios_are_refused_with_their_line",
    ),
    Fault(
        "a flag is a number",
        "_toml.py",
        "if isinstance(value, bool) != (kind is bool) or not",
        "if not",
        "test_cli.py::test_wrong_scenarios_are_refused_with_their_line",
    ),
    Fault(
        "a keyword of a partial is not looked at",
        "_jit.py",
        "return [x.func, *x.args, *x.keywords.values()]",
        "return [x.func, *x.args]",
        "test_closures.py::test_every_kind_of_function",
    ),
    Fault(
        "defaults of a function are not looked at",
        "_jit.py",
        "*(x.__kwdefaults__ or {}).values()]",
        "]",
        "test_closures.py::test_every_kind_of_function",
    ),
    Fault(
        "a flag is a count",
        "_jit.py",
        "if isinstance(count, bool) or not",
        "if not",
        "test_bad_input.py::test_a_flag_is_no_count",
    ),
    Fault(
        "the last members of a batch are the first",
        "_jit.py",
        "np.arange(count * size).reshape(count, size) % len(batch)",
        "np.arange(count * size).reshape(count, size) % size",
        "test_search.py::test_a_batch_is_spread_over_the_cores",
    ),
    Fault(
        "elimination without pivots",
        "_linalg.py",
        "jnp.where(index >= k, jnp.abs(column), -1.0)",
        "jnp.where(index == k, 1.0, -1.0)",
        "test_linalg.py::test_elimination_finds_its_pivots",
    ),
    Fault(
        "a root that was not found is a number",
        "_roots.py",
        "return jnp.where(done, x, jnp.nan)",
        "return x",
        "test_linalg.py::test_a_root_that_is_none_is_nan",
    ),
    Fault(
        "numbers that differ in type are the same",
        "_archive.py",
        "if a != b or name not in before or name not in now or before[name].tobytes() != now[name].tobytes():",
        "if name not in before or name not in now or not np.array_equal(before[name], now[name]):",
        "test_checkpoint.py::test_numbers_are_compared_bit_for_bit",
    ),
    Fault(
        "a truncated file is left behind",
        "_archive.py",
        "partial.unlink(missing_ok=True)",
        "pass",
        "test_trajectory.py::test_interrupted_save_leaves_the_old_file",
    ),
    Fault(
        "what a batch has in common is pulled by one",
        "_native.py",
        "[jnp.sum(x, 0) if axis is None",
        "[x[0] if axis is None",
        "test_native.py::test_a_batch_is_of_scalars",
    ),
    Fault(
        "whole numbers travel as floats",
        "_native.py",
        "jnp.signedinteger: int}.get(kind, float))",
        "jnp.signedinteger: float}.get(kind, float))",
        "test_native.py::test_whole_numbers_stay_exact",
    ),
    Fault(
        "a half-turn of the sine",
        "_elementary.py",
        "either(2, 3).where(0 - value, value).scalar)",
        "either(1, 3).where(0 - value, value).scalar)",
        "test_scalars.py::test_elementary_functions",
    ),
]


def is_planted_once(fault: Fault) -> bool:
    """Whether the text to be changed stands exactly once in its file."""
    return (ROOT / "geodyn" / fault.file).read_text().count(fault.old) == 1


def outcome(fault: Fault, copy: Path) -> str:
    """What the tests say about the copy with the fault in it."""
    path = copy / "geodyn" / fault.file
    sound = path.read_text()
    path.write_text(sound.replace(fault.old, fault.new))
    try:
        tests = [f"tests/{test}" for test in fault.tests.split()]
        options = ["-x", "-q", "--tb=no", "-o", f"cache_dir={ROOT / '.pytest_cache' / 'faults'}"]
        # Python would take a file of the same size and second for unchanged.
        where = {"cwd": copy, "env": os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}}
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests], capture_output=True, text=True, **where
        )
    finally:
        path.write_text(sound)
    by = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    if run.returncode == 1 and by:
        return "killed by " + by[0].removeprefix("FAILED tests/").split(" - ")[0]
    return "SURVIVED" if run.returncode == 0 else f"NO RESULT, pytest ended with {run.returncode}"


def main(words: list[str]) -> bool:
    """Whether all faults with one of the words in name or file are killed."""
    chosen = [f for f in FAULTS if not words or any(word in f.name or word in f.file for word in words)]
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in ("geodyn", "tests", "docs"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / part, folder)
        for fault in chosen:
            begin = time.monotonic()
            said = outcome(fault, Path(folder)) if is_planted_once(fault) else "NOT PLANTED: its text has to stand once"
            killed += said.startswith("killed")
            print(f"{fault.file}: {fault.name}: {said} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{killed} of {len(chosen)} killed")
    return killed == len(chosen)


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
