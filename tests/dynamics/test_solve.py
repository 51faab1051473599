"""Every fast path to H(T) gives the states and gradients of plain steps."""

import pytest
import torch

import gread
from gread import REACTIONS, SOLVERS
from gread.dynamics import solve, stepping
from gread.dynamics.integrate import integrate
from gread.dynamics.tableau import Tableau
from gread.graph.operator import Adjacency
from gread.models.layers import ALPHAS, BETAS

TABLES = [name for name, solver in SOLVERS.items() if isinstance(solver, Tableau)]
KNOWN = [name for name, reaction in REACTIONS.items() if hasattr(reaction, "terms")]
LINEAR = [
    name for name in KNOWN if not (REACTIONS[name].terms.square or REACTIONS[name].terms.cube)
]


@pytest.fixture(scope="module")
def graph():
    return gread.load("csbm", num_nodes=60)


def layer(dtype=torch.float64, **settings):
    torch.manual_seed(1)
    made = gread.ReactionDiffusionConv(5, **settings).to(dtype)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def outcome(made, graph):
    """H(T) and the gradients of H(0) and of all parameters."""
    torch.manual_seed(2)
    dtype = next(made.parameters(), torch.zeros((), dtype=torch.float64)).dtype
    h0 = (0.1 * torch.randn(60, 5, dtype=dtype)).requires_grad_()
    made.zero_grad()
    final = made(h0, graph.edge_index)
    final.backward(torch.randn(60, 5, dtype=dtype))
    return [final.detach(), h0.grad, *(parameter.grad for parameter in made.parameters())]


def both_ways(graph, monkeypatch, **settings):
    """Outcomes of the fast and the plain path, and the flow that was used."""
    taken = []
    for flow in ("polynomial_flow", "stepped_flow"):
        original = getattr(solve, flow)

        def spy(*arguments, original=original, flow=flow, **options):
            taken.append(flow)
            return original(*arguments, **options)

        monkeypatch.setattr(solve, flow, spy)
    made = layer(**settings)
    fast = outcome(made, graph)
    with gread.plain_only():
        plain = outcome(made, graph)
    assert len(taken) == 1
    return fast, plain, taken[0]


def assert_same(fast, plain, tolerance):
    for one, other in zip(fast, plain, strict=True):
        scale = max(other.abs().max().item(), 1e-3)
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("solver", TABLES)
@pytest.mark.parametrize("reaction", [*KNOWN, None])
@pytest.mark.parametrize("adjacency", ["soft", "original"])
def test_stepped_flow_equals_plain_steps(graph, monkeypatch, reaction, solver, adjacency):
    monkeypatch.setattr(solve, "polynomial_series", lambda *_: None)
    settings = {"reaction": reaction, "solver": solver, "adjacency": adjacency}
    fast, plain, taken = both_ways(graph, monkeypatch, **settings, time=1.3, step_size=0.5)
    assert taken == "stepped_flow"
    assert_same(fast, plain, 1e-12)


@pytest.mark.parametrize("alpha", [kind for kind in ALPHAS if kind != "matrix"])
@pytest.mark.parametrize("beta", [kind for kind in BETAS if kind != "matrix"])
@pytest.mark.parametrize("reaction", ["bs", "z", "st"])
def test_stepped_flow_equals_plain_steps_for_every_coefficient_kind(
    graph, monkeypatch, reaction, alpha, beta
):
    settings = {"reaction": reaction, "alpha": alpha, "beta": beta}
    fast, plain, taken = both_ways(graph, monkeypatch, **settings, time=1.0, step_size=0.4)
    assert taken == "stepped_flow"
    assert_same(fast, plain, 1e-12)


@pytest.mark.parametrize("reaction", ["bs", "f", "st"])
def test_stepped_flow_with_recomputed_states_equals_plain_steps(graph, monkeypatch, reaction):
    settings = {"reaction": reaction, "time": 2.5, "step_size": 0.1}
    fast, plain, taken = both_ways(graph, monkeypatch, **settings)
    assert taken == "stepped_flow"
    assert_same(fast, plain, 1e-12)


@pytest.mark.parametrize("reaction", [*KNOWN, None])
@pytest.mark.parametrize("adjacency", ["soft", "original"])
@pytest.mark.parametrize(("solver", "step_size"), [("rk4", 0.5), ("euler", 0.05)])
def test_stepped_flow_with_stored_stages_equals_plain_steps(
    graph, monkeypatch, reaction, adjacency, solver, step_size
):
    monkeypatch.setattr(solve, "polynomial_series", lambda *_: None)
    monkeypatch.setattr(stepping, "KEEPING", ("cpu",))
    settings = {"reaction": reaction, "solver": solver, "adjacency": adjacency}
    fast, plain, taken = both_ways(graph, monkeypatch, **settings, time=1.3, step_size=step_size)
    assert taken == "stepped_flow"
    assert_same(fast, plain, 1e-12)


