"""Progress of the training of an estimator."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gread.base.progress import Stages
from gread.estimator.fitted import AUTO, FittedEstimator
from gread.estimator.race import Scored
from gread.search.objective import Objective, objective_of
from gread.training.loop import Epoch

TEXTS = {"comparing": "comparing with simpler models"}


class FitProgress(Stages):
    """Shows epochs, candidates and trials with their best validation metric."""

    objective: Objective
    seconds: int
    end: float | None = None
    """When the time for the choice of a model ends, as counted by `time.monotonic`."""

    def begin(self, stage: str, classifier: FittedEstimator) -> None:
        """A stage of `gread.estimator.fit_report` begins; the first that is shown is training."""
        if stage in ("reading", "preparing"):
            return
        self.end = None
        if stage != "training":
            self.stage(TEXTS.get(stage, stage))
            return
        config = classifier.config(len(classifier.ids_))
        self.objective = objective_of(vars(config))
        if classifier.model_ != AUTO:
            self.stage(stage, total=config.epochs)
            return
        self.seconds = round(60 * classifier.minutes())
        self.end = time.monotonic() + self.seconds
        self.stage("choosing a model", total=self.seconds)

    def advance(self, epoch: Epoch) -> None:
        """An epoch is over."""
        value = self.objective.short(epoch.val)
        text = f"epoch {epoch.number} loss {epoch.loss:.3f} validation {value}"
        self.update(text, completed=epoch.number + 1)

    def score(self, scores: Sequence[Scored]) -> None:
        """A candidate has a new score."""
        best = scores[0]
        value = self.objective.short(self.objective.metric.sign * best.gain[0])
        self.update(f"{len(scores)} candidates, best {best.candidate.title} {value}")

    def now(self) -> tuple[str, int]:
        """See `Stages.now`; the time left counts down between two scores."""
        if self.end is None:
            return super().now()
        left = max(0, round(self.end - time.monotonic()))
        return f"{self.text}, {left} s left", self.seconds - left

    def tell(self, count: int, best: FittedEstimator) -> None:
        """A trial is over."""
        shown = self.objective.short(best.fit_.best.val)
        self.update(f"tuning: {count} trials, best validation {shown}")
