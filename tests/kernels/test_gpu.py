"""The Triton kernels agree with the reference, on a GPU or under TRITON_INTERPRET=1."""

import copy
import os
from collections.abc import Callable
from functools import partial

import numpy
import pytest
import torch
from torch import Tensor

import gread
from gread.kernels import pattern, reference as plain
from gread.kernels.pattern import BY_LENGTH, remember, rows_by_length
from gread.kernels.reference import Batch, Pair, Rows, Terms

pytest.importorskip("triton")

CUDA = torch.cuda.is_available()
if not CUDA and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
if not CUDA and numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
    pytest.skip("Triton 3.6 cannot interpret loops under NumPy 2.4", allow_module_level=True)

from gread.kernels import gpu  # noqa: E402
from gread.training import loop, optimizer  # noqa: E402
from gread.training.config import TrainConfig  # noqa: E402
from gread.training.loop import Best  # noqa: E402
from gread.training.population import fit_together  # noqa: E402

DEVICE = "cuda" if CUDA else "cpu"

# NumPy before 2.4 warns instead of raising an error.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


@pytest.fixture(params=["usual", "large", "long"])
def division(request, monkeypatch) -> str:
    """The usual division of rows, that of a large graph, or one with many heavy rows.

    The state of the large graph does not fit into the cache.
    """
    if request.param == "long":
        monkeypatch.setattr(pattern, "MOST_LIGHT", 6)
        monkeypatch.setattr(pattern, "PIECE", 5)
    if request.param == "large":
        monkeypatch.setattr(gpu, "PROGRAMS", 4)
        monkeypatch.setattr(gpu, "CACHED", 0)
        monkeypatch.setattr(pattern, "NEARBY", 4)
    return request.param


def make_rows(counts: list[int], columns: int) -> Rows:
    start = torch.tensor([0, *counts]).cumsum(0)
    column = torch.randint(max(columns, 1), (int(start[-1]),), dtype=torch.int32)
    rows = Rows(start.to(DEVICE), column.to(DEVICE))
    remember(rows.start, BY_LENGTH, lambda: rows_by_length(rows.start))
    return rows


# Empty rows, including the last; rows with whole numbers of blocks; rows with several pieces. Rows
# are heavy only in the division "long".
GRAPHS = {
    "mixed": [0, 3, 1, 16, 0, 70, 2, 7, 6, 0, 5, 0],
    "dense": [20, 33, 17, 40, 0, 90],
    "no entries": [0, 0, 0],
    "one row": [5],
    "nothing": [],
}
graphs = pytest.mark.parametrize("graph", GRAPHS)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def rows_of(graph: str) -> Rows:
    counts = GRAPHS[graph]
    return make_rows(counts, len(counts))


def normal(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, dtype=dtype).to(DEVICE)


def positive(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.rand(*shape, dtype=dtype).to(DEVICE)


def assert_same(ours: Tensor, expected: Tensor) -> None:
    tolerance = 1e-5 if expected.dtype == torch.float32 else 1e-12
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance * scale)


