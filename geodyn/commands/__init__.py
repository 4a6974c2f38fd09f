"""The commands of `geodyn`. Each prints a summary, writes its results into the folder `out` and returns the exit
status."""

from geodyn.commands.demo import demo
from geodyn.commands.info import info
from geodyn.commands.simulate import simulate
from geodyn.commands.stroke import stroke
from geodyn.commands.studio import studio
from geodyn.commands.sweep import sweep

__all__ = ["demo", "info", "simulate", "stroke", "studio", "sweep"]
