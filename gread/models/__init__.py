"""Models: one file per method, all registered in one catalogue."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.models.catalog import MODELS as MODELS, ModelEntry as ModelEntry, model as model
    from gread.models.gread import GREAD as GREAD, ReactionDiffusionConv as ReactionDiffusionConv

lazy(__name__)