def assert_all_same(ours: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for one, other in zip(ours, expected, strict=True):
        assert_same(one, other)


@dtypes
@graphs
@pytest.mark.parametrize(
    ("d", "degree", "bases"), [(1, 0, 0), (3, 1, 1), (64, 2, 2), (130, 3, 4), (64, 0, 5), (3, 3, 3)]
)
def test_gather(division, graph, dtype, d, degree, bases):
    rows = rows_of(graph)
    n, entries = len(GRAPHS[graph]), rows.column.numel()
    arguments = (
        rows,
        normal(entries, dtype=dtype),
        normal(n, d, dtype=dtype),
        Terms(
            normal(1 + degree + bases, d, dtype=dtype),
            [normal(n, d, dtype=dtype) for _ in range(bases)],
            degree,
        ),
    )
    assert_same(gpu.gather(*arguments), plain.gather(*arguments))
    assert_same(gpu.gather(*arguments[:3]), plain.gather(*arguments[:3]))


def test_rows_without_length_order_agree_with_the_reference():
    """Patterns that are built while a CUDA graph is recorded have no order by length."""
    rows = rows_of("mixed")
    bare = Rows(rows.start.clone(), rows.column)
    n, entries = len(GRAPHS["mixed"]), rows.column.numel()
    weight, y = normal(entries, dtype=torch.float64), normal(n, 64, dtype=torch.float64)
    terms = Terms(normal(3, 64, dtype=torch.float64), [y])
    assert_same(gpu.gather(bare, weight, y, terms), plain.gather(rows, weight, y, terms))
    pairs = [Pair([y], y)]
    assert_same(gpu.edge_dots(bare, pairs), plain.edge_dots(rows, pairs))
    q, k = normal(2, n, 4, 16, dtype=torch.float64)
    attention, mean = plain.attend(rows, q, k, weight)
    assert_all_same(gpu.attend(bare, q, k, weight), (attention, mean))
    slope = plain.attend_back(rows, attention, weight)
    assert_same(gpu.attend_back(bare, attention, weight), slope)
    assert_same(gpu.gather_heads(bare, attention, q), plain.gather_heads(rows, attention, q))


@dtypes
def test_gather_with_more_columns_than_rows(dtype):
    rows = make_rows([3, 0, 9], 50)
    weight, y, coef = (normal(*shape, dtype=dtype) for shape in [(12,), (50, 8), (1, 8)])
    for terms in (Terms(coef, degree=0), None):
        assert_same(gpu.gather(rows, weight, y, terms), plain.gather(rows, weight, y, terms))


@dtypes
@graphs
@pytest.mark.parametrize(
    ("d", "degree", "bases", "base_dot"),
    [
        (1, 1, 0, False),
        (3, 2, 1, True),
        (64, 1, 2, True),
        (130, 3, 5, True),
        (64, 3, 4, False),
        (3, 1, 3, False),
    ],
)
def test_pull(division, graph, dtype, d, degree, bases, base_dot):
    rows = rows_of(graph)
    n, entries = len(GRAPHS[graph]), rows.column.numel()
    arguments = (
        rows,
        normal(entries, dtype=dtype),
        normal(n, d, dtype=dtype),
        normal(n, d, dtype=dtype),
        Terms(
            normal(1 + degree + bases, d, dtype=dtype),
            [normal(n, d, dtype=dtype) for _ in range(bases)],
            degree,
            base_dot,
        ),
    )
    (ours, our_sums), (expected, sums) = gpu.pull(*arguments), plain.pull(*arguments)
    assert_same(ours, expected)
    assert_same(our_sums.sum(0), sums.sum(0))


@dtypes
@pytest.mark.parametrize(("n", "d"), [(0, 3), (1, 1), (40, 64), (1000, 130)])
def test_dot(dtype, n, d):
    x, y = normal(n, d, dtype=dtype), normal(n, d, dtype=dtype)
    assert_same(gpu.dot(x, y).sum(0), plain.dot(x, y).sum(0))


@dtypes
@graphs
@pytest.mark.parametrize("d", [1, 3, 64, 130])
@pytest.mark.parametrize("lefts", [(1,), (2,), (1, 1), (2, 1), (1, 2)])
def test_edge_dots(division, graph, dtype, d, lefts):
    rows = rows_of(graph)
    n = len(GRAPHS[graph])
    matrix = partial(normal, n, d, dtype=dtype)
    pairs = [
        Pair([matrix() for _ in range(left)], matrix(), normal(left, d, dtype=dtype))
        for left in lefts
    ]
    found = plain.edge_dots(rows, pairs)
    assert_same(gpu.edge_dots(rows, pairs), found)
    assert_same(gpu.edge_dots(rows, pairs, found.clone()), 2 * found)
    bare = [Pair(pair.left[:1], pair.right) for pair in pairs]
    assert_same(gpu.edge_dots(rows, bare), plain.edge_dots(rows, bare))


heads = pytest.mark.parametrize(("heads", "d_k"), [(1, 3), (1, 16), (4, 16), (4, 3), (3, 5)])


@dtypes
@graphs
@heads
@pytest.mark.parametrize("weights", ["none", "given", "zero"])
def test_attend(division, graph, dtype, heads, d_k, weights):
    rows = rows_of(graph)
    q, k = (3 * normal(len(GRAPHS[graph]), heads, d_k, dtype=dtype) for _ in range(2))
    weight = positive(rows.column.numel(), dtype=dtype) if weights != "none" else None
    if weights == "zero":
        weight = weight * (rows.numbers() % 2)  # every second row is all zero
    assert_all_same(gpu.attend(rows, q, k, weight), plain.attend(rows, q, k, weight))
    scores = plain.head_dots(rows, q, k)
    assert_same(gpu.head_dots(rows, q, k), scores)
    assert_all_same(gpu.shares(rows, scores, weight), plain.shares(rows, scores, weight))


@dtypes
@pytest.mark.parametrize("far", [-1e4, 88.0, 100.0, 1e4])
def test_zero_weight_entries_equal_absent_entries_in_attention(dtype, far):
    """The score may be at any distance from the others, also in a row of several blocks."""
    rows = make_rows([3, 40], 43)
    q, k = torch.ones(2, 2, 1, dtype=dtype, device=DEVICE), normal(43, 2, 1, dtype=dtype)
    rows.column.copy_(torch.arange(43))
    weight = positive(43, dtype=dtype)
    for entry in (1, 5, 42):
        weight[entry], k[entry] = 0, far
    found, mean = gpu.attend(rows, q, k, weight)
    assert_all_same((found, mean), plain.attend(rows, q, k, weight))
    totals = found.new_zeros(2, 2).index_add(0, rows.numbers(), found)
    assert_same(totals, torch.ones_like(totals))


@dtypes
@graphs
@pytest.mark.parametrize("heads", [1, 3, 4])
@pytest.mark.parametrize("shared", [False, True])
def test_attend_back(division, graph, dtype, heads, shared):
    rows = rows_of(graph)
    entries = rows.column.numel()
    attention = positive(entries, heads, dtype=dtype)
    grad = normal(entries, dtype=dtype) if shared else normal(entries, heads, dtype=dtype)
    assert_same(gpu.attend_back(rows, attention, grad), plain.attend_back(rows, attention, grad))


@dtypes
@graphs
@heads
def test_gather_heads(division, graph, dtype, heads, d_k):
    rows = rows_of(graph)
    weight = normal(rows.column.numel(), heads, dtype=dtype)
    y = normal(len(GRAPHS[graph]), heads, d_k, dtype=dtype)
    assert_same(gpu.gather_heads(rows, weight, y), plain.gather_heads(rows, weight, y))
    order = torch.randperm(rows.column.numel(), device=DEVICE)
    found = gpu.gather_heads(rows, weight, y, order)
    assert_same(found, plain.gather_heads(rows, weight[order], y))


@dtypes
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("shape", [(0,), (7,), (33, 65), (2, 3, 1024)])
def test_dropout(dtype, rate, shape):
    x = normal(*shape, dtype=dtype)
    for number in (0, 1, 2**31 - 1):
        seed = torch.tensor(number, device=DEVICE)
        ours, expected = gpu.dropout(x, seed, rate), plain.dropout(x, seed, rate)
        assert torch.equal(ours == 0, expected == 0)
        assert_same(ours, expected)


def some_batch(members: tuple[int, ...], d: int, training: bool, dtype: torch.dtype) -> Batch:
    weight, bias, mean = normal(3, *members, d, dtype=dtype)
    variance = positive(*members, d, dtype=dtype)
    return Batch(weight, bias, mean, variance, 0.1, 1e-5, training)


@dtypes
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("batch", [None, False, True], ids=["bare", "eval", "train"])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize(("members", "n", "d"), [((), 2, 1), ((), 40, 130), ((3,), 70, 5)])
def test_activate(dtype, relu, batch, drops, members, n, d, monkeypatch):
    monkeypatch.setattr(gpu, "DOT_PARTS", 2)  # several blocks of rows in a part
    h, grad = 3 + normal(*members, n, d, dtype=dtype), normal(*members, n, d, dtype=dtype)
    seed = torch.randint(2**31, members or (1,), device=DEVICE) if drops else None
    rate: float | Tensor = 0.3 if drops else 0.0
    if drops and members:
        rate = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64, device=DEVICE)
    ours = None if batch is None else some_batch(members, d, batch, dtype)
    theirs = copy.deepcopy(ours)
    out, scales = gpu.activate(h, relu, seed, rate, ours)
    expected, right = plain.activate(h, relu, seed, rate, theirs)
    assert_same(out, expected)
    if drops and not relu:
        assert torch.equal(out == 0, expected == 0)
    back = grad, h, relu, seed, rate
    found, sums = gpu.activate_back(*back, right, bool(batch))
    expected, totals = plain.activate_back(*back, right, bool(batch))
    assert_same(found, expected)
    if right is None:
        assert scales is sums is None
        return
    assert_same(scales, right)
    assert_same(sums, totals)
    assert_same(ours.running_mean, theirs.running_mean)
    assert_same(ours.running_var, theirs.running_var)


