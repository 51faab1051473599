"""Many trainings on one graph as one batched computation."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from torch_geometric.data import Data

from gread.kernels.backend import fast
from gread.kernels.cuda_graph import Recording
from gread.models.stacking import Dropouts, Seeds, keep, stack, unstack
from gread.training.config import TrainConfig
from gread.training.fit import EPOCHS_AT_ONCE, Best, Fit, Progress, check_labels, masks_of, several

NOT_FINITE = "the state or the loss is not finite: choose a smaller step_size, time or lr"

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Of Adam, as PyTorch has them."""


def fit_together(
    models: Sequence[nn.Module],
    data: Data,
    configs: Sequence[TrainConfig],
    *,
    splits: Sequence[int],
    generators: Sequence[torch.Generator],
) -> list[Fit | ArithmeticError]:
    """What `gread.fit` gives for every model, or the error that it raises.

    All of them are trained at once, each on its own split and with its own learning rate, weight
    decay, number of epochs and patience. Up to rounding, each gives what it gives alone with the
    same random numbers, and is left with its best parameters. One that diverges does not touch the
    others.

    Args:
        models: Of one form, see `gread.models.stacking.stack`.
        data: As for `gread.fit`.
        configs: How to train each.
        splits: Which column of the masks each has.
        generators: From which each draws the seeds of its dropout, as they are after the model was
            built.

    Raises:
        CannotStack: The models cannot be one.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> models = [gread.GREAD(data.num_features, 8, 2) for _ in range(10)]
        >>> fits = fit_together(
        ...     models,
        ...     data,
        ...     [gread.TrainConfig(epochs=5)] * 10,
        ...     splits=range(10),
        ...     generators=[torch.Generator().manual_seed(seed) for seed in range(10)],
        ... )
        >>> [len(fit.history) for fit in fits] == [5] * 10
        True
    """
    masks = [masks_of(data, split) for split in splits]
    population = Population(models, data, configs, masks, generators)
    progress = [Progress(config) for config in configs]
    errors: dict[int, ArithmeticError] = {}
    running = list(range(len(models)))
    epoch = population.recorded()
    while running:
        most = max(configs[member].epochs - len(progress[member].history) for member in running)
        numbers = several(epoch, min(EPOCHS_AT_ONCE, most))
        for member, history in zip(population.members, numbers, strict=True):
            if member in running:
                try:
                    _follow(progress[member], history)
                except ArithmeticError as error:  # in its first epoch
                    errors[member] = population.reason(member) or error
        running = [m for m in running if m not in errors and not progress[m].done]
        if len(running) <= len(population.members) / 2:
            population.keep(running)
            epoch = population.recorded()
    return [errors.get(m) or progress[m].fit() for m in range(len(models))]


def _follow(progress: Progress, history: Sequence[Sequence[float]]) -> None:
    """Adds epochs until training is over."""
    for numbers in history:
        if progress.done:
            break
        if not all(map(math.isfinite, numbers)):
            progress.diverge(ArithmeticError(NOT_FINITE))
        else:
            progress.add(*numbers)


