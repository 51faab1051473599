import pytest

from gread.dynamics.tableau import SOLVERS, Adaptive, Tableau


def test_inconsistent_tables_raise_assertion_errors():
    with pytest.raises(AssertionError, match="sum to one"):
        Tableau("wrong weights", 2, a=((1.0,),), b=(0.5, 0.4))
    with pytest.raises(AssertionError, match="triangular"):
        Tableau("wrong shape", 2, a=((1.0, 0.0),), b=(0.5, 0.5))
    with pytest.raises(AssertionError, match="one half"):
        Tableau("wrong node", 2, a=((0.9,),), b=(0.5, 0.5))


def test_there_are_fixed_and_adaptive_solvers():
    kinds = {type(solver) for solver in SOLVERS.values()}
    assert kinds == {Tableau, Adaptive}
    assert {"euler", "midpoint", "heun", "rk4", "rk4-classic", "dopri5"} <= set(SOLVERS)
