"""Parts of models: encoders, decoders and coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from gread.base.checks import check_count, check_rate
from gread.base.registry import Registry
from gread.graph.operator import Adjacency
from gread.kernels.backend import fast
from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.operators import activated, identity, mix, product
from gread.kernels.pattern import Pattern, Rows, remember
from gread.kernels.reference import Batch
from gread.models.stacking import Dropouts, PartByPart, Stacked, stack, together


class Coefficient(nn.Module):
    """α or β: a single number, or one per channel.

    Attributes:
        signed: Whether the parameter is the coefficient itself; otherwise a sigmoid is applied.
    """

    signed: bool = False

    @property
    def parameter(self) -> nn.Parameter | None:
        """The learned parameter; None for a constant coefficient."""
        return next(self.parameters(), None)

    @classmethod
    def stacked(cls, members: Sequence[Coefficient]) -> nn.Module:
        """Stack coefficients of any kinds."""
        return Coefficients(members)


class Gate(Coefficient):
    """Coefficient σ(p) in (0, 1), with p initialized to ``start``; by default σ(p) = ½."""

    def __init__(self, *shape: int, start: float = 0.0):
        super().__init__()
        self.start = start
        self.logit = nn.Parameter(torch.full(shape, start))

    def reset_parameters(self) -> None:
        """Reset to the initial value."""
        nn.init.constant_(self.logit, self.start)

    def forward(self) -> Tensor:
        """Return σ(p)."""
        return self.logit.sigmoid()


class Signed(Coefficient):
    """Unconstrained coefficient, initialized to 0, such as the strength of a source."""

    signed = True

    def __init__(self, *shape: int):
        super().__init__()
        self.value = nn.Parameter(torch.empty(shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset to zero."""
        nn.init.zeros_(self.value)

    def forward(self) -> Tensor:
        """Return the coefficient."""
        return self.value


class SignedVector(Signed):
    """Unconstrained coefficient per channel, initialized uniformly in [−1, 1].

    The sign makes it effective on heterophilous graphs: some channels sharpen, others blur.
    """

    def reset_parameters(self) -> None:
        """Reinitialize."""
        nn.init.uniform_(self.value, -1, 1)


