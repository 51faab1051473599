import pytest
import torch
from torch import nn

from gread.base.errors import InputError
from gread.dynamics.reactions import REACTIONS, build_reaction
from tests import checks

DENSE = {
    "f": lambda h, h0, a: h * (1 - h),
    "ac": lambda h, h0, a: h * (1 - h**2),
    "z": lambda h, h0, a: h * (h - h**2),
    "bs": lambda h, h0, a: (a - a @ a) @ h,
    "st": lambda h, h0, a: h0,
    "fb": lambda h, h0, a: (torch.eye(len(a)) - a) @ h,
    "fb*": lambda h, h0, a: (torch.eye(len(a)) - a) @ h + h,
}


@pytest.fixture(params=REACTIONS)
def reaction(request):
    return build_reaction(request.param, channels=4)


def test_shape_and_type_are_kept(reaction, graph):
    checks.check_reaction_keeps_shape_and_type(reaction, graph)


def test_permuting_the_nodes_permutes_the_result(reaction, graph):
    checks.check_reaction_is_equivariant(reaction, graph)


def test_gradient_is_right(graph):
    for name in REACTIONS:
        checks.check_reaction_gradient(build_reaction(name, channels=2), graph)


@pytest.mark.parametrize("name", REACTIONS)
def test_docstring_begins_with_the_equation(name):
    checks.check_reaction_is_documented(REACTIONS[name])


@pytest.mark.parametrize("name", DENSE)
def test_reaction_equals_dense_formula(name, graph):
    h = torch.randn(12, 4, dtype=torch.float64)
    state = checks.state_of(h, graph)
    expected = DENSE[name](h, state.h0, checks.dense(state.adj))
    torch.testing.assert_close(build_reaction(name, 4)(state), expected)


@pytest.mark.parametrize("name", [name for name in REACTIONS if hasattr(REACTIONS[name], "terms")])
def test_terms_equal_the_reaction_function(name, graph):
    terms = REACTIONS[name].terms
    s = checks.state_of(torch.randn(12, 4, dtype=torch.float64), graph)
    polynomial = terms.linear * s.h + terms.square * s.h**2 + terms.cube * s.h**3
    products = terms.laplacian * s.lh + terms.blurred * (s.adj @ s.lh)
    torch.testing.assert_close(terms.source * s.h0 + polynomial + products, REACTIONS[name](s))


@pytest.mark.parametrize(
    ("name", "fixed_points"), [("f", (0, 1)), ("ac", (-1, 0, 1)), ("z", (0, 1))]
)
def test_reactions_are_zero_at_their_fixed_points(name, fixed_points, graph):
    for value in fixed_points:
        state = checks.state_of(torch.full((12, 4), float(value)), graph)
        assert not build_reaction(name, 4)(state).any()


def test_reaction_class_is_instantiated_and_instance_is_returned_unchanged():
    class Scaled(nn.Module):
        """r(H) = s ⊙ H."""

        def __init__(self, channels):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(channels))

        def forward(self, s):
            return self.scale * s.h

    assert build_reaction(Scaled, 5).scale.shape == (5,)
    instance = Scaled(3)
    assert build_reaction(instance, 3) is instance


def test_invalid_reactions_raise_input_error():
    with pytest.raises(InputError, match=r"unknown reaction 'bz'.* bs, f, ac, z, st"):
        build_reaction("bz", 4)
    with pytest.raises(
        InputError, match="reaction must be a name or a function of the state, got 3"
    ):
        build_reaction(3, 4)
