"""SPACE: a space is its metric, a group is its generators."""

from geodyn.geometry.distributions import bracket as bracket
from geodyn.geometry.distributions import integrability_defect as integrability_defect
from geodyn.geometry.geodesic import check_manifold as check_manifold
from geodyn.geometry.geodesic import distance as distance
from geodyn.geometry.geodesic import exp as exp
from geodyn.geometry.geodesic import geodesic as geodesic
from geodyn.geometry.geodesic import jacobi_field as jacobi_field
from geodyn.geometry.geodesic import log as log
from geodyn.geometry.geodesic import parallel_transport as parallel_transport
from geodyn.geometry.geodesic import squared_distance as squared_distance
from geodyn.geometry.manifold import AbstractManifold as AbstractManifold
from geodyn.geometry.manifold import Manifold as Manifold
from geodyn.geometry.manifold import check_metric as check_metric
from geodyn.geometry.manifold import christoffel as christoffel
from geodyn.geometry.manifold import inner as inner
from geodyn.geometry.manifold import killing_defect as killing_defect
from geodyn.geometry.manifold import norm as norm
from geodyn.geometry.manifold import ricci as ricci
from geodyn.geometry.manifold import riemann as riemann
from geodyn.geometry.manifold import scalar_curvature as scalar_curvature
from geodyn.geometry.manifold import sectional_curvature as sectional_curvature
from geodyn.geometry.patches import Atlas as Atlas
from geodyn.geometry.spaces import AbstractModelSpace as AbstractModelSpace
from geodyn.geometry.surrogate import Tabulated as Tabulated
