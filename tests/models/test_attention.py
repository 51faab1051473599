import math

import pytest
import torch
from torch import nn

from gread.base.errors import InputError
from gread.models.attention import NORMALIZERS, SCORES, EdgeAttention
from tests.checks import dense


def build(widths=(3,), heads=2, **options):
    form = {"attention": "scaled-dot", "normalizer": "softmax", "normalization": "row"} | options
    made = EdgeAttention(widths, heads=heads, attention_channels=4, **form).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made


def by_hand(form, x, edge_index, weight):
    """Ā from its definition, entry by entry."""
    n, (kind, normalizer, by_row) = len(x), form
    neighbours = torch.zeros(n, n, dtype=torch.float64)
    neighbours[edge_index[1], edge_index[0]] = weight
    neighbours += torch.eye(n)
    places = [(i, j) for i in range(n) for j in range(n) if neighbours[i, j] > 0]
    score = {(i, j): kind(x[i], x[j]) for i, j in places}
    highest = max(score.values())
    shape = {
        "softmax": lambda v: math.exp(v),
        "squareplus": lambda v: (v - highest + math.sqrt((v - highest) ** 2 + 4)) / 2,
    }[normalizer]
    out = torch.zeros(n, n, dtype=torch.float64)
    for i, j in places:
        out[i, j] = shape(score[i, j]) * neighbours[i, j]
    return out / out.sum(1 if by_row else 0, keepdim=True)


@pytest.mark.parametrize("normalization", ["row", "column"])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("attention", SCORES)
def test_attention_matrix_equals_its_entrywise_definition(
    graph, attention, normalizer, normalization
):
    made = build(heads=1, attention=attention, normalizer=normalizer, normalization=normalization)
    scores = made.scores
    queries = scores.queries[0] if attention == "exponential" else scores.queries

    @torch.no_grad()
    def kind(a, b):
        q, k = queries.query(a), queries.key(b)
        if attention == "exponential":
            d = (q - k).square().sum() / (2 * scores.length[0] ** 2)
            return float(scores.scale[0] ** 2 * torch.exp(-d))
        return float(q @ k / (2 if attention == "scaled-dot" else q.norm() * k.norm()))

    weight = torch.rand(graph.num_edges, dtype=torch.float64) + 0.5
    form = kind, normalizer, normalization == "row"
    expected = by_hand(form, graph.x, graph.edge_index, weight)
    torch.testing.assert_close(dense(made(graph.x, graph.edge_index, weight)), expected)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("attention", SCORES)
def test_rows_or_columns_sum_to_one(graph, attention, normalizer):
    for normalization, axis in (("row", 1), ("column", 0)):
        made = build(attention=attention, normalizer=normalizer, normalization=normalization)
        sums = dense(made(graph.x, graph.edge_index, None)).sum(axis)
        torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("normalization", ["row", "column"])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("attention", SCORES)
def test_zero_weight_edges_equal_absent_edges_for_extreme_parameters(
    graph, attention, normalizer, normalization
):
    made = build(attention=attention, normalizer=normalizer, normalization=normalization)
    for parameter in made.parameters():  # scaled-dot scores of thousands
        nn.init.normal_(parameter, std=30)
    weight = (torch.rand(graph.num_edges) > 0.4).double()
    there = weight.bool()
    expected = made(graph.x, graph.edge_index[:, there], weight[there])
    found = made(graph.x, graph.edge_index, weight)
    torch.testing.assert_close(dense(found), dense(expected))


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_node_with_only_zero_weights_has_a_zero_row(graph, normalizer):
    loops = torch.arange(len(graph.x)).expand(2, -1)  # existing loops keep their weights
    edge_index = torch.cat([graph.edge_index, loops], 1)
    weight = (edge_index != 5).all(0).double()
    found = dense(build(normalizer=normalizer, attention="cosine")(graph.x, edge_index, weight))
    assert not found[5].any()
    others = torch.arange(len(graph.x)) != 5
    torch.testing.assert_close(found[others].sum(1), torch.ones(others.sum(), dtype=torch.float64))


def test_exponential_kernel_is_the_product_over_parts_of_the_state(graph):
    whole = build([2, 1], attention="exponential")
    parts = [build([width], attention="exponential").scores for width in (2, 1)]
    pattern = whole(graph.x, graph.edge_index, None).pattern
    for number, part in enumerate(parts):
        part.queries[0].load_state_dict(whole.scores.queries[number].state_dict())
        part.scale.data[0], part.length.data[0] = (
            whole.scores.scale[number],
            whole.scores.length[number],
        )
    first, second = parts[0](graph.x[:, :2], pattern), parts[1](graph.x[:, 2:], pattern)
    torch.testing.assert_close(whole.scores(graph.x, pattern), first * second)


def test_squareplus_of_low_scores_is_accurate_in_single_precision():
    squareplus = NORMALIZERS["squareplus"]
    score = torch.tensor([[0.0], [-1e4], [-1e8]])
    found = squareplus(score, None).exp()
    torch.testing.assert_close(found.flatten(), torch.tensor([1.0, 1e-4, 1e-8]))


def test_invalid_attention_options_raise_a_one_line_error():
    with pytest.raises(InputError, match="unknown normalization 'both'; choose from: row, column"):
        build(normalization="both")
    with pytest.raises(InputError, match=r"attention_channels must be a multiple of heads \(3\)"):
        build(heads=3)
