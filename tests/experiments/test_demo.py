"""A small demo; tests/test_wheel.py runs the full demo and checks its numbers."""

from importlib import import_module

from gread.training.config import TrainConfig

demonstration = import_module("gread.experiments.demo")  # the package has the function of that name


def test_the_demo_trains_every_model_on_every_graph_and_split(tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "SPLITS", 2)
    monkeypatch.setattr(demonstration, "HOMOPHILIES", (0.2,))
    monkeypatch.setattr(demonstration, "TRAIN", TrainConfig(epochs=2))
    runs = []
    found = demonstration.demo(tmp_path, on_run=lambda: runs.append(1))
    assert [cell.model for cell in found.cells] == list(demonstration.BUILDS)
    assert all(len(cell.accuracies) == 2 for cell in found.cells)
    assert len(runs) == 2 * len(demonstration.BUILDS)
    assert [picture.name for picture in found.pictures] == ["grid.png", "energy.png"]
    assert all(picture.exists() for picture in found.pictures)
