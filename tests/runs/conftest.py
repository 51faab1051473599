import pytest

from gread.runs.complete import complete
from gread.runs.spec import RunSpec
from gread.training.config import TrainConfig


@pytest.fixture(scope="session")
def small():
    """Function that returns specs of short runs."""

    def make(**changes) -> RunSpec:
        settings = {
            "dataset": "csbm",
            "model": "gread-bs",
            "hyper": {"hidden_channels": 4},
            "train": TrainConfig(epochs=3),
            "options": {"num_nodes": 30},
        }
        return complete(RunSpec(**(settings | changes)))

    return make