@dtypes
@pytest.mark.parametrize("members", [(), (2,)])
@pytest.mark.parametrize(
    ("n", "widths", "k"), [(0, (4, 4), 3), (7, (3, 3), 2), (150, (64, 64, 64), 64),
                           (70, (20,) * 5, 33), (65, (130, 130), 70), (9, (5,), 4), (9, (5, 4), 3)]
)  # fmt: skip
def test_mix(dtype, members, n, widths, k):
    terms = [normal(*members, n, d, dtype=dtype) for d in widths]
    weight = normal(*members, k, sum(widths), dtype=dtype).mT
    bias, grad = normal(*members, k, dtype=dtype), normal(*members, n, k, dtype=dtype)
    assert_same(gpu.mix(terms, weight, bias), plain.mix(terms, weight, bias))
    (back, *ours), (right, *expected) = (
        kernels.mix_back(grad, terms, weight) for kernels in (gpu, plain)
    )
    assert_all_same((*back, *ours), (*right, *expected))


def test_variance_of_a_large_mean_is_accurate():
    h = 1e4 + normal(5000, 3, dtype=torch.float64)
    batch = some_batch((), 3, True, torch.float32)
    inverse = gpu.activate(h.float(), False, None, 0.0, batch)[1][3]
    expected = h.float().double().var(0, correction=0).rsqrt()
    torch.testing.assert_close(inverse.double(), expected, rtol=1e-4, atol=0)


