import math

import pytest
import torch
from torch import nn
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import GCNConv, Sequential

import gread
from gread.base.errors import InputError
from gread.models.gread import ReactionDiffusionConv
from gread.models.stacking import CannotStack, stack
from tests.checks import dense


def build(reaction="bs", **options):
    options = {"input_dropout": 0.0} | options
    return gread.GREAD(3, 4, 2, reaction=reaction, **options).double().eval()


@pytest.mark.parametrize("alpha", ["scalar", "vector", "one"])
@pytest.mark.parametrize("beta", ["scalar", "vector", "one"])
def test_one_euler_step_equals_dense_formula(graph, alpha, beta):
    layer = ReactionDiffusionConv(
        3, adjacency="original", alpha=alpha, beta=beta, solver="euler", time=0.1
    ).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    a = dense(layer.adjacency(graph.x, graph.edge_index))
    identity = torch.eye(12, dtype=torch.float64)
    f = -layer.alpha() * ((identity - a) @ graph.x) + layer.beta() * ((a - a @ a) @ graph.x)
    torch.testing.assert_close(layer(graph.x, graph.edge_index), graph.x + 0.1 * f)


def test_blurring_then_sharpening_is_one_euler_step_of_bs(graph):
    """Eqs. (11) to (13): B = A H and H' = B + L B give H' = H − L H + (A − A²) H."""
    layer = ReactionDiffusionConv(3, adjacency="original", alpha="one", beta="one", solver="euler")
    adj = layer.adjacency(graph.x, graph.edge_index)
    blurred = adj @ graph.x
    sharpened = blurred + adj.laplacian(blurred)
    torch.testing.assert_close(layer(graph.x, graph.edge_index), sharpened)


def test_diffusion_alone_solves_the_heat_equation(graph):
    layer = ReactionDiffusionConv(
        3,
        reaction=None,
        adjacency="original",
        alpha="one",
        time=1.5,
        solver="dopri5",
        tolerance=1e-9,
    )
    a = dense(layer.adjacency(graph.x, graph.edge_index))
    exact = torch.linalg.matrix_exp(-1.5 * (torch.eye(12, dtype=torch.float64) - a)) @ graph.x
    torch.testing.assert_close(layer(graph.x, graph.edge_index), exact, rtol=1e-6, atol=1e-6)


def test_without_reaction_the_quadratic_form_never_grows(graph):
    layer = ReactionDiffusionConv(
        3, reaction=None, adjacency="original", alpha="one", time=5.0, step_size=0.25
    )
    adj = layer.adjacency(graph.x, graph.edge_index)
    times = torch.linspace(0, 5, 41).tolist()
    states = layer.evolve(graph.x, graph.edge_index, save_at=times).saved
    energy = torch.stack([(h * adj.laplacian(h)).sum() for h in states])
    assert (energy.diff() <= 0).all()
    assert energy[-1] < 0.01 * energy[0]


def test_source_term_without_diffusion_gives_linear_growth(graph):
    layer = ReactionDiffusionConv(3, reaction="st", beta="one", time=3.0, solver="euler")
    layer.alpha = _Zero()
    saved = layer.double().evolve(graph.x, graph.edge_index, save_at=[0.5, 2.0]).saved
    torch.testing.assert_close(saved[0], 1.5 * graph.x)
    torch.testing.assert_close(saved[1], 3.0 * graph.x)


@pytest.mark.parametrize("reaction", ["f", "ac", "z"])
def test_fixed_points_of_reactions_do_not_change(graph, reaction):
    layer = ReactionDiffusionConv(
        2, reaction=reaction, adjacency="original", normalization="row", beta="one", time=4.0
    ).double()
    ones = torch.ones(12, 2, dtype=torch.float64)
    torch.testing.assert_close(layer(ones, graph.edge_index), ones)
    torch.testing.assert_close(layer(0 * ones, graph.edge_index), 0 * ones)


def test_evolve_gives_the_trajectory_that_forward_decodes(graph):
    model = build(time=1.7, step_size=0.5)
    solution = model.evolve(graph.x, graph.edge_index, save_at=[0.0, 0.9, 1.7])
    torch.testing.assert_close(solution.saved[0], model.encoder(graph.x))
    assert torch.equal(solution.saved[2], solution.final)
    logits = model(graph.x, graph.edge_index)
    torch.testing.assert_close(model.decoder(solution.final), logits)
    assert solution.evaluations == 4 * 4 + 4  # four steps, and one separate step


@pytest.mark.parametrize("detach", [True, False])
def test_detach_source_removes_only_the_gradient_through_the_source(graph, detach):
    layer = ReactionDiffusionConv(
        3, reaction="st", adjacency="original", detach_source=detach, solver="euler"
    ).double()
    layer.alpha = _Zero()
    x = graph.x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x, graph.edge_index).sum(), x)
    expected = torch.ones_like(x) if detach else torch.ones_like(x) + layer.beta()
    torch.testing.assert_close(gradient, expected)


