"""Laws of every registered model."""

import math
from itertools import product

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

import gread
from gread.base.errors import InputError
from gread.graph.structure.catalog import add_structure
from gread.models.catalog import MODELS
from gread.training.fit import inputs_of
from tests.checks import permuted


@pytest.fixture(params=MODELS)
def build(request):
    """Build the model for three features and two classes, without dropout, in float64."""

    def make(num_nodes=12, **options):
        given = {"input_dropout": 0.0, "dropout": 0.0} | options
        return MODELS[request.param].make(3, 8, 2, num_nodes=num_nodes, **given).double()

    make.entry = MODELS[request.param]
    return make


def test_logits_have_the_right_shape_and_type(build, graph):
    model = build()
    assert model(graph.x, graph.edge_index).shape == (12, 2)
    assert model(graph.x, graph.edge_index).dtype == torch.float64
    assert model.float()(graph.x.float(), graph.edge_index).dtype == torch.float32


def test_every_parameter_receives_a_gradient(build, graph):
    model = build()
    parameters = list(model.parameters())
    for parameter in parameters:
        torch.nn.init.normal_(parameter, std=0.3)
    model(graph.x, graph.edge_index).square().sum().backward()
    dead = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert parameters
    assert not dead


@pytest.mark.parametrize(
    "build", [n for n, entry in MODELS.items() if not entry.transductive({})], indirect=True
)
def test_permuting_the_nodes_permutes_the_logits(build, graph):
    model = build().eval()
    order = torch.randperm(12)
    other = permuted(graph, order)
    here = model(graph.x, graph.edge_index)[order]
    torch.testing.assert_close(here, model(other.x, other.edge_index))


def test_the_order_of_edges_does_not_matter(build, graph):
    model = build().eval()
    shuffled = graph.edge_index[:, torch.randperm(graph.num_edges)]
    torch.testing.assert_close(model(graph.x, graph.edge_index), model(graph.x, shuffled))


def test_the_same_seed_gives_the_same_training(build, graph):
    def histories():
        for _ in range(2):
            torch.manual_seed(5)
            model = build(dropout=0.3)
            yield gread.fit(model, graph, gread.TrainConfig(epochs=3)).history

    first, second = histories()
    assert first == second


def test_reset_parameters_reinitializes_every_parameter(build):
    torch.manual_seed(5)
    model = build()
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 9.0)
    model.reset_parameters()
    assert not any((parameter == 9.0).any() for parameter in model.parameters())


def test_every_model_can_overfit_eight_nodes(build):
    torch.manual_seed(1)
    data = Data(
        x=torch.randn(8, 3, dtype=torch.float64),
        edge_index=to_undirected(torch.stack([torch.arange(7), torch.arange(1, 8)])),  # a path
        y=torch.tensor([0, 1, 0, 1, 1, 1, 0, 0]),
        train_mask=torch.ones(8, dtype=torch.bool),
    )
    data.val_mask = data.test_mask = data.train_mask
    is_sgc = build.entry.title == "SGC"  # one linear map, trained with its authors' learning rate
    config = gread.TrainConfig(epochs=400, lr=0.2 if is_sgc else 0.05, weight_decay=0.0)

    class Fitted(Exception):
        """Raised when all nodes are classified correctly."""

    def stop_if_fitted(epoch):
        if epoch.train == 1.0:
            raise Fitted

    with pytest.raises(Fitted):
        gread.fit(build(num_nodes=8), data, config, on_epoch=stop_if_fitted)


def test_graphs_without_edges_and_with_one_node_are_supported(build):
    nothing = torch.empty(2, 0, dtype=torch.int64)
    x = torch.randn(5, 3, dtype=torch.float64)
    model = build(num_nodes=5).eval()
    assert model(x, nothing).isfinite().all()
    if build.entry.transductive({}):
        assert build(num_nodes=1).eval()(x[:1], nothing).isfinite().all()
    elif build.entry.title == "PairNorm":  # the mean over all nodes is subtracted
        assert model(x[:1], nothing).isfinite().all()
    else:
        torch.testing.assert_close(model(x[:1], nothing), model(x, nothing)[:1])


