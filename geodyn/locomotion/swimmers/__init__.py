"""MOTION: bodies with a name. Each is a metric or a connection; nothing else is written by hand."""

from geodyn.locomotion.swimmers.continuous import Serpenoid
from geodyn.locomotion.swimmers.links import NLink, Purcell, SymmetricPurcell
from geodyn.locomotion.swimmers.spheres import PushMePullYou, ThreeSphere

__all__ = ["NLink", "Purcell", "PushMePullYou", "Serpenoid", "SymmetricPurcell", "ThreeSphere"]
