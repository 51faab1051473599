"""A user's own graph: train, predict, compare."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.estimator.classifier import (
        GraphClassifier as GraphClassifier,
        GraphEstimator as GraphEstimator,
        GraphRegressor as GraphRegressor,
    )
    from gread.estimator.comparison import (
        BASELINES as BASELINES,
        advice as advice,
        compare as compare,
        verdict as verdict,
    )
    from gread.estimator.diagnosis import Diagnosis as Diagnosis, diagnose as diagnose
    from gread.estimator.files import (
        FitReport as FitReport,
        diagnose_files as diagnose_files,
        fit_report as fit_report,
        write_predictions as write_predictions,
    )
    from gread.estimator.graphs import as_graph as as_graph
    from gread.estimator.scores import (
        LabelScores as LabelScores,
        NumberScores as NumberScores,
        Scores as Scores,
        score as score,
    )
    from gread.estimator.task import TASKS as TASKS, Task as Task
    from gread.estimator.tune import tune as tune

lazy(__name__)
