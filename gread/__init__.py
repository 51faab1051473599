"""GREAD: graph neural reaction-diffusion networks, on PyTorch and PyTorch Geometric."""

from typing import TYPE_CHECKING, Any

from gread.adjacency import Adjacency as Adjacency
from gread.adjacency import OriginalAdjacency as OriginalAdjacency
from gread.adjacency import SoftAdjacency as SoftAdjacency
from gread.data import DATASETS as DATASETS
from gread.data import DataError as DataError
from gread.data import csbm as csbm
from gread.data import grid as grid
from gread.data import load as load
from gread.data import preferential_attachment as preferential_attachment
from gread.data import random_splits as random_splits
from gread.inputs import InputError as InputError
from gread.kernels import plain_only as plain_only
from gread.measures import adjusted_homophily as adjusted_homophily
from gread.measures import dirichlet_energy as dirichlet_energy
from gread.measures import edge_homophily as edge_homophily
from gread.measures import node_homophily as node_homophily
from gread.models import GREAD as GREAD
from gread.models import MODELS as MODELS
from gread.models import ReactionDiffusionConv as ReactionDiffusionConv
from gread.ode import SOLVERS as SOLVERS
from gread.ode import IntegrationError as IntegrationError
from gread.ode import Solution as Solution
from gread.ode import integrate as integrate
from gread.reactions import REACTIONS as REACTIONS
from gread.reactions import State as State
from gread.training import Fit as Fit
from gread.training import TrainConfig as TrainConfig
from gread.training import fit as fit

if TYPE_CHECKING:
    from gread.estimator import GraphClassifier as GraphClassifier

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`GraphClassifier` when it is asked for: scikit-learn takes a second to import."""
    if name == "GraphClassifier":
        from gread.estimator import GraphClassifier

        return GraphClassifier
    raise AttributeError(f"module 'gread' has no attribute {name!r}")
