"""GREAD-X and its special cases."""

import copy
from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, gelu, layer_norm, leaky_relu
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

import gread
from gread.base.errors import InputError
from gread.models.catalog import MODELS, GraphSize
from gread.models.gread_x import DIRECTIONS, GREADX, by_type, masked_by_type
from gread.models.stacking import stack, unstack
from gread.models.steps import ACTIVATIONS, COEFFICIENTS, NORMS, MatrixMixture
from gread.runs.grouping import populations
from gread.runs.run import run, run_together
from gread.runs.spec import RunSpec
from gread.training.memory import bytes_held
from gread.training.population import fit_together
from tests.checks import dense


@pytest.fixture
def directed(graph):
    """Graph with directed edges."""
    source, target = graph.edge_index
    graph.edge_index = graph.edge_index[:, source < target]
    return graph


def set_matrices(mixture: MatrixMixture, *factors: float) -> None:
    """Set coefficients to multiples of the identity, one for each term."""
    eye = torch.eye(mixture.linear.out_features, dtype=mixture.linear.weight.dtype)
    with torch.no_grad():
        mixture.linear.weight.copy_(torch.cat([factor * eye for factor in factors], 1))
        mixture.linear.bias.zero_()


def linear_steps(**options) -> GREADX:
    given = {"weights": "shared", "norm": "none", "activation": "none", "dropout": 0.0} | options
    return GREADX(3, 8, 2, **given).double().eval()


@pytest.mark.parametrize("reaction", gread.REACTIONS)
def test_coefficients_proportional_to_identity_equal_gread_with_euler(graph, reaction):
    tau, alpha, beta, steps = 0.25, 0.7, 0.3, 5
    options = {"alpha": "one", "beta": "one", "adjacency": "original", "solver": "euler"}
    known = gread.GREAD(
        3, 8, 2, reaction=reaction, time=tau * steps, step_size=tau, **options
    ).double()
    known.layer.alpha.forward = lambda: alpha
    known.layer.beta.forward = lambda: beta
    model = linear_steps(reaction=reaction, num_steps=steps)
    model.encoder.load_state_dict(known.encoder.state_dict())
    set_matrices(model.steps[0].mixture, 1 - tau * alpha, tau * alpha, tau * beta)
    expected = known.eval().hidden_states(0.3 * graph.x, graph.edge_index)
    found = model.hidden_states(0.3 * graph.x, graph.edge_index)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


def test_step_without_reaction_equals_gcn_layer_with_linear_residual(graph):
    model = linear_steps(reaction="none", num_steps=1)
    conv, residual = GCNConv(8, 8).double(), nn.Linear(8, 8, bias=False).double()
    nn.init.normal_(conv.bias)
    with torch.no_grad():
        weight = torch.cat([residual.weight, conv.lin.weight], 1)
        model.steps[0].mixture.linear.weight.copy_(weight)
        model.steps[0].mixture.linear.bias.copy_(conv.bias)
    first, last = model.hidden_states(graph.x, graph.edge_index)
    torch.testing.assert_close(last, conv(first, graph.edge_index) + residual(first))


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_form_gives_finite_gradients_to_all_parameters(
    directed, coefficients, norm, direction
):
    forms = {"coefficients": coefficients, "norm": norm, "direction": direction}
    model = GREADX(3, 4, 2, num_steps=2, **forms).double()
    model(directed.x, directed.edge_index).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("residual", "jump"), [(True, False), (False, True), (True, True)])
def test_activation_residual_and_jump_equal_their_formulas(graph, activation, residual, jump):
    forms = {"activation": activation, "residual": residual, "jump": jump}
    model = GREADX(3, 4, 2, dropout=0.0, **forms).double()
    states = model.hidden_states(graph.x, graph.edge_index)
    phi, adj = ACTIVATIONS[activation], model.operator(graph.x, graph.edge_index, None)
    torch.testing.assert_close(states[0], phi(model.encoder(graph.x)))
    for number, (h, after) in enumerate(pairwise(states)):
        terms = torch.cat(model.terms(number, h, states[0], adj), 1)
        mixed = model.steps[number].mixture.linear(terms)
        new = phi(batch_norm(mixed, None, None, training=True))
        torch.testing.assert_close(after, h + new if residual else new)
    expected = model.decoder(torch.cat(states, 1) if jump else states[-1])
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_number_of_step_modules_with_shared_and_per_step_weights(graph):
    shared, each = (GREADX(3, 4, 2, num_steps=5, weights=w) for w in ("shared", "per-step"))
    assert len(shared.steps) == 1
    assert len(each.steps) == 5
    assert len(shared.double().hidden_states(graph.x, graph.edge_index)) == 6