def test_gradient_of_the_whole_model_equals_finite_differences(graph):
    for reaction in gread.REACTIONS:
        model = build(reaction=reaction)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
        x = (0.3 * graph.x).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, m=model: m(x, graph.edge_index), (x,))


@pytest.mark.parametrize("encoder", ["linear", "mlp"])
@pytest.mark.parametrize("decoder", ["linear", "mlp"])
@pytest.mark.parametrize("activation", [True, False])
def test_encoders_and_decoders_equal_dense_formulas(graph, encoder, decoder, activation):
    model = build(encoder=encoder, decoder=decoder, output_activation=activation)
    first = model.encoder[0] if encoder == "mlp" else model.encoder
    h = graph.x @ first.weight + first.bias
    if encoder == "mlp":
        for block in (model.encoder[2].linear, model.encoder[3].linear):
            h = h + block(torch.relu(h))
    torch.testing.assert_close(model.encoder(graph.x), h)
    z = torch.relu(h) if activation else h
    last = model.decoder[1]
    if decoder == "mlp":
        z = z + last[2].linear(torch.tanh(z))
        expected = last[4](torch.tanh(z))
    else:
        expected = last[1](z)
    torch.testing.assert_close(model.decoder(h), expected)


def test_initial_values_of_alpha_and_beta():
    layer = ReactionDiffusionConv(64, alpha="vector", beta="vector")
    assert torch.equal(layer.alpha(), torch.full((64,), 0.5))
    assert layer.beta().abs().max() <= 1
    assert layer.beta().min() < 0 < layer.beta().max()
    assert ReactionDiffusionConv(64, alpha="scalar", beta="scalar").beta().item() == 0.5


def test_plain_function_is_accepted_as_reaction(graph):
    def nagumo(s):
        return s.h * (1 - s.h) * (s.h - 0.25)

    options = {"adjacency": "original", "alpha": "one", "beta": "one", "solver": "euler"}
    layer = ReactionDiffusionConv(3, reaction=nagumo, **options)
    h, adj = graph.x, layer.adjacency(graph.x, graph.edge_index)
    expected = h - adj.laplacian(h) + h * (1 - h) * (h - 0.25)
    torch.testing.assert_close(layer(h, graph.edge_index), expected)


def test_module_is_accepted_as_reaction_and_its_parameters_are_trained(graph):
    class Threshold(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.tensor(0.25))

        def forward(self, s):
            return s.h * (1 - s.h) * (s.h - self.a)

    model = gread.GREAD(3, 4, 2, reaction=Threshold()).double()
    before = model.layer.reaction.a.item()
    gread.fit(model, graph, gread.TrainConfig(epochs=3))
    assert model.layer.reaction.a.item() != before


def test_layer_is_a_drop_in_replacement_for_a_convolution(graph):
    network = Sequential(
        "x, edge_index",
        [
            (GCNConv(3, 8), "x, edge_index -> x"),
            nn.ReLU(inplace=True),
            (ReactionDiffusionConv(8, reaction="fb", time=2.0), "x, edge_index -> x"),
            nn.Linear(8, 2),
        ],
    ).double()
    assert network(graph.x, graph.edge_index).shape == (12, 2)


@pytest.mark.parametrize("adjacency", ["original", "soft"])
@pytest.mark.parametrize("self_loops", [0.0, 1.0])
@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_pyg_explainer_finds_the_relevant_feature(adjacency, self_loops, device):
    data = gread.csbm(30, homophily=0.9, degree=4, num_features=4, mean=0.0, seed=1)
    data.x[:, 0] += 6 * data.y - 3  # only feature 0 determines the class
    data = data.to(device)
    model = gread.GREAD(4, 8, 2, adjacency=adjacency, self_loops=self_loops, input_dropout=0.0)
    gread.fit(model.to(device), data, gread.TrainConfig(epochs=50))
    before = model(data.x, data.edge_index).detach()
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
    node = int(data.edge_index[1, 0])
    explanation = explainer(data.x, data.edge_index, index=node)
    assert explanation.node_mask.view(-1).argmax() == 0
    assert explanation.edge_mask.shape == (data.num_edges,)
    assert explanation.edge_mask.max() > 0
    after = model(data.x, data.edge_index).detach()
    torch.testing.assert_close(after, before)  # the masks are removed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"time": -1.0}, "time must be a number, zero or above, got -1.0"),
        ({"step_size": -0.5}, "step_size must be a positive number, got -0.5"),
        ({"step_size": math.inf}, "step_size must be a positive number, got inf"),
        ({"solver": "rk45"}, "unknown solver 'rk45', did you mean 'rk4'"),
        ({"reaction": "turing"}, "unknown reaction 'turing'; choose from: bs, f, ac"),
        ({"adjacency": "hard"}, "unknown adjacency 'hard'; choose from: original, soft"),
        ({"alpha": "vec"}, "unknown alpha 'vec'.* from: scalar, vector, matrix, one"),
        ({"beta": "tensor"}, "unknown beta 'tensor'; choose from: scalar, vector, pos"),
        ({"encoder": "cnn"}, "unknown encoder 'cnn'; choose from: linear, mlp"),
        ({"decoder": "cnn"}, "unknown decoder 'cnn'; choose from: linear, mlp"),
        ({"heads": 0}, "heads must be a whole number of at least 1, got 0"),
    ],
)
def test_invalid_hyperparameters_are_rejected_at_construction(options, sentence):
    with pytest.raises(InputError, match=sentence):
        gread.GREAD(3, 4, 2, **options)


