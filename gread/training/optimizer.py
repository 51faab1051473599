"""Adam, for one model and for the members of a population."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import unwrap
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from gread.kernels.backend import available, fast
from gread.training.config import TrainConfig


@runtime_checkable
class HasParameterGroups(Protocol):
    """A model with several parameter groups."""

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return groups for a PyTorch optimizer; ``weight_decay`` is that of the training."""


def adam(model: nn.Module, config: TrainConfig) -> torch.optim.Adam:
    """Return the optimizer of one model."""
    groups: Any = model.parameters()
    if isinstance(model, HasParameterGroups):
        groups = model.parameter_groups(config.weight_decay)
    return _adam(groups, list(model.parameters()), config.lr, config.weight_decay)


def _adam(
    groups: Any, parameters: Sequence[Tensor], lr: float, weight_decay: float
) -> torch.optim.Adam:
    # PyTorch's fused kernel does not support complex numbers.
    fused = fast() and all(parameter.is_floating_point() for parameter in parameters)
    capturable = any(parameter.is_cuda for parameter in parameters)
    kind = FusedAdam if fused and not capturable else torch.optim.Adam
    return kind(groups, lr=lr, weight_decay=weight_decay, fused=fused, capturable=capturable)


class FusedAdam(torch.optim.Adam):
    """PyTorch's fused Adam with a step that does not load torch.compile.

    The original step prepares for it, which takes seconds at first and half the time of every step.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters."""
        unwrap(torch.optim.Adam.add_param_group)(self, param_group)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        for group in self.param_groups:
            parameters, grads, means, squares, steps = ([] for _ in range(5))  # type: ignore[var-annotated]
            self._init_group(group, parameters, grads, means, squares, [], steps)
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                *(parameters, grads, means, squares, [], steps),
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    step.hooked = True  # type: ignore[attr-defined]  # skip the slow profiler wrapper


IN_ONE_LAUNCH = ("cuda",)
"""Types of devices on which `LaunchedAdam` takes a step."""


