"""The demo makes its point. It runs whole, with the command, in a process of its own."""

import json

import pytest
from matplotlib.image import imread

from tests.cli.test_cli import in_a_process


@pytest.mark.slow
def test_the_demo_shows_what_it_says(tmp_path):
    result = in_a_process("demo", "--out", tmp_path, "--json")
    assert result.returncode == 0, result.stderr
    demo = json.loads(result.stdout)
    check_cells(demo["cells"])
    assert [path.rpartition("/")[2] for path in demo["pictures"]] == ["grid.png", "energy.png"]
    for path in demo["pictures"]:
        height, width, _ = imread(path).shape
        assert height > 800
        assert width > 1400


def check_cells(cells):
    """GCN and diffusion alone collapse at low homophily; GREAD stays near the top everywhere."""
    assert len(cells) == len({(cell["model"], cell["homophily"]) for cell in cells}) == 16
    assert all(len(cell["accuracies"]) >= 3 for cell in cells)
    mean = {
        (cell["model"], cell["homophily"]): sum(cell["accuracies"]) / len(cell["accuracies"])
        for cell in cells
    }
    for homophily in (0.0, 0.2):
        for smoothing in ("gcn", "grand"):
            assert mean["gread-bs", homophily] > mean[smoothing, homophily] + 15
            assert mean["mlp", homophily] > mean[smoothing, homophily] + 15
    for homophily in (0.0, 0.2, 0.5, 0.8):
        best = max(value for (_, at), value in mean.items() if at == homophily)
        assert mean["gread-bs", homophily] > best - 5
