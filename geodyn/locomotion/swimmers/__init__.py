"""MOTION: bodies with a name. Each is a metric or a connection; nothing else is written by hand."""

from geodyn.locomotion.swimmers.links import Purcell
from geodyn.locomotion.swimmers.spheres import PushMePullYou

__all__ = ["Purcell", "PushMePullYou"]
