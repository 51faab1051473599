"""The generated friendship graph, in which the identity of neighbours matters."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

import gread
from studies.measure_friendship import FORMS, students


@pytest.fixture
def processor_time(monkeypatch):
    """Limits of the comparison in processor time, which does not depend on the load."""
    for name in ("race", "attempt", "automatic"):
        clock = SimpleNamespace(monotonic=time.process_time)
        monkeypatch.setattr(f"gread.estimator.{name}.time", clock)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_automatic_model_choice_is_within_one_point_of_linkx(form, processor_time):
    nodes, edges = students(2000, seed=0)
    nodes = FORMS[form](nodes)
    hidden = np.random.default_rng(0).random(len(nodes)) < 0.2
    given = nodes.assign(gender=nodes["gender"].astype(object).mask(hidden))
    right = {}
    for model, minutes in ((None, 0.2), ("linkx", None)):
        classifier = gread.GraphClassifier(model, time=minutes).fit(given, "gender", edges=edges)
        right[model] = (classifier.predict()[hidden] == nodes["gender"].to_numpy()[hidden]).mean()
    assert right["linkx"] > 0.6
    assert right[None] >= right["linkx"] - 0.01


def test_about_half_of_neighbour_pairs_share_a_gender():
    nodes, edges = students(500, seed=1)
    gender = nodes["gender"].to_numpy()
    same = gender[edges["source"]] == gender[edges["target"]]
    assert 0.4 < same.mean() < 0.6
    assert 30 < 2 * len(edges) / len(nodes) < 50
    assert (FORMS["text"](nodes)["gender"] == np.array(["f", "m"])[gender]).all()
