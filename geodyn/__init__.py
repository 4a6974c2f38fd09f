"""geodyn: a metric in, motion out. Differentiable geometric mechanics on JAX.

The names below are loaded at first use, so that `import geodyn` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from geodyn import plot as plot
    from geodyn._cache import cache as cache
    from geodyn.control import *
    from geodyn.geometry import *
    from geodyn.geometry import groups as groups
    from geodyn.geometry import spaces as spaces
    from geodyn.integrators import *
    from geodyn.integrators import tableau as tableau
    from geodyn.locomotion import *
    from geodyn.locomotion import costs as costs
    from geodyn.locomotion import swimmers as swimmers
    from geodyn.mechanics import *
    from geodyn.mechanics import nonholonomic as nonholonomic

_ROOMS = {
    "geodyn._cache": "cache",
    # TIME
    "geodyn.integrators": """
        AbstractSystem Lagrangian ODE ButcherTableau AbstractMethod AbstractStepper Advanced Gauss RadauIIA Collocation
        Moreau Newmark StormerVerlet Adaptive integrate Trajectory RESULTS IntegrationError Impacts load
    """,
    # SPACE
    "geodyn.geometry": """
        AbstractManifold Manifold inner norm christoffel riemann ricci scalar_curvature sectional_curvature geodesic exp
        log distance squared_distance parallel_transport jacobi_field killing_defect check_manifold Tabulated Atlas
        bracket integrability_defect LevelSet second_fundamental_form total_bending gaussian_curvature check_level_set
        sphere_quadrature
    """,
    # MATTER
    "geodyn.mechanics": """
        System AbstractPotential AbstractDissipation AbstractConstraint AbstractPfaffian AbstractContact
        AbstractFrictionalContact Contact Wall Spring Rod FixedPoint Area Volume Angle RigidArea RigidVolume RigidAngle
        Gravity Kepler Harmonic Drag rod triangle tetrahedron chain ring lattice icosahedron mesh read_mesh combine
        velocities edges area volume angle energy momentum killing_momentum hamiltonian project RigidBodies RigidMotion
        rigid_motion heavy_top AbstractOnBodies Load TurningDrag BallJoint Hinge Slider Weld QuasiVelocities
        ConstraintForces free_rotation buss_step momentum_step Balls BallsOnPlane
        AbstractFriction AbstractPlasticity DryFriction PlasticSpring IncrementalPotential Driven PointLoad dissipated
        quasi_static
        Hamiltonian hamiltonian_field legendre poisson_bracket noether_momentum symmetry_defect flow_derivative
        liouville_defect symplectic_defect Linkage linkage pinned_chain four_rod_configuration configuration_space
        discrete_action least_action_path ActionPath four_rod_point
        Polyhedron Polyhedra box painleve_number
    """,
    # MOTION
    "geodyn.locomotion": """
        AbstractConnection AbstractInvariantMetric AbstractSwimmer AbstractLinkSwimmer AbstractSlenderSwimmer
        AbstractDeformableBody AbstractKinematicBody KaluzaKlein Heading connection curvature covariant_derivative
        shape_metric locked_inertia drifting_path dense_path flux Reframed minimum_perturbation check_connection
        FourierStroke LegendreStroke OpenStroke PolygonStroke SplineStroke check_closed reverse shift segment join
        by_arclength holonomy path cost power
    """,
    # PURPOSE
    "geodyn.control": """
        Direct Wong Descent optimal_stroke optimal_strokes OptimalStroke StrokeError WongSystem load_stroke efficiency
        sensitivity stroke_family StrokeFamily optimal_design OptimalDesign
    """,
}
_MODULES = {
    "spaces": "geodyn.geometry.spaces",
    "groups": "geodyn.geometry.groups",
    "nonholonomic": "geodyn.mechanics.nonholonomic",
    "swimmers": "geodyn.locomotion.swimmers",
    "costs": "geodyn.locomotion.costs",
    "tableaus": "geodyn.integrators.tableau",
    "plot": "geodyn.plot",
}
_WHERE = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = [*_WHERE, *_MODULES]


def __getattr__(name):
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'geodyn' has no attribute {name!r}")


def __dir__():
    return __all__
