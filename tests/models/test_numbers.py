"""Extreme inputs give correct results or an error.

``python -m studies.soak numbers`` runs more seeds and a larger graph.
"""

import pytest
import torch

from gread.base.errors import InputError
from gread.models.catalog import MODELS
from studies.soak.numbers import CHECKS, build, graph, isolated, outcome

COMPUTED = ("autocast to bfloat16", "autocast to float16", "weights 0", "a graph of one node")
"""Inputs that every model accepts, except Geom-GCN, which does not support edge weights."""


@pytest.mark.filterwarnings("ignore:mkldnn")  # not available on every processor
@pytest.mark.parametrize("check", CHECKS)
def test_extreme_inputs_are_computed_correctly_or_rejected(check):
    found = {name: outcome(check, name, seed=1) for name in MODELS}
    assert set(found.values()) <= {"correct", "refused"}
    if check in COMPUTED:
        assert {name for name in found if found[name] == "refused"} <= {"geom-gcn"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_edge_weights_of_another_dtype_are_rejected(dtype):
    x, edge_index = graph(seed=0)
    weight = torch.ones(edge_index.size(1), dtype=dtype)
    with pytest.raises(InputError, match=r"edge_weight must be of the type of the features, .*32"):
        build("gread-bs", seed=0)(x, edge_index, weight)


def test_predictions_on_isolated_nodes_equal_those_of_a_separate_graph():
    assert isolated(10**4).startswith("correct")
