"""The demo makes its point. It runs whole, in a process of its own, with the command."""

import json

import pytest
from matplotlib.image import imread

from tests.test_cli import gread


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = gread("demo", "--out", folder, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_papers_point_is_visible(demo):
    mean = {
        (cell["model"], cell["homophily"]): sum(cell["accuracies"]) / len(cell["accuracies"])
        for cell in demo["cells"]
    }
    for homophily in (0.0, 0.2):
        for smoothing in ("gcn", "grand"):
            assert mean["gread-bs", homophily] > mean[smoothing, homophily] + 15
            assert mean["mlp", homophily] > mean[smoothing, homophily] + 15
    for homophily in (0.0, 0.2, 0.5, 0.8):
        best = max(value for (_, at), value in mean.items() if at == homophily)
        assert mean["gread-bs", homophily] > best - 5


def test_every_model_saw_every_graph_over_several_splits(demo):
    cells = demo["cells"]
    assert len(cells) == len({(cell["model"], cell["homophily"]) for cell in cells}) == 16
    assert all(len(cell["accuracies"]) >= 3 for cell in cells)


def test_the_pictures_are_written(demo):
    for path in demo["pictures"]:
        height, width, _ = imread(path).shape
        assert height > 500
        assert width > 1000
