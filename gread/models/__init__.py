"""Models: one file for each idea, entered into one catalogue."""

from gread.models import (  # noqa: F401  # importing a file enters its models
    acm_gcn,
    geom_gcn,
    ggcn,
    glognn,
    grand,
    gread,
    linkx,
    stacks,
    wrgat,
)
from gread.models.catalog import MODELS as MODELS
from gread.models.catalog import ModelEntry as ModelEntry
from gread.models.catalog import model as model
from gread.models.gread import GREAD as GREAD
from gread.models.gread import ReactionDiffusionConv as ReactionDiffusionConv
