"""Frequency response: the effect of a linear flow on the eigenvectors of Ã."""

from __future__ import annotations

import torch
from torch import Tensor

from gread.dynamics.integrate import follow
from gread.dynamics.reactions import Terms
from gread.dynamics.tableau import Integration


def frequency_response(
    terms: Terms, alpha: Tensor, beta: Tensor, eigenvalues: Tensor, integration: Integration
) -> Tensor:
    """Factor by which the integration scales an eigenvector, [eigenvalues, channels].

    For an eigenvector of Ã with eigenvalue λ, every channel solves a scalar equation:
    dh/dt = (−α (1 − λ) + β (p₁ + q (1 − λ) + s λ (1 − λ))) h + β p₀ h(0), with h(0) = 1.

    Args:
        terms: Terms of a linear reaction.
        alpha: α of every channel.
        beta: β of every channel.
        eigenvalues: Eigenvalues of Ã.
        integration: Time, step size and solver.
    """
    loss = (1 - eigenvalues).unsqueeze(1)
    reaction = terms.linear + loss * (terms.laplacian + terms.blurred * eigenvalues.unsqueeze(1))
    rate = -alpha * loss + beta * reaction
    source = beta * terms.source
    return follow(lambda t, h: rate * h + source, torch.ones_like(rate), integration).final


def evenly_spread(beta: Tensor, count: int) -> Tensor:
    """Indices of at most ``count`` channels, evenly spaced from the lowest to the highest β."""
    order = beta.argsort()
    places = torch.linspace(0, len(order) - 1, min(count, len(order))).round().long()
    return order[places]


CHANNELS = 24
"""Largest number of channels in a figure of the frequency response."""


def some_responses(
    terms: Terms, alpha: Tensor, beta: Tensor, integration: Integration
) -> tuple[Tensor, list[tuple[float, Tensor]]]:
    """61 eigenvalues, and β and response of at most `CHANNELS` channels."""
    shown = evenly_spread(beta, CHANNELS)
    eigenvalues = torch.linspace(-1, 1, 61, dtype=torch.float64)
    lines = frequency_response(terms, alpha[shown], beta[shown], eigenvalues, integration)
    return eigenvalues, list(zip(beta[shown].tolist(), lines.T, strict=True))
