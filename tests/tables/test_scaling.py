"""Scalings of counts and of whole feature matrices."""

import pytest
import torch

from gread.tables.scaling import SCALINGS, rescaled

PLAIN = [name for name, one in SCALINGS.items() if one.of is not None]
"""Scalings without fitted parameters."""


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("name", PLAIN)
def test_scaling_keeps_zeros_and_agrees_for_sparse_features(name):
    x = torch.tensor([[0.0, 2.0, -1.0], [0.0, 0.0, 0.0]])
    found = rescaled(x, name)
    assert found.shape == x.shape
    assert torch.equal(found == 0, x == 0)
    assert torch.equal(rescaled(x.to_sparse_csr(), name).to_dense(), found)


@pytest.mark.parametrize("name", ["none", "binary", "log"])
def test_scaling_leaves_indicators_unchanged(name):
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    assert torch.equal(rescaled(x, name), x)


def test_shares_of_a_row_sum_to_one():
    x = torch.tensor([[0.0, 2.0, 6.0], [1.0, 0.0, 1.0]])
    torch.testing.assert_close(rescaled(x, "row").sum(1), torch.ones(2))


def test_every_scaling_has_a_description():
    assert all(one.about for one in SCALINGS.values())