def products_of_training(graph, monkeypatch):
    """Number of products with Ã or its transpose in a forward and backward pass of BS by RK4."""
    counts = []
    original = Adjacency.run

    def run(self, program, *arguments):
        counts.extend(p.kind in ("product", "back", "gather", "pull") for p in program.passes)
        return original(self, program, *arguments)

    monkeypatch.setattr(Adjacency, "run", run)
    outcome(layer(reaction="bs", time=2.0, step_size=0.5), graph)
    return sum(counts)


def test_stored_stages_reduce_the_number_of_products(graph, monkeypatch):
    # Four steps of four stages with two products. Each step recomputes all but the last product.
    assert products_of_training(graph, monkeypatch) == 4 * (8 + 8 + 7)
    monkeypatch.setattr(stepping, "KEEPING", ("cpu",))
    assert products_of_training(graph, monkeypatch) == 4 * (8 + 8)
    monkeypatch.setattr(stepping, "MOST_KEPT", 100)
    assert products_of_training(graph, monkeypatch) == 4 * (8 + 8 + 7)


def states_kept(graph, steps):
    """Number of states [N, d] besides H(0) that Euler steps store for the backward pass."""
    made = layer(
        torch.float32, reaction="f", time=float(steps), solver="euler", adjacency="original"
    )
    h0 = torch.zeros(60, 5, requires_grad=True)
    kept = {}

    def keep(tensor):
        if tensor.shape == (60, 5) and tensor.data_ptr() != h0.data_ptr():
            kept[tensor.data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        made(h0, graph.edge_index)
    return len(kept)


def test_number_of_states_stored_for_the_backward_pass(graph):
    assert [states_kept(graph, steps) for steps in (1, 2, 9)] == [0, 1, 8]  # H(0) is not counted
    assert states_kept(graph, 100) == 9


@pytest.mark.parametrize("solver", TABLES)
@pytest.mark.parametrize("reaction", [*LINEAR, None])
@pytest.mark.parametrize(("alpha", "beta"), [("scalar", "scalar"), ("vector", "vector")])
def test_polynomial_flow_equals_plain_steps(graph, monkeypatch, reaction, solver, alpha, beta):
    settings = {"reaction": reaction, "solver": solver, "alpha": alpha, "beta": beta}
    fast, plain, taken = both_ways(
        graph, monkeypatch, adjacency="original", time=3.2, step_size=0.1, **settings
    )
    assert taken == "polynomial_flow"
    assert_same(fast, plain, 1e-10)


@pytest.mark.parametrize("reaction", ["fb", "fb*"])
def test_polynomial_flow_has_the_gradients_of_terms_that_cancel(graph, monkeypatch, reaction):
    """With α = β the terms of FB cancel, but their gradients do not vanish."""
    monkeypatch.setattr(solve, "stepped_flow", pytest.fail)
    made = gread.ReactionDiffusionConv(
        5, reaction=reaction, adjacency="original", beta="scalar", time=3.0
    ).double()
    fast = outcome(made, graph)
    with gread.plain_only():
        plain = outcome(made, graph)
    assert_same(fast, plain, 1e-9)


@pytest.mark.parametrize("reaction", [*LINEAR, None])
def test_polynomial_flow_equals_plain_steps_in_float32(graph, monkeypatch, reaction):
    settings = {"reaction": reaction, "adjacency": "original", "time": 3.2, "step_size": 0.1}
    fast, plain, taken = both_ways(graph, monkeypatch, dtype=torch.float32, **settings)
    assert taken == "polynomial_flow"
    assert_same(fast, plain, 2e-5)


class OnePerNode(torch.nn.Module):
    def forward(self):
        return torch.linspace(0, 1, 60, dtype=torch.float64).unsqueeze(-1)


def test_a_coefficient_per_node_takes_plain_steps(graph):
    made = layer()
    made.beta = OnePerNode()
    h0 = torch.randn(60, 5, dtype=torch.float64)
    with gread.plain_only():
        plain = made(h0, graph.edge_index)
    torch.testing.assert_close(made(h0, graph.edge_index), plain)


def test_polynomial_flow_is_used_only_if_it_applies_and_saves_products(graph, monkeypatch):
    settings = {"adjacency": "original", "solver": "euler", "time": 3.0}
    assert both_ways(graph, monkeypatch, **settings, step_size=1.0)[2] == "stepped_flow"
    asymmetric = {"adjacency": "original", "normalization": "row", "time": 3.0, "step_size": 0.1}
    assert both_ways(graph, monkeypatch, **asymmetric)[2] == "stepped_flow"
    detached = {"reaction": "st", "detach_source": True, "time": 3.0, "step_size": 0.1}
    fast, plain, taken = both_ways(graph, monkeypatch, adjacency="original", **detached)
    assert taken == "stepped_flow"
    assert_same(fast, plain, 1e-12)


@pytest.mark.parametrize("name", TABLES)
def test_chain_and_growth_polynomial_equal_one_solver_step(name):
    """For the scalar equation dh/dt = m h, the links and R(z) both give one step."""
    table, m, tau = SOLVERS[name], -0.7, 0.9
    step = integrate(lambda t, h: m * h, torch.ones(1, dtype=torch.float64), tau, solver=name)
    states = [1.0]
    for weights, slope in stepping.chain(table):
        before = sum(w * y for w, y in zip(weights, states, strict=True))
        states.append(before + slope * tau * m * states[-1])
    growth = sum(c * (tau * m) ** power for power, c in enumerate(table.growth))
    assert abs(states[-1] - step.final.item()) < 1e-14
    assert abs(growth - step.final.item()) < 1e-14


def test_overflow_error_of_a_flow_states_the_time(graph):
    made = layer(reaction="z", time=9.0)
    with pytest.raises(gread.IntegrationError, match="the state overflows at t = "):
        made(50 + torch.zeros(60, 5, dtype=torch.float64), graph.edge_index)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_features_equal_dense_features_in_logits_and_gradients(graph, dtype):
    x = (torch.rand(60, 50) < 0.1).to(dtype)
    model = gread.GREAD(50, 8, 3).to(dtype).eval()
    logits = model(x, graph.edge_index)
    logits.square().sum().backward()
    got = model.encoder.weight.grad.clone()
    model.zero_grad()
    with gread.plain_only():
        plain = model(x, graph.edge_index)
        plain.square().sum().backward()
    torch.testing.assert_close(logits, plain)
    torch.testing.assert_close(got, model.encoder.weight.grad)


def test_training_is_the_same_with_and_without_compiled_kernels(monkeypatch):
    """Includes dropout, whose mask is a hash and the same on every backend."""
    data = gread.load("csbm", num_nodes=60)
    results = []
    for compiled in (False, True):
        if compiled:
            monkeypatch.undo()
        else:
            monkeypatch.setattr("gread.kernels.backend.available", lambda device: ImportError())
        torch.manual_seed(0)
        model = gread.GREAD(data.num_features, 8, 2, dropout=0.3)
        results.append(gread.fit(model, data, gread.TrainConfig(epochs=5)))
    losses = [[epoch.loss for epoch in result.history] for result in results]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("reaction", KNOWN)
@pytest.mark.parametrize("solver", ["euler", "rk4"])
@pytest.mark.parametrize("own_weights", [False, True])
@pytest.mark.parametrize("counts", [(20, 18, 4, 4, 1), (3, 3, 2, 1, 1)])
def test_finished_members_equal_members_padded_with_zero_length_steps(
    graph, monkeypatch, reaction, solver, own_weights, counts
):
    """Cover recomputed and stored stages."""
    adj = gread.OriginalAdjacency()(graph.x.double(), graph.edge_index)
    entries = adj.weight * torch.rand(5, adj.weight.numel()) if own_weights else adj.weight
    h0, source, grad = torch.rand(3, 5, 60, 6, dtype=torch.float64)
    rates = torch.rand(5, 2, 6, dtype=torch.float64)
    terms, most = REACTIONS[reaction].terms, max(counts)
    lengths = tuple((0.1,) * count + (0.0,) * (most - count) for count in counts)
    leaving = tuple(sum(count > step for count in counts) for step in range(most))
    found = []
    for active, devices in (((), ()), (leaving, ()), (leaving, ("cpu",))):
        monkeypatch.setattr(stepping, "KEEPING", devices)
        given = [part.clone().requires_grad_() for part in (entries, h0, source, rates)]
        weight, *states = given
        final = stepping.stepped_flow(
            *(gread.Adjacency(adj.pattern, weight), *states),
            terms=terms,
            tableau=SOLVERS[solver],
            lengths=lengths,
            active=active,
        )
        wanted = [part for part in given if part is not states[1] or terms.source]
        found.append([final, *torch.autograd.grad(final, wanted, grad)])
    for padded, *others in zip(*found, strict=True):
        for sliced in others:
            torch.testing.assert_close(sliced, padded, rtol=1e-11, atol=1e-12)