def test_draw_takes_the_next_number_of_members_with_dropout():
    numbers = torch.randint(2**31, (3, 5), device=DEVICE)
    rate = torch.tensor([0.5, 0.0, 0.1], dtype=torch.float64, device=DEVICE)
    places = [torch.tensor([1, 2, 3], device=DEVICE) for _ in range(2)]
    found = [
        kernels.draw(numbers, at, rate) for kernels, at in zip((gpu, plain), places, strict=True)
    ]
    assert torch.equal(*found)
    assert torch.equal(*places)
    assert places[0].tolist() == [2, 2, 4]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@dtypes
@pytest.mark.parametrize("members", [(), (3,)])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 5), (300, 7), (40, 64)])
def test_log_loss_and_score(dtype, members, n, k):
    x = 9 * normal(*members, n, k, dtype=dtype)
    x[..., n // 2, :] = 0  # a tie
    target = torch.randint(k, (n,), device=DEVICE)
    sets = positive(*members, 3, n, dtype=dtype) * (positive(n, dtype=dtype) > 0.5)
    target[(sets.flatten(0, -2) == 0).all(0)] = -1
    weight = sets[..., 1, :]
    (sums, grad), (expected, slope) = (
        kernels.log_loss(x, target, weight) for kernels in (gpu, plain)
    )
    assert_same(sums.sum(0), expected.sum(0))
    assert_same(grad, slope)
    shared = sets.flatten(0, -3)[0] if members else sets
    for own, bias in [(sets, None), (shared, None), (sets, normal(k, dtype=dtype))]:
        arguments = (x, bias, target, own, own[..., 1, :])
        assert_same(gpu.score(*arguments), plain.score(*arguments))
    x[..., 0, 0] = torch.inf
    assert gpu.score(x, None, target, sets, weight).isnan().all()


@pytest.mark.parametrize("members", [1, 3])
def test_best_state_in_one_launch_equals_plain_pytorch(members, monkeypatch):
    """The cases include ties, patience, non-finite values and dropped members."""
    random = torch.Generator().manual_seed(0)
    configs = [TrainConfig(epochs=9 + m, patience=(None, 2, 3)[m]) for m in range(members)]
    kinds = [torch.float32, torch.float64, torch.int64, torch.bool]
    shapes = [(5000,), (2, 3), (), (1,)]

    def states() -> list[Tensor]:
        pairs = zip(shapes, kinds, strict=True)
        return [torch.zeros(members, *shape, dtype=kind, device=DEVICE) for shape, kind in pairs]

    monkeypatch.setattr(loop, "available", lambda _: gpu)
    found = []
    for kind in ("none", DEVICE):
        monkeypatch.setattr(loop, "IN_ONE_LAUNCH", (kind,))
        found.append(Best(states(), states(), configs, torch.device(DEVICE)))
    chosen = list(range(members))
    for epoch in range(12):
        if epoch == 8 and members > 1:
            chosen = [0, 2]
        numbers = torch.randint(4, (len(chosen), 5), generator=random) / 3
        numbers[torch.rand(len(chosen), 5, generator=random) < 0.02] = torch.nan
        for best in found:
            if len(best.epoch) > len(chosen):
                for tensor in (*best.kept, *best.state):
                    tensor.data = tensor[chosen]
                best.keep(chosen)
            for tensor in best.state:
                tensor.fill_(epoch % 2 if tensor.dtype == torch.bool else epoch + 1)
            best.look(numbers.to(DEVICE))
        for name in ("epoch", "number", "val", "running"):
            assert torch.equal(*(getattr(best, name) for best in found))
        for one, other in zip(found[0].kept, found[1].kept, strict=True):
            assert torch.equal(one, other)
    assert found[1].kernels is gpu


@dtypes
def test_optimizer_step_in_one_launch_equals_adam(dtype, monkeypatch):
    """Compare each member, also with missing gradients and after a member was dropped."""
    monkeypatch.setattr(optimizer, "IN_ONE_LAUNCH", (DEVICE,))
    monkeypatch.setattr(optimizer, "available", lambda _: gpu)
    configs = [TrainConfig(lr=0.03 * (1 + m), weight_decay=0.1 * m) for m in range(3)]
    shapes = [(2500,), (2, 3), (), (7,)]
    ours = [torch.nn.Parameter(normal(3, *shape, dtype=dtype)) for shape in shapes]
    alone = [[torch.nn.Parameter(p[m].detach().clone()) for p in ours] for m in range(3)]
    found = optimizer.member_adam(ours, configs)
    assert isinstance(found, optimizer.LaunchedAdam)
    others = [
        torch.optim.Adam(own, lr=c.lr, weight_decay=c.weight_decay)
        for own, c in zip(alone, configs, strict=True)
    ]
    left = [0, 1, 2]
    for step in range(6):
        if step == 4:
            left = [0, 2]
            for p in ours:
                p.data, p.grad = p.detach()[left], None
            found.keep(left)
        for place, p in enumerate(ours):
            p.grad = None if place == 1 and step in (0, 3) else normal(*p.shape, dtype=dtype)
            for k, m in enumerate(left):
                alone[m][place].grad = None if p.grad is None else p.grad[k].clone()
        found.take()
        found.step()
        for k, m in enumerate(left):
            others[m].step()
            for p, q in zip(ours, alone[m], strict=True):
                assert_same(p[k].detach(), q.detach())


@dtypes
def test_optimizer_in_one_launch_respects_parameter_groups(dtype, monkeypatch):
    monkeypatch.setattr(optimizer, "IN_ONE_LAUNCH", (DEVICE,))
    monkeypatch.setattr(optimizer, "available", lambda _: gpu)
    ours = [torch.nn.Parameter(normal(5, 2, dtype=dtype)) for _ in range(2)]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    adams = [
        torch.optim.Adam([{"params": own[:1]}, {"params": own[1:], "weight_decay": 0.5}], lr=0.1)
        for own in (ours, theirs)
    ]
    mine = optimizer.launched(adams[0])
    for _ in range(3):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = q.grad = normal(5, 2, dtype=dtype)
        mine.take()
        mine.step()
        adams[1].step()
    for p, q in zip(ours, theirs, strict=True):
        assert_same(p.detach(), q.detach())


@pytest.mark.parametrize("hyper", [{"adjacency": "original"}, {"adjacency": "soft"}])
def test_steps_learned_during_the_previous_evaluation_change_no_number(hyper, monkeypatch):
    """Members end at different epochs, and the others keep the gradients of their next step."""
    monkeypatch.setattr(optimizer, "IN_ONE_LAUNCH", (DEVICE,))
    monkeypatch.setattr(optimizer, "available", lambda _: gpu)
    data = gread.load("csbm", num_nodes=60).to(DEVICE)
    configs = [TrainConfig(epochs=count) for count in (11, 3, 7, 4)]
    found = []
    for readable in (True, False):
        monkeypatch.setattr(loop, "values_can_be_read", lambda now=readable: now)
        torch.manual_seed(0)
        models = [gread.GREAD(data.num_features, 8, 2, dropout=0.3, **hyper) for _ in configs]
        generators = [torch.Generator().manual_seed(m) for m in range(len(configs))]
        options = {"splits": range(len(configs)), "generators": generators}
        fits = fit_together(models, data, configs, **options)
        parameters = [[p.tolist() for p in model.parameters()] for model in models]
        found.append(([fit.history for fit in fits], parameters))
    assert found[0] == found[1]


@pytest.mark.parametrize("own_weights", [True, False])
@pytest.mark.parametrize("d", [3, 64, 130])
def test_several_members_at_once(division, own_weights, d):
    dtype = torch.float64
    rows = rows_of("mixed")
    n, entries = len(GRAPHS["mixed"]), rows.column.numel()
    matrix = partial(normal, 3, n, d, dtype=dtype)
    weight = positive(*(3,) * own_weights, entries, dtype=dtype)
    x, y, coef = matrix(), matrix(), normal(3, 4, d, dtype=dtype)
    for terms in (Terms(coef, [y, x]), None):
        assert_same(gpu.gather(rows, weight, x, terms), plain.gather(rows, weight, x, terms))
    arguments = (rows, weight, x, y, Terms(coef, [x], 2, base_dot=True))
    (ours, our_sums), (expected, sums) = gpu.pull(*arguments), plain.pull(*arguments)
    assert_same(ours, expected)
    assert_same(our_sums.sum(0), sums.sum(0))
    assert_same(gpu.dot(x, y).sum(0), plain.dot(x, y).sum(0))
    pairs = [Pair([x, y], y, coef[:, :2]), Pair([y], x, coef[:, 2:3])]
    assert_same(gpu.edge_dots(rows, pairs), plain.edge_dots(rows, pairs))
    q, k = normal(3, n, 4, d, dtype=dtype), normal(3, n, 4, d, dtype=dtype)
    attention, mean = plain.attend(rows, q, k)
    assert_all_same(gpu.attend(rows, q, k), (attention, mean))
    assert_all_same(gpu.attend(rows, q, k, weight), plain.attend(rows, q, k, weight))
    scores = plain.head_dots(rows, q, k)
    assert_same(gpu.head_dots(rows, q, k), scores)
    assert_all_same(gpu.shares(rows, scores), plain.shares(rows, scores))
    assert_all_same(gpu.shares(rows, scores, weight), plain.shares(rows, scores, weight))
    for grad in (normal(3, entries, 4, dtype=dtype), normal(3, entries, dtype=dtype)):
        found = plain.attend_back(rows, attention, grad)
        assert_same(gpu.attend_back(rows, attention, grad), found)
    assert_same(gpu.gather_heads(rows, attention, q), plain.gather_heads(rows, attention, q))
    order = torch.randperm(entries, device=DEVICE)
    found = plain.gather_heads(rows, attention[:, order], q)
    assert_same(gpu.gather_heads(rows, attention, q, order), found)
    assert_same(plain.gather_heads(rows, attention, q, order), found)
    seeds = torch.tensor([5, 7, 9], device=DEVICE)
    rates = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64, device=DEVICE)
    assert_same(gpu.dropout(x, seeds, rates), plain.dropout(x, seeds, rates))
    alone = [plain.dropout(x[m], seeds[m], float(rates[m])) for m in range(3)]
    assert_same(gpu.dropout(x, seeds, rates), torch.stack(alone))


