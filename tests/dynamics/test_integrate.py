import math
import re

import pytest
import torch
import torchdiffeq

from gread.base.errors import InputError
from gread.dynamics.integrate import finite, integrate, walk
from gread.dynamics.tableau import MAX_EVALUATIONS, SOLVERS, Integration, IntegrationError, Tableau
from tests.checks import measured_order

FIXED = [name for name, solver in SOLVERS.items() if isinstance(solver, Tableau)]
ADAPTIVE = [name for name in SOLVERS if name not in FIXED]
IN_TORCHDIFFEQ = {"euler": "euler", "midpoint": "midpoint", "heun": "heun2", "rk4": "rk4"}
ONE = torch.ones(1, dtype=torch.float64)


def pendulum(t, h):
    """Nonlinear field that depends on time."""
    return torch.stack([h[1], -torch.sin(h[0]) + 0.3 * math.cos(t)])


def logistic_error(solver, step_size):
    h0 = 0.1 * ONE
    exact = 1 / (1 + 9 * math.exp(-2))
    result = integrate(lambda t, h: h * (1 - h), h0, 2.0, solver=solver, step_size=step_size)
    return abs(result.final.item() - exact)


@pytest.mark.parametrize("solver", FIXED)
def test_measured_order_is_the_declared_one(solver):
    order = measured_order(lambda step: logistic_error(solver, step), 0.1)
    assert order == pytest.approx(SOLVERS[solver].order, abs=0.3)


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_adaptive_error_follows_the_tolerance(solver):
    def error(tolerance):
        result = integrate(
            lambda t, h: h * (1 - h), 0.1 * ONE, 2.0, solver=solver, tolerance=tolerance
        )
        return abs(result.final.item() - 1 / (1 + 9 * math.exp(-2)))

    assert error(1e-8) < 1e-6
    assert error(1e-4) < 1e-2


@pytest.mark.parametrize("solver", SOLVERS)
def test_constant_slope_is_exact(solver):
    result = integrate(lambda t, h: 2 * torch.ones_like(h), ONE, 1.3, solver=solver, step_size=0.5)
    torch.testing.assert_close(result.final, 1 + 2.6 * ONE)


@pytest.mark.parametrize(
    ("time", "step"), [(3.0, 1.0), (1.46, 1.0), (0.12, 0.2), (1.1, 0.1), (3.79, 0.5)]
)
@pytest.mark.parametrize("solver", IN_TORCHDIFFEQ)
def test_fixed_step_agrees_with_torchdiffeq(solver, time, step):
    h0 = torch.tensor([1.0, 0.5], dtype=torch.float64)
    theirs = torchdiffeq.odeint(
        lambda t, h: pendulum(float(t), h),
        h0,
        torch.tensor([0.0, time], dtype=torch.float64),
        method=IN_TORCHDIFFEQ[solver],
        options={"step_size": step},
    )[-1]
    ours = integrate(pendulum, h0, time, solver=solver, step_size=step).final
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_classic_rk4_equals_the_three_eighths_rule_on_linear_fields_only():
    a = torch.randn(3, 3, dtype=torch.float64)
    h0 = torch.randn(3, 2, dtype=torch.float64)

    def both(f):
        return [integrate(f, h0, 2.0, solver=s).final for s in ("rk4", "rk4-classic")]

    torch.testing.assert_close(*both(lambda t, h: a @ h))
    ours, classic = both(lambda t, h: torch.sin(3 * a @ h))
    assert (ours - classic).abs().max() > 1e-2


@pytest.mark.parametrize("solver", FIXED)
def test_the_last_step_is_shortened_to_end_at_time(solver):
    visited = []

    def clock(t, h):
        visited.append(t)
        return torch.ones_like(h)

    result = integrate(clock, 0 * ONE, 1.375, solver=solver, step_size=0.5)
    stages = SOLVERS[solver].stages
    assert result.final.item() == pytest.approx(1.375, abs=1e-14)
    assert visited[::stages] == [0.0, 0.5, 1.0]
    assert max(visited) <= 1.375
    assert result.evaluations == len(visited) == 3 * stages


