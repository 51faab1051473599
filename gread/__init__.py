"""GREAD: graph neural reaction-diffusion networks, on PyTorch and PyTorch Geometric."""

from typing import TYPE_CHECKING

from gread.base.lazy import import_pyg_quickly, lazy
from gread.base.versions import __version__ as __version__

if TYPE_CHECKING:
    from gread.base.errors import InputError as InputError
    from gread.data.catalog import DATASETS as DATASETS
    from gread.data.files import DataError as DataError
    from gread.data.load import load as load
    from gread.data.splits import random_splits as random_splits
    from gread.data.synthetic import (
        csbm as csbm,
        grid as grid,
        preferential_attachment as preferential_attachment,
    )
    from gread.dynamics.integrate import Solution as Solution, integrate as integrate
    from gread.dynamics.reactions import REACTIONS as REACTIONS, State as State
    from gread.dynamics.tableau import SOLVERS as SOLVERS, IntegrationError as IntegrationError
    from gread.estimator.classifier import (
        GraphClassifier as GraphClassifier,
        GraphRegressor as GraphRegressor,
    )
    from gread.graph.adjacency import (
        OriginalAdjacency as OriginalAdjacency,
        SoftAdjacency as SoftAdjacency,
    )
    from gread.graph.measures import (
        adjusted_homophily as adjusted_homophily,
        dirichlet_energy as dirichlet_energy,
        edge_homophily as edge_homophily,
        node_homophily as node_homophily,
    )
    from gread.graph.operator import Adjacency as Adjacency
    from gread.kernels.backend import plain_only as plain_only
    from gread.models.catalog import MODELS as MODELS
    from gread.models.gread import GREAD as GREAD, ReactionDiffusionConv as ReactionDiffusionConv
    from gread.models.gread_x import GREADX as GREADX
    from gread.training.config import TrainConfig as TrainConfig
    from gread.training.fit import fit as fit
    from gread.training.loop import Fit as Fit

lazy(__name__)
import_pyg_quickly()
