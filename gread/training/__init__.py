"""Training: one loop for one model, for a population and over processes."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.training.config import TrainConfig as TrainConfig
    from gread.training.fit import Epoch as Epoch
    from gread.training.fit import Fit as Fit
    from gread.training.fit import fit as fit
    from gread.training.population import fit_together as fit_together

lazy(__name__)
