"""The public names at the root; those of each submodule stand in its file."""

from . import builders as builders
from . import bundles as bundles
from . import cells as cells
from . import contact as contact
from . import costs as costs
from . import design as design
from . import ensembles as ensembles
from . import friction as friction
from . import groups as groups
from . import hamilton as hamilton
from . import linkages as linkages
from . import methods as methods
from . import nonholonomic as nonholonomic
from . import plot as plot
from . import rigid as rigid
from . import spaces as spaces
from . import strokes as strokes
from . import surfaces as surfaces
from . import swimmers as swimmers
from . import systems as systems
from . import tableaus as tableaus

# SPACE: a space is its metric
from .geometry.manifold.manifold import AbstractManifold as AbstractManifold
from .geometry.manifold.manifold import Manifold as Manifold
from .geometry.manifold.manifold import inner as inner
from .geometry.manifold.manifold import norm as norm
from .geometry.manifold.manifold import christoffel as christoffel
from .geometry.manifold.manifold import riemann as riemann
from .geometry.manifold.manifold import ricci as ricci
from .geometry.manifold.manifold import scalar_curvature as scalar_curvature
from .geometry.manifold.manifold import sectional_curvature as sectional_curvature
from .geometry.manifold.manifold import killing_defect as killing_defect
from .geometry.geodesics.geodesic import geodesic as geodesic
from .geometry.geodesics.geodesic import exp as exp
from .geometry.geodesics.geodesic import log as log
from .geometry.geodesics.geodesic import distance as distance
from .geometry.geodesics.geodesic import squared_distance as squared_distance
from .geometry.geodesics.geodesic import parallel_transport as parallel_transport
from .geometry.geodesics.geodesic import jacobi_field as jacobi_field
from .geometry.geodesics.geodesic import check_manifold as check_manifold

# MATTER: a body is its Lagrangian
from .mechanics.points.system import System as System
from .mechanics.points.system import energy as energy
from .mechanics.points.system import momentum as momentum
from .mechanics.elements.springs import Spring as Spring
from .mechanics.elements.springs import Rod as Rod
from .mechanics.elements.springs import FixedPoint as FixedPoint
from .mechanics.elements.cells import Area as Area
from .mechanics.elements.cells import Volume as Volume
from .mechanics.elements.cells import Angle as Angle
from .mechanics.elements.contact import Contact as Contact
from .mechanics.elements.contact import Wall as Wall
from .mechanics.elements.fields import Gravity as Gravity
from .mechanics.elements.fields import Kepler as Kepler
from .mechanics.elements.fields import Harmonic as Harmonic
from .mechanics.elements.fields import Drag as Drag
from .mechanics.elements.abstract import AbstractPotential as AbstractPotential
from .mechanics.elements.abstract import AbstractDissipation as AbstractDissipation
from .mechanics.elements.abstract import AbstractConstraint as AbstractConstraint
from .mechanics.points.projection import project as project

# TIME: how a system moves
from .integrators.integrate import integrate as integrate
from .integrators.contract.lagrangian import Lagrangian as Lagrangian
from .integrators.contract.system import ODE as ODE
from .integrators.step.methods import Gauss as Gauss
from .integrators.step.methods import RadauIIA as RadauIIA
from .integrators.trajectory import Trajectory as Trajectory
from .integrators.trajectory import IntegrationError as IntegrationError
from .integrators.contract.results import RESULTS as RESULTS
from .integrators.files import load as load
from .scale.ensemble import ensemble as ensemble

# MOTION: how a change of shape moves a body
from .locomotion.connections.connection import AbstractSwimmer as AbstractSwimmer
from .locomotion.connections.connection import AbstractLinkSwimmer as AbstractLinkSwimmer
from .locomotion.connections.connection import AbstractSlenderSwimmer as AbstractSlenderSwimmer
from .locomotion.connections.connection import AbstractConnection as AbstractConnection
from .locomotion.connections.connection import connection as connection
from .locomotion.connections.connection import curvature as curvature
from .locomotion.connections.connection import shape_metric as shape_metric
from .locomotion.strokes.stroke import FourierStroke as FourierStroke
from .locomotion.motion.holonomy import holonomy as holonomy
from .locomotion.motion.holonomy import path as path
from .locomotion.motion.holonomy import cost as cost

# PURPOSE: strokes that are best at something
from .control.search.strokes import optimal_stroke as optimal_stroke
from .control.search.strokes import Direct as Direct
from .control.search.strokes import efficiency as efficiency
from .control.search.starts import optimal_strokes as optimal_strokes
from .control.problem.optimum import OptimalStroke as OptimalStroke
from .control.methods.extremal import Wong as Wong
from .control.methods.descent import Descent as Descent
from .control.search.failure import StrokeError as StrokeError
from .control.families.families import stroke_family as stroke_family
from .control.families.families import StrokeFamily as StrokeFamily

# First calls
from ._compile.cache import cache as cache

# What to cite
from ._cite import cite as cite
