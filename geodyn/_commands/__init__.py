"""The commands of `geodyn`. Each prints a summary, writes its results into the folder `out` and returns the exit
status."""

from geodyn._commands.demo import demo
from geodyn._commands.info import info
from geodyn._commands.simulate import simulate
from geodyn._commands.stroke import stroke
from geodyn._commands.studio import studio
from geodyn._commands.sweep import sweep

__all__ = ["demo", "info", "simulate", "stroke", "studio", "sweep"]
