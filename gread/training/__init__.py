"""Training: one loop for one model, for a population and over processes."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.training.config import TrainConfig as TrainConfig
    from gread.training.fit import fit as fit
    from gread.training.loop import Epoch as Epoch, Fit as Fit
    from gread.training.losses import LOSSES as LOSSES
    from gread.training.metrics import (
        METRICS as METRICS,
        Predictions as Predictions,
        metric as metric,
    )
    from gread.training.population import fit_together as fit_together

lazy(__name__)