def test_a_step_longer_than_time_is_one_step():
    assert integrate(lambda t, h: h, ONE, 0.3, solver="euler", step_size=2.0).final == 1.3


def test_default_step_size_is_one():
    assert integrate(lambda t, h: -h, torch.ones(3), 3.0, solver="euler").evaluations == 3


def test_round_off_makes_no_extra_step():
    assert integrate(lambda t, h: h, ONE, 1.1, solver="euler", step_size=0.1).evaluations == 11


@pytest.mark.parametrize("solver", SOLVERS)
def test_saving_does_not_change_the_solution(solver):
    h0 = torch.tensor([1.0, 0.5], dtype=torch.float64)
    times = [2.0, 0.0, 0.5, 0.77, 1.9, 0.77]
    options = {"solver": solver, "step_size": 0.5, "tolerance": 1e-7}
    plain = integrate(pendulum, h0, 2.0, **options)
    saving = integrate(pendulum, h0, 2.0, **options, save_at=times)
    assert torch.equal(plain.final, saving.final)
    assert torch.equal(saving.saved[0], saving.final)
    assert torch.equal(saving.saved[1], h0)
    assert torch.equal(saving.saved[3], saving.saved[5])
    exact = integrate(pendulum, h0, 2.0, solver="dopri5", tolerance=1e-11, save_at=times).saved
    tolerance = {1: 0.6, 2: 0.06}.get(SOLVERS[solver].order, 2e-3)
    for ours, true in zip(saving.saved, exact, strict=True):
        torch.testing.assert_close(ours, true, atol=tolerance, rtol=0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_evaluations_are_counted(solver):
    calls = 0

    def counted(t, h):
        nonlocal calls
        calls += 1
        return -h

    result = integrate(
        counted, ONE, 1.0, solver=solver, step_size=0.25, save_at=[0.25, 0.3, 0.4, 1.0]
    )
    assert result.evaluations == calls


def test_adaptive_integration_accepts_max_evaluations_steps():
    assert len(Integration(MAX_EVALUATIONS, 1.0, "dopri5").steps()) == MAX_EVALUATIONS


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_integration_counts_its_evaluations(solver):
    how = Integration(1.1, 0.25, solver)
    assert how.num_steps == len(how.lengths) == 5
    assert sum(how.lengths) == pytest.approx(1.1)
    found = integrate(lambda t, h: -h, ONE, 1.1, solver=solver, step_size=0.25).evaluations
    assert how.evaluations == (found if how.tableau else 0)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ((-1.0,), "time must be"),
        ((1.0, 0.0), "step_size must be a positive number, got 0.0"),
        ((1.0, 1.0, "rk5"), "unknown solver 'rk5'"),
        ((1.0, 1.0, "rk4", 0.0), "tolerance must be a positive number, got 0.0"),
    ],
)
def test_invalid_integration_settings_raise_input_error(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        Integration(*settings)


@pytest.mark.parametrize("solver", SOLVERS)
def test_max_evaluations_is_an_inclusive_limit(solver):
    options = {"solver": solver, "step_size": 0.25}
    needed = integrate(lambda t, h: -h, ONE, 1.0, **options).evaluations
    integrate(lambda t, h: -h, ONE, 1.0, max_evaluations=needed, **options)
    with pytest.raises(IntegrationError, match=f"max_evaluations = {needed - 1}"):
        integrate(lambda t, h: -h, ONE, 1.0, max_evaluations=needed - 1, **options)


@pytest.mark.parametrize("solver", FIXED)
def test_finite_state_with_infinite_sum_is_accepted(solver):
    h0 = torch.full((3,), 1e308, dtype=torch.float64)
    final = integrate(lambda t, h: torch.zeros_like(h), h0, 1.0, solver=solver).final
    assert torch.equal(final, h0)


@pytest.mark.parametrize("solver", ["rk4", "dopri5"])
def test_infinities_of_opposite_sign_raise_integration_error(solver):
    slope = torch.tensor([1e37, -1e37])  # H(T) is (+∞, −∞), whose sum is NaN
    with pytest.raises(IntegrationError, match=r"state (overflows|is not finite) at t = "):
        integrate(lambda t, h: slope, 1e-4 * slope, 40.0, solver=solver)


@pytest.mark.parametrize("solver", SOLVERS)
def test_partial_state_takes_the_same_steps_as_the_full_state(solver):
    """Integrate half of a state with `total` over both halves, and compare with the whole state."""
    half = torch.tensor([0.1, 0.6], dtype=torch.float64)
    options = {"solver": solver, "step_size": 0.5, "tolerance": 1e-6}

    def fisher(t, h):
        return h * (1 - h)

    whole = integrate(fisher, torch.cat([half, half]), 2.0, **options)
    part = integrate(fisher, half, 2.0, total=lambda sums: 2 * sums, **options)
    assert part.evaluations == whole.evaluations
    torch.testing.assert_close(part.final, whole.final[:2], rtol=1e-14, atol=0)


def test_infinite_total_raises_integration_error():
    with pytest.raises(IntegrationError):
        integrate(lambda t, h: h, ONE, 1.0, total=lambda sums: sums + math.inf)


def test_time_far_below_step_size_takes_one_step():
    assert integrate(lambda t, h: h, ONE, 1e-12, solver="euler", step_size=1.0).evaluations == 1


@pytest.mark.parametrize("solver", FIXED)
def test_gradient_is_right(solver):
    h0 = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    rate = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)

    def final(h0, rate):
        return integrate(
            lambda t, h: rate * h * (1 - h), h0, 1.0, solver=solver, step_size=0.4
        ).final

    assert torch.autograd.gradcheck(final, (h0, rate))


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_adaptive_gradient_approaches_the_exact_one(solver):
    h0 = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    rate = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    final = integrate(lambda t, h: rate * h * (1 - h), h0, 1.0, solver=solver, tolerance=1e-7).final
    exact = 1 / (1 + (1 / h0 - 1) * torch.exp(-rate))
    for ours, true in zip(
        torch.autograd.grad(final.sum(), (h0, rate)),
        torch.autograd.grad(exact.sum(), (h0, rate)),
        strict=True,
    ):
        torch.testing.assert_close(ours, true, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_the_length_of_an_adaptive_step_has_no_gradient(solver):
    """For a linear field and constant step lengths, ∂h(T)/∂h(0) = h(T)/h(0)."""
    h0 = torch.tensor([1.0, 0.3], dtype=torch.float64, requires_grad=True)
    final = integrate(lambda t, h: -1.3 * h, h0, 2.0, solver=solver, tolerance=1e-2).final
    (gradient,) = torch.autograd.grad(final.sum(), h0)
    torch.testing.assert_close(gradient, (final / h0).detach(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("solver", FIXED)
def test_walk_equals_integrate_without_finiteness_checks(solver):
    integration = Integration(2.0, 0.4, solver)
    h0 = torch.tensor([1.0, 0.5], dtype=torch.float64)
    final = integrate(pendulum, h0, 2.0, solver=solver, step_size=0.4).final
    assert torch.equal(walk(pendulum, h0, integration), final)
    assert not walk(lambda t, h: h / 0, h0, integration).isfinite().any()


def test_finite_returns_true_while_values_cannot_be_read(monkeypatch):
    state = torch.tensor([math.nan])
    assert finite(state) is False
    monkeypatch.setattr("gread.kernels.cuda_graph._reading", False)
    assert finite(state) is True


def test_zero_time_returns_the_initial_state():
    result = integrate(lambda t, h: h / 0, ONE, 0.0, save_at=[0.0])
    assert result.final is ONE
    assert result.evaluations == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"time": -1.0}, "time must be a number, zero or above, got -1.0"),
        ({"time": math.nan}, "time must be a number, zero or above, got nan"),
        ({"step_size": 0.0}, "step_size must be a positive number, got 0.0"),
        ({"step_size": "1"}, "step_size must be a positive number, got '1'"),
        ({"tolerance": -1e-3}, "tolerance must be a positive number, got -0.001"),
        ({"save_at": [0.5, 2.0]}, r"save_at must lie between 0 and time \(1\), got 2.0"),
        ({"solver": "rk5"}, "unknown solver 'rk5', did you mean 'rk4'?"),
        ({"max_evaluations": 0}, "max_evaluations must be a whole number of at least 1, got 0"),
    ],
)
def test_invalid_arguments_raise_input_error(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        integrate(lambda t, h: h, ONE, **({"time": 1.0} | arguments))


def test_too_many_fixed_steps_are_rejected_before_integration():
    with pytest.raises(
        IntegrationError, match="takes 4000 evaluations, more than max_evaluations = 100"
    ):
        integrate(pytest.fail, ONE, 1.0, step_size=1e-3, max_evaluations=100)


def test_adaptive_solver_stops_at_max_evaluations():
    with pytest.raises(
        IntegrationError, match="within max_evaluations = 50: choose a larger tolerance"
    ):
        integrate(lambda t, h: torch.sin(100 * h), ONE, 10.0, solver="dopri5", max_evaluations=50)


def test_overflow_error_states_the_time_and_a_remedy():
    with pytest.raises(
        IntegrationError, match=r"at t = \d.* with step_size 0.5: .*grow.*: choose a shorter time"
    ):
        integrate(lambda t, h: h**3, 3 * torch.ones(1), 10.0, step_size=0.5)


def test_overflow_error_states_the_first_nonfinite_step():
    # Grows by a factor of 10 per step from 10 and overflows float32 after 38 steps. The rate
    # is measured at the last state of at most ten times H(0).
    with pytest.raises(IntegrationError, match=r"overflows at t = 19 .*of about 18 at t = 0.5: "):
        integrate(lambda t, h: 18 * h, 10 * torch.ones(1), 50.0, solver="euler", step_size=0.5)


def test_overflow_error_states_the_time_when_growth_began():
    def field(t, h):  # t = 4 is the last step at which the state is below ten times H(0)
        return -h if t < 3 else h**3

    with pytest.raises(IntegrationError, match=r"at a rate of .* at t = 4: "):
        integrate(field, 100 * torch.ones(1), 10.0, solver="euler", step_size=0.5)


def test_nonfinite_initial_state_raises_integration_error():
    sentence = r"NaN or infinity at t = 0: check the features and the parameters$"
    with pytest.raises(IntegrationError, match=sentence):
        integrate(lambda t, h: h, torch.tensor([math.nan]), 1.0)


@pytest.mark.parametrize("save_at", [(), (1e-6,)])
def test_infinite_final_state_of_adaptive_solver_raises_integration_error(save_at):
    # The relative error of an infinite state is zero, so the last step is accepted.
    with pytest.raises(IntegrationError, match="not finite at t = 40: choose a shorter time"):
        integrate(
            lambda t, h: torch.full_like(h, 1e37),
            torch.full((2,), 1e33),
            40.0,
            solver="dopri5",
            save_at=save_at,
        )


@pytest.mark.parametrize("solver", ADAPTIVE)
@pytest.mark.parametrize("time", [0.1, 0.7])  # not representable in float32
def test_adaptive_solver_does_not_evaluate_beyond_the_end_time(solver, time):
    seen = []

    def decay(t, h):
        seen.append(t)
        return -h

    integrate(decay, ONE, time, solver=solver)
    assert max(seen) == pytest.approx(time, rel=1e-12)


def test_adaptive_solvers_give_distinct_results():
    found = {
        tuple(integrate(pendulum, torch.ones(2), 3.0, solver=solver, tolerance=1e-3).final.tolist())
        for solver in ADAPTIVE
    }
    assert len(found) == len(ADAPTIVE)


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_adaptive_steps_do_not_depend_on_the_size_of_the_state(solver):
    few, many = (
        integrate(lambda t, h: torch.sin(h), torch.ones(n), 5.0, solver=solver) for n in (1, 1000)
    )
    assert many.evaluations == few.evaluations
    torch.testing.assert_close(many.final, few.final.expand(1000))


def test_adaptive_solver_reaches_end_times_not_exact_in_float32():
    decayed = integrate(lambda t, h: -h, ONE, 0.1, solver="dopri8", tolerance=1e-13).final
    assert decayed.item() == pytest.approx(math.exp(-0.1), abs=1e-12)
    # Between 2^24 and 2^25, float32 represents only even integers.
    ends = integrate(
        lambda t, h: ONE, 0 * ONE, 2.0**24 + 1, solver="dopri5", max_evaluations=10**6
    ).final
    assert ends.item() == pytest.approx(2.0**24 + 1, abs=0.1)


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_underflow_of_adaptive_step_suggests_a_larger_tolerance(solver):
    # h' = h² from 1 has no solution beyond t = 1.
    with pytest.raises(IntegrationError, match=r"underflow in dt .*choose a larger tolerance"):
        integrate(lambda t, h: h**2, torch.ones(1), 2.0, solver=solver, tolerance=0.1)


@pytest.mark.slow
def test_tolerance_below_float32_precision_raises_integration_error():
    def fisher(t, h):
        return h * (1 - h)

    h0 = torch.linspace(0.1, 0.9, 1000).view(-1, 1)
    integrate(fisher, h0, 3.0, solver="dopri5")
    # With 1e-12 the outcome depends on the rounding of the processor.
    with pytest.raises(IntegrationError, match="tolerance"):
        integrate(fisher, h0, 3.0, solver="dopri5", tolerance=1e-14)


@pytest.mark.parametrize("solver", FIXED)
@pytest.mark.parametrize(("time", "step"), [(1e12, 1e-3), (1e300, 1e-300)])
def test_step_count_beyond_memory_is_rejected_immediately(solver, time, step):
    with pytest.raises(IntegrationError, match="more than max_evaluations = 10000"):
        integrate(pytest.fail, ONE, time, solver=solver, step_size=step)


@pytest.mark.parametrize("solver", FIXED)
def test_a_method_decays_inside_its_stable_interval_and_grows_outside(solver):
    rate = SOLVERS[solver].stable_interval

    def after(step):
        field = lambda t, h: -rate * h  # noqa: E731
        return abs(integrate(field, ONE, 100 * step, solver=solver, step_size=step).final.item())

    assert after(0.99) < 1 < after(1.01)


@pytest.mark.parametrize("solver", FIXED)
def test_instability_error_states_the_largest_stable_step(solver):
    def field(t, h):  # the fastest rate is −8
        return torch.tensor([[-8.0], [-1.0], [0.5]], dtype=torch.float64) * h

    named = SOLVERS[solver].stable_interval / 8
    h0 = torch.ones(3, 1, dtype=torch.float64)
    with pytest.raises(IntegrationError, match="choose a smaller step_size, since") as caught:
        integrate(field, h0, 1000.0, solver=solver, step_size=1.5)
    step = float(re.search(r"stable up to ([\d.]+) at t = 0$", str(caught.value))[1])
    assert 0.9 * named <= step <= named
    integrate(field, h0, 100.0, solver=solver, step_size=step)


def test_error_distinguishes_growing_dynamics_from_an_unstable_step():
    with pytest.raises(
        IntegrationError, match=r"the equation itself grows, at a rate of .*: choose"
    ):
        integrate(lambda t, h: h * (h - 1), 3 * ONE, 10.0, step_size=0.01)
