"""Progress of the training of a classifier."""

from __future__ import annotations

from gread.base.progress import Stages
from gread.estimator.fitted import AUTO, FittedClassifier
from gread.estimator.race import Scored
from gread.search.objective import objective_of
from gread.training.loop import Epoch

TEXTS = {"comparing": "comparing with simpler models"}


class FitProgress(Stages):
    """Shows epochs, candidates and trials with their best validation metric."""

    scored: list[Scored]

    def begin(self, stage: str, classifier: FittedClassifier) -> None:
        """A stage of `gread.estimator.fit_report` begins; the first that is shown is training."""
        if stage in ("reading", "preparing"):
            return
        if stage != "training":
            self.stage(TEXTS.get(stage, stage))
            return
        config = classifier.config(len(classifier.ids_))
        self.in_percent, self.scored = objective_of(vars(config)).is_share, []
        self.stage(stage, total=None if classifier.model == AUTO else config.epochs)

    def shown(self, value: float) -> str:
        """A value of the metric."""
        return f"{value:.1%}" if self.in_percent else f"{value:.3f}"

    def advance(self, epoch: Epoch) -> None:
        """An epoch is over."""
        text = f"epoch {epoch.number} loss {epoch.loss:.3f} validation {self.shown(epoch.val)}"
        self.update(text, completed=epoch.number + 1)

    def score(self, one: Scored) -> None:
        """A candidate is scored."""
        self.scored.append(one)
        best = max(self.scored, key=lambda other: other.gain)
        text = f"{len(self.scored)} candidates, best {best.candidate.title}"
        self.update(f"{text} {self.shown(abs(best.gain[0]))}")

    def tell(self, count: int, best: FittedClassifier) -> None:
        """A trial is over."""
        shown = self.shown(best.fit_.best.val)
        self.update(f"tuning: {count} trials, best validation {shown}")