class Matrix(Coefficient):
    """Unconstrained coefficient for every pair of channels: cross-diffusion, H ↦ H M.

    The flux of one channel depends on the gradients of all, as in a system of several species.

    Args:
        channels: d.
        start: Initial value of the diagonal; None draws it uniformly from [−1, 1].
    """

    signed = True

    def __init__(self, channels: int, start: float | None = None):
        super().__init__()
        self.start = start
        self.value = nn.Parameter(torch.empty(channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset to a diagonal matrix."""
        diagonal = self.value.new_empty(len(self.value)).uniform_(-1, 1)
        if self.start is not None:
            diagonal.fill_(self.start)
        with torch.no_grad():
            self.value.copy_(diagonal.diag())

    def forward(self) -> Tensor:
        """Return M, [d, d]."""
        return self.value


class One(Coefficient):
    """The constant 1, for an equation without this coefficient."""

    def forward(self) -> float:
        """Return 1."""
        return 1.0


class Coefficients(Stacked):
    """α or β of every member, of any kinds, [members, channels].

    A scalar is the first number of its row; the other numbers of the row are not used.

    Args:
        members: The coefficients.
        channels: Minimum length of a row.
    """

    scalar: Tensor
    signed: Tensor
    fixed: Tensor

    def __init__(self, members: Sequence[Coefficient], channels: int = 1):
        super().__init__()
        learned = [one.parameter for one in members]
        known = [value for value in learned if value is not None]
        channels = max(channels, *(value.numel() for value in known), 1)
        rows = torch.zeros(len(members), channels, dtype=known[0].dtype if known else None)
        for row, value in zip(rows, learned, strict=True):
            if value is not None:
                row[: value.numel()] = value.detach()
        self.row = nn.Parameter(rows)
        kinds = {
            "scalar": [value is not None and value.dim() == 0 for value in learned],
            "signed": [one.signed for one in members],
            "fixed": [value is None for value in learned],
        }
        for name, kind in kinds.items():
            self.register_buffer(name, torch.tensor(kind).unsqueeze(1))

    def forward(self) -> Tensor:
        """Return the coefficients, [members, channels]."""
        row = torch.where(self.scalar, self.row[:, :1], self.row)
        return torch.where(self.signed, row, row.sigmoid()).masked_fill(self.fixed, 1.0)

    def copy_to(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Copy the part of a row that the kind of coefficient uses."""
        for model, member in zip(models, members, strict=True):
            for own in model.parameters():
                own.copy_(self.row[member, : own.numel()].view(own.shape))


BuildCoefficient = Callable[[int], Coefficient]  # from the number of channels

ALPHAS: Registry[BuildCoefficient] = Registry(
    "alpha",
    {
        "scalar": lambda _: Gate(),
        "vector": Gate,
        "matrix": partial(Matrix, start=0.5),
        "one": lambda _: One(),
    },
)
BETAS: Registry[BuildCoefficient] = Registry(
    "beta",
    {
        "scalar": lambda _: Gate(),
        "vector": SignedVector,
        "positive-vector": Gate,
        "matrix": Matrix,
        "one": lambda _: One(),
    },
)
LOCALS: Registry[BuildCoefficient | None] = Registry(
    "local",
    {
        "none": None,
        "scalar": lambda _: Signed(),
        "vector": Signed,
        "matrix": partial(Matrix, start=0.0),
    },
)
"""Coefficients of the local term, initialized to 0."""


class Dropout(nn.Module):
    """Dropout with probability ``rate`` in training."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(
        self,
        h: Tensor,
        activation: Callable[[Tensor], Tensor] = identity,
        batch: Batch | None = None,
    ) -> Tensor:
        """Dropout(φ(BatchNorm(h))); by default φ(h) = h without normalization."""
        return activated(h, activation, self.rate if self.training else 0.0, batch=batch)

    @classmethod
    def stacked(cls, members: Sequence[Dropout]) -> nn.Module:
        """Stack several members, each with its rate."""
        return Dropouts([one.rate for one in members])


SPARSE = 0.25
"""Features with a smaller share of non-zeros are treated as sparse."""


class SparseMap(nn.Module):
    """W Dropout(X) + b of a matrix X that may be sparse; W is stored as [in_channels, channels].

    Args:
        in_channels: Number of columns of X.
        channels: Width of the output.
        dropout: Dropout on X.
        bias: Whether to add b.
    """

    def __init__(self, in_channels: int, channels: int, dropout: float, *, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, channels))
        self.bias = nn.Parameter(torch.empty(channels)) if bias else None
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize uniformly within 1 / √in_channels, as in ``nn.Linear``."""
        bound = self.weight.size(0) ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)


class FeatureMap(SparseMap):
    """First linear map of a network, applied to the features.

    Features with few non-zeros, such as bags of words, stay sparse. Dropout is then applied to the
    non-zeros only, which does not change the distribution.

    Args:
        in_channels, channels, dropout, bias: As in `SparseMap`.
        unit_rows: Whether every row of Dropout(X) is scaled to length one.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        dropout: float,
        *,
        bias: bool = True,
        unit_rows: bool = False,
    ):
        super().__init__(in_channels, channels, dropout, bias=bias)
        self.unit_rows = unit_rows

    def forward(self, x: Tensor) -> Tensor:
        """Map X [N, in_channels] to [N, channels]."""
        words = sparse_features(x)
        if words is None:
            x = self.dropout(x)
            return linear(normalize(x) if self.unit_rows else x, self.weight.T, self.bias)
        pattern, values = words
        values = self.dropout(values)
        y = product(pattern, values, self.weight)
        if self.unit_rows:
            length = product(pattern, values.square(), self.weight.new_ones(x.size(1), 1)).sqrt()
            y = y / length.clamp_min(torch.finfo(y.dtype).tiny)
        return y if self.bias is None else y + self.bias

    @classmethod
    def stacked(cls, members: Sequence[FeatureMap]) -> nn.Module:
        """Stack several members, which share their features."""
        return FeatureMaps(members)


class FeatureMaps(Stacked):
    """W Dropout(X) + b, from features [N, F] that all members share."""

    def __init__(self, maps: Sequence[FeatureMap]):
        super().__init__()
        self.weight = together([one.weight for one in maps])
        # The map of an encoder always has a bias.
        self.bias = together([one.bias for one in maps if one.bias is not None])
        self.dropout = stack([one.dropout for one in maps])

    def forward(self, x: Tensor) -> Tensor:
        """Map features [N, F] to [members, N, channels]."""
        words = sparse_features(x)
        if words is None:
            return mix([self.dropout(self._for_each(x))], self.weight, self.bias)
        pattern, values = words
        if self.training:
            values = self.dropout(self._for_each(values))
        return product(pattern, values, self.weight) + self.bias.unsqueeze(1)

    def _for_each(self, shared: Tensor) -> Tensor:
        return shared.expand(len(self.weight), *shared.shape)


def sparse_features(x: Tensor) -> tuple[Pattern, Tensor] | None:
    """Sparse form of x if it has few non-zeros or is a CSR tensor; cached."""
    if x.layout is torch.sparse_csr:
        return remember(x, "sparse", lambda: _entries(x))
    if not fast() or x.requires_grad:
        return None
    return remember(x, "sparse", lambda: _sparse(x))


def _entries(x: Tensor) -> tuple[Pattern, Tensor]:
    """Pattern and values of a CSR tensor, in which the columns of every row are sorted."""
    rows = Rows(x.crow_indices().long(), x.col_indices().int())
    return Pattern(rows, x.size(1)), x.values()


def _sparse(x: Tensor) -> tuple[Pattern, Tensor] | None:
    if not values_can_be_read() or x.count_nonzero() > SPARSE * x.numel():
        return None
    row, column = x.nonzero(as_tuple=True)
    pattern, order = Pattern.from_entries(row, column, (x.size(0), x.size(1)))
    return pattern, x[row, column][order]


class RowMap(SparseMap):
    """Dropout(A) W + b: the rows of a sparse matrix of the graph as the features of its nodes.

    W has one row per node, so the model applies to one graph only.
    """

    def forward(self, adj: Adjacency) -> Tensor:
        """Compute Dropout(A) W + b, [N, channels]."""
        y = product(adj.pattern, self.dropout(adj.weight), self.weight)
        return y if self.bias is None else y + self.bias


class Residual(PartByPart):
    """h ↦ Dropout(h + W σ(h))."""

    def __init__(self, channels: int, activation: Callable[[Tensor], Tensor], dropout: float):
        super().__init__()
        self.linear = nn.Linear(channels, channels)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor) -> Tensor:
        """One residual block, [N, channels] to [N, channels]."""
        return self.dropout(h + self.linear(self.activation(h)))


ENCODERS: Registry[int] = Registry("encoder", {"linear": 0, "mlp": 2})
"""Number of residual blocks after the linear map."""

DECODERS: Registry[Callable[[int, float], Sequence[nn.Module]]] = Registry(
    "decoder",
    {
        "linear": lambda channels, dropout: (),
        # The authors' code also applies dropout twice.
        "mlp": lambda channels, dropout: (
            *(Dropout(dropout), Residual(channels, torch.tanh, dropout)),
            nn.Tanh(),
        ),
    },
)
"""Parts between the dropout and the linear map."""


class StateActivation(nn.Module):
    """ReLU on H(T), or the identity."""

    def __init__(self, active: bool):
        super().__init__()
        self.active = active

    def forward(self, h: Tensor) -> Tensor:
        """Apply the layer; the shape is unchanged."""
        return h.relu() if self.active else h

    @classmethod
    def stacked(cls, members: Sequence[StateActivation]) -> nn.Module:
        """Stack several members, with or without the ReLU."""
        return StateActivations(members)


class StateActivations(Stacked):
    """ReLU on H(T) of the members that use it."""

    active: Tensor

    def __init__(self, activations: Sequence[StateActivation]):
        super().__init__()
        active = torch.tensor([one.active for one in activations])
        self.register_buffer("active", active.view(-1, 1, 1))

    def forward(self, h: Tensor) -> Tensor:
        """Apply the layer; the shape is unchanged."""
        return torch.where(self.active, h.relu(), h)


def build_encoder(
    kind: str, in_channels: int, channels: int, input_dropout: float, dropout: float
) -> nn.Module:
    """Build e of Eq. (6), from features [N, in_channels] to the first state [N, channels].

    ``"linear"`` is W Dropout(X) + b; ``"mlp"`` adds two residual blocks with ReLU.
    """
    check_count("in_channels", in_channels)
    check_count("hidden_channels", channels)
    check_rate("input_dropout", input_dropout)
    check_rate("dropout", dropout)
    blocks = ENCODERS[kind]
    first = FeatureMap(in_channels, channels, input_dropout)
    if not blocks:
        return first
    residuals = (Residual(channels, torch.relu, dropout) for _ in range(blocks))
    return nn.Sequential(first, Dropout(dropout), *residuals)


def build_decoder(
    kind: str, channels: int, out_channels: int, dropout: float, activation: bool
) -> nn.Module:
    """Build o of Eq. (8), from the last state [N, channels] to logits [N, out_channels].

    ``"linear"`` is W Dropout(H) + b; ``"mlp"`` has a residual block and tanh before the map.
    """
    check_count("out_channels", out_channels)
    between = DECODERS[kind](channels, dropout)
    last = nn.Sequential(Dropout(dropout), *between, nn.Linear(channels, out_channels))
    return nn.Sequential(StateActivation(activation), last)


class OutputMap(NamedTuple):
    """A decoder W Dropout(H) + b."""

    dropout: Dropout
    linear: nn.Linear


def output_map(decoder: nn.Module) -> OutputMap | None:
    """The parts of a linear decoder from `build_decoder`; None for any other decoder."""
    match list(decoder.children()):
        case [StateActivation(active=False), nn.Sequential() as last]:
            match list(last):
                case [Dropout() as dropout, nn.Linear() as linear]:
                    return OutputMap(dropout, linear)
    return None
