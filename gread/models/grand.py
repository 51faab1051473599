"""GRAND: diffusion without reaction, the limit of GREAD that the paper compares with."""

from __future__ import annotations

from functools import partial

from gread.models.catalog import model
from gread.models.gread import GREAD

grand = model(
    "grand",
    title="GRAND",
    group="continuous",
    reference="Chamberlain et al., ICML 2021",
    continuous=True,
)(partial(GREAD, reaction=None, alpha="one"))
"""f(H) = −L̃ H.    Eq. (17)."""
