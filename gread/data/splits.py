"""Splits into training, validation and test nodes, as masks [N, splits]."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from gread.base.checks import check_count

MASKS = ("train_mask", "val_mask", "test_mask")
FRACTIONS = (0.48, 0.32, 0.20)
"""Training, validation and test shares of the Geom-GCN splits (their file names state 0.6/0.2)."""


def random_splits(
    y: Tensor,
    num_splits: int = 10,
    *,
    fractions: tuple[float, float, float] = FRACTIONS,
    seed: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw random splits that are stratified by class.

    Returns:
        Train, validation and test masks, each [N, num_splits].

    Example:
        >>> train, val, test = random_splits(torch.arange(100) % 2, num_splits=3)
        >>> train.shape, train.sum(0).tolist(), val.sum(0).tolist()
        (torch.Size([100, 3]), [48, 48, 48], [32, 32, 32])
    """
    check_count("num_splits", num_splits)
    check_count("seed", seed, minimum=0)
    rng = np.random.default_rng(seed)
    labels = y.numpy()
    part = np.empty((len(labels), num_splits), dtype=np.int64)  # 0 train, 1 validation, 2 test
    bounds = np.cumsum(fractions)[:-1]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        place = (np.arange(len(members)) + 0.5) / len(members)
        for split in range(num_splits):
            part[rng.permutation(members), split] = np.searchsorted(bounds, place)
    parts = torch.from_numpy(part)
    return parts == 0, parts == 1, parts == 2


def with_parts(data: Data, parts: Tensor) -> Data:
    """Add masks from ``parts`` [N, splits]: 0 training, 1 validation, 2 test."""
    data.train_mask, data.val_mask, data.test_mask = (parts == part for part in range(3))
    return data


def with_random_splits(
    data: Data,
    num_splits: int = 10,
    *,
    fractions: tuple[float, float, float] = FRACTIONS,
    seed: int = 0,
) -> Data:
    """Add the masks of `random_splits` to a graph."""
    masks = random_splits(data.y, num_splits, fractions=fractions, seed=seed)
    data.train_mask, data.val_mask, data.test_mask = masks
    return data
