"""The kernels in C agree with the reference."""

import copy
import os

import pytest
import torch

from gread.kernels import backend as choice, reference as plain
from gread.kernels.pattern import Pattern
from tests.processes import Forked

cpu = choice.available("cpu")
needs_compiler = pytest.mark.skipif(isinstance(cpu, Exception), reason=str(cpu))
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def some_rows(n=40, entries=300, columns=None):
    """Rows of which some are empty and one has a third of all entries."""
    torch.manual_seed(0)
    row = torch.randint(n // 2, (entries,))
    row[::3] = n - 1
    column = torch.randint(columns or n, (entries,))
    return Pattern.from_entries(row, column, (n, columns or n))[0].rows


def assert_close(got, expected):
    torch.testing.assert_close(got, expected, rtol=0, atol=TOLERANCE[expected.dtype] * 20)


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("d", [1, 3, 16, 61, 64, 130])
@pytest.mark.parametrize(("degree", "bases"), [(0, 0), (1, 2), (2, 1), (3, 4)])
@pytest.mark.parametrize("entries", [300, 900])
def test_gather_and_pull(dtype, d, degree, bases, entries):
    rows = some_rows(entries=entries)
    weight = torch.randn(entries, dtype=dtype)
    y, g, *others = torch.randn(2 + bases, 40, d, dtype=dtype)
    coef = torch.randn(1 + degree + bases, d, dtype=dtype)
    arguments = (rows, weight, y, plain.Terms(coef, others, degree))
    assert_close(cpu.gather(*arguments), plain.gather(*arguments))
    assert_close(cpu.gather(rows, weight, y), plain.gather(rows, weight, y))
    for base_dot in {False, bases > 0} if degree else ():
        arguments = (rows, weight, g, y, plain.Terms(coef, others, degree, base_dot))
        for got, expected in zip(cpu.pull(*arguments), plain.pull(*arguments), strict=True):
            assert_close(got, expected)


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_edge_dots_attention_and_dropout_agree_with_the_reference(dtype):
    rows = some_rows()
    a, b, c, e = torch.randn(4, 40, 70, dtype=dtype)
    coef = torch.randn(2, 70, dtype=dtype)
    for pairs in ([plain.Pair([a], b)], [plain.Pair([a, c], b, coef), plain.Pair([c], e)]):
        found = plain.edge_dots(rows, pairs)
        assert_close(cpu.edge_dots(rows, pairs), found)
        assert_close(cpu.edge_dots(rows, pairs, found.clone()), 2 * found)
    for heads, size in ((1, 3), (5, 2), (3, 4), (2, 8), (4, 16)):
        q, k = 3 * torch.randn(2, 40, heads, size, dtype=dtype)
        weight = torch.rand(300, dtype=dtype)
        weight[rows.start[3] : rows.start[4]] = 0  # a row with zero weights
        dots = plain.head_dots(rows, q, k)
        assert_close(cpu.head_dots(rows, q, k), dots)
        for w in (None, weight):
            pairs = zip(cpu.shares(rows, dots, w), plain.shares(rows, dots, w), strict=True)
            for ours, expected in pairs:
                assert_close(ours, expected)
            found, mean = plain.attend(rows, q, k, w)
            for ours, expected in zip(cpu.attend(rows, q, k, w), (found, mean), strict=True):
                assert_close(ours, expected)
        for grad in (torch.randn(300, heads, dtype=dtype), torch.randn(300, dtype=dtype)):
            assert_close(cpu.attend_back(rows, found, grad), plain.attend_back(rows, found, grad))
        assert_close(cpu.gather_heads(rows, found, q), plain.gather_heads(rows, found, q))
        order = torch.randperm(300)
        expected = plain.gather_heads(rows, found[order], q)
        assert_close(cpu.gather_heads(rows, found, q, order), expected)
    for rate in (0.0, 0.3, 0.9):
        assert_close(
            cpu.dropout(a, torch.tensor([77]), rate), plain.dropout(a, torch.tensor([77]), rate)
        )


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("batch", [None, False, True], ids=["bare", "eval", "train"])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize(("members", "n", "d"), [((), 2, 1), ((), 500, 70), ((3,), 41, 16)])
def test_normalization_activation_and_dropout(dtype, relu, batch, drops, members, n, d):
    torch.manual_seed(0)
    h, grad = 3 * torch.randn(2, *members, n, d, dtype=dtype)
    seed = torch.randint(2**31, members or (1,)) if drops else None
    rate = 0.3 if drops else 0.0
    if drops and members:
        rate = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64)
    ours = None
    if batch is not None:
        weight, bias, mean, variance = 1 + torch.rand(4, *members, d, dtype=dtype)
        ours = plain.Batch(weight, bias, mean, variance, 0.1, 1e-5, batch)
    theirs = copy.deepcopy(ours)
    out, scales = cpu.activate(h, relu, seed, rate, ours)
    expected, right = plain.activate(h, relu, seed, rate, theirs)
    assert_close(out, expected)
    back = grad, h, relu, seed, rate
    found, sums = cpu.activate_back(*back, right, bool(batch))
    expected, totals = plain.activate_back(*back, right, bool(batch))
    assert_close(found, expected)
    if right is None:
        assert scales is sums is None
        return
    assert_close(scales, right)
    assert_close(sums / n, totals / n)
    assert_close(ours.running_mean, theirs.running_mean)
    assert_close(ours.running_var, theirs.running_var)


