"""Agreement with numbers that the authors' published code computed on a small graph.

``parity.npz`` has a few sums over the entries of every state. If ``GREAD_PARITY`` names the folder
with all entries, these are compared too.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gread.dynamics.tableau import Integration
from gread.graph.adjacency import SoftAdjacency
from gread.models.gread import ReactionDiffusionConv
from gread.models.layers import Gate, SignedVector, build_decoder, build_encoder
from tests.checks import dense

PACKED = Path(__file__).with_name("parity.npz")
"""Written by studies/pack_parity.py."""

FOLDER = os.environ.get("GREAD_PARITY")
INPUTS = dict(np.load(PACKED)) if PACKED.exists() else {}
SUMS = dict(zip(INPUTS.get("cases", ()), INPUTS.get("sums", ()), strict=True))
ENTRIES = dict(np.load(Path(FOLDER, "cases.npz"))) if FOLDER else {}
REACTIONS = {
    "bs": "bs",
    "f": "f",
    "ac": "ac",
    "z": "z",
    "st": "st",
    "fb_paper": "fb",
    "fbstar_paper": "fb*",
}
# "OA_rw" (random walk) of the published code divides by the degree of the column.
ADJACENCIES = {
    "OA_sym": {"adjacency": "original"},
    "OA_rw": {"adjacency": "original", "normalization": "column"},
    "SA": {"adjacency": "soft", "attention_channels": 32},
}


def sums_of(state):
    """Eight sums over all entries of a state [20, 16] with different weights."""
    weights = np.cos(np.outer(np.arange(1, 9), np.arange(state.size) ** 2))
    return weights @ np.asarray(state).reshape(-1)


def check_state(state, case):
    """Compare with the published code's state of that name."""
    same = {"rtol": 1e-10, "atol": 1e-12, "msg": case}
    found = sums_of(state.detach().numpy())
    torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(SUMS[case]), **same)
    if ENTRIES:
        torch.testing.assert_close(state, torch.from_numpy(ENTRIES[case]), **same)


def tensor(name):
    return torch.from_numpy(np.asarray(INPUTS[name]))


def edge_index():
    rows, columns = torch.from_numpy(INPUTS["edge_index"])
    return torch.stack([columns, rows])  # from rows and columns to sources and targets


def set_linear(linear: nn.Linear, name: str) -> None:
    with torch.no_grad():
        linear.weight.copy_(tensor(f"{name}.weight"))
        linear.bias.copy_(tensor(f"{name}.bias"))


def set_attention(adjacency: nn.Module) -> None:
    if isinstance(adjacency, SoftAdjacency):
        set_linear(adjacency.query, "att.Q")
        set_linear(adjacency.key, "att.K")


def coefficient(name: str, kind: str) -> nn.Module:
    """The published code's parameter ``alpha`` or ``beta`` in one of its three forms."""
    if (name, kind) == ("beta", "VC"):
        vector = SignedVector(16).double()
        vector.value.data = tensor("b_W")
        return vector
    gate = Gate().double()
    gate.logit.data = tensor(f"{name}_train_{kind[:2]}")
    return gate


def layer(reaction: str, adjacency: str, loop: int, **options) -> ReactionDiffusionConv:
    made = ReactionDiffusionConv(
        16,
        reaction=reaction,
        time=float(INPUTS["T"]),
        step_size=float(INPUTS["step_size"]),
        self_loops=float(loop),
        **ADJACENCIES[adjacency],
        **options,
    ).double()
    set_attention(made.adjacency)
    return made


def test_encoder_matches_the_published_code():
    encoder = build_encoder("linear", 8, 16, 0.0, 0.0).double()
    linear = torch.nn.Linear(8, 16).double()
    set_linear(linear, "m1")
    encoder.weight.data, encoder.bias.data = linear.weight.T, linear.bias
    torch.testing.assert_close(encoder(tensor("x")), tensor("H0"))


def test_every_reaction_has_cases():
    assert {name.split(".")[0] for name in SUMS} >= set(REACTIONS)


@pytest.mark.parametrize("loop", [0, 1])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_adjacency_matches_the_published_code(adjacency, loop):
    made = layer("bs", adjacency, loop).adjacency(tensor("H0"), edge_index())
    expected = tensor(f"A.{adjacency}.loop{loop}")
    torch.testing.assert_close(dense(made), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("solver", ["euler", "rk4"])
@pytest.mark.parametrize("loop", [0, 1])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("theirs", REACTIONS)
def test_final_state_matches_the_published_code(theirs, adjacency, loop, solver):
    h0 = tensor("H0")
    for beta in ("SC", "VC", "VCsig"):
        for alpha in ("SC", "VC"):
            made = layer(REACTIONS[theirs], adjacency, loop, solver=solver)
            made.alpha = coefficient("alpha", alpha)
            made.beta = coefficient("beta", beta)
            case = f"{theirs}.{adjacency}.beta{beta}.alpha{alpha}.loop{loop}"
            check_state(made(h0, edge_index()), f"{case}.{solver}.HT")


@pytest.mark.parametrize("loop", [0, 1])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("theirs", REACTIONS)
def test_right_hand_side_matches_the_published_code(theirs, adjacency, loop):
    """One Euler step of length one minus the state is f(H(0))."""
    h0 = tensor("H0")
    made = layer(REACTIONS[theirs], adjacency, loop, solver="euler")
    made.integration = Integration(1.0, 1.0, "euler")
    for beta in ("SC", "VC", "VCsig"):
        for alpha in ("SC", "VC"):
            made.alpha = coefficient("alpha", alpha)
            made.beta = coefficient("beta", beta)
            case = f"{theirs}.{adjacency}.beta{beta}.alpha{alpha}.loop{loop}.f"
            check_state(made(h0, edge_index()) - h0, case)


def test_decoder_forms_match_the_published_formulas():
    linear = build_decoder("linear", 16, 4, 0.0, False).double()
    set_linear(linear[1][1], "m2")
    mlp = build_decoder("mlp", 16, 4, 0.0, False).double()
    set_linear(mlp[1][2].linear, "m2.m21")
    set_linear(mlp[1][4], "m2.m22")
    z = tensor("H0")
    w21, b21, w22, b22 = (
        tensor(f"m2.{name}") for name in ("m21.weight", "m21.bias", "m22.weight", "m22.bias")
    )
    residual = z + torch.tanh(z) @ w21.T + b21
    torch.testing.assert_close(mlp(z), torch.tanh(residual) @ w22.T + b22)
    torch.testing.assert_close(linear(z), z @ tensor("m2.weight").T + tensor("m2.bias"))
