"""The contract between time and matter: what a system of one's own tells the integrator."""

from geodyn.integrators.contract.charts import Charts
from geodyn.integrators.contract.contacts import Contacts, Neighbours
from geodyn.integrators.contract.lagrangian import AbstractFlatLagrangian
from geodyn.integrators.contract.system import AbstractLagrangianSystem, AbstractSystem

__all__ = ["AbstractFlatLagrangian", "AbstractLagrangianSystem", "AbstractSystem", "Charts", "Contacts", "Neighbours"]
