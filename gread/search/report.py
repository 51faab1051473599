"""Report of a study: selected trial, importances, test metrics, figure and preset."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gread.base.files import write_text
from gread.base.versions import __version__
from gread.data.catalog import DATASETS
from gread.models.catalog import MODELS
from gread.runs.presets import split_options
from gread.runs.spec import Value
from gread.runs.store import ResultStore
from gread.search.selection import Trial, select
from gread.search.space import Space
from gread.search.study import StudySettings, import_optuna, load_study, study_name, trials_of

if TYPE_CHECKING:
    import optuna
    from matplotlib.figure import Figure

FEW = 5  # complete trials required for importances


@dataclass(frozen=True)
class Report:
    """Results of a study.

    Attributes:
        wanted, trials: Number of trials of the study, and the finished trials.
        rule, selected: A name of `RULES`, and the trial that it selects.
        importance: Share of the variance of the validation metric that each hyperparameter
            explains, in decreasing order; empty for fewer than five complete trials.
        tests: Test metrics of complete trials by number, one per run, if all runs are in this
            store; empty until the study is finished.
        seen: Numbers of trials after which test metrics were shown, including this time.
    """

    study: str
    plan: StudySettings
    wanted: int
    trials: list[Trial]
    rule: str
    selected: Trial
    importance: Mapping[str, float]
    tests: Mapping[int, tuple[float, ...]]
    seen: tuple[int, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the study has all its trials; test accuracies are hidden until then."""
        return len(self.trials) >= self.wanted

    @property
    def best_test(self) -> tuple[float, ...]:
        """Best of `tests`, for reference; not a valid selection criterion."""
        return max(self.tests.values(), key=lambda found: self.plan.objective.gain(fmean(found)))

    def figure(self) -> Figure:
        """Validation and test metric of all complete trials."""
        from gread.report.figures import selection

        name, metric = self.plan.objective
        scale, what = (100, f"{name} (%)") if self.plan.objective.metric.is_fraction else (1, name)
        means = {
            trial.number: (scale * trial.mean, scale * fmean(self.tests[trial.number]))
            for trial in self.trials
            if trial.number in self.tests and math.isfinite(trial.mean)
        }
        names = f"{MODELS[self.plan.model].title} on {DATASETS[self.plan.dataset].title}"
        about: Any = {"title": f"{names}: {len(means)} settings", "what": what}
        about["higher_is_better"] = metric.higher_is_better
        return selection(means, self.selected.number, **about)

    def preset(self) -> str:
        """Selected settings as a TOML table, with their provenance in comments."""
        plan, selected, objective = self.plan, self.selected, self.plan.objective
        pruned = sum(not trial.complete for trial in self.trials)
        facts = [
            f"study {self.study}, rule {self.rule}, sampler {plan.sampler}",
            f"trial {selected.number} of {len(self.trials)}, {pruned} of them pruned",
            f"splits {_ranges(plan.splits)}, seeds {_ranges(plan.seeds)}",
            f"mean validation {objective.name} {objective.shown(selected.mean)}",
        ]
        if selected.number in self.tests:
            facts.append(f"test {objective.name} {objective.summary(self.tests[selected.number])}")
        if len(self.seen) > 1:
            counts = ", ".join(map(str, self.seen))
            facts.append(f"test {objective.name} was seen after {counts} trials")
        facts.append(f"gread {__version__}, {datetime.now(timezone.utc):%Y-%m-%d}")
        return preset_table(plan.dataset, facts, selected.settings, plan.options)

    def write(self, folder: Path) -> list[Path]:
        """Write the preset to ``tuned/MODEL.toml`` and a figure, once the study is finished."""
        from gread.report.figures import save

        if not self.finished:
            return []
        path = folder / "tuned" / f"{study_name('', self.plan.model)[1:]}.toml"
        merge_preset(path, self.preset(), MODELS[self.plan.model].title)
        # The runs may be on another machine, or all have failed under an unbounded metric.
        if self.selected.number not in self.tests or not math.isfinite(self.selected.mean):
            return [path]
        picture = folder / f"{self.study}.png"
        save(self.figure(), picture)
        return [path, picture]


