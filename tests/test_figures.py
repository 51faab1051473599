import numpy as np
import pytest

from gread.figures import confusion, energies, portrait, reliability, save, snapshots


@pytest.fixture
def images():
    return {"a": [np.eye(3, dtype=np.float32) * k for k in (1, 2)], "b": [np.eye(3) * 0, np.eye(3)]}


def test_snapshots_have_a_panel_for_every_state_in_common_colours(images):
    figure = snapshots(images, [0.0, 5.0], title="Title")
    panels = [axis for axis in figure.axes if axis.get_images()]
    assert len(panels) == 4
    assert len({panel.get_images()[0].get_clim() for panel in panels}) == 1
    assert [panel.get_title() for panel in panels[:2]] == ["t = 0", "t = 5"]
    assert [panels[0].get_ylabel(), panels[2].get_ylabel()] == ["a", "b"]


def test_energies_are_curves_named_at_their_ends(tmp_path):
    figure = energies([0.1, 1.0, 10.0], {"up": [1, 2, 3], "down": [3, 2, 1]}, title="Title")
    (axis,) = figure.axes
    assert axis.get_yscale() == "log"
    np.testing.assert_array_equal(axis.lines[1].get_ydata(), [3, 2, 1])
    assert [text.get_text() for text in axis.texts] == ["up", "down"]
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_a_portrait_has_degrees_classes_and_mixing(tmp_path):
    figure = portrait([1, 4, 2], {"a": 3, "b": 4}, [[0.9, 0.1], [0.5, 0.5]], title="nodes.csv")
    degrees, classes, mixing = figure.axes
    assert [label.get_text() for label in degrees.get_xticklabels()] == ["0", "1", "2"]
    assert [bar.get_width() for bar in classes.patches] == [3, 4]
    assert [text.get_text() for text in mixing.texts] == ["0.90", "0.10", "0.50", "0.50"]
    figure.savefig(tmp_path / "figure.png")


def test_confusion_shows_shares_of_each_class(tmp_path):
    figure = confusion(["a", "b"], [[3, 1], [0, 0]], title="Title")
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.75", "0.25", "0.00", "0.00"]
    figure.savefig(tmp_path / "figure.png")


def test_reliability_is_a_curve_beside_the_diagonal(tmp_path):
    figure = reliability([0.4, 0.9], [0.5, 0.8], [3, 9], title="Title")
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), [0.5, 0.8])
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize("name", [r"$\foo$", "$", "猫", "\x1f", "a\nb", "", "x" * 200])
def test_a_class_may_have_any_name(tmp_path, name):
    for figure in (
        portrait([1], {name: 3, "b": 4}, [[0.9, 0.1], [0.5, 0.5]], title=name),
        confusion([name, "b"], [[3, 1], [0, 0]], title="Title"),
    ):
        save(figure, tmp_path / "figure.png")
