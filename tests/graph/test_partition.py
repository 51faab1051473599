"""Parts give the results of the whole graph if the halo covers the receptive field."""

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

import gread
from gread.base.errors import InputError
from gread.base.memory import free_memory
from gread.graph.partition import cut
from gread.models.catalog import MODELS
from gread.training.fit import logits_of
from gread.training.memory import Division, parts_that_fit

WHOLE = gread.TrainConfig(epochs=1)


@pytest.fixture
def long() -> Data:
    """Band of 240 nodes with edge weights and one directed edge."""
    graph = gread.load("grid", height=60, width=4)
    torch.manual_seed(0)
    graph.x = torch.randn(240, 4)
    graph.y = torch.randint(3, (240,))
    graph.edge_index = graph.edge_index[:, 3:]
    graph.edge_weight = torch.rand(graph.edge_index.size(1)) + 0.5
    chosen = torch.rand(240)
    graph.train_mask, graph.val_mask = chosen < 0.5, (chosen >= 0.5) & (chosen < 0.7)
    graph.test_mask = chosen >= 0.7
    return graph


def test_every_node_is_owned_by_exactly_one_part(long):
    parts = cut(long, 7, halo=1)
    own = torch.cat([part.nodes[: part.own] for part in parts])
    assert own.sort().values.equal(torch.arange(240))
    assert max(part.own for part in parts) - min(part.own for part in parts) <= 1


@pytest.mark.parametrize("halo", [0, 1, 3])
def test_a_part_has_the_edges_between_its_nodes_and_their_weights(long, halo):
    dense = torch.zeros(240, 240).index_put_(tuple(long.edge_index), long.edge_weight)
    for part in cut(long, 5, halo):
        n = len(part.nodes)
        found = torch.zeros(n, n).index_put_(tuple(part.edge_index), part.edge_weight)
        assert found.equal(dense[part.nodes][:, part.nodes])


def test_halo_contains_all_nodes_within_its_hops(long):
    near = torch.eye(240)
    near[long.edge_index[0], long.edge_index[1]] = near[long.edge_index[1], long.edge_index[0]] = 1
    within = near @ near @ near > 0
    for part in cut(long, 5, halo=3):
        reached = within[part.nodes[: part.own]].any(0).nonzero().squeeze(1)
        assert part.nodes.sort().values.equal(reached)


# One step of RK4 has four evaluations of the right-hand side, each of which covers two hops for BS
# and one for FB. Four steps of GREAD-X cover eight hops. The halo has one hop more, for degrees.
@pytest.mark.parametrize(
    "model, halo", [("gread-bs", 9), ("gread-fb", 5), ("gread-x", 9), ("gcn", 3), ("mlp", 0)]
)
def test_partitioned_logits_equal_full_graph_logits_with_sufficient_halo(long, model, halo):
    module = built(model)
    whole = logits_of(module, long, long.train_mask, WHOLE)
    config = gread.TrainConfig(parts=6, halo=halo)
    parted = logits_of(module, long, long.train_mask, config)
    torch.testing.assert_close(parted, whole, rtol=1e-4, atol=1e-5)
    if halo > 2:  # a smaller halo changes the result
        shallow = logits_of(module, long, long.train_mask, gread.TrainConfig(parts=6, halo=0))
        assert (shallow - whole).abs().max() > 1e-3


MEANS = ("pairnorm", "grand++")
"""Models with means over nodes, which are per part in a partition."""


@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if entry.divisible({})])
def test_divisible_models_need_no_halo_for_separate_components(name):
    data = gread.load("grid", height=4, width=4)
    many = Data(
        x=torch.randn(64, 4, generator=torch.Generator().manual_seed(0)),
        edge_index=torch.cat([data.edge_index + 16 * k for k in range(4)], dim=1),
    )
    mask = torch.ones(64, dtype=torch.bool)
    module = built(name)
    whole = logits_of(module, many, mask, WHOLE)
    parted = logits_of(module, many, mask, gread.TrainConfig(parts=4, halo=0))
    assert parted.shape == whole.shape
    if name not in MEANS:
        torch.testing.assert_close(parted, whole, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("class_weight", [None, torch.tensor([1.0, 2.0, 0.5])])
def test_partitioned_training_step_equals_full_graph_step(long, class_weight):
    """Gradients, losses and accuracies are sums over parts."""
    fits, gradients = [], []
    for config in (WHOLE, gread.TrainConfig(epochs=1, parts=6, halo=9)):
        module = built("gread-bs", input_dropout=0.0)
        fits.append(gread.fit(module, long, config, class_weight=class_weight))
        gradients.append([parameter.grad for parameter in module.parameters()])
    whole, parted = (list(vars(fit.best).values()) for fit in fits)
    assert parted == pytest.approx(whole, rel=1e-4)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-6)


