import pytest

from gread.report.statistics import compare, standings


def test_ranks_are_shared_and_medals_are_not_lost_on_ties():
    table = {"a": {"x": 90.0, "y": 50.0}, "b": {"x": 90.0, "y": 40.0}, "c": {"x": 80.0, "y": 60.0}}
    found = {standing.model: standing for standing in standings(table)}
    assert found["a"].rank == (1.5 + 2) / 2
    assert found["c"].rank == (3 + 1) / 2
    assert found["a"].medals == (1, 1, 0)
    assert found["b"].medals == (1, 0, 1)
    assert found["c"].medals == (1, 1, 0)
    assert found["b"].accuracy == 65


def test_comparison_of_pairs():
    first = [80.0, 82.0, 85.0, 81.0, 90.0, 84.0]
    second = [79.0, 80.0, 82.0, 77.0, 85.0, 78.0]
    found = compare(first, second)
    assert found.difference == pytest.approx(21 / 6)
    assert found.wilcoxon == pytest.approx(2 / 2**6)  # all six differences have the same sign
    assert 0 < found.t_test < 0.01
    assert found.pairs == 6
    assert compare(first, first).wilcoxon == 1
    assert compare([1.0, 2.0, 3.0], [0.0, 1.0, 2.0]).difference == 1
