import copy
from contextlib import nullcontext

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import batch_norm

from gread.kernels import reference
from gread.kernels.backend import plain_only
from gread.kernels.operators import (
    _Mix,
    _product,
    activated,
    attention,
    drop,
    identity,
    mix,
    product,
    scores,
    shares,
)
from gread.kernels.pattern import Pattern
from gread.kernels.reference import Batch, outer_sum

ROW = torch.tensor([1, 2, 2, 0, 3, 1])  # the entry (1, 0) occurs twice
COLUMN = torch.tensor([0, 0, 1, 3, 3, 0])
TOLERANCE = {torch.bfloat16: {"rtol": 0.02, "atol": 0.03}}
PATTERN, ORDER = Pattern.from_entries(ROW, COLUMN, (4, 4))
PLACES = [*PATTERN.rows, *PATTERN.columns, *PATTERN.orders]


def matrix(weight):
    return torch.zeros(4, 4, dtype=weight.dtype).index_put((ROW, COLUMN), weight, accumulate=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_product_equals_the_dense_one(dtype):
    weight, h = torch.randn(6, dtype=dtype), torch.randn(4, 3, dtype=dtype)
    result = product(PATTERN, weight[ORDER], h)
    assert result.dtype == dtype
    expected = matrix(weight.double()) @ h.double()
    torch.testing.assert_close(result, expected.to(dtype), **TOLERANCE.get(dtype, {}))


def test_product_supports_rectangular_matrices():
    row, column = torch.tensor([0, 0, 1]), torch.tensor([4, 1, 0])
    pattern, order = Pattern.from_entries(row, column, (2, 5))
    weight = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    dense = torch.zeros(2, 5, dtype=torch.float64).index_put((row, column), weight)
    torch.testing.assert_close(product(pattern, weight[order], y), dense @ y)
    assert torch.autograd.gradcheck(lambda w, y: product(pattern, w[order], y), (weight, y))


def test_product_gradients_of_first_and_second_order_are_right():
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True)
    h = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)

    def multiply(weight, h):
        return product(PATTERN, weight, h)

    assert torch.autograd.gradcheck(multiply, (weight, h))
    assert torch.autograd.gradgradcheck(multiply, (weight, h))
    assert torch.autograd.gradcheck(multiply, (weight.detach(), h))
    assert torch.autograd.gradcheck(multiply, (weight, h.detach()))


def test_product_with_fixed_entries_saves_no_state_for_backward():
    weight, h = torch.randn(6), torch.randn(4, 2, requires_grad=True)
    kept = []
    for entries in (weight, weight.clone().requires_grad_()):
        saved = []
        with saved_tensors_hooks(lambda t, saved=saved: saved.append(t.shape), lambda _: None):
            product(PATTERN, entries, h)
        kept.append(saved)
    assert kept == [[weight.shape], [weight.shape, h.shape]]


def test_product_gradients_of_four_members_pass_gradcheck():
    h = torch.randn(4, 4, 2, dtype=torch.float64, requires_grad=True)
    for shape in ((4, 6), (6,)):
        weight = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda w, h: product(PATTERN, w, h), (weight, h))
        assert torch.autograd.gradcheck(lambda w, h: _product(PLACES, w, h), (weight, h))


