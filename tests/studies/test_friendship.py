"""The generated friendship graph, in which the identity of neighbours matters."""

import numpy as np
import pytest

import gread
from gread.estimator.candidates import portfolio
from studies.measure_friendship import FORMS, students
from tests.estimator.conftest import only

TITLES = ("Label propagation", "MLP", "MLP with positions")
CANDIDATES = [one for one in portfolio() if one.title in TITLES]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_choice_is_within_a_point_of_linkx(form):
    """Trained to the end, so that the choice depends on no time limit; LINKX is no candidate."""
    nodes, edges = students(2000, seed=0)
    nodes = FORMS[form](nodes)
    hidden = np.random.default_rng(0).random(len(nodes)) < 0.2
    given = nodes.assign(gender=nodes["gender"].astype(object).mask(hidden))
    right = {}
    for model in (None, "linkx"):
        with only(*CANDIDATES):
            classifier = gread.GraphClassifier(model).fit(given, "gender", edges=edges)
        right[model] = (classifier.predict()[hidden] == nodes["gender"].to_numpy()[hidden]).mean()
    assert right["linkx"] > 0.6
    assert right[None] >= right["linkx"] - 0.01


def test_neighbours_differ_in_gender_as_often_as_not():
    nodes, edges = students(500, seed=1)
    gender = nodes["gender"].to_numpy()
    same = gender[edges["source"]] == gender[edges["target"]]
    assert 0.4 < same.mean() < 0.6
    assert 30 < 2 * len(edges) / len(nodes) < 50
    assert (FORMS["text"](nodes)["gender"] == np.array(["f", "m"])[gender]).all()
