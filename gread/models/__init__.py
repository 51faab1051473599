"""Models: one file for each idea, entered into one catalogue."""

from gread.models import attention, continuous, grand, gread, stacks  # noqa: F401  # entering models
from gread.models.catalog import MODELS as MODELS
from gread.models.catalog import ModelEntry as ModelEntry
from gread.models.catalog import model as model
from gread.models.gread import GREAD as GREAD
from gread.models.gread import ReactionDiffusionConv as ReactionDiffusionConv