@pytest.mark.parametrize("members", [(), (1,), (2,), (5,)])
@pytest.mark.parametrize("shape", [(6, 40), (40, 6)])
def test_matrices_that_are_not_square(division, shape, members):
    dtype, d = torch.float64, 16
    counts = [number % 7 for number in range(shape[0])]  # rows with more than 3 are heavy in "long"
    rows, entries = make_rows(counts, shape[1]), sum(counts)
    left, right = (normal(*members, n, d, dtype=dtype) for n in shape)
    weight = positive(*members, entries, dtype=dtype)
    coef = normal(*members, 1, d, dtype=dtype)
    arguments = (rows, weight, right, Terms(coef, degree=0))
    assert_same(gpu.gather(*arguments), plain.gather(*arguments))
    pairs = [Pair([left], right)]
    assert_same(gpu.edge_dots(rows, pairs), plain.edge_dots(rows, pairs))
    heads = normal(*members, entries, 3, dtype=dtype)
    y = normal(*members, shape[1], 3, d, dtype=dtype)
    assert_same(gpu.gather_heads(rows, heads, y), plain.gather_heads(rows, heads, y))


@dtypes
def test_noncontiguous_inputs_agree_with_the_reference(dtype):
    rows = rows_of("mixed")
    n = len(GRAPHS["mixed"])
    y = normal(8, n, dtype=dtype).T
    weight = normal(rows.column.numel(), 2, dtype=dtype)[:, 0]
    terms = Terms(normal(8, 3, dtype=dtype).T, [y])
    assert_same(gpu.gather(rows, weight, y, terms), plain.gather(rows, weight, y, terms))
    seed = torch.tensor(5, device=DEVICE)
    assert_same(gpu.dropout(y, seed, 0.3), plain.dropout(y, seed, 0.3))


