"""The contract between time and matter: what a system of one's own tells the integrator."""

from geodyn._integrators.contract.charts import Charts
from geodyn._integrators.contract.contacts import Contacts, Neighbours
from geodyn._integrators.contract.lagrangian import AbstractFlatLagrangian
from geodyn._integrators.contract.system import AbstractLagrangianSystem, AbstractSystem

__all__ = ["AbstractFlatLagrangian", "AbstractLagrangianSystem", "AbstractSystem", "Charts", "Contacts", "Neighbours"]
