"""A user's own graph: train, predict, compare."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.estimator.classifier import GraphClassifier as GraphClassifier
    from gread.estimator.comparison import BASELINES as BASELINES
    from gread.estimator.comparison import advice as advice
    from gread.estimator.comparison import compare as compare
    from gread.estimator.comparison import verdict as verdict
    from gread.estimator.graphs import as_graph as as_graph
    from gread.estimator.predictions import write_predictions as write_predictions
    from gread.estimator.scores import Scores as Scores
    from gread.estimator.scores import score as score

lazy(__name__)
