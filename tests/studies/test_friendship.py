"""The generated friendship graph, in which the identity of neighbours matters."""

import numpy as np
import pytest

import gread
from studies.measure_friendship import FORMS, students


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_choice_is_within_a_point_of_linkx(form):
    nodes, edges = students(2000, seed=0)
    nodes = FORMS[form](nodes)
    hidden = np.random.default_rng(0).random(len(nodes)) < 0.2
    given = nodes.assign(gender=nodes["gender"].astype(object).mask(hidden))
    right = {}
    for model, time in ((None, 0.5), ("linkx", None)):
        classifier = gread.GraphClassifier(model, time=time).fit(given, "gender", edges=edges)
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