def test_reversing_edges_exchanges_the_coefficients_of_both_directions(directed):
    torch.manual_seed(1)
    model = GREADX(3, 4, 2, num_steps=2, direction="both").double().eval()
    other = GREADX(3, 4, 2, num_steps=2, direction="both").double().eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for step in other.steps:
            ego, to, to_r, back, back_r = step.mixture.linear.weight.split(4, 1)
            step.mixture.linear.weight.copy_(torch.cat([ego, back, back_r, to, to_r], 1))
    found = model(directed.x, directed.edge_index)
    torch.testing.assert_close(found, other(directed.x, directed.edge_index.flip(0)))


@pytest.fixture
def typed(directed):
    """Graph with three edge types; some pairs have edges of two types."""
    directed.edge_index = torch.cat([directed.edge_index, directed.edge_index[:, :4]], 1)
    directed.edge_type = torch.arange(directed.num_edges) % 2
    directed.edge_type[-4:] = 2
    return directed


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_single_edge_type_equals_untyped_edges(directed, direction):
    model = GREADX(3, 4, 2, direction=direction).double().eval()
    same = model(directed.x, directed.edge_index, edge_type=torch.zeros(directed.num_edges).long())
    assert torch.equal(same, model(directed.x, directed.edge_index))


@pytest.mark.parametrize("embedding", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_permuting_edge_types_permutes_their_coefficients(typed, direction, embedding):
    forms = {"direction": direction, "embedding": embedding, "num_nodes": 12, "num_relations": 3}
    model = GREADX(3, 4, 2, num_steps=2, **forms).double().eval()
    other = copy.deepcopy(model)
    ways = DIRECTIONS[direction][0]
    order = [2, 0, 1]  # old type of each new type
    places = [3 * way + one for way in range(ways) for one in order]
    with torch.no_grad():
        for step, given in zip(other.steps, model.steps, strict=True):
            ego, *terms = given.mixture.linear.weight.split(4, 1)
            moved = [terms[2 * place + k] for place in places for k in range(2)]
            step.mixture.linear.weight.copy_(torch.cat([ego, *moved], 1))
    other.embeddings = nn.ModuleList(model.embeddings[k] for k in places if embedding)
    renamed = torch.tensor(order).argsort()[typed.edge_type]
    found = model(typed.x, typed.edge_index, edge_type=typed.edge_type)
    torch.testing.assert_close(found, other(typed.x, typed.edge_index, edge_type=renamed))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_operator_of_an_edge_type_contains_only_its_edges(typed, direction, weighted):
    model = GREADX(3, 4, 2, direction=direction, num_relations=3).double()
    weight = torch.rand(typed.num_edges, dtype=torch.float64) if weighted else None
    found = model.operator(typed.x, typed.edge_index, weight, typed.edge_type)
    expected = []
    for ends in (typed.edge_index, typed.edge_index.flip(0))[: DIRECTIONS[direction][0]]:
        for number in range(3):
            own = typed.edge_type == number
            part = None if weight is None else weight[own]
            expected.append(dense(model.adjacency(typed.x, ends[:, own], part)))
    torch.testing.assert_close([dense(one) for one in found], expected)
    given = (typed.edge_index, weight, typed.edge_type, 3, typed.x)
    for one, other in zip(by_type(*given), masked_by_type(*given), strict=True):
        adjacency = model.adjacency
        torch.testing.assert_close(
            dense(adjacency(typed.x, *one)), dense(adjacency(typed.x, *other))
        )


@pytest.mark.parametrize("self_loops", [0.0, 1.0, 0.5])
def test_masked_operators_equal_separate_ones_with_loops_of_some_types(self_loops):
    edges = torch.tensor([[0, 1, 2, 0, 0, 2], [1, 2, 0, 0, 0, 2]])
    types, x = torch.tensor([0, 1, 0, 0, 1, 1]), torch.randn(4, 3)
    adjacency = GREADX(3, 4, 2, self_loops=self_loops).adjacency
    for weight in (None, torch.rand(6)):
        given = (edges, weight, types, 3, x)
        masked = masked_by_type(*given, self_loops)
        for one, other in zip(by_type(*given), masked, strict=True):
            torch.testing.assert_close(dense(adjacency(x, *one)), dense(adjacency(x, *other)))


def test_edge_mask_of_ones_keeps_the_output_on_a_graph_with_typed_loops(typed):
    model = GREADX(3, 4, 2, num_relations=3).double().eval()
    typed.edge_index[:, typed.edge_type.argmin()] = 2
    expected = model(typed.x, typed.edge_index, edge_type=typed.edge_type)
    mask = torch.ones(typed.num_edges, dtype=torch.float64)
    set_masks(model, mask, typed.edge_index, apply_sigmoid=False)
    found = model(typed.x, typed.edge_index, edge_type=typed.edge_type)
    torch.testing.assert_close(found, expected)


def test_edge_mask_applies_to_edges_of_every_type(typed):
    model = GREADX(3, 4, 2, num_relations=3, self_loops=0.0).double()
    mask = torch.zeros(typed.num_edges, dtype=torch.float64)
    mask[typed.edge_type == 1] = 1.0
    set_masks(model, mask, typed.edge_index, apply_sigmoid=False)
    found = [dense(one) for one in model.operator(typed.x, typed.edge_index, None, typed.edge_type)]
    clear_masks(model)
    before = model.operator(typed.x, typed.edge_index, None, typed.edge_type)
    torch.testing.assert_close(found[1], dense(before[1]))
    assert not found[0].any()
    assert not found[2].any()


def test_changed_edge_types_invalidate_cached_operators(typed):
    model = GREADX(3, 4, 2, num_relations=3).double().eval()
    first = model(typed.x, typed.edge_index, edge_type=typed.edge_type)
    swapped = torch.tensor([1, 0, 2])[typed.edge_type]
    other = model(typed.x, typed.edge_index, edge_type=swapped)
    assert not torch.allclose(first, other)
    typed.edge_type.copy_(swapped)
    assert torch.equal(other, model(typed.x, typed.edge_index, edge_type=typed.edge_type))


def test_stacked_members_with_edge_types_equal_single_models(typed):
    models = [GREADX(3, 4, 2, num_relations=3, self_loops=k).double().eval() for k in (0, 1)]
    found = stack(models)(typed.x, typed.edge_index, edge_type=typed.edge_type)
    for one, model in zip(found, models, strict=True):
        alone = model(typed.x, typed.edge_index, edge_type=typed.edge_type)
        torch.testing.assert_close(one, alone)


def test_training_uses_the_edge_types_of_the_graph():
    """Edges of one type join equal classes, edges of the other do not."""
    data = gread.csbm(200, homophily=0.5, degree=12, num_features=2, mean=0.0, seed=1)
    data.edge_type = (data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).long()
    data.x = torch.ones(200, 1)
    options = {"num_steps": 2, "embedding": True, "num_nodes": 200, "self_loops": 0.0}
    typed = GREADX(1, 16, 2, num_relations=2, **options)
    found = gread.fit(typed, data, gread.TrainConfig(epochs=60))
    plain = gread.fit(
        GREADX(1, 16, 2, **options), without_types(data), gread.TrainConfig(epochs=60)
    )
    assert found.best.val > plain.best.val + 0.2


def without_types(data):
    other = copy.copy(data)
    del other.edge_type
    return other


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda types: None, "edge_type must be given with num_relations=3, got none"),
        (lambda types: types.tolist(), "edge_type must be a tensor, got list"),
        (lambda types: types[:2], r"a type for each edge, got torch.int64 \[2\]"),
        (lambda types: types.int(), "a type for each edge, got torch.int32"),
        (lambda types: types + 1, "edge_type must be 0 to 2, as num_relations is 3, got 3"),
        (lambda types: types - 1, "edge_type must be 0 to 2, as num_relations is 3, got -1"),
    ],
)
def test_invalid_edge_types_raise_a_one_line_error(typed, change, sentence):
    model = GREADX(3, 4, 2, num_relations=3).double()
    with pytest.raises(InputError, match=sentence):
        model(typed.x, typed.edge_index, edge_type=change(typed.edge_type))


