"""A user's own graph: train, predict, compare."""

from gread.estimator.classifier import GraphClassifier as GraphClassifier
from gread.estimator.comparison import BASELINES as BASELINES
from gread.estimator.comparison import advice as advice
from gread.estimator.comparison import compare as compare
from gread.estimator.comparison import verdict as verdict
from gread.estimator.graphs import as_graph as as_graph
from gread.estimator.metrics import Scores as Scores
from gread.estimator.metrics import score as score
from gread.estimator.predictions import write_predictions as write_predictions
