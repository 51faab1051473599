"""Progress of the training of an estimator."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gread.base.progress import Stages
from gread.estimator.fitted import AUTO, FittedEstimator
from gread.estimator.race import Scored
from gread.estimator.task import Task
from gread.search.objective import Objective, objective_of
from gread.training.loop import Epoch

TEXTS = {"comparing": "comparing with simpler models"}


class FitProgress(Stages):
    """Progress display of epochs, candidates and trials with their validation metric."""

    objective: Objective
    task: Task
    seconds: int
    end: float | None = None
    """End of the time for the choice of a model, as a value of `time.monotonic`."""

    def begin(self, stage: str, classifier: FittedEstimator) -> None:
        """Begin a stage of `gread.estimator.fit_report`; the first one shown is training."""
        if stage in ("reading", "preparing"):
            return
        self.end = None
        if stage != "training":
            self.stage(TEXTS.get(stage, stage))
            return
        config = classifier.config(len(classifier.ids_))
        self.objective, self.task = objective_of(vars(config)), classifier.task_
        if classifier.model_ != AUTO:
            self.stage(stage, total=config.epochs)
            return
        self.seconds = round(60 * classifier.minutes())
        self.end = time.monotonic() + self.seconds
        self.stage("choosing a model", total=self.seconds)

    def advance(self, epoch: Epoch) -> None:
        """Show an epoch that has ended."""
        value = self.objective.short(self.task.in_unit(epoch.val))
        text = f"epoch {epoch.number} loss {epoch.loss:.3f} validation {value}"
        self.update(text, completed=epoch.number + 1)

    def score(self, scores: Sequence[Scored]) -> None:
        """Show the best candidate after a new score."""
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
        """Show the best result after a trial."""
        shown = self.objective.short(best.task_.in_unit(best.fit_.best.val))
        self.update(f"tuning: {count} trials, best validation {shown}")