def test_partitioned_gradient_equals_the_gradient_of_the_mean_loss(long):
    module = built("gcn", input_dropout=0.0, dropout=0.0)
    gread.fit(module, long, gread.TrainConfig(epochs=1, parts=6, halo=3, lr=1e-12))
    found = [parameter.grad.clone() for parameter in module.parameters()]
    module.train()
    module.zero_grad()
    logits = module(long.x, long.edge_index, long.edge_weight)
    cross_entropy(logits[long.train_mask], long.y[long.train_mask]).backward()
    for one, parameter in zip(found, module.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-3, atol=1e-6)


def test_training_accepts_parts_without_training_nodes(long):
    long.train_mask = torch.arange(240) < 10
    long.val_mask = (torch.arange(240) >= 10) & (torch.arange(240) < 20)
    long.test_mask = (torch.arange(240) >= 20) & (torch.arange(240) < 30)
    fit = gread.fit(built("gcn"), long, gread.TrainConfig(epochs=2, parts=12))
    assert len(fit.history) == 2


def test_graph_that_fits_in_memory_is_not_partitioned(long):
    found = parts_that_fit(built("gread-bs"), long)
    assert found.parts == 1
    assert 0 < found.needed < found.free <= free_memory() * 2


def test_less_free_memory_gives_more_parts(long):
    module = built("gread-bs")
    needed = parts_that_fit(module, long).needed
    found = [parts_that_fit(module, long, needed * share) for share in (0.9, 0.3, 0.15)]
    counts = [division.parts for division in found]
    assert counts == sorted(counts)
    assert 1 < counts[0] < counts[-1]
    assert found[0].halo == 2


def test_halo_that_covers_the_whole_graph_is_dropped():
    data = gread.load("csbm", num_nodes=400, homophily=0.5, degree=30)
    module = gread.GREAD(data.num_features, 8, 2)
    found = parts_that_fit(module, data, 0.2 * parts_that_fit(module, data).needed)
    assert found.halo == 0
    assert found.parts > 1


def test_graph_that_never_fits_in_memory_raises_input_error(long):
    with pytest.raises(InputError, match="must fit into memory in at most"):
        parts_that_fit(built("gread-bs"), long, 10.0)


def test_division_message_states_the_reason_and_the_alternative():
    told = str(Division(4, 2, 30e9, 20e9))
    assert told == (
        "training on the whole graph takes about 30.0 GB and 20.0 GB are free, so the graph is "
        "partitioned into 4 parts with a halo of 2 hops (parts=1 trains on the whole graph)"
    )


@pytest.mark.parametrize(
    "options, said",
    [
        ({"parts": 0, "halo": 2}, "parts must be a whole number of at least 1"),
        ({"parts": 2, "halo": -1}, "halo must be a whole number of at least 0"),
        ({"parts": 300, "halo": 2}, "parts must be at most the 240 nodes, got 300"),
    ],
)
def test_invalid_parts_and_halo_raise_input_errors(long, options, said):
    with pytest.raises(InputError, match=said):
        cut(long, **{"halo": 2, **options})


def test_partitioned_training_rejects_models_that_use_two_hop(long):
    long.two_hop = long.edge_index
    with pytest.raises(InputError, match="parts must be 1 for a model that uses two_hop"):
        gread.fit(built("h2gcn"), long, gread.TrainConfig(epochs=1, parts=2))


def built(name: str, **hyper):
    torch.manual_seed(1)
    return MODELS[name].make(4, 8, 3, num_nodes=240, **hyper)