def test_evolve_gives_states_after_steps(graph):
    model = GREADX(3, 4, 2, num_steps=3).double().eval()
    states = model.hidden_states(graph.x, graph.edge_index)
    found = model.evolve(graph.x, graph.edge_index, save_at=[0, 2])
    assert torch.equal(found.final, states[3])
    assert torch.equal(found.saved[1], states[2])
    assert found.evaluations == 3


FORMS = [
    {},
    {"local": False},
    {"embedding": True, "num_nodes": 12},
    {"direction": "both"},
    {"direction": "both", "embedding": True, "num_nodes": 12, "local": False},
    {"jump": True, "residual": True, "weights": "shared"},
]


@pytest.mark.parametrize(
    "form",
    [
        *FORMS,
        *({"norm": norm, "coefficients": kind} for norm in NORMS for kind in COEFFICIENTS),
        *({"reaction": reaction} for reaction in ("none", *gread.REACTIONS)),
    ],
    ids=str,
)
def test_stacked_members_equal_single_models_in_outputs_and_gradients(directed, form):
    graph = directed
    models = [GREADX(3, 4, 2, num_steps=2, dropout=0.0, **form).double() for _ in range(3)]
    for model in models:
        for _ in range(3):  # updates the running statistics
            model(graph.x * torch.rand(()), graph.edge_index)
    together = stack(models)
    found = together.eval()(graph.x, graph.edge_index)
    upstream = torch.randn(3, 12, 2, dtype=torch.float64)
    together.train()(graph.x, graph.edge_index).backward(upstream)
    for parameter in together.parameters():  # so that `unstack` gives the gradients back
        parameter.data = parameter.grad
    gradients = copy.deepcopy(models)
    unstack(together, gradients, range(3))
    for one, model, gradient, back in zip(found, models, gradients, upstream, strict=True):
        torch.testing.assert_close(one, model.eval()(graph.x, graph.edge_index))
        model.train()(graph.x, graph.edge_index).backward(back)
        for got, expected in zip(gradient.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(got.data, expected.grad)


def test_population_with_batch_normalization_equals_single_trainings():
    data = gread.load("csbm", num_nodes=60)
    config = gread.TrainConfig(epochs=12)

    def make(seed):
        torch.manual_seed(seed)
        return GREADX(data.num_features, 4, 2, num_steps=2, dropout=0.0).double()

    data.x = data.x.double()
    models = [make(seed) for seed in range(3)]
    generators = [torch.Generator().manual_seed(seed) for seed in range(3)]
    fits = fit_together(models, data, [config] * 3, splits=range(3), generators=generators)
    for seed, (found, model) in enumerate(zip(fits, models, strict=True)):
        alone = make(seed)
        expected = gread.fit(alone, data, config, split=seed)
        assert [e.loss for e in found.history] == pytest.approx([e.loss for e in expected.history])
        out = model.eval()(data.x, data.edge_index)
        torch.testing.assert_close(out, alone.eval()(data.x, data.edge_index))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"norm": "bach"}, "unknown norm 'bach', did you mean 'batch'"),
        ({"num_steps": 0}, "num_steps must be a whole number of at least 1, got 0"),
        ({"coefficients": "tensor"}, "unknown coefficients 'tensor'"),
        ({"weights": "own"}, "unknown weights 'own'"),
        ({"direction": "in"}, "unknown direction 'in'"),
        ({"activation": "rule"}, "unknown activation 'rule'"),
        ({"reaction": "turing"}, "unknown reaction 'turing'"),
        ({"num_relations": 0}, "num_relations must be a whole number of at least 1, got 0"),
        ({"embedding": True}, "embedding needs num_nodes, the number of nodes of the graph"),
        ({"embedding": "maybe"}, "embedding must be true or false, got 'maybe'"),
        ({"local": "none"}, "local must be true or false, got 'none'"),
        ({"residual": 2}, "residual must be true or false, got 2"),
        ({"jump": None}, "jump must be true or false, got None"),
    ],
)
def test_invalid_settings_raise_a_one_line_error(options, sentence):
    with pytest.raises(InputError, match=sentence):
        GREADX(3, 4, 2, **options)


