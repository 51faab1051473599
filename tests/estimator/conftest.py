from contextlib import contextmanager

import numpy as np
import pytest
import torch

import gread
from gread.estimator import automatic
from gread.estimator.attempt import Attempt
from gread.estimator.race import Contest
from gread.tables.column import column
from gread.tables.graph import join
from gread.tables.table import Table

FAST = {"epochs": 12, "hidden_channels": 8}


def train(problem, candidate, nodes, held, **options):
    """Train a candidate to the end; options are those of `Attempt`."""
    attempt = Attempt(problem, candidate, nodes, held, **options)
    attempt.run()
    return attempt.trained()


@contextmanager
def only(*candidates):
    """Use only these candidates, without variants, so that no time limit affects the choice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "portfolio", lambda: candidates)
        patch.setattr(automatic, "SEEDS", 1)
        patch.setattr(Contest, "vary", lambda self: None)
        yield


@pytest.fixture(scope="session")
def data():
    """Homophilous graph of 150 nodes in three classes."""
    return gread.csbm(150, 3, homophily=0.8, degree=8, num_features=12, num_splits=1, seed=1)


@pytest.fixture(scope="session")
def columns(data):
    """The same graph as node and edge tables; every tenth node has no class."""
    names = np.array(["blue", "green", "red"])[data.y.numpy()].tolist()
    label = [None if k % 10 == 0 else name for k, name in enumerate(names)]
    nodes = {"id": [f"n{k}" for k in range(150)], "topic": label}
    nodes |= {f"x{k}": data.x[:, k].tolist() for k in range(12)}
    once = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    edges = {"src": [f"n{k}" for k in once[0].tolist()], "dst": [f"n{k}" for k in once[1].tolist()]}
    return nodes, edges


@pytest.fixture
def table_graph(columns):
    nodes, edges = (
        Table(name, {key: column(values) for key, values in part.items()})
        for name, part in zip(("nodes.csv", "edges.csv"), columns, strict=True)
    )
    return join(nodes, edges)


@pytest.fixture(scope="session")
def fitted(data):
    """Classifier for tests that do not change it."""
    torch.manual_seed(0)
    return gread.GraphClassifier(settings=FAST).fit(data)
