"""Butcher's tableaus, for `gd.methods.Collocation`."""

from geodyn._integrators.contract.tableau import (
    explicit_euler,
    explicit_midpoint,
    gauss,
    heun,
    lobatto_iiia,
    radau_iia,
    rk4,
)

__all__ = ["explicit_euler", "explicit_midpoint", "gauss", "heun", "lobatto_iiia", "radau_iia", "rk4"]