def test_both_directions_need_a_directed_graph(graph):
    model = GREADX(3, 4, 2, direction="both").double().eval()
    with pytest.raises(InputError, match='direction must be "undirected" for a graph of which'):
        model(graph.x, graph.edge_index)
    nothing = graph.edge_index[:, :0]
    assert model(graph.x, nothing).isfinite().all()
    weight = torch.rand(graph.num_edges, dtype=torch.float64)  # different in each direction
    assert model(graph.x, graph.edge_index, weight).isfinite().all()


def test_embedding_equals_its_formula_and_rejects_another_graph(graph):
    """If e(X) = 0, H_0 = φ(Ã W)."""
    model = GREADX(3, 4, 2, embedding=True, num_nodes=12).double().eval()
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.zero_()
    adj = dense(gread.OriginalAdjacency()(graph.x, graph.edge_index))
    first = model.hidden_states(graph.x, graph.edge_index)[0]
    torch.testing.assert_close(first, torch.relu(adj @ model.embeddings[0].weight))
    with pytest.raises(InputError, match="x must have 12 rows, one for each node of the graph"):
        model(graph.x[:8], graph.edge_index[:, :0])


@pytest.mark.parametrize("step", [-1, 4, 0.5])
def test_save_at_outside_the_steps_is_rejected(graph, step):
    model = GREADX(3, 4, 2, num_steps=3).double()
    with pytest.raises(InputError, match=f"save_at must name steps 0 to 3, got {step}"):
        model.evolve(graph.x, graph.edge_index, save_at=[step])


