import pytest

from gread.runs.store import ResultStore
from gread.search.search import search
from gread.search.space import Space

TABLE = {
    "epochs": 2,
    "hidden_channels": [4, 8],
    "solver": "euler",
    "time": {"low": 0.1, "high": 3.0},
    "lr": {"low": 1e-3, "high": 1e-1, "log": True},
}


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "store")


@pytest.fixture
def space():
    return Space("gread-bs", TABLE)


@pytest.fixture
def find(store, space):
    """Function that runs a short search."""

    def run(trials=4, **changes):
        settings = {"store": store, "space": space, "splits": [0, 1], "options": {"num_nodes": 30}}
        return search("csbm", trials=trials, **(settings | changes))

    return run
