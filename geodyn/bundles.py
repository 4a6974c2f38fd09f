"""Connections: of a body's own, in other coordinates, with momentum, from measured data, their derivatives and flux."""

from geodyn._locomotion.connections.connection import AbstractInvariantMetric, covariant_derivative
from geodyn._locomotion.connections.coordinates import Reframed, minimum_perturbation
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.kaluza_klein import Heading, KaluzaKlein
from geodyn._locomotion.connections.kinematic import AbstractKinematicBody
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.connections.measured import (
    MeasuredConnection,
    fit_connection,
    read_connection,
    standard_errors,
)
from geodyn._locomotion.connections.reshaped import Reshaped
from geodyn._locomotion.motion.along import minimum_perturbation_along
from geodyn._locomotion.motion.consistency import check_connection
from geodyn._locomotion.motion.dense import dense_path
from geodyn._locomotion.motion.flux import flux
from geodyn._locomotion.motion.holonomy import power
from geodyn._locomotion.motion.inertial import InertialSwimmer
from geodyn._locomotion.motion.mechanical import AbstractDeformableBody, drifting_path, locked_inertia
from geodyn._locomotion.motion.passive import AbstractPassiveSwimmer
from geodyn._locomotion.motion.periodic import MotionError, PeriodicMotion, PeriodicStroke
from geodyn._locomotion.motion.small_loops import small_loops

__all__ = [
    "AbstractDeformableBody",
    "AbstractForceBalance",
    "AbstractInvariantMetric",
    "AbstractKinematicBody",
    "AbstractLocomotion",
    "AbstractPassiveSwimmer",
    "Heading",
    "InertialSwimmer",
    "KaluzaKlein",
    "MeasuredConnection",
    "MotionError",
    "PeriodicMotion",
    "PeriodicStroke",
    "Reframed",
    "Reshaped",
    "check_connection",
    "covariant_derivative",
    "dense_path",
    "drifting_path",
    "fit_connection",
    "flux",
    "locked_inertia",
    "minimum_perturbation",
    "minimum_perturbation_along",
    "power",
    "read_connection",
    "small_loops",
    "standard_errors",
]
