"""Selection of a predictor: candidates, their comparison within a time budget, and a blend.

Every candidate is scored on nodes that it was not trained on: on folds of the labelled nodes if
these are few, on one part of them otherwise. Test nodes are not used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gread.estimator.attempt import Attempt
from gread.estimator.blend import blend, mean
from gread.estimator.candidates import PROPAGATION, Candidate, moved
from gread.estimator.problem import Problem, variants
from gread.estimator.scores import Figures
from gread.estimator.task import Thresholds

FIRST = 0.4
"""Share of the time in which every candidate is trained once; the rest goes to the best ones."""

SMOOTHED = 3
"""Number of networks whose predictions are also tried with correction by neighbours."""


LAST = 3
"""Number of networks in the last round. On two splits of Amazon-Computers, the blend had a lower
loss on held-out nodes with 3 than with 1 (0.293 and 0.302, 0.269 and 0.291)."""

BLENDED = 10
"""Largest number of candidates in a blend. More would overfit the nodes of the scores."""


@dataclass(frozen=True)
class Scored:
    """A candidate with its score.

    Attributes:
        candidate: The candidate.
        nodes: Nodes that it was scored on, [n].
        predictions: Predictions for these nodes, [n, k].
        gain: See `Problem.gain`.
        epochs: Best number of epochs in each fold.
        seconds: Training time so far.
        state: Parameters of the best epoch, if there is one fold.
        interrupted: Whether the training could continue.
    """

    candidate: Candidate
    nodes: NDArray[np.int64]
    predictions: Figures
    gain: tuple[float, float]
    epochs: list[int]
    seconds: float
    state: Mapping[str, Tensor] | None = None
    interrupted: bool = False


OnScore = Callable[[Sequence[Scored]], None]
"""Function that is called with all scored candidates, best first, when one has a new score, and
when a network of the blend was trained on all nodes."""


class Entrant:
    """A candidate in the race, trained on every fold in turn.

    Args:
        problem: The graph.
        candidate: The candidate.
    """

    def __init__(self, problem: Problem, candidate: Candidate):
        self.problem, self.candidate = problem, candidate
        self.attempts: list[Attempt] = []
        self.everywhere: list[Figures] = []
        self.seconds = 0.0
        self.scored: Scored | None = None

    @property
    def done(self) -> bool:
        """Whether the training on every fold is complete."""
        return bool(self.attempts) and all(one.done for one in self.attempts)

    def advance(self, until: float) -> Scored:
        """Train on each fold for the same time, and score.

        Args:
            until: Time to stop at, as a value of `time.monotonic`.

        Raises:
            ArithmeticError: The candidate diverges in its first epoch.
        """
        begin, folds = time.monotonic(), self.problem.folds
        for number, (learned, held) in enumerate(folds):
            now = time.monotonic()
            share = now + max(0.0, until - now) / (len(folds) - number)
            if number == len(self.attempts):
                about = self.problem, self.candidate, learned, held
                self.attempts.append(Attempt(*about, seed=self.problem.seed))
            self.attempts[number].run(share)
        found = [one.trained() for one in self.attempts]
        self.everywhere = [one.predictions for one in found]
        self.seconds += time.monotonic() - begin
        epochs = [one.epochs for one in found]
        self.scored = self._score(self.candidate, self.everywhere, epochs, not self.done)
        return self.scored

    def release(self) -> None:
        """Free the memory of the training, which cannot be continued afterwards."""
        for one in self.attempts:
            one.release()

    def smoothed(self) -> Scored:
        """The score of the same networks with correction by neighbours."""
        assert self.scored is not None
        candidate = replace(
            self.candidate,
            title=f"{self.candidate.title}, smoothed",
            smooth=True,
            reason="neighbours' errors are alike",
        )
        pairs = zip(self.attempts, self.everywhere, strict=True)
        found = [attempt.smoothed(predictions) for attempt, predictions in pairs]
        return self._score(candidate, found, self.scored.epochs, self.scored.interrupted)

    def _score(
        self, candidate: Candidate, found: list[Figures], epochs: list[int], interrupted: bool
    ) -> Scored:
        parts = [held for _, held in self.problem.folds]
        nodes = np.concatenate(parts)
        predictions = np.concatenate([p[held] for p, held in zip(found, parts, strict=True)])
        gain = self.problem.gain(predictions, nodes)
        state = self.attempts[0].best_state if len(parts) == 1 else None
        about = epochs, self.seconds, state, interrupted
        return Scored(candidate, nodes, predictions, gain, *about)


def race(
    problem: Problem,
    candidates: Sequence[Candidate],
    seconds: float,
    on_score: OnScore | None = None,
    on_stop: Callable[[], None] | None = None,
) -> list[Scored]:
    """Score candidates within a time budget, best first, by successive halving.

    Every candidate is trained for its share of `FIRST` of the budget; time that quick candidates
    leave goes to the others. Then the better half of the networks continues, the better half of
    these, and so on, until `LAST` networks remain. All rounds take the same time, so each network
    trains longer than in the round before. Predictions of the best networks are tried with
    correction by neighbours too. As long as time remains, variants of the best network are tried:
    other features, balanced classes if accuracy is not the metric, and settings around its own.

    At least one candidate that can predict other graphs is trained, for at least one epoch. Ctrl-C
    ends the comparison, after a call of ``on_stop``.
    """
    contest = Contest(problem, time.monotonic(), seconds, on_score)
    try:
        contest.admit([problem.suited(one) for one in candidates if problem.able(one)])
        contest.halve()
        contest.smooth()
        contest.vary()
    except KeyboardInterrupt:
        if not contest.scores():
            raise
        if on_stop is not None:
            on_stop()
    return contest.scores()


class Contest:
    """State of a race: its entrants and their scores.

    Args:
        problem: The graph.
        begin: Time at which it began, as a value of `time.monotonic`.
        seconds: Time budget.
        on_score: See `OnScore`.
    """

    def __init__(self, problem: Problem, begin: float, seconds: float, on_score: OnScore | None):
        self.problem, self.on_score = problem, on_score
        self.first, self.end = begin + FIRST * seconds, begin + seconds
        self.entrants: list[Entrant] = []
        self.smooth_scores: list[Scored] = []

    def scores(self) -> list[Scored]:
        """All scores, best first."""
        found = [one.scored for one in self.entrants if one.scored is not None]
        return sorted([*found, *self.smooth_scores], key=lambda one: one.gain, reverse=True)

    def networks(self) -> list[Entrant]:
        """Entrants with a network, best first."""
        found = [one for one in self.entrants if one.candidate.model != PROPAGATION]
        return sorted(found, key=lambda one: _gain(one), reverse=True)

    def admit(self, candidates: Sequence[Candidate]) -> None:
        """Train every candidate for its first turn."""
        for number, candidate in enumerate(candidates):
            self._enter(candidate, self.first, len(candidates) - number)

    def _enter(self, candidate: Candidate, end: float, others: int) -> None:
        """Train a new candidate, the first of ``others`` that share the time until ``end``."""
        now = time.monotonic()
        found = [one.candidate for one in self.entrants]
        if now >= end and any(not one.transductive() for one in found):
            return
        entrant = Entrant(self.problem, candidate)
        self.entrants.append(entrant)
        self._advance(entrant, now + max(0.0, end - now) / others)

    def _advance(self, entrant: Entrant, until: float) -> None:
        try:
            entrant.advance(until)
        except ArithmeticError:
            self.entrants.remove(entrant)
            return
        if self.on_score is not None:
            self.on_score(self.scores())

    def halve(self) -> None:
        """Continue the better half of the networks, repeatedly, until `LAST` remain."""
        count = len(self.networks())
        while count > LAST and time.monotonic() < self.end:
            rounds = math.ceil(math.log2(count / LAST))
            count = max(LAST, -(-count // 2))
            ranked = self.networks()
            for one in ranked[count:]:
                one.release()
            going = [one for one in ranked[:count] if not one.done]
            begin = time.monotonic()
            close = begin + (self.end - begin) / rounds
            for number, one in enumerate(going):
                now = time.monotonic()
                self._advance(one, now + max(0.0, close - now) / (len(going) - number))

    def smooth(self) -> None:
        """Score the best networks with correction by neighbours."""
        for one in self.networks()[:SMOOTHED]:
            if not one.candidate.smooth:
                self.smooth_scores.append(one.smoothed())
        if self.on_score is not None:
            self.on_score(self.scores())

    def vary(self) -> None:
        """Try variants of the best network while time remains for half of its training."""
        tried: set[str] = set()
        random = np.random.default_rng(0)
        while networks := self.networks():
            best, left = networks[0], self.end - time.monotonic()
            if left < best.seconds / 2 or left <= 0:
                return
            fresh = [
                one for one in variants(self.problem, best.candidate) if repr(one) not in tried
            ]
            chosen = fresh[0] if fresh else moved(best.candidate, random)
            tried.add(repr(chosen))
            self._enter(chosen, min(self.end, time.monotonic() + 2 * best.seconds), 1)


def _gain(entrant: Entrant) -> tuple[float, float]:
    assert entrant.scored is not None
    return entrant.scored.gain


@dataclass(frozen=True)
class Choice:
    """Result of a comparison of candidates.

    Attributes:
        scored: All candidates, the best first.
        weights: Weight of each candidate in the blend.
        temperature: Temperature of the blend.
        gain: Gain of the blend on the nodes of the race, see `Problem.gain`.
        thresholds: Thresholds of the blend, see `gread.estimator.task`.
    """

    scored: list[Scored]
    weights: list[float]
    temperature: float
    gain: tuple[float, float]
    thresholds: Thresholds = None


def choose(problem: Problem, scored: list[Scored]) -> Choice:
    """Blend the best candidates by the nodes that they were scored on, and calibrate the blend.

    Args:
        problem: The graph.
        scored: Candidates, the best first.
    """
    task, nodes = problem.task, scored[0].nodes
    y = problem.data.y.numpy()[nodes]
    found = [one.predictions for one in scored[:BLENDED]]
    weights = blend(found, lambda p: problem.gain(p, nodes))
    mixed = mean(weights, found)
    weights += [0.0] * (len(scored) - len(found))
    t = task.temperature(mixed, y)
    thresholds = task.thresholds(task.tempered(mixed, t), y)
    return Choice(scored, weights, t, problem.gain(mixed, nodes), thresholds)