def test_output_ignores_features_of_isolated_node_without_local_term(graph):
    model = GREADX(3, 4, 2, num_steps=1, local=False, self_loops=0.0, norm="none").double().eval()
    other = graph.x.clone()
    other[11] += 1  # node 11 has no neighbours
    before, after = (model(x, graph.edge_index) for x in (graph.x, other))
    torch.testing.assert_close(before, after, rtol=0, atol=0)


def tuned(name: str, **options) -> nn.Module:
    given = {"input_dropout": 0.0, "dropout": 0.0} | options
    return MODELS[name].make(3, 8, 2, num_nodes=12, **given).double()


def gcn_of_pyg(ego, neighbours, bias):
    """GCNConv with a linear residual."""
    conv, residual = GCNConv(8, 8).double(), nn.Linear(8, 8, bias=False).double()
    conv.load_state_dict({"lin.weight": neighbours, "bias": bias})
    residual.load_state_dict({"weight": ego})
    return lambda h, edge_index: conv(h, edge_index) + residual(h)


def sage_of_pyg(ego, neighbours, bias):
    """SAGEConv, whose root weight is the residual."""
    conv = SAGEConv(8, 8, aggr="mean", root_weight=True).double()
    weights = {"lin_l.weight": neighbours, "lin_l.bias": bias, "lin_r.weight": ego}
    conv.load_state_dict(weights)
    return conv


@pytest.mark.parametrize(("name", "make"), [("tuned-gcn", gcn_of_pyg), ("tuned-sage", sage_of_pyg)])
def test_tuned_networks_equal_pyg_layers_with_residual_and_normalization(graph, name, make):
    model = tuned(name, num_steps=5)
    linears = [step.mixture.linear for step in model.steps]
    layers = [make(*one.weight.detach().split(8, 1), one.bias.detach()) for one in linears]
    norms = [nn.BatchNorm1d(8).double() for _ in layers]
    for _ in range(3):  # updates the running statistics
        h, *states = model.hidden_states(graph.x, graph.edge_index)
        torch.testing.assert_close(h, torch.relu(model.encoder(graph.x)))
        for state, layer, norm in zip(states, layers, norms, strict=True):
            h = torch.relu(norm(layer(h, graph.edge_index)))
            torch.testing.assert_close(state, h, rtol=1e-12, atol=1e-12)
    for step, norm in zip(model.steps, norms, strict=True):
        torch.testing.assert_close(step.norm.running_mean, norm.running_mean)
        torch.testing.assert_close(step.norm.running_var, norm.running_var)


