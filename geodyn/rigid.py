"""Bodies with attitudes: their inertia, joints, loads and contacts."""

from geodyn._mechanics.elements.poses import AbstractOnBodies
from geodyn._mechanics.rigid.balls import Balls, BallsOnPlane
from geodyn._mechanics.rigid.bodies import RigidBodies, RigidMotion, heavy_top, rigid_motion
from geodyn._mechanics.rigid.free_rotation import buss_step, free_rotation, momentum_step
from geodyn._mechanics.rigid.joints import BallJoint, FixedJoint, Hinge, Slider
from geodyn._mechanics.rigid.loads import Load, RotationalDrag
from geodyn._mechanics.rigid.polyhedra import Polyhedra, Polyhedron, box

__all__ = [
    "AbstractOnBodies",
    "BallJoint",
    "Balls",
    "BallsOnPlane",
    "FixedJoint",
    "Hinge",
    "Load",
    "Polyhedra",
    "Polyhedron",
    "RigidBodies",
    "RigidMotion",
    "RotationalDrag",
    "Slider",
    "box",
    "buss_step",
    "free_rotation",
    "heavy_top",
    "momentum_step",
    "rigid_motion",
]