@needs_compiler
def test_variance_of_a_large_mean_is_accurate():
    h = (1e4 + torch.randn(5000, 3, dtype=torch.float64)).float()
    batch = plain.Batch(*torch.ones(4, 3), 0.1, 1e-5, training=True)
    inverse = cpu.activate(h, False, None, 0.0, batch)[1][3]
    expected = h.double().var(0, correction=0).rsqrt()
    torch.testing.assert_close(inverse.double(), expected, rtol=1e-4, atol=0)


@needs_compiler
def test_relu_of_nan_is_nan():
    h = torch.tensor([[torch.nan, 1.0]])
    assert cpu.activate(h, True, None, 0.0, None)[0].isnan().tolist() == [[True, False]]


@pytest.mark.parametrize("kernels", [plain, pytest.param(cpu, marks=needs_compiler)])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("far", [-1e4, 88.0, 100.0, 1e4])
def test_zero_weight_entries_equal_absent_entries_in_attention(kernels, dtype, far):
    """The score of the entry may be at any distance from the others."""
    rows = plain.Rows(torch.tensor([0, 3, 4]), torch.tensor([0, 1, 2, 2], dtype=torch.int32))
    q = torch.ones(2, 1, 1, dtype=dtype)
    k = torch.tensor([0.5, far, 0.25], dtype=dtype).view(3, 1, 1)
    weight = torch.tensor([1, 0, 1, 0], dtype=dtype)
    first, _, third, alone = kernels.attend(rows, q, k, weight)[0][:, 0]
    expected = torch.tensor([0.5, 0.25], dtype=dtype).softmax(0)
    assert_close(torch.stack([first, third]), expected)
    assert kernels.attend(rows, q, k, weight)[0][1].item() == alone.item() == 0


@needs_compiler
def test_sums_do_not_depend_on_the_number_of_threads():
    rows = some_rows(4000, 30_000)
    weight, (y, g, base) = torch.randn(30_000), torch.randn(3, 4000, 64)
    terms = plain.Terms(torch.randn(3, 64), [base], base_dot=True)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(cpu.pull(rows, weight, g, y, terms)[1])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@needs_compiler
def test_gather_of_an_empty_matrix_is_empty():
    rows = Pattern.from_entries(*torch.empty(2, 0, dtype=torch.int64), (0, 0))[0].rows
    terms = plain.Terms(torch.ones(2, 3))
    assert cpu.gather(rows, torch.empty(0), torch.empty(0, 3), terms).shape == (0, 3)