@pytest.mark.slow
def test_product_operator_passes_pytorch_opcheck():
    weight, h = torch.randn(6, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    results = torch.library.opcheck(_product, (PLACES, weight, h))
    assert set(results.values()) == {"SUCCESS"}


def test_product_without_entries_is_zero():
    nothing = torch.empty(0, dtype=torch.int64)
    pattern, _ = Pattern.from_entries(nothing, nothing, (3, 3))
    assert not product(pattern, torch.empty(0), torch.randn(3, 2)).any()


def test_scores_equal_dot_products_per_head_with_correct_gradients():
    q = torch.randn(PATTERN.rows.start.numel() - 1, 3, 2, dtype=torch.float64, requires_grad=True)
    k = torch.randn(PATTERN.num_columns, 3, 2, dtype=torch.float64, requires_grad=True)
    expected = (q[PATTERN.rows.numbers()] * k[PATTERN.rows.column.long()]).sum(-1)
    torch.testing.assert_close(scores(PATTERN, q, k), expected)
    assert torch.autograd.gradcheck(lambda q, k: scores(PATTERN, q, k), (q, k))


def test_scores_of_several_members_equal_scores_of_each():
    q, k = (torch.randn(4, 4, 3, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    each = [scores(PATTERN, *pair) for pair in zip(q, k, strict=True)]
    torch.testing.assert_close(scores(PATTERN, q, k), torch.stack(each))
    assert torch.autograd.gradcheck(lambda q, k: scores(PATTERN, q, k), (q, k))


def test_gradients_of_attention_are_right():
    q, k = (torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weight = torch.rand(6, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda q, k: attention(PATTERN, q, k), (q, k))
    assert torch.autograd.gradcheck(lambda q, k: attention(PATTERN, q, k, weight), (q, k))
    weight.requires_grad_()
    assert torch.autograd.gradcheck(lambda w: attention(PATTERN, q.detach(), k.detach(), w), weight)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_shares_equal_a_softmax_with_correct_gradients(mean, by_row, weighted):
    def found(score, weight):
        return shares(PATTERN, score, weight, by_row, mean)

    score = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(6, dtype=torch.float64) if weighted else None
    part = score.exp() * (1 if weight is None else weight.unsqueeze(-1))
    group = PATTERN.rows.numbers() if by_row else PATTERN.rows.column.long()
    total = torch.zeros(8, 3, dtype=torch.float64).index_add(0, group, part)
    expected = part / total[group]
    torch.testing.assert_close(found(score, weight), expected.mean(-1) if mean else expected)
    assert torch.autograd.gradcheck(lambda s: found(s, weight), score)
    several = torch.stack([score, -score, 2 * score])
    each = torch.stack([found(own, weight) for own in several])
    torch.testing.assert_close(found(several, weight), each)
    if weight is not None:
        weight.requires_grad_()
        assert torch.autograd.gradcheck(lambda w: found(score.detach(), w), weight)


def test_dropout_preserves_the_mean_and_masks_the_gradient():
    x = torch.ones(200, 500, requires_grad=True)
    dropped = drop(x, 0.3)
    assert abs(dropped.mean().item() - 1) < 0.01
    stayed = dropped.detach() != 0
    assert abs(stayed.double().mean().item() - 0.7) < 0.01
    torch.testing.assert_close(
        dropped.detach()[stayed], torch.full((), 1 / 0.7).expand(stayed.sum())
    )
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach())
    assert drop(x, 0.0) is x


def test_dropout_follows_the_seed_of_pytorch():
    x = torch.ones(1000)
    torch.manual_seed(3)
    one, two = drop(x, 0.5), drop(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(drop(x, 0.5), one)
    assert not torch.equal(one, two)
    both = ((one != 0) & (two != 0)).double().mean().item()
    assert abs(both - 0.25) < 0.05  # the masks are independent


def test_dropout_of_members_takes_any_memory_layout():
    x = torch.randn(4, 3, 5, dtype=torch.float64).transpose(0, 1)
    seeds, rates = torch.tensor([5, 7, 9]), torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64)
    alone = [reference.dropout(x[m], seeds[m], float(rates[m])) for m in range(3)]
    torch.testing.assert_close(reference.dropout(x, seeds, rates), torch.stack(alone))
    torch.testing.assert_close(drop(x, rates, seeds), torch.stack(alone))


@pytest.mark.parametrize("members", [1, 2, 5])
def test_product_gradients_for_any_number_of_members(members):
    row, column = torch.randint(6, (2, 20))
    pattern, _ = Pattern.from_entries(row, column, (6, 6))
    weight = torch.randn(members, 20, dtype=torch.float64, requires_grad=True)
    y = torch.randn(members, 6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, y: product(pattern, w, y), (weight, y))


@pytest.mark.parametrize("rows", [1, 255, 1024, 4099])
@pytest.mark.parametrize("members", [1, 3])
def test_sum_of_outer_products_equals_batched_matrix_product(members, rows):
    h = torch.randn(rows, members, 5, dtype=torch.float64).transpose(0, 1)
    g = torch.randn(members, rows, 33, dtype=torch.float64)
    torch.testing.assert_close(outer_sum(h, g), torch.bmm(h.mT, g))


def test_sum_of_outer_products_is_not_padded_for_divisible_row_count(monkeypatch):
    monkeypatch.setattr(reference, "pad", None)
    h, g = torch.randn(1, 10_000, 2).double(), torch.randn(1, 10_000, 3).double()  # 16 · 625
    torch.testing.assert_close(outer_sum(h, g), torch.bmm(h.mT, g))


def test_sum_of_outer_products_supports_rows_that_members_share():
    h = torch.randn(600, 5, dtype=torch.float64).expand(3, -1, -1)
    g = torch.randn(3, 600, 2, dtype=torch.float64)
    torch.testing.assert_close(outer_sum(h, g), torch.bmm(h.mT, g))


@pytest.mark.parametrize("members", [(), (2,)])
@pytest.mark.parametrize("widths", [(3,), (3, 2, 3)])
def test_mixed_terms_have_the_gradients_of_one_product(members, widths):
    def normal(*shape):
        return torch.randn(*members, *shape, dtype=torch.float64, requires_grad=True)

    terms, weight, bias = [normal(7, d) for d in widths], normal(sum(widths), 4), normal(4)
    expected = torch.cat(terms, -1) @ weight + bias.unsqueeze(-2)
    torch.testing.assert_close(_Mix.apply(weight, bias, *terms), expected)
    torch.testing.assert_close(mix(terms, weight, bias), expected)
    assert torch.autograd.gradcheck(_Mix.apply, (weight, bias, *terms))
    assert torch.autograd.gradgradcheck(_Mix.apply, (weight, bias, *terms))


def batch_of(members, training):
    weight, bias, mean, variance = (torch.rand(*members, 4, dtype=torch.float64) for _ in range(4))
    parameters = weight.requires_grad_(), bias.requires_grad_()
    return Batch(*parameters, mean, variance, 0.1, 1e-5, training)


def composed(h, activation, rate, seed, batch):
    """The same as `activated`, from PyTorch's batch normalization, the activation and `drop`."""
    if batch is not None:
        running = batch.running_mean, batch.running_var
        h = batch_norm(h, *running, batch.weight, batch.bias, batch.training, 0.1, 1e-5)
    return drop(activation(h), rate, seed)


@pytest.mark.parametrize("context", [nullcontext, plain_only])
@pytest.mark.parametrize("activation", [torch.relu, identity, torch.tanh])
@pytest.mark.parametrize("training", [None, False, True], ids=["bare", "eval", "train"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_activated_equals_the_separate_operations(context, activation, training, rate):
    h = (5 + torch.randn(9, 4, dtype=torch.float64)).requires_grad_()
    seed = torch.tensor([7])
    batch = None if training is None else batch_of((), training)
    inputs = [h] if batch is None else [h, batch.weight, batch.bias]
    other = batch and Batch(*batch[:2], *copy.deepcopy(batch[2:]))
    with context():
        found = activated(h, activation, rate, seed, batch)
        grads = torch.autograd.grad(found.sin().sum(), inputs)
    expected = composed(h, activation, rate, seed, other)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(grads, torch.autograd.grad(expected.sin().sum(), inputs))
    if batch is not None:
        torch.testing.assert_close(batch[2:4], other[2:4])


@pytest.mark.parametrize("training", [None, False, True], ids=["bare", "eval", "train"])
def test_activated_members_equal_single_ones(training):
    h = torch.randn(3, 9, 4, dtype=torch.float64, requires_grad=True)
    rate, seed = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64), torch.tensor([5, 7, 9])
    batch = None if training is None else batch_of((3,), training)
    inputs = [h] if batch is None else [h, batch.weight, batch.bias]
    alone = []
    for m in range(3):
        own = batch and Batch(*(one[m].clone() for one in batch[:4]), *batch[4:])
        alone.append(activated(h[m], torch.relu, float(rate[m]), seed[m], own))
    expected = torch.stack(alone)
    found = activated(h, torch.relu, rate, seed, batch)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(one.square().sum(), inputs) for one in (found, expected)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("activation", [torch.relu, identity])
@pytest.mark.parametrize("training", [None, False, True], ids=["bare", "eval", "train"])
def test_activated_gradients_of_first_and_second_order_are_right(activation, training):
    h = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    batch = None if training is None else batch_of((), training)

    def call(h, *parameters):
        own = batch and Batch(*parameters, *batch[2:])
        return activated(h, activation, 0.3, torch.tensor([7]), own)

    inputs = (h,) if batch is None else (h, batch.weight, batch.bias)
    assert torch.autograd.gradcheck(call, inputs)
    assert torch.autograd.gradgradcheck(call, inputs)


def test_activated_saves_one_state_for_backward():
    h, batch = torch.randn(9, 4, dtype=torch.float64, requires_grad=True), batch_of((), True)
    saved = []
    with saved_tensors_hooks(lambda t: saved.append(t.numel()), lambda _: None):
        activated(h, torch.relu, 0.3, torch.tensor([7]), batch)
    assert sorted(saved) == [1, 4, 4, 16, 36]  # seed, weight, bias, scales, state


def test_activated_in_half_precision_has_statistics_in_single_precision():
    h, batch = torch.randn(50, 4, dtype=torch.bfloat16), batch_of((), True)
    batch = Batch(*(one.detach().float() for one in batch[:4]), *batch[4:])
    found = activated(h, torch.relu, batch=batch)
    assert found.dtype == torch.bfloat16
    expected = composed(h.float(), torch.relu, 0.0, None, batch)
    torch.testing.assert_close(found.float(), expected, rtol=0.01, atol=0.01)
