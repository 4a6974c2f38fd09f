"""MATTER: a body is its Lagrangian."""

from geodyn.mechanics.bodies import Drag as Drag
from geodyn.mechanics.bodies import FixedPoint as FixedPoint
from geodyn.mechanics.bodies import Gravity as Gravity
from geodyn.mechanics.bodies import Rod as Rod
from geodyn.mechanics.bodies import Spring as Spring
from geodyn.mechanics.builders import rod as rod
from geodyn.mechanics.builders import triangle as triangle
from geodyn.mechanics.elements import AbstractConstraint as AbstractConstraint
from geodyn.mechanics.elements import AbstractDissipation as AbstractDissipation
from geodyn.mechanics.elements import AbstractPotential as AbstractPotential
from geodyn.mechanics.projection import project as project
from geodyn.mechanics.system import System as System
from geodyn.mechanics.system import energy as energy
from geodyn.mechanics.system import hamiltonian as hamiltonian
from geodyn.mechanics.system import killing_momentum as killing_momentum
from geodyn.mechanics.system import momentum as momentum
