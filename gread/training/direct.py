"""Training of GREAD without autograd, for its standard form.

On a small graph the kernels take less time than modules, checks and autograd around them. If the
features are sparse, Ã is fixed and the decoder is linear, a step is five kernels (encoder, flow,
decoder with loss and its gradients, and the backward passes of flow and encoder), and an
evaluation is two. They give the numbers of the model itself up to rounding, from the same seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.data import Data

from gread.dynamics.solve import ReactionDiffusion, flow
from gread.kernels.backend import available, fast
from gread.kernels.direct import Direct
from gread.kernels.pattern import Pattern
from gread.kernels.reference import Terms
from gread.models.layers import sparse_features

if TYPE_CHECKING:  # importing it imports the Hub
    from gread.models.gread import StandardForm


@runtime_checkable
class HasStandardForm(Protocol):
    """A model that may have the standard form."""

    def standard_form(self) -> StandardForm | None:
        """Return its parts; None if it does not have this form."""

    def check(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> None:
        """Raise an error if the graph does not fit."""


def direct_model(model: nn.Module, data: Data, train_mask: Tensor) -> DirectModel | None:
    """The model on a graph, if it has the standard form; the loss is the mean cross entropy."""
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
    return DirectModel(form, words, f, data.y, train_mask)


class DirectModel:
    """A model of the standard form on one graph.

    Args:
        form: Its parts.
        words: Its features.
        f: The right-hand side at first.
        y: Class of every node.
        train_mask: Nodes that count in the loss.
    """

    def __init__(
        self,
        form: StandardForm,
        words: tuple[Pattern, Tensor],
        f: ReactionDiffusion,
        y: Tensor,
        train_mask: Tensor,
    ):
        self.kernels: Any = available("cpu")
        self.encoder, self.layer, self.output = form
        (self.pattern, self.values), self.adj = words, f.adj
        assert f.terms is not None
        self.flow = f.terms, self.layer.integration
        self.like = f.source
        classes, channels = self.output.linear.weight.shape
        self.maps_first = classes < channels and f.commutes
        self.target = y.masked_fill(~train_mask, -1)
        self.scale = 1 / int(train_mask.sum())
        width = classes if self.maps_first else channels
        self.once = Terms(self.like.new_ones(1, width), degree=0)
        self.coefficients = [*self.layer.alpha.parameters(), *self.layer.beta.parameters()]
        self.versions: list[int] | None = None
        self.rates = f.rates

    @torch.enable_grad()
    def _rates(self) -> Tensor:
        """α and β, computed once between two steps of the optimizer."""
        versions = [parameter._version for parameter in self.coefficients]
        if versions != self.versions:
            alpha, beta = self.layer.alpha(), self.layer.beta()
            self.rates = ReactionDiffusion(self.adj, self.like, alpha, beta).rates
            self.versions = versions
        return self.rates

    def learn(self) -> Tensor:
        """Compute the loss of a training step, and set the gradients of all parameters."""
        kernels, pattern, first, last = self.kernels, self.pattern, self.encoder, self.output.linear
        rates = self._rates()
        with torch.no_grad():
            words = self.values, _seed(rate := first.dropout.rate), rate
            h0 = kernels.drop_gather(pattern.rows, *words, first.weight, bias=first.bias)
            h0.requires_grad_()
            known = rates.detach().requires_grad_()
            call = Direct()
            final = flow(self.adj, h0, h0, known, *self.flow, call)
            seed = _seed(rate := self.output.dropout.rate)
            loss, grad, last.weight.grad, last.bias.grad = kernels.drop_cross_entropy(
                final, seed, rate, last.weight, last.bias, self.target, self.scale
            )
            grad, grad_rates = call.backward(grad, h0, known)
            columns, order = pattern.columns, pattern.order
            first.weight.grad = kernels.drop_gather(columns, *words, grad, order)
            if first.bias is not None:
                first.bias.grad = grad.sum(0)
        if rates.requires_grad:
            # As a scalar: with a given gradient PyTorch first imports SymPy.
            (rates * grad_rates).sum().backward()
            self.versions = None
        return loss

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """Compute logits [N, classes] in evaluation mode."""
        first, last = self.encoder, self.output.linear
        weight: Tensor = first.weight
        bias: Tensor | None = first.bias
        if self.maps_first:
            weight, bias = weight @ last.weight.T, None if bias is None else last.weight @ bias
        h = self.kernels.gather(self.pattern.rows, self.values, weight, self.once)
        h = h if bias is None else h.add_(bias)
        final = flow(self.adj, h, h, self._rates().detach(), *self.flow, Direct())
        return final.add_(last.bias) if self.maps_first else linear(final, last.weight, last.bias)


def _seed(rate: float) -> Tensor:
    """The seed of a dropout, drawn as in `gread.kernels.operators.drop`."""
    return torch.randint(2**31, (1,)) if rate else torch.zeros(1, dtype=torch.int64)