def report(
    study: str, store: ResultStore, *, storage: str | None = None, rule: str = "best-mean"
) -> Report:
    """Report on a study whose runs are in ``store``.

    Args:
        study: Name of the study.
        store: Store of the runs.
        storage: As in `gread.search.search`.
        rule: A name of ``gread.search.RULES``.
    """
    kept, plan = load_study(study, storage, store.path.parent / "studies")
    space = Space(plan.model, plan.space)
    trials = trials_of(kept, space)
    wanted, seen = kept.user_attrs["trials"], set(kept.user_attrs.get("tests seen after", []))
    selected = select(trials, space, rule)
    tests = _tests(plan, trials, store) if len(trials) >= wanted else {}
    if tests and len(trials) not in seen:
        seen.add(len(trials))
        kept.set_user_attr("tests seen after", sorted(seen))
    found = selected, _importance(kept), tests, tuple(sorted(seen))
    return Report(study, plan, wanted, trials, rule, *found)


def preset_table(
    dataset: str,
    facts: Iterable[str],
    settings: Mapping[str, Value | None],
    options: Mapping[str, Value],
) -> str:
    """Settings of a dataset as a TOML table, with their provenance in comments.

    Settings of model and training that are ``None`` are omitted. Options of the dataset are
    ``options`` and settings named ``options.NAME``.

    Example:
        >>> print(preset_table("cora", ["by hand"], {"lr": 0.01}, {"normalize_features": True}))
        [cora]
        # by hand
        lr = 0.01
        options = { normalize_features = true }
        <BLANKLINE>
    """
    given = {key: value for key, value in settings.items() if value is not None}
    own, found = split_options(given)
    options = {**options, **found}
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", dataset)
    name = dataset if bare else json.dumps(dataset)  # TOML reads a dot as a table in a table
    lines = [f"[{name}]", *(f"# {fact}" for fact in facts)]
    lines += [f"{key} = {json.dumps(value)}" for key, value in own.items()]
    if options:
        inside = ", ".join(f"{key} = {json.dumps(value)}" for key, value in options.items())
        lines.append(f"options = {{ {inside} }}")
    return "\n".join(lines) + "\n"


def merge_preset(path: Path, table: str, title: str) -> None:
    """Write a TOML table to a preset file; replace a table of the same name in its place."""
    heading = f"# {title}: settings found by gread search, selected by validation only."
    text = path.read_text("utf-8") if path.exists() else heading + "\n"
    first, *blocks = re.split(r"(?m)^(?=\[)", text)
    tables = {block.partition("\n")[0]: block for block in blocks}
    tables[table.partition("\n")[0]] = table
    write_text(path, "\n".join(block.strip() + "\n" for block in [first, *tables.values()]))


def _tests(
    plan: StudySettings, trials: list[Trial], store: ResultStore
) -> dict[int, tuple[float, ...]]:
    """Test metrics of complete trials by number; a failed run has the worst value."""
    failed = plan.objective.failed
    known = store.numbers("test")
    tests = {}
    for trial in trials:
        keys = [spec.key for spec in plan.specs(trial.settings)]
        if trial.complete and known.keys() >= set(keys):
            found = (known[key] for key in keys)
            tests[trial.number] = tuple(failed if value is None else value for value in found)
    return tests


def _importance(study: optuna.Study) -> dict[str, float]:
    optuna = import_optuna()
    complete = (optuna.trial.TrialState.COMPLETE,)
    values = [trial.value for trial in study.get_trials(deepcopy=False, states=complete)]
    if len(values) < FEW or len(set(values)) == 1:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}


def _ranges(numbers: Any) -> str:
    """Format numbers as ranges: 0, 1, 2, 5 is ``0-2,5``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ",".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)
