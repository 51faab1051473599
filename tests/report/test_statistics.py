import pytest

from gread.report.statistics import (
    cliques,
    compare,
    critical_difference,
    friedman,
    holm,
    improves,
    standings,
    t_quantile,
)


def test_ranks_are_shared_and_medals_are_not_lost_on_ties():
    table = {"a": {"x": 90.0, "y": 50.0}, "b": {"x": 90.0, "y": 40.0}, "c": {"x": 80.0, "y": 60.0}}
    found = {standing.model: standing for standing in standings(table)}
    assert found["a"].rank == (1.5 + 2) / 2
    assert found["c"].rank == (3 + 1) / 2
    assert found["a"].medals == (1, 1, 0)
    assert found["b"].medals == (1, 0, 1)
    assert found["c"].medals == (1, 1, 0)
    assert found["b"].accuracy == 65


def test_paired_comparison_gives_difference_and_p_values():
    first = [80.0, 82.0, 85.0, 81.0, 90.0, 84.0]
    second = [79.0, 80.0, 82.0, 77.0, 85.0, 78.0]
    found = compare(first, second)
    assert found.difference == pytest.approx(21 / 6)
    assert found.wilcoxon == pytest.approx(2 / 2**6)  # all six differences have the same sign
    assert found.t_test == pytest.approx(0.005934, rel=1e-3)  # t = 3.5 / (1.8708 / √6), 5 degrees
    assert found.pairs == 6
    assert compare(first, first).wilcoxon == 1
    assert compare([1.0, 2.0, 3.0], [0.0, 1.0, 2.0]).difference == 1


def test_a_single_pair_is_no_evidence():
    found = compare([2.0], [1.0])
    assert (found.difference, found.wilcoxon, found.t_test) == (1.0, 1.0, 1.0)


def test_improvement_test_is_one_sided():
    first, second = [80.0, 82.0, 85.0, 81.0, 90.0], [79.0, 80.0, 82.0, 77.0, 85.0]
    assert compare(first, second).wilcoxon == compare(second, first).wilcoxon == 2 / 2**5
    assert improves(first, second)  # p = 1 / 2**5
    assert not improves(second, first)


def test_friedmans_test_gives_the_numbers_of_scipys_example():
    pulse = {
        "before": [72, 96, 88, 92, 74, 76, 82],
        "after": [120, 120, 132, 120, 101, 96, 112],
        "later": [76, 95, 104, 96, 84, 72, 76],
    }
    found = friedman({name: dict(enumerate(row)) for name, row in pulse.items()})
    assert found == pytest.approx((10.57142857, 0.00506341))
    assert friedman({name: dict(enumerate(row)) for name, row in list(pulse.items())[:2]}) is None
    assert friedman({name: {"x": 1.0, "y": 2.0} for name in "abc"}) is None


@pytest.mark.parametrize(
    ("models", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)]
)
def test_critical_differences_match_the_table_of_demsar(models, q):
    """Table 5a of Demšar, JMLR 2006."""
    expected = q * (models * (models + 1) / (6 * 14)) ** 0.5
    assert critical_difference(models, 14) == pytest.approx(expected, rel=3e-4)


def test_nemenyi_groups_match_the_example_of_demsar():
    """Demšar's example: four models, 14 datasets, two significant differences at the level 0.10."""
    ranks = [1.964, 2.000, 2.893, 3.143]
    at_tenth = critical_difference(4, 14, level=0.10)
    assert at_tenth == pytest.approx(1.12, abs=0.005)
    assert cliques(ranks, at_tenth) == [(0, 2), (2, 3)]
    assert cliques(ranks, critical_difference(4, 14)) == [(0, 3)]


def test_a_group_has_several_members():
    assert cliques([1.0, 2.0, 3.0], 0.5) == []
    assert cliques([1.0, 1.0], 0.1) == [(0, 1)]
    assert cliques([], 1.0) == []


def test_holm_correction_is_monotone_and_capped_at_one():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_student_t_quantiles_match_published_tables():
    assert t_quantile(0.975, 9) == pytest.approx(2.262, abs=5e-4)
