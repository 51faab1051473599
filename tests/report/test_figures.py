import numpy as np
import pytest

from gread.report.charts import Axis, Chart, Image, Panel, Series
from gread.report.figures import FORMATS, confusion, draw, portrait, reliability, save, write


def line(label, y, **about):
    return Series(label, tuple(map(float, range(len(y)))), tuple(map(float, y)), **about)


def texts(axis):
    return [text.get_text() for text in axis.texts if text.get_text()]


def test_images_share_one_colour_scale_and_one_colour_bar():
    images = [Image(((0.0, float(k)), (1.0, 2.0)), 0.0, 2.0, "state") for k in range(4)]
    panels = tuple(
        Panel(f"t = {k}", image=image, x=Axis(hidden=True), y=Axis(hidden=True))
        for k, image in enumerate(images)
    )
    figure = draw(Chart("Title", panels, columns=2))
    shown = [axis for axis in figure.axes if axis.get_images()]
    assert [axis.get_title() for axis in shown] == ["t = 0", "t = 1", "t = 2", "t = 3"]
    assert {axis.get_images()[0].get_clim() for axis in shown} == {(0.0, 2.0)}
    assert len(figure.axes) == 5  # including the colour bar


def test_lines_of_a_single_panel_have_labels_instead_of_a_legend():
    series = (line("up", [1, 2, 3]), line("down", [3, 2, 1]), line("early", [1, 2]))
    figure = draw(Chart("Title", (Panel(series=series, x=Axis(limits=(0, 2))),)))
    (axis,) = figure.axes
    assert set(texts(axis)) == {"up", "down", "early"}
    assert not figure.legends


def test_line_labels_do_not_overlap():
    series = tuple(line(f"model {k}", [1, 1 + k / 1000]) for k in range(8))
    panel = Panel(series=series, x=Axis(limits=(0, 1)), y=Axis(limits=(0, 2)))
    (axis,) = draw(Chart("Title", (panel,))).axes
    heights = sorted(text.get_position()[1] for text in axis.texts if text.get_text())
    assert min(np.diff(heights)) > 0.05


def test_several_panels_share_one_legend():
    panels = tuple(Panel(name, (line("a", [1, 2]), line("b", [2, 1]))) for name in ("one", "two"))
    figure = draw(Chart("Title", panels, columns=2))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_zero_does_not_change_the_limits_of_a_log_axis():
    series = (line("falls", [1, 0.1, 0.0, 0.0]), line("stays", [1, 1, 1, 1]))
    axes = Axis(limits=(0, 3)), Axis(log=True, limits=(1e-3, 10.0))
    figure = draw(Chart("Title", (Panel(series=series, x=axes[0], y=axes[1]),)))
    figure.canvas.draw()
    assert figure.axes[0].get_ylim() == (1e-3, 10.0)
    (label,) = (text for text in figure.axes[0].texts if text.get_text() == "falls")
    assert label.xy == (1, 0.1)  # the last point above zero


def test_bands_whiskers_and_marks_are_drawn():
    spread = {"low": (0.5, 1.5), "high": (1.5, 2.5)}
    panels = (
        Panel(series=(line("line", [1, 2], **spread),)),
        Panel(series=(line("bars", [1, 2], mark="bars", **spread),)),
        Panel(series=(line("points", [1, 2], mark="points"),)),
    )
    band, bars, points = draw(Chart("Title", panels, columns=3)).axes
    assert len(band.lines) == len(band.collections) == 1
    assert [bar.get_height() for bar in bars.patches] == [1.0, 2.0]
    assert bars.collections
    assert points.collections[0].get_offsets().shape == (2, 2)


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_missing_panels_leave_empty_grid_cells(columns):
    panel = Panel("empty", remark="no runs yet")
    figure = draw(Chart("Title", (panel,) * (columns + 1), columns=columns))
    assert len(figure.axes) == 2 * columns
    shown = [axis.axison for axis in figure.axes]
    assert shown == [True] * (columns + 1) + [False] * (columns - 1)
    assert texts(figure.axes[0]) == ["no runs yet"]


def test_chart_is_written_deterministically_in_every_format(tmp_path):
    chart = Chart("Title", (Panel(series=(line("a", [1, 2]),)),), note="A note. " * 40)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        files = write(chart, tmp_path / folder, "name")
    assert {file.suffix.removeprefix(".") for file in files} == {*FORMATS, "json"}
    for file in files:
        assert file.stat().st_size > 200
        assert file.read_bytes() == (tmp_path / "one" / file.name).read_bytes()


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


def test_reliability_diagram_plots_a_curve_and_the_diagonal(tmp_path):
    figure = reliability([0.4, 0.9], [0.5, 0.8], [3, 9], title="Title")
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), [0.5, 0.8])
    figure.savefig(tmp_path / "figure.png")


NAMES = (r"$\foo$", "$", "猫", "\x1f", "a\nb", "", "x" * 200)


@pytest.mark.parametrize("name", NAMES)
def test_portrait_renders_arbitrary_titles_and_class_names(tmp_path, name):
    figure = portrait([1], {name: 3, "b": 4}, [[0.9, 0.1], [0.5, 0.5]], title=name)
    save(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_confusion_matrix_renders_arbitrary_class_names(tmp_path):
    counts = np.eye(len(NAMES), dtype=int).tolist()
    save(confusion(list(NAMES), counts, title="Title"), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000