def capturable() -> dict[str, Callable[[Tensor], Tensor]]:
    rows = rows_of("mixed")
    n, d, dtype = len(GRAPHS["mixed"]), 64, torch.float32
    weight = positive(rows.column.numel(), dtype=dtype)
    y, terms = normal(n, d, dtype=dtype), Terms(normal(2, d, dtype=dtype))
    shared = weight.unsqueeze(-1).repeat(1, 4)
    seed, batch = torch.tensor(3, device=DEVICE), some_batch((), d, True, dtype)
    return {
        "gather": lambda x: gpu.gather(rows, weight, x, terms),
        "pull": lambda x: torch.cat(
            [part.flatten() for part in gpu.pull(rows, weight, x, y, terms)]
        ),
        "dot": lambda x: gpu.dot(x, y),
        "edge_dots": lambda x: gpu.edge_dots(rows, [Pair([x], y)]),
        "attend": lambda x: gpu.attend(rows, x.view(n, 4, 16), y.view(n, 4, 16), weight)[1],
        "head_dots": lambda x: gpu.head_dots(rows, x.view(n, 4, 16), y.view(n, 4, 16)),
        "shares": lambda x: gpu.shares(rows, x[:, :3].index_select(0, rows.numbers()), weight)[0],
        "attend_back": lambda x: gpu.attend_back(
            rows, x[:, :3].index_select(0, rows.numbers()), weight
        ),
        "gather_heads": lambda x: gpu.gather_heads(rows, shared, x.view(n, 4, 16)),
        "dropout": lambda x: gpu.dropout(x, seed, 0.3),
        "activate": lambda x: activate_and_back(x, y, batch, seed),
    }


