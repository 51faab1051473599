"""Training of GREAD without autograd, for its standard form.

On a small graph the kernels take less time than modules, checks and autograd around them. If the
features are sparse, Ã is fixed and the decoder is linear, a step is five kernels (encoder, flow,
decoder with loss and its gradients, and the backward passes of flow and encoder), and an
evaluation is three (encoder, flow, scores). Up to rounding, they give the same numbers as the model
with the same seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gread.dynamics.chebyshev import Series, polynomial_series
from gread.dynamics.solve import ReactionDiffusion, flow
from gread.kernels.backend import available, fast
from gread.kernels.direct import Direct
from gread.kernels.pattern import Pattern
from gread.models.layers import sparse_features

if TYPE_CHECKING:  # importing it imports huggingface_hub
    from gread.models.gread import StandardForm


@runtime_checkable
class HasStandardForm(Protocol):
    """A model that may have the standard form."""

    def standard_form(self) -> StandardForm | None:
        """Return its parts; None if it does not have this form."""

    def check(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> None:
        """Raise an error if the graph does not fit."""


def direct_model(model: nn.Module, data: Data, masks: Tensor) -> DirectModel | None:
    """Return the model for direct training with mean cross entropy; None if it is not supported.

    Args:
        model: Any model.
        data: Its graph.
        masks: Nodes in training, validation and test, [3, N].
    """
    if not isinstance(model, HasStandardForm):
        return None
    x, form = data.x, model.standard_form()
    if form is None or not fast() or isinstance(available("cpu"), Exception):
        return None
    if x.is_cuda or x.dtype not in (torch.float32, torch.float64):
        return None
    if not all(p.requires_grad and p.dtype == x.dtype for p in model.parameters()):
        return None
    hooks = (module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    words = None if any(hooks) else sparse_features(x)
    if words is None:
        return None
    model.check(x, data.edge_index, data.edge_weight)
    layer = form.layer
    like = x.new_empty(x.size(0), layer.channels)
    adj = layer.adjacency(like, data.edge_index, data.edge_weight)
    f = ReactionDiffusion(adj, like, layer.alpha(), layer.beta(), layer.reaction)
    if f.rates.size(1) not in (1, layer.channels):
        return None
    return DirectModel(form, words, f, data.y, masks)


class DirectModel:
    """A model of the standard form on one graph.

    Args:
        form: Parts of the model.
        words: Sparse features.
        f: Right-hand side with the initial coefficients.
        y: Class of every node.
        masks: Nodes in training, validation and test, [3, N].
    """

    def __init__(
        self,
        form: StandardForm,
        words: tuple[Pattern, Tensor],
        f: ReactionDiffusion,
        y: Tensor,
        masks: Tensor,
    ):
        self.kernels: Any = available("cpu")
        self.encoder, self.layer, self.output = form
        (self.pattern, self.values), self.adj = words, f.adj
        assert f.terms is not None
        self.terms, self.integration = f.terms, self.layer.integration
        self.like = f.source
        classes, channels = self.output.linear.weight.shape
        self.maps_first = classes < channels and self.layer.commutes
        self.y, self.target = y, y.masked_fill(~masks[0], -1)
        self.weight = masks.to(self.like.dtype)
        train, val, test = self.weight.sum(1).tolist()
        self.scale, self.sizes = 1 / train, self.like.new_tensor([train, val, test, val])
        self.coefficients = [(c, c.parameter) for c in (self.layer.alpha, self.layer.beta)]
        self.learned = [p for _, p in self.coefficients if p is not None]
        self.versions: list[int] | None = None
        self.rates = f.rates
        self.series: Series | None = None

    def _prepare(self) -> Tensor:
        """Compute α, β and the polynomial, once after each step of the optimizer."""
        versions = [parameter._version for parameter in self.learned]
        if versions != self.versions:
            each = [torch.as_tensor(c(), dtype=self.like.dtype) for c, _ in self.coefficients]
            rates = torch.stack([one.expand(self.rates.size(1)) for one in each])
            self.rates = rates.requires_grad_(bool(self.learned))
            self.series = polynomial_series(
                self.adj, rates, self.terms, self.integration, self.like.dtype
            )
            self.versions = versions
        return self.rates

    def _flow(self, h0: Tensor, call: Direct) -> Tensor:
        """Compute H(T)."""
        rates = self._prepare()
        return flow(self.adj, h0, h0, rates, self.terms, self.integration, self.series, call)

    @torch.no_grad()
    def learn(self) -> Tensor:
        """Compute the loss of a training step, and set the gradients of all parameters."""
        kernels, pattern, first, last = self.kernels, self.pattern, self.encoder, self.output.linear
        words = self.values, _seed(rate := first.dropout.rate), rate
        h0 = kernels.drop_gather(pattern.rows, *words, first.weight, bias=first.bias)
        call = Direct()
        final = self._flow(h0.requires_grad_(), call)
        seed = _seed(rate := self.output.dropout.rate)
        loss, grad, last.weight.grad, last.bias.grad = kernels.drop_cross_entropy(
            final, seed, rate, last.weight, last.bias, self.target, self.scale
        )
        grad, *grad_rates = call.backward(grad, h0, *([self.rates] if self.learned else []))
        first.weight.grad = kernels.drop_gather(pattern.columns, *words, grad, pattern.order)
        if first.bias is not None:
            first.bias.grad = grad.sum(0)
        for one in grad_rates:
            self._learn_coefficients(one)
        self.versions = None  # PyTorch's fused Adam does not increment versions of parameters
        return loss

    def _learn_coefficients(self, grad_rates: Tensor) -> None:
        """Set the gradients of the parameters of α and β."""
        rates = self.rates.detach()
        grad_gates = grad_rates * rates * (1 - rates)  # through σ
        for row, (coefficient, parameter) in enumerate(self.coefficients):
            if parameter is not None:
                grad = (grad_rates if coefficient.signed else grad_gates)[row]
                parameter.grad = grad.sum_to_size(parameter.numel()).view(parameter.shape)

    def _logits(self) -> Tensor:
        """Logits [N, classes] in evaluation mode, without the last bias."""
        first, last = self.encoder, self.output.linear
        weight: Tensor = first.weight
        bias: Tensor | None = first.bias
        if self.maps_first:
            weight, bias = weight @ last.weight.T, None if bias is None else last.weight @ bias
        h = self.kernels.gather(self.pattern.rows, self.values, weight)
        h = h if bias is None else h.add_(bias)
        final = self._flow(h, Direct())
        return final if self.maps_first else final @ last.weight.T

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """Compute logits [N, classes] in evaluation mode."""
        return self._logits().add_(self.output.linear.bias)

    @torch.no_grad()
    def scores(self) -> Tensor:
        """Accuracy in training, validation and test, and the validation loss, [4]."""
        bias, val = self.output.linear.bias, self.weight[1]
        sums: Tensor = self.kernels.score(self._logits(), bias, self.y, self.weight, val)
        return sums / self.sizes


def _seed(rate: float) -> Tensor:
    """Draw the seed of a dropout, as in `gread.kernels.operators.drop`."""
    return torch.randint(2**31, (1,)) if rate else torch.zeros(1, dtype=torch.int64)