def in_a_process(code, **environment):
    return Forked("-c", code, env=os.environ | environment).end()


TRAIN = (
    "import gread\n"
    "data = gread.load('csbm', num_nodes=60)\n"
    "result = gread.fit(gread.GREAD(data.num_features, 4, 2), data, gread.TrainConfig(epochs=2))\n"
    "from gread.kernels import backend\n"
    "print(len(result.history), backend.available('cpu'))\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "shown"),
    [({"CC": "/nowhere/cc"}, "cc does not start"), ({"CC": "false"}, "false fails")],
)
def test_training_works_without_a_compiler(tmp_path, environment, shown):
    done = in_a_process(TRAIN, XDG_CACHE_HOME=str(tmp_path), **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 ")
    assert shown in done.stdout


@pytest.mark.slow
@needs_compiler
def test_kernels_are_compiled_once_and_cached(tmp_path):
    code = "from gread.kernels import cpu; print(cpu.library()._name)"
    first = in_a_process(code, XDG_CACHE_HOME=str(tmp_path))
    (library,) = tmp_path.rglob("*.so")
    before = library.stat().st_ino
    second = in_a_process(code, XDG_CACHE_HOME=str(tmp_path))
    assert first.stdout == second.stdout == f"{library}\n"
    assert library.stat().st_ino == before  # compiling again would replace the file
    assert len(list(tmp_path.rglob("*.so"))) == 1


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("d", [1, 16, 70])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_products_with_dropped_entries(dtype, d, rate):
    rows, seed = some_rows(entries=900), torch.tensor([77])
    values, y = torch.randn(900, dtype=dtype), torch.randn(40, d, dtype=dtype)
    order, bias = torch.randperm(900), torch.randn(d, dtype=dtype)
    for options in ({}, {"order": order}, {"bias": bias}):
        arguments = (rows, values, seed, rate, y)
        found = cpu.drop_gather(*arguments, **options)
        assert_close(found, plain.drop_gather(*arguments, **options))


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("d", "classes"), [(1, 2), (16, 7), (70, 3)])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_cross_entropy_with_its_gradients(dtype, d, classes, rate):
    torch.manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, requires_grad=True)
        for shape in ((300, d), (classes, d), (classes,))
    )
    target = torch.randint(-1, classes, (300,))
    arguments = (torch.tensor([77]), rate, weight, bias, target, 0.1)
    expected = plain.drop_cross_entropy(x, *arguments)
    grads = torch.autograd.grad(expected, (x, weight, bias))
    found = cpu.drop_cross_entropy(x, *arguments)
    for got, right in zip(found, (expected.detach(), *grads), strict=True):
        assert_close(got.detach(), right)


@needs_compiler
def test_cross_entropy_of_a_state_that_is_not_finite_is_not_finite():
    x = torch.randn(30, 4)
    x[7, 2] = torch.nan
    target = torch.zeros(30, dtype=torch.int64)
    loss, *_ = cpu.drop_cross_entropy(
        x, torch.tensor([7]), 0.0, torch.randn(3, 4), torch.randn(3), target, 1.0
    )
    assert not loss.isfinite()


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("classes", [1, 2, 7])
def test_scores_of_logits(dtype, classes):
    torch.manual_seed(0)
    x = torch.randint(-2, 3, (3000, classes)).to(dtype)  # with ties
    bias, target = torch.randn(classes).to(dtype), torch.randint(-1, classes, (3000,))
    sets, counts = torch.rand(4, 3000, dtype=dtype).div(3000).split([3, 1])
    arguments = (bias, target, sets, counts[0] * (target >= 0))
    for b in (bias, torch.zeros_like(bias)):
        assert_close(cpu.score(x, b, *arguments[1:]), plain.score(x, b, *arguments[1:]))
    x[1234, 0] = torch.inf
    assert cpu.score(x, *arguments).isnan().all()
    assert plain.score(x, *arguments).isnan().all()
