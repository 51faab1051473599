"""Spectral positions: degrees and leading eigenvectors of the normalized adjacency."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, eigsh
from torch import Tensor

KEPT = 32
"""Number of eigenvectors."""

SMALL = 500
"""Largest number of nodes for which all eigenvectors are computed."""

PRECISE, TOLERANCES = 20_000, (1e-6, 1e-2)
"""Relative tolerances of eigenvalues for graphs up to this number of nodes, and for larger ones."""

ROUNDS = 100
"""Largest number of Lanczos restarts; eigenvectors that have not converged are left out."""

LARGEST = 10.0
"""Bound of the clipped coordinates, because an eigenvector may be localized on few nodes."""


def spectral_positions(edge_index: Tensor, num_nodes: int, *, directed: bool = False) -> Tensor:
    """Degrees and spectral coordinates of every node, [N, F].

    The coordinates are √N v_k for the eigenvectors v_k of S = D^-½ A D^-½ with the largest absolute
    eigenvalues. Eigenvalues near 1 belong to groups with edges inside, eigenvalues near −1 to
    groups with edges between them. With directions, the coordinates are √N u_k and √N v_k for the
    leading singular vectors of D_in^-½ A D_out^-½, of targets and sources. The sign of a vector is
    fixed by Σ v³ > 0, so coordinates do not depend on the order of the nodes. Degrees are log(1 +
    d), standardized to mean 0 and deviation 1. Edge weights are ignored.

    Args:
        edge_index: Every edge in both directions unless ``directed``, [2, E].
        num_nodes: Number N of nodes.
        directed: Whether incoming and outgoing edges have separate columns.

    Example:
        >>> pair_of_triangles = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3, 3]])
        >>> both = torch.cat([pair_of_triangles, pair_of_triangles.flip(0)], dim=1)
        >>> second = spectral_positions(both, 6)[:, 2].sign()
        >>> bool(second[0] == second[1] == second[2] == -second[3] == -second[4] == -second[5])
        True
    """
    source, target = edge_index.cpu().numpy()
    entries = sparse.csr_matrix((np.ones(len(source)), (target, source)), shape=(num_nodes,) * 2)
    entries.data[:] = 1.0  # repeated edges count once
    incoming, outgoing = (np.asarray(entries.sum(axis=axis)).ravel() for axis in (1, 0))
    root = [sparse.diags(1 / np.sqrt(np.maximum(one, 1))) for one in (incoming, outgoing)]
    matrix = root[0] @ entries @ root[1]
    if directed:
        # Eigenvectors of [[0, M], [Mᵀ, 0]] with positive eigenvalues are (u, v) / √2.
        block = sparse.bmat([[None, matrix], [matrix.T, None]], format="csr")
        found = _leading(block, "LA")
        vectors = np.sqrt(2) * np.hstack([_signed(half) for half in np.split(found, 2)])
        degrees = np.stack([incoming, outgoing], axis=1)
    else:
        vectors, degrees = _signed(_leading(matrix, "LM")), incoming[:, None]
    logarithms = np.log1p(degrees)
    deviation = logarithms.std(axis=0)
    scaled = (logarithms - logarithms.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    columns = np.hstack([scaled, np.sqrt(num_nodes) * vectors])
    return torch.from_numpy(np.clip(columns, -LARGEST, LARGEST)).float()


def _signed(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fix the sign of each eigenvector."""
    return np.where((vectors**3).sum(axis=0) < 0, -vectors, vectors)


def _leading(matrix: sparse.csr_matrix, which: str) -> NDArray[np.float64]:
    """Eigenvectors of a symmetric matrix by the size of their eigenvalues, [n, KEPT] at most.

    ``"LM"`` takes the largest absolute values, ``"LA"`` the largest values.
    """
    size = matrix.shape[0]
    if size <= SMALL:
        values, vectors = scipy.linalg.eigh(matrix.toarray())
    else:
        start = np.cos(np.arange(size))  # any vector that is not an eigenvector
        about = {"k": KEPT, "which": which, "v0": start, "tol": TOLERANCES[size > PRECISE]}
        try:
            values, vectors = eigsh(matrix, maxiter=ROUNDS, **about)
        except ArpackNoConvergence as some:
            values, vectors = some.eigenvalues, some.eigenvectors
        except ArpackError:  # for example in a graph without edges
            return np.zeros((size, 0))
    order = np.argsort(-(np.abs(values) if which == "LM" else values), kind="stable")[:KEPT]
    kept = order[np.abs(values[order]) > 1e-9]
    return np.asarray(vectors[:, kept], dtype=np.float64)