def activate_and_back(x: Tensor, grad: Tensor, batch: Batch, seed: Tensor) -> Tensor:
    how = True, seed, 0.3
    out, scales = gpu.activate(x, *how, batch)
    return torch.cat([out, gpu.activate_back(grad, x, *how, scales, training=True)[0]])


CAPTURABLE = [
    *("gather", "pull", "dot", "edge_dots", "attend", "head_dots", "shares"),
    *("attend_back", "gather_heads", "dropout", "activate"),
]


@pytest.mark.skipif(not CUDA, reason="needs a GPU")
@pytest.mark.parametrize("name", CAPTURABLE)
def test_cuda_graph_replay_equals_direct_call(division, name):
    call = capturable()[name]
    x = normal(len(GRAPHS["mixed"]), 64, dtype=torch.float32)
    call(x)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(x)
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert torch.equal(out, call(x))


def test_kernels_with_heads_give_rows_with_several_pieces_a_program_each():
    hub = make_rows([3] * 4000 + [1303, 50], 4002)
    tile = gpu._tile_of(hub, 64, 4, warps=8, longest_apart=True)
    assert (tile.heavy, tile.options["ROWS"]) == (2, 16)
    assert tile.programs == 2 + 4000 // 16
    assert gpu._tile_of(hub, 64, 4, warps=8).heavy == 1
    unknown = Rows(hub.start.clone(), hub.column)
    assert gpu._tile_of(unknown, 64, 4, warps=8, longest_apart=True).heavy == 0
