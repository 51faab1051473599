import io
import time

from rich.console import Console

from gread.base import progress
from gread.base.progress import Stages


def wait_for(text, file):
    until = time.monotonic() + 30
    while text not in file.getvalue():
        assert time.monotonic() < until, file.getvalue()
        time.sleep(0.005)


def test_file_output_gets_periodic_progress_lines(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.005)
    file = io.StringIO()
    with Stages(Console(file=file)) as shown:
        shown.stage("training", total=3)
        wait_for("0 s: training\n", file)
        shown.update("epoch 2", completed=2)
        wait_for("0 s: epoch 2\n", file)
    after = file.getvalue()
    time.sleep(0.02)
    assert file.getvalue() == after


def test_a_short_computation_writes_nothing_to_a_file():
    file = io.StringIO()
    with Stages(Console(file=file)) as shown:
        shown.stage("training")
        shown.update("epoch 1")
    assert file.getvalue() == ""


def test_terminal_shows_a_progress_bar_that_is_erased():
    file = io.StringIO()
    with Stages(Console(file=file, force_terminal=True, width=80)) as shown:
        shown.stage("training", total=3)
        shown.update("epoch 2", completed=2)
        shown.bar.refresh()
        assert "2/3" in file.getvalue()
        shown.stage("comparing")
        shown.bar.refresh()
    assert "comparing" in file.getvalue()
    assert file.getvalue().endswith("\x1b[2K")  # the line of the bar is erased


def test_terminal_bar_is_refreshed_without_updates(monkeypatch):
    monkeypatch.setattr(progress, "REFRESH", 0.005)

    class Seconds(Stages):
        left = "9 s left"

        def now(self):
            return self.left, 0

    file = io.StringIO()
    with Seconds(Console(file=file, force_terminal=True, width=80)) as shown:
        shown.stage("training")
        wait_for("9 s left", file)
        assert "8 s left" not in file.getvalue()
        shown.left = "8 s left"
        wait_for("8 s left", file)


def test_nothing_is_shown_before_the_first_stage():
    file = io.StringIO()
    with Stages(Console(file=file, force_terminal=True)):
        pass
    assert file.getvalue() == ""
