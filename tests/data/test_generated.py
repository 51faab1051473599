import platform

import pytest
import torch

import gread
from gread.base.errors import InputError
from gread.data.generated import CLASSES


def test_digits_are_homophilous():
    data = gread.load("digits")
    assert data.num_nodes == 1797
    assert data.num_features == 64
    assert gread.edge_homophily(data.edge_index, data.y) > 0.95
    assert gread.load("digits", neighbours=10).num_edges > data.num_edges


@pytest.mark.slow
def test_pythons_library_is_large_and_heterophilous(tmp_path):
    data = gread.load("python-ast", root=tmp_path)
    assert data.python_version == platform.python_version()
    assert 200_000 < data.num_nodes < 2_000_000  # depends on the version of Python
    assert data.y.unique().numel() == len(CLASSES)
    assert gread.edge_homophily(data.edge_index, data.y) < 0.3
    masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    assert (masks.sum(dim=0) == 1).all()
    assert data.x.isfinite().all()
    # Splits keep modules together: both ends of every edge are in the same set.
    source, target = data.edge_index
    assert torch.equal(masks[:, source], masks[:, target])
    again = gread.load("python-ast", root=tmp_path)
    assert torch.equal(again.x, data.x)
    assert again.python_version == data.python_version


def test_attachment_takes_its_features_from_its_base():
    data = gread.load("attachment", base="digits", num_classes=4, homophily=0.2)
    assert data.num_features == 64
    pixels = {tuple(row) for row in gread.load("digits").x.tolist()}
    assert all(tuple(row) in pixels for row in data.x.tolist())
    with pytest.raises(InputError, match="base must be another dataset than attachment"):
        gread.load("attachment", base="attachment")
    with pytest.raises(InputError, match="base must have features and labels, got grid"):
        gread.load("attachment", base="grid")