class Population:
    """Runs epochs of all members, as `gread.training.fit` does those of one.

    Attributes:
        members: Who is left, by number.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        data: Data,
        configs: Sequence[TrainConfig],
        masks: Sequence[tuple[Tensor, Tensor, Tensor]],
        generators: Sequence[torch.Generator],
    ):
        device = data.x.device
        self.models = models
        self.members = list(range(len(models)))
        self.model = stack(models).to(device)
        together = [torch.stack(column).any(0) for column in zip(*masks, strict=True)]
        with torch.no_grad():
            logits = self.model.eval()(data.x, data.edge_index, data.edge_weight)
        check_labels(logits, data, (together[0], together[1], together[2]))
        draws = sum(isinstance(module, Dropouts) for module in self.model.modules())
        most = max(config.epochs for config in configs)
        self.seeds = Seeds(generators, draws * most, device)
        self.seeds.give_to(self.model)
        self.graph = data.x, data.edge_index, data.edge_weight
        self.labels = data.y
        self.chosen = torch.stack([torch.stack(own) for own in masks]).to(data.x.dtype)
        self.optimizer = Adam(list(self.model.parameters()), configs)
        self.best_model = copy.deepcopy(self.model)
        parameters = self.best_model.parameters(), self.model.parameters()
        self.best = Best(*parameters, configs, device)
        self._count()

    def _count(self) -> None:
        self.sizes = self.chosen.sum(-1)
        self.shares = self.chosen[:, :2] / self.sizes[:, :2, None]

    def recorded(self) -> Callable[[], Tensor]:
        """The epoch of those who are left, on a GPU as one to be recorded."""
        return Recording(self.numbers) if self.chosen.is_cuda and fast() else self.numbers

    def keep(self, members: Sequence[int]) -> None:
        """Lets all other members go, with their best parameters."""
        index = [self.members.index(member) for member in members]
        leaving = [k for k in range(len(self.members)) if k not in index]
        unstack(self.best_model, [self.models[self.members[k]] for k in leaving], leaving)
        self.members = list(members)
        if not members:
            return
        keep(self.model, index)
        keep(self.best_model, index)
        self.best.keep(index)
        self.seeds.keep(index)
        self.optimizer.keep(index)
        self.chosen = self.chosen[index]
        self._count()

    def reason(self, member: int) -> ArithmeticError | None:
        """What a member says alone, as it was before its first step: more, if its state blew up."""
        alone = copy.deepcopy(self.models[member]).to(self.labels.device).eval()
        try:
            with torch.no_grad():
                alone(*self.graph)
        except ArithmeticError as error:
            return error
        return None

    def numbers(self) -> Tensor:
        """Loss, accuracies and validation loss of an epoch of every member, [members, 5]."""
        self.model.train()
        self.model.zero_grad()
        losses = self._losses(self._forward(), 0)
        losses.sum().backward()
        self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            logits = self._forward()
            highest, classes = logits.max(dim=-1)
            right = (classes == self.labels).to(self.chosen.dtype).unsqueeze(-1)
            accuracies = (self.chosen @ right).squeeze(-1) / self.sizes
            # NaN has a largest class too; its accuracies must not pass for numbers.
            accuracies = accuracies + 0 * highest.sum(-1, keepdim=True)
            val_losses = self._losses(logits, 1)
            numbers = torch.cat([losses.unsqueeze(-1), accuracies, val_losses.unsqueeze(-1)], -1)
            self.best.look(numbers)
        return numbers

    def _losses(self, logits: Tensor, nodes: int) -> Tensor:
        """Mean cross entropy of every member on its training (0) or validation (1) nodes."""
        logits = log_softmax(logits, -1)
        classes = torch.arange(logits.size(-1), device=logits.device)
        right = torch.where(self.labels.unsqueeze(-1) == classes, logits, 0).sum(-1)
        return -(right * self.shares[:, nodes]).sum(-1)  # the share of other nodes is 0

    def _forward(self) -> Tensor:
        logits: Tensor = self.model(*self.graph)
        return logits


class Adam:
    """Adam on parameters with members in front, each with its learning rate and weight decay."""

    def __init__(self, parameters: Sequence[nn.Parameter], configs: Sequence[TrainConfig]):
        self.parameters = list(parameters)
        like = self.parameters[0]
        self.rates = torch.tensor([(c.lr, c.weight_decay) for c in configs]).to(like)
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.steps = torch.zeros((), dtype=torch.float64, device=like.device)

    @torch.no_grad()
    def step(self) -> None:
        """One step, as torch.optim.Adam takes it."""
        self.steps += 1
        scale = (1 - BETAS[1] ** self.steps).sqrt()
        for parameter, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            if parameter.grad is None:
                continue
            each = (-1, *(1,) * (parameter.dim() - 1))
            lr, decay = (rate.view(each) for rate in self.rates.unbind(1))
            grad = torch.addcmul(parameter.grad, parameter, decay)
            mean.lerp_(grad, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
            root = square.sqrt().div_(scale.to(square)).add_(EPSILON)
            length = lr / (1 - BETAS[0] ** self.steps).to(lr)
            parameter.sub_(mean.div(root).mul_(length))

    def keep(self, members: Sequence[int]) -> None:
        """Lets all other members go; their parameters are gone already."""
        index = torch.tensor(members, device=self.rates.device)
        self.rates = self.rates[index]
        self.means = [mean[index] for mean in self.means]
        self.squares = [square[index] for square in self.squares]