def test_an_isolated_node_has_finite_logits_and_gradients(build, graph):
    alone = graph.subgraph(torch.arange(12))
    alone.edge_index = graph.edge_index[:, (graph.edge_index != 3).all(dim=0)]
    model = build()
    logits = model(alone.x, alone.edge_index)
    logits.square().sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_catalogue_entry_has_group_year_and_dropout_rates(build):
    entry = build.entry
    groups = ("classical", "heterophily", "oversmoothing", "continuous", "GREAD", "tuned")
    assert entry.group in groups
    assert entry.year or entry.title == "MLP"
    assert {"input_dropout", "dropout"} <= entry.hyperparameters.keys()


@pytest.mark.parametrize(
    "build", [n for n, entry in MODELS.items() if entry.structure], indirect=True
)
def test_precomputed_structure_gives_the_same_output(build, graph):
    model = build().eval()
    data = add_structure(graph, build.entry.structure).data
    extra = inputs_of(model, data, data.train_mask)
    assert extra
    torch.testing.assert_close(
        model(graph.x, graph.edge_index, **extra), model(graph.x, graph.edge_index)
    )


def test_edge_weights_of_one_do_not_change_the_output(build, graph):
    model = build().eval()
    ones = torch.ones(graph.num_edges, dtype=torch.float64)
    torch.testing.assert_close(
        model(graph.x, graph.edge_index, ones), model(graph.x, graph.edge_index)
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_single_class_can_be_trained(name, graph):
    graph.y = torch.zeros(12, dtype=torch.int64)
    model = MODELS[name].make(3, 4, 1, num_nodes=12).double()
    assert gread.fit(model, graph, gread.TrainConfig(epochs=2)).best.test == 1.0


def with_nan(x, row):
    x = x.clone()
    x[row, 0] = math.nan
    return x


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda x, e: (x[:, :2], e), r"x must have the shape \[N, 3\], got \[12, 2\]"),
        (lambda x, e: (x[0], e), r"x must have the shape \[N, 3\], got \[3\]"),
        (lambda x, e: (x.long(), e), "x must be a floating-point tensor, got torch.int64"),
        (lambda x, e: (with_nan(x, 4), e), "x must be finite, got NaN or infinity in row 4"),
        (lambda x, e: (x, e.T), r"edge_index must have the shape \[2, E\], got \[\d+, 2\]"),
        (lambda x, e: (x, e.float()), "edge_index must be an int64 tensor, got torch.float32"),
        (lambda x, e: (x[:8], e), r"edge_index must name nodes 0 to 7, got node \d+"),
        (lambda x, e: (x, e - 1), "edge_index must name nodes 0 to 11, got node -1"),
        (lambda x, e: (x, e, torch.ones(3)), r"edge_weight must have the shape \[\d+\], got \[3\]"),
    ],
)
def test_invalid_input_raises_a_one_line_error(build, graph, change, sentence):
    with pytest.raises(InputError, match=sentence):
        build()(*change(graph.x, graph.edge_index))


def test_dropout_rate_outside_its_range_is_rejected(build):
    for argument, rate in product(("dropout", "input_dropout"), (-0.1, 1.0, math.nan, "0.5", True)):
        sentence = rf"{argument} must be a number in \[0, 1\), got {rate!r}$"
        with pytest.raises(InputError, match=sentence):
            build(**{argument: rate})


@pytest.mark.parametrize("name", MODELS)
def test_invalid_channel_counts_are_rejected(name):
    for position, width in product((0, 1, 2), (0, -3, 2.5)):
        widths = [3, 8, 2]
        widths[position] = width
        sentence = f"_channels must be a whole number of at least 1, got {width}$"
        with pytest.raises(InputError, match=sentence):
            MODELS[name].make(*widths, num_nodes=12)