def test_tuned_gat_with_one_head_equals_pyg_gatconv(graph):
    model = tuned("tuned-gat", heads=1, num_steps=3).eval()
    states = model.hidden_states(graph.x, graph.edge_index)
    for number, step in enumerate(model.steps):
        conv = GATConv(8, 8, bias=False).double()
        with torch.no_grad():
            conv.lin.weight.copy_(model.linear[number].weight)
            conv.att_src.copy_(model.attention[number].source)
            conv.att_dst.copy_(model.attention[number].target)
        h = states[number]
        mixed = step.mixture.linear(torch.cat([h, conv(h, graph.edge_index)], 1))
        norm = nn.BatchNorm1d(8).double().eval()
        torch.testing.assert_close(states[number + 1], torch.relu(norm(mixed)))


def test_gat_sep_equals_its_dense_equation(graph):
    """Dense softmax over neighbours, without the node itself."""
    model = tuned("gat-sep", heads=2, num_layers=2).eval()
    near = torch.zeros(12, 12, dtype=torch.bool)
    near[graph.edge_index[1], graph.edge_index[0]] = True
    states = model.hidden_states(graph.x, graph.edge_index)
    torch.testing.assert_close(states[0], gelu(model.encoder(graph.x)))
    for h, block, after in zip(states[:-1], model.blocks, states[1:], strict=True):
        z = block.linear(layer_norm(h, (8,), block.norm.weight, block.norm.bias))
        gathered = []
        for head, y in enumerate(z.split(4, 1)):
            source, target = (y @ part[0, head] for part in _ends(block.attention))
            scores = leaky_relu(target.unsqueeze(1) + source, 0.2).masked_fill(~near, -torch.inf)
            gathered.append(scores.softmax(1).nan_to_num(0) @ y)
        inner = gelu(block.inner(torch.cat([z, *gathered], 1)))
        torch.testing.assert_close(after, h + block.outer(inner))


def _ends(attention):
    return attention.source, attention.target


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_saved_and_loaded_model_gives_the_same_output(directed, tmp_path, form):
    pytest.importorskip("huggingface_hub")
    model = GREADX(3, 4, 2, num_steps=2, **form)
    x = directed.x.float()
    for _ in range(3):  # updates the running statistics
        model(x, directed.edge_index)
    model.save_pretrained(tmp_path / "m")
    loaded = GREADX.from_pretrained(tmp_path / "m")
    assert not loaded.training
    expected = model.eval()(x, directed.edge_index)
    assert torch.equal(loaded(x, directed.edge_index), expected)


