"""Compression of wide features to principal components, which speeds up networks on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

RANK = 128
"""Number of components."""


def is_wide(x: Tensor) -> bool:
    """Whether there are at least twice as many columns as components."""
    return x.size(1) >= 2 * RANK


def is_heavy(x: Tensor) -> bool:
    """Whether a product with features costs more than twice as much as with their components.

    Example:
        >>> is_heavy(torch.ones(10, 257)), is_heavy(torch.ones(10, 256))
        (True, False)
    """
    values = x.numel() if x.layout is torch.strided else x.values().numel()
    return values > 2 * RANK * x.size(0)


def components(x: Tensor) -> Tensor:
    """V [F, k] such that X V has the k largest principal components of X and mean square 1.

    X = U S Vᵀ by randomized SVD: Halko et al., SIAM Review 2011. Columns are not centred, so that
    sparse features stay sparse. Signs are those of `sklearn.utils.extmath.randomized_svd`.

    Example:
        >>> x = torch.ones(50, 300).tril()
        >>> round(x.matmul(components(x)).square().mean().item(), 3)
        1.0
    """
    matrix = scipy_matrix(x)
    rank = min(RANK, *matrix.shape)
    _, sizes, directions = randomized_svd(matrix, rank, n_iter=2, random_state=0)
    scale = np.sqrt(np.square(sizes).sum() / (matrix.shape[0] * rank)) or 1.0
    return torch.from_numpy((directions.T / scale).astype(np.float32))


def scipy_matrix(x: Tensor) -> np.ndarray | sparse.csr_matrix:
    """Dense or sparse features [N, F] for NumPy and SciPy."""
    x = x.cpu()
    if x.layout is torch.strided:
        return x.numpy()
    parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return sparse.csr_matrix(parts, shape=x.shape)
