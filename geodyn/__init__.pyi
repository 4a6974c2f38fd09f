"""The public names at the root; those of each submodule stand in its file."""

from . import builders as builders
from . import bundles as bundles
from . import cells as cells
from . import contact as contact
from . import costs as costs
from . import design as design
from . import ensembles as ensembles
from . import friction as friction
from . import granular as granular
from . import groups as groups
from . import hamilton as hamilton
from . import linkages as linkages
from . import loads as loads
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
from ._geometry.manifold.manifold import AbstractManifold as AbstractManifold
from ._geometry.manifold.manifold import Manifold as Manifold
from ._geometry.manifold.manifold import inner as inner
from ._geometry.manifold.manifold import norm as norm
from ._geometry.manifold.manifold import christoffel as christoffel
from ._geometry.manifold.manifold import riemann as riemann
from ._geometry.manifold.manifold import ricci as ricci
from ._geometry.manifold.manifold import scalar_curvature as scalar_curvature
from ._geometry.manifold.manifold import sectional_curvature as sectional_curvature
from ._geometry.manifold.manifold import killing_defect as killing_defect
from ._geometry.symmetries.symmetries import symmetries as symmetries
from ._geometry.symmetries.symmetries import Symmetries as Symmetries
from ._geometry.geodesics.geodesic import geodesic as geodesic
from ._geometry.geodesics.geodesic import exp as exp
from ._geometry.geodesics.distances import log as log
from ._geometry.geodesics.distances import distance as distance
from ._geometry.geodesics.distances import squared_distance as squared_distance
from ._geometry.geodesics.mean import mean_point as mean_point
from ._geometry.geodesics.transport import parallel_transport as parallel_transport
from ._geometry.geodesics.transport import jacobi_field as jacobi_field
from ._geometry.geodesics.checks import check_manifold as check_manifold

# MATTER: a body is its Lagrangian
from ._mechanics.points.system import System as System
from ._mechanics.points.system import energy as energy
from ._mechanics.points.system import momentum as momentum
from ._mechanics.elements.springs import Spring as Spring
from ._mechanics.elements.springs import Rod as Rod
from ._mechanics.elements.springs import Pin as Pin
from ._mechanics.elements.cells import Area as Area
from ._mechanics.elements.cells import Volume as Volume
from ._mechanics.elements.cells import Angle as Angle
from ._mechanics.elements.contact import Contact as Contact
from ._mechanics.elements.contact import Wall as Wall
from ._mechanics.elements.fields import Gravity as Gravity
from ._mechanics.elements.fields import Kepler as Kepler
from ._mechanics.elements.fields import Harmonic as Harmonic
from ._mechanics.elements.fields import Drag as Drag
from ._mechanics.elements.abstract import AbstractPotential as AbstractPotential
from ._mechanics.elements.abstract import AbstractDissipation as AbstractDissipation
from ._mechanics.elements.abstract import AbstractConstraint as AbstractConstraint
from ._mechanics.points.projection import project as project

# TIME: how a system moves
from ._integrators.integrate import integrate as integrate
from ._integrators.contract.lagrangian import Lagrangian as Lagrangian
from ._integrators.contract.system import ODE as ODE
from ._integrators.step.methods import Gauss as Gauss
from ._integrators.step.methods import RadauIIA as RadauIIA
from ._integrators.trajectory import Trajectory as Trajectory
from ._integrators.trajectory import IntegrationError as IntegrationError
from ._foundations.results import RESULTS as RESULTS
from ._integrators.files import load as load
from ._scale.ensemble import ensemble as ensemble

# MOTION: how a change of shape moves a body
from ._locomotion.connections.connection import AbstractSwimmer as AbstractSwimmer
from ._locomotion.connections.connection import AbstractLinkSwimmer as AbstractLinkSwimmer
from ._locomotion.connections.connection import AbstractSlenderSwimmer as AbstractSlenderSwimmer
from ._locomotion.connections.connection import AbstractConnection as AbstractConnection
from ._locomotion.connections.connection import connection as connection
from ._locomotion.connections.connection import curvature as curvature
from ._locomotion.connections.connection import shape_metric as shape_metric
from ._locomotion.strokes.stroke import FourierStroke as FourierStroke
from ._locomotion.motion.holonomy import holonomy as holonomy
from ._locomotion.motion.holonomy import path as path
from ._locomotion.motion.holonomy import cost as cost
from ._locomotion.motion.periodic import periodic_motion as periodic_motion

# PURPOSE: strokes that are best at something
from ._control.search.strokes import optimal_stroke as optimal_stroke
from ._control.search.strokes import Direct as Direct
from ._control.search.strokes import efficiency as efficiency
from ._control.search.starts import optimal_strokes as optimal_strokes
from ._control.problem.optimum import OptimalStroke as OptimalStroke
from ._control.methods.extremal import Wong as Wong
from ._control.methods.descent import Descent as Descent
from ._control.search.failure import StrokeError as StrokeError
from ._control.plans.plan import plan as plan
from ._control.plans.plan import Plan as Plan
from ._control.families.families import stroke_family as stroke_family
from ._control.families.families import StrokeFamily as StrokeFamily
from ._control.families.mapping import stroke_map as stroke_map

# First calls
from ._engine.cache import cache as cache

# What to cite
from ._integrators.cite import cite as cite
