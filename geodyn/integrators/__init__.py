"""TIME: how a system moves. Knows functions and arrays only."""

from geodyn.integrators.baselines import Adaptive as Adaptive
from geodyn.integrators.baselines import Newmark as Newmark
from geodyn.integrators.baselines import StormerVerlet as StormerVerlet
from geodyn.integrators.files import load as load
from geodyn.integrators.integrate import integrate as integrate
from geodyn.integrators.lagrangian import Lagrangian as Lagrangian
from geodyn.integrators.methods import AbstractMethod as AbstractMethod
from geodyn.integrators.methods import AbstractStepper as AbstractStepper
from geodyn.integrators.methods import Advanced as Advanced
from geodyn.integrators.methods import Collocation as Collocation
from geodyn.integrators.methods import Gauss as Gauss
from geodyn.integrators.methods import RadauIIA as RadauIIA
from geodyn.integrators.moreau import Moreau as Moreau
from geodyn.integrators.results import RESULTS as RESULTS
from geodyn.integrators.system import ODE as ODE
from geodyn.integrators.system import AbstractSystem as AbstractSystem
from geodyn.integrators.tableau import ButcherTableau as ButcherTableau
from geodyn.integrators.trajectory import Impacts as Impacts
from geodyn.integrators.trajectory import IntegrationError as IntegrationError
from geodyn.integrators.trajectory import Trajectory as Trajectory
