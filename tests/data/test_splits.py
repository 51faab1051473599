import pytest
import torch
from hypothesis import given, settings, strategies as st

from gread.base.errors import InputError
from gread.data.splits import random_splits


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.integers(1, 4), st.integers(0, 99))
def test_every_node_is_in_one_part_of_every_split(labels, num_splits, seed):
    masks = torch.stack(random_splits(torch.tensor(labels), num_splits, seed=seed))
    assert masks.shape == (3, len(labels), num_splits)
    assert (masks.sum(dim=0) == 1).all()


def test_every_class_is_split_48_32_20():
    y = torch.arange(500) % 5
    for mask, share in zip(random_splits(y, 3), (48, 32, 20), strict=True):
        for label in range(5):
            assert mask[y == label].sum(dim=0).tolist() == [share] * 3


def test_splits_are_seeded_and_differ():
    y = torch.arange(100) % 2
    train = random_splits(y, 2, seed=4)[0]
    assert torch.equal(train, random_splits(y, 2, seed=4)[0])
    assert not torch.equal(train, random_splits(y, 2, seed=5)[0])
    assert not torch.equal(train[:, 0], train[:, 1])


def test_zero_splits_raise_input_error():
    with pytest.raises(InputError, match="num_splits must be a whole number of at least 1, got 0"):
        random_splits(torch.zeros(3, dtype=torch.int64), 0)