class _Zero(nn.Module):
    def forward(self):
        return 0.0


@pytest.mark.parametrize("solver", ["euler", "rk4", "dopri5"])
def test_diagonal_matrix_coefficient_equals_vector_coefficient(graph, solver):
    options = {"adjacency": "original", "solver": solver, "time": 1.2, "step_size": 0.4}
    vector = ReactionDiffusionConv(3, alpha="vector", beta="vector", **options).double()
    matrix = ReactionDiffusionConv(
        3, alpha="matrix", beta="matrix", local="matrix", **options
    ).double()
    with torch.no_grad():
        vector.alpha.logit.uniform_(-1, 1)
        matrix.alpha.value.copy_(vector.alpha().diag())
        matrix.beta.value.copy_(vector.beta().diag())
    found = matrix(graph.x, graph.edge_index)
    torch.testing.assert_close(found, vector(graph.x, graph.edge_index))


def test_local_term_alone_gives_exponential_growth_of_each_channel(graph):
    options = {"adjacency": "original", "solver": "dopri5", "time": 2.0, "tolerance": 1e-9}
    layer = ReactionDiffusionConv(3, reaction=None, alpha="matrix", local="vector", **options)
    layer = layer.double()
    with torch.no_grad():
        layer.alpha.value.zero_()
        layer.local.value.copy_(torch.tensor([-0.5, 0.0, 0.3]))
    expected = graph.x * (2.0 * layer.local.value).exp()
    torch.testing.assert_close(layer(graph.x, graph.edge_index), expected, rtol=1e-6, atol=1e-6)


def test_matrices_and_local_terms_have_gradients(graph):
    layer = ReactionDiffusionConv(3, alpha="matrix", beta="matrix", local="matrix").double()
    layer(graph.x, graph.edge_index).square().sum().backward()
    assert all(p.grad.any() for p in (layer.alpha.value, layer.beta.value, layer.local.value))


def test_layers_with_matrix_or_local_coefficients_cannot_be_stacked():
    for options in ({"alpha": "matrix"}, {"beta": "matrix"}, {"local": "vector"}):
        with pytest.raises(CannotStack, match="have no program of passes"):
            stack([ReactionDiffusionConv(3, **options) for _ in range(2)])


@pytest.mark.parametrize("reaction", ["bs", "fb", None])
@pytest.mark.parametrize("adjacency", ["soft", "original"])
@pytest.mark.parametrize(("alpha", "beta"), [("scalar", "scalar"), ("one", "scalar")])
@pytest.mark.parametrize("normalization", ["symmetric", "row"])
def test_an_evaluation_integrates_logits_if_the_flow_commutes(
    graph, monkeypatch, reaction, adjacency, alpha, beta, normalization
):
    options = {"adjacency": adjacency, "alpha": alpha, "beta": beta, "time": 2.3, "step_size": 0.5}
    model = build(reaction, **options, normalization=normalization)
    expected = model(graph.x, graph.edge_index).detach()
    widths = []
    original = gread.models.gread.solve

    def spy(f, h0, integration):
        widths.append(h0.size(-1))
        return original(f, h0, integration)

    monkeypatch.setattr("gread.models.gread.solve", spy)
    with torch.no_grad():
        found = model(graph.x, graph.edge_index)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert widths == [2]


@pytest.mark.parametrize(
    "options",
    [
        {"reaction": "z", "time": 0.1},
        {"beta": "vector"},
        {"alpha": "matrix"},
        {"local": "scalar"},
        {"decoder": "mlp"},
        {"output_activation": True},
        {"solver": "dopri5"},
    ],
)
def test_an_evaluation_integrates_the_state_if_it_does_not_commute(graph, monkeypatch, options):
    model = build(**{"beta": "scalar", **options})
    monkeypatch.setattr("gread.models.gread.solve", None)
    with torch.no_grad():
        assert model(graph.x, graph.edge_index).isfinite().all()
