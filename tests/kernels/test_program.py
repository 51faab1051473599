"""Programs reuse slots correctly, and the C kernel agrees with execution pass by pass."""

from dataclasses import replace

import pytest
import torch

from gread import Adjacency
from gread.kernels import backend as choice, reference
from gread.kernels.interpreter import MatrixPasses, interpret
from gread.kernels.program import KINDS, ProgramBuilder

cpu = choice.available("cpu")
compiled = pytest.mark.skipif(isinstance(cpu, Exception), reason="no C compiler")


def everything():
    """Program with every kind of pass that the C kernel supports, most in several forms."""
    w = ProgramBuilder()
    h, g = w.load(0), w.load(1)
    y = w.gather(h, coef=0, degree=0)
    for degree in (1, 2, 3):
        y = w.gather(y, coef=0, degree=degree, bases=[h, g][: degree - 1])
    w.store(y, 1)
    v = w.back(w.product(y))
    for degree in (1, 2, 3):
        bases = [y, g, h][: degree - 1]
        v = w.pull(v, h, coef=1, degree=degree, bases=bases, base_dot=bool(bases))
    w.dot(v, g)
    v = w.add(w.add(None, v, coef=2), y, coef=3)
    w.edge_dots([v], y, coef=0)
    w.edge_dots([h, g], v, coef=1)
    w.edge_dots([g], h, coef=4)
    w.store(v, 0)
    return w.done()


def arguments(d, dtype, nodes=50):
    torch.manual_seed(0)
    edges = torch.randint(nodes - 3, (2, 6 * nodes))  # the last three nodes have no edges
    adj = Adjacency.from_edges(edges, 0.1 * torch.randn(6 * nodes, dtype=dtype), nodes)
    inputs = [torch.randn(nodes, d, dtype=dtype) for _ in range(2)]
    return adj, inputs, 0.3 * torch.randn(8, d, dtype=dtype)


def pass_by_pass(program, adj, inputs, coef):
    return interpret(program, MatrixPasses(adj, choice.backend_for(coef)), inputs, coef)


def test_example_program_contains_every_kind_of_pass():
    assert everything().kinds == set(KINDS)


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 5, 16, 40, 64, 130])
@pytest.mark.parametrize("threads", [1, 2])
def test_compiled_program_equals_pass_by_pass_execution(d, dtype, threads):
    program, (adj, inputs, coef) = everything(), arguments(d, dtype)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ran = cpu.run(program, adj, inputs, coef)
    finally:
        torch.set_num_threads(before)
    with choice.plain_only():
        plain = pass_by_pass(program, adj, inputs, coef)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    for one, other in zip(
        (*ran.outputs, ran.sums, ran.weight),
        (*plain.outputs, plain.sums, plain.weight),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@compiled
@pytest.mark.parametrize("own_weights", [True, False])
@pytest.mark.parametrize("d", [5, 64])
def test_program_on_stacked_members_equals_each_member_alone(d, own_weights):
    program = everything()
    adj, inputs, coef = arguments(d, torch.float64)
    adjacencies = [replace(adj, weight=adj.weight * (1 + m * own_weights)) for m in range(3)]
    weights = torch.stack([own.weight for own in adjacencies])
    together = replace(adj, weight=weights if own_weights else adj.weight)
    stacked = [torch.stack([(m + 1) * matrix for m in range(3)]) for matrix in inputs]
    coefs = torch.stack([coef, -coef, coef / 2])
    alone = [
        cpu.run(program, adjacencies[m], [matrix[m] for matrix in stacked], coefs[m])
        for m in range(3)
    ]
    for ran in (
        cpu.run(program, together, stacked, coefs),
        pass_by_pass(program, together, stacked, coefs),
    ):
        for number, output in enumerate(ran.outputs):
            torch.testing.assert_close(output, torch.stack([a.outputs[number] for a in alone]))
        torch.testing.assert_close(ran.sums, torch.stack([a.sums for a in alone]))
        torch.testing.assert_close(ran.weight, torch.stack([a.weight for a in alone]))


@compiled
def test_outputs_and_sums_are_bitwise_equal_for_any_number_of_threads():
    program, (adj, inputs, coef) = everything(), arguments(70, torch.float32)
    found = []
    before = torch.get_num_threads()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(cpu.run(program, adj, inputs, coef))
    torch.set_num_threads(before)
    for other in found[1:]:
        assert all(map(torch.equal, other.outputs, found[0].outputs))
        assert torch.equal(other.sums, found[0].sums)


def test_slots_are_reused_only_after_their_last_use():
    """Compare results: a state that is overwritten too early would change them."""
    program, (adj, inputs, coef) = everything(), arguments(3, torch.float64)
    assert program.slots < 6
    roomy = everything_in_separate_slots()
    assert roomy.slots > program.slots
    tight, wide = (pass_by_pass(p, adj, inputs, coef) for p in (program, roomy))
    assert all(map(torch.equal, tight.outputs, wide.outputs))
    assert torch.equal(tight.weight, wide.weight)


def everything_in_separate_slots():
    """The same program, with every state read again at the end."""
    original = ProgramBuilder.done

    def done(w):
        for state in range(w.states):
            w.dot(state, state)
        return original(w)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgramBuilder, "done", done)
        return everything()


def test_product_output_slot_differs_from_its_input_slot():
    w = ProgramBuilder()
    state = w.load(0)
    for _ in range(5):
        state = w.product(state)
        state = w.add(state, state, coef=0)
    w.store(state, 0)
    program = w.done()
    assert program.slots == 2
    for p in program.passes:
        assert p.kind != "product" or p.out != p.x


@compiled
def test_changed_pass_kinds_compile_another_library(monkeypatch):
    """The C code is compiled with the order of `KINDS`, so another order needs another library."""
    before = cpu.library.__wrapped__()._name
    monkeypatch.setattr("gread.kernels.cpu.KINDS", (*KINDS[1:], KINDS[0]))
    assert cpu.library.__wrapped__()._name != before


def test_reference_and_cpu_have_every_kernel_and_reference_run_returns_none():
    program, (adj, inputs, coef) = everything(), arguments(3, torch.float64)
    kernels = [name for name in vars(choice.Backend) if not name.startswith("_")]
    assert all(callable(getattr(reference, name)) for name in kernels)
    assert reference.run(program, adj, inputs, coef) is None
    if not isinstance(cpu, Exception):
        assert all(callable(getattr(cpu, name)) for name in kernels)