class Reading(TorchDispatchMode):
    """Record operations that synchronize with the host, which a CUDA graph cannot contain."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in READS:
            self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


aten = torch.ops.aten
READS = {aten._local_scalar_dense, aten.nonzero, aten.equal, aten._unique2, aten.masked_select}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_later_calls_do_not_synchronize_with_the_host(directed, form):
    """Required for recording an epoch as a CUDA graph, see `gread.kernels.cuda_graph`."""
    model = GREADX(3, 4, 2, **form).double()
    with Reading() as reading:
        model(directed.x, directed.edge_index).square().sum().backward()
    assert reading.seen  # the first call checks the graph
    with Reading() as reading:
        model(directed.x, directed.edge_index).square().sum().backward()
    assert not reading.seen


def test_later_calls_with_edge_types_do_not_synchronize_with_the_host(typed):
    model = GREADX(3, 4, 2, num_relations=3).double()
    model(typed.x, typed.edge_index, edge_type=typed.edge_type)
    with Reading() as reading:
        model(typed.x, typed.edge_index, edge_type=typed.edge_type).square().sum().backward()
    assert not reading.seen


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_edge_mask_applies_to_operators_of_every_direction(directed, direction):
    """The mask of an edge multiplies its entry in the operator of each direction."""
    model = GREADX(3, 4, 2, direction=direction).double()
    mask = torch.rand(directed.num_edges, dtype=torch.float64)
    before = model.operator(directed.x, directed.edge_index, None)
    set_masks(model, mask, directed.edge_index, apply_sigmoid=False)
    after = model.operator(directed.x, directed.edge_index, None)
    clear_masks(model)
    factor = torch.ones(12, 12, dtype=torch.float64)  # loops keep their weight
    factor[directed.edge_index[1], directed.edge_index[0]] = mask
    for one, other, each in zip(before, after, (factor, factor.T), strict=False):
        torch.testing.assert_close(dense(other), each * dense(one))
    assert len(after) == DIRECTIONS[direction][0]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_pyg_explainer_finds_the_relevant_feature(direction):
    data = gread.csbm(30, homophily=0.9, degree=4, num_features=4, mean=0.0, seed=1)
    data.x[:, 0] += 6 * data.y - 3  # only feature 0 determines the class
    if direction == "both":
        data.edge_index = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    model = GREADX(4, 8, 2, num_steps=2, direction=direction)
    gread.fit(model, data, gread.TrainConfig(epochs=50))
    explainer = Explainer(
        model,
        algorithm=GNNExplainer(epochs=60),
        explanation_type="model",
        node_mask_type="common_attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    explanation = explainer(data.x, data.edge_index, index=int(data.edge_index[1, 0]))
    assert explanation.node_mask.view(-1).argmax() == 0
    assert explanation.edge_mask.shape == (data.num_edges,)
    assert explanation.edge_mask.max() > 0


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_kernels_equal_plain_pytorch_in_outputs_and_gradients(directed, form, device):
    data, model = directed.to(device), GREADX(3, 4, 2, dropout=0.0, **form).double().to(device)
    x = data.x.clone().requires_grad_()
    found = []
    for only in (nullcontext, gread.plain_only):
        with only():
            logits = model(x, data.edge_index)
            wanted = [x, *model.parameters()]
            found.append([logits, *torch.autograd.grad(logits.square().sum(), wanted)])
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("settings", [{}, {"embedding": True}])
def test_saved_and_loaded_classifier_gives_the_same_predictions(tmp_path, settings):
    data = gread.csbm(60, 3, homophily=0.8, degree=6, num_features=6, num_splits=1, seed=1)
    few = {"epochs": 5, "hidden_channels": 8, "num_steps": 2, **settings}
    classifier = gread.GraphClassifier("gread-x", settings=few).fit(data)
    loaded = gread.GraphClassifier.load(classifier.save(tmp_path / "m"))
    assert loaded.predict_proba() == pytest.approx(classifier.predict_proba(), abs=1e-6)
    assert set(loaded.predict()) <= {0, 1, 2}


def test_runs_that_differ_in_rates_and_operators_are_one_population():
    own = [
        {"dropout": 0.3},
        {"dropout": 0.0, "normalization": "row"},
        {"input_dropout": 0.2, "self_loops": 0.0},
    ]
    specs = [
        RunSpec(
            dataset="csbm",
            model="gread-x",
            split=number,
            seed=number,
            hyper={"hidden_channels": 8, "num_steps": 2, **hyper},
            train=gread.TrainConfig(epochs=6),
            options={"num_nodes": 60},
        )
        for number, hyper in enumerate(own)
    ]
    assert len(populations(specs, "cpu", None)) == 1
    for together, spec in zip(run_together(specs), specs, strict=True):
        alone = run(spec)
        for ours, theirs in zip(together.history, alone.history, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_memory_estimate_covers_the_tensors_saved_for_backward(directed, form):
    hyper = {"hidden_channels": 64, "num_steps": 4, **form}
    size = GraphSize(12, directed.num_edges, 3, 36)
    model = GREADX(3, 64, 2, **{"num_steps": 4, **form}).double()
    kept = bytes_held(model, directed.x, directed.edge_index) / 2  # in float64
    assert kept <= MODELS["gread-x"].population.memory(hyper, size)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_epochs_recorded_as_cuda_graph_equal_cpu_epochs(directed, form):
    """Compare a single run and a population, with more epochs than recording needs."""
    config = gread.TrainConfig(epochs=8, lr=1e-3)

    def make():
        torch.manual_seed(2)
        return GREADX(3, 4, 2, num_steps=2, dropout=0.0, **form).double()

    here = gread.fit(make(), directed, config).history
    data = directed.clone().to("cuda")
    there = gread.fit(make().cuda(), data, config).history
    generators = [torch.Generator().manual_seed(seed) for seed in range(2)]
    models = [make().cuda() for _ in range(2)]
    together = fit_together(models, data, [config] * 2, splits=(0, 0), generators=generators)
    for found in (there, *(fit.history for fit in together)):
        assert [e.loss for e in found] == pytest.approx([e.loss for e in here], rel=1e-6)
