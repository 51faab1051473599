"""Models: one file for each idea, entered into one catalogue."""

from gread.models import (  # noqa: F401  # importing a file enters its models
    acm_gcn,
    acmp,
    attention,
    blend,
    cgnn,
    continuous,
    fagcn,
    gat,
    gcnii,
    gde,
    geom_gcn,
    ggcn,
    glognn,
    gpr_gnn,
    graff,
    grand,
    graphcon,
    gread,
    h2gcn,
    jknet,
    linkx,
    mixhop,
    sheaf,
    stacks,
    wrgat,
)
from gread.models.catalog import MODELS as MODELS
from gread.models.catalog import ModelEntry as ModelEntry
from gread.models.catalog import model as model
from gread.models.gread import GREAD as GREAD
from gread.models.gread import ReactionDiffusionConv as ReactionDiffusionConv
