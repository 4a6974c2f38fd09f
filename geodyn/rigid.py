"""Bodies with attitudes: their inertia, joints, loads and contacts."""

from geodyn.mechanics.elements.poses import AbstractOnBodies
from geodyn.mechanics.rigid.balls import Balls, BallsOnPlane
from geodyn.mechanics.rigid.bodies import RigidBodies, RigidMotion, heavy_top, rigid_motion
from geodyn.mechanics.rigid.free_rotation import buss_step, free_rotation, momentum_step
from geodyn.mechanics.rigid.joints import BallJoint, Hinge, Slider, Weld
from geodyn.mechanics.rigid.loads import Load, TurningDrag
from geodyn.mechanics.rigid.polyhedra import Polyhedra, Polyhedron, box

__all__ = [
    "AbstractOnBodies",
    "BallJoint",
    "Balls",
    "BallsOnPlane",
    "Hinge",
    "Load",
    "Polyhedra",
    "Polyhedron",
    "RigidBodies",
    "RigidMotion",
    "Slider",
    "TurningDrag",
    "Weld",
    "box",
    "buss_step",
    "free_rotation",
    "heavy_top",
    "momentum_step",
    "rigid_motion",
]