class LaunchedAdam:
    """Adam of all parameters in one launch, with a copy of the gradients into one tensor.

    PyTorch's fused kernel has one thread block for 65,536 numbers, too few to fill a GPU.

    Args:
        parameters: Contiguous, of one dtype, with a leading axis of members if there are several.
        rates: Learning rate and weight decay, [parameters, members, 2].
    """

    betas, eps = (0.9, 0.999), 1e-8

    def __init__(self, parameters: Iterable[Tensor], rates: Tensor):
        self.parameters = list(parameters)
        like = self.parameters[0]
        self.kernels: Any = available(like.device.type)
        self.rates = rates.to(like).contiguous()
        sizes = [p.numel() // self.members for p in self.parameters]
        *self.places, total = accumulate(sizes, initial=0)
        self.means, self.squares = like.new_zeros(2, self.members, total).unbind()
        self.powers = like.new_ones(len(sizes), 2, dtype=torch.float64)
        self.tables: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}
        self.known: tuple[int, ...] = ()
        self.grads = like.new_empty(self.members, 0)

    @staticmethod
    def fits(parameters: Sequence[Tensor]) -> bool:
        """Return whether there is a kernel for these parameters."""
        kinds = {(p.device.type, p.dtype) for p in parameters}
        device, dtype = next(iter(kinds), ("", None))
        if len(kinds) != 1 or device not in IN_ONE_LAUNCH or not fast():
            return False
        if dtype not in (torch.float32, torch.float64) or isinstance(available(device), Exception):
            return False
        return all(p.is_contiguous() for p in parameters)

    @property
    def members(self) -> int:
        """Number of members; 1 for one model."""
        return self.rates.size(1)

    @torch.no_grad()
    def take(self) -> None:
        """Copy the gradients for the next step, always to the same memory."""
        self.known = tuple(k for k, p in enumerate(self.parameters) if p.grad is not None)
        if not self.known:
            return
        grads = [self.parameters[k].grad.reshape(self.members, -1) for k in self.known]  # type: ignore[union-attr]
        if self.grads.size(1) == sum(grad.size(1) for grad in grads):
            torch.cat(grads, 1, out=self.grads)
        else:
            self.grads = torch.cat(grads, 1)

    @torch.no_grad()
    def step(self) -> None:
        """Take one step of the parameters that had a gradient in `take`."""
        if not self.known:
            return
        if self.known not in self.tables:
            self.tables[self.known] = self._table(self.known)
        table, factors = self.tables[self.known]
        self.powers *= factors
        moments, rates = (self.means, self.squares), (self.rates, self.powers)
        self.kernels.adam(table, self.grads, *moments, *rates, self.betas, self.eps)

    def _table(self, known: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Chunks of some of the parameters, and the factors of all powers."""
        chosen, places = [self.parameters[k] for k in known], [self.places[k] for k in known]
        factors = [self.betas if k in known else (1.0, 1.0) for k in range(len(self.parameters))]
        table = self.kernels.adam_table(chosen, known, places, self.members)
        return table, torch.tensor(factors, dtype=torch.float64).to(self.powers.device)

    def keep(self, members: Sequence[int]) -> None:
        """Drop all other members, whose parameters have already been dropped."""
        index = torch.tensor(members, device=self.rates.device)
        self.rates = self.rates[:, index].contiguous()
        self.means, self.squares = self.means[index], self.squares[index]
        self.grads = self.grads[index]
        self.tables.clear()


def launched(optimizer: torch.optim.Adam) -> torch.optim.Adam | LaunchedAdam:
    """Return the equivalent `LaunchedAdam` if it supports the parameters, else the optimizer."""
    groups = optimizer.param_groups
    parameters = [p for group in groups for p in group["params"]]
    if not LaunchedAdam.fits(parameters):
        return optimizer
    each = [[g["lr"], g["weight_decay"]] for g in groups for _ in g["params"]]
    return LaunchedAdam(parameters, torch.tensor(each, dtype=torch.float64).unsqueeze(1))


def member_adam(
    parameters: Iterable[Tensor], configs: Sequence[TrainConfig]
) -> MemberAdam | LaunchedAdam:
    """Return the optimizer of a population; each member has its learning rate and weight decay."""
    parameters = list(parameters)
    if not LaunchedAdam.fits(parameters):
        return MemberAdam(parameters, configs)
    rates = torch.tensor([(c.lr, c.weight_decay) for c in configs], dtype=torch.float64)
    return LaunchedAdam(parameters, rates.expand(len(parameters), -1, -1))


class MemberAdam:
    """Adam for several members, each with its learning rate and weight decay.

    PyTorch's Adam has one learning rate per tensor. It therefore updates zeros with learning rate
    1, and every member adds this update multiplied by its own learning rate.

    Args:
        parameters: Parameters with a leading axis of members.
        configs: Training settings of each member.
    """

    def __init__(self, parameters: Iterable[Tensor], configs: Sequence[TrainConfig]):
        self.parameters = list(parameters)
        self.moves = [nn.Parameter(torch.zeros_like(p)) for p in self.parameters]
        self.adam = _adam(self.moves, self.moves, 1.0, 0.0)
        like = self.parameters[0]
        self.rates = torch.tensor([(c.lr, c.weight_decay) for c in configs]).to(like)

    @torch.no_grad()
    def step(self) -> None:
        """Take one step."""
        for parameter, move in zip(self.parameters, self.moves, strict=True):
            if parameter.grad is not None:
                decay = self._rates(parameter)[:, 1]
                move.grad = torch.addcmul(parameter.grad, parameter, decay)
        self.adam.step()
        for parameter, move in zip(self.parameters, self.moves, strict=True):
            parameter.addcmul_(move, self._rates(parameter)[:, 0])
            move.zero_()

    def _rates(self, parameter: Tensor) -> Tensor:
        """Learning rate and weight decay of every member, [members, 2, 1, ...]."""
        return self.rates.view(-1, 2, *(1,) * (parameter.dim() - 1))

    def keep(self, members: Sequence[int]) -> None:
        """Drop all other members, whose parameters have already been dropped."""
        index = torch.tensor(members, device=self.rates.device)
        self.rates = self.rates[index]
        for move in self.moves:
            move.data, move.grad = move.detach()[index], None
            state = self.adam.state[move]
            for name in ("exp_avg", "exp_avg_sq"):
                if name in state:
                    state[name] = state[name][index]
