"""Many trainings on one graph as one batched computation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.kernels.backend import fast
from gread.kernels.cuda_graph import Recording
from gread.models.stacking import Dropouts, Seeds, keep, stack, unstack
from gread.training.config import TrainConfig
from gread.training.fit import masks_of
from gread.training.loop import (
    EPOCHS_AT_ONCE,
    Best,
    Epochs,
    Fit,
    Piece,
    Progress,
    precision,
    several,
)
from gread.training.optimizer import member_adam

NOT_FINITE = "the state or the loss is not finite: choose a smaller step_size, time or lr"


def fit_together(
    models: Sequence[nn.Module],
    data: Data,
    configs: Sequence[TrainConfig],
    *,
    splits: Sequence[int],
    generators: Sequence[torch.Generator],
    restore: bool = True,
) -> list[Fit | ArithmeticError]:
    """Train all models at once; return the result of `gread.fit` for each, or its error.

    Each model has its own split, learning rate, weight decay, number of epochs and patience. Up to
    rounding, its result is that of separate training with the same random numbers. A model that
    diverges does not affect the others.

    Args:
        models: Models of one form, see `gread.models.stacking.stack`.
        data: As for `gread.fit`.
        configs: Training settings of each model; all must have the same loss and metric.
        splits: Column of the masks for each model.
        generators: Generator of each model for the seeds of its dropout, in the state after the
            model was built.
        restore: Whether to restore the best parameters of each model. Otherwise no best parameters
            are kept, and members with equal initial parameters may share one model.

    Raises:
        CannotStack: The models cannot be stacked.

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
    if len({(config.loss, config.metric) for config in configs}) > 1:
        raise InputError("members of a population must share loss and metric, got several")
    masks = [masks_of(data, split, configs[0]) for split in splits]
    population = Population(models, data, configs, masks, generators, restore)
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
                    progress[member].follow(history, partial(population.explain, member))
                except ArithmeticError as error:  # diverged in its first epoch
                    errors[member] = error
        running = [m for m in running if m not in errors and not progress[m].done]
        if len(running) <= len(population.members) / 2:
            population.keep(running)
            epoch = population.recorded()
    return [errors.get(m) or progress[m].fit() for m in range(len(models))]


class Population:
    """Epochs of all members at once.

    Attributes:
        members: Indices of the remaining members.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        data: Data,
        configs: Sequence[TrainConfig],
        masks: Sequence[tuple[Tensor, Tensor, Tensor]],
        generators: Sequence[torch.Generator],
        restore: bool = True,
    ):
        device = data.x.device
        self.models, self.configs = models, configs
        self.members = list(range(len(models)))
        different = list(dict.fromkeys(models))
        self.model = stack(different).to(device)
        if len(different) < len(models):
            keep(self.model, [different.index(model) for model in models])
        self.best_model: nn.Module | None = None
        self.best: Best | None = None
        if restore:
            self.best_model = copy.deepcopy(self.model)
            best, now = ([*m.parameters(), *m.buffers()] for m in (self.best_model, self.model))
            self.best = Best(best, now, configs, device)
        self.optimizer = member_adam(self.model.parameters(), configs)
        self.graph = data.x, data.edge_index, data.edge_weight
        self.y = data.y
        self.weight = torch.stack([torch.stack(own) for own in masks]).to(precision(data.x.dtype))
        draws = sum(isinstance(module, Dropouts) for module in self.model.modules())
        most = max(config.epochs for config in configs)
        self.epochs = self._epochs()
        self.epochs.check()
        # A GPU computes the gradients of one more step.
        self.seeds = Seeds(generators, draws * (most + 1), device)
        self.seeds.give_to(self.model)

    def _epochs(self) -> Epochs:
        piece = Piece(lambda: self.model(*self.graph), self.y, self.weight)
        return Epochs(self.model, [piece], self.configs[0], self.optimizer, self.best)

    def recorded(self) -> Callable[[], Tensor]:
        """The epoch of the remaining members, on a GPU recorded as a CUDA graph."""
        return Recording(self.epochs) if self.weight.is_cuda and fast() else self.epochs

    def keep(self, members: Sequence[int]) -> None:
        """Drop all other members, and restore their best parameters if these are kept."""
        index = [self.members.index(member) for member in members]
        if self.best_model is not None:
            leaving = [k for k in range(len(self.members)) if k not in index]
            unstack(self.best_model, [self.models[self.members[k]] for k in leaving], leaving)
        self.members = list(members)
        if not members:
            return
        keep(self.model, index)
        if self.best is not None and self.best_model is not None:
            keep(self.best_model, index)
            self.best.keep(index)
        self.seeds.keep(index)
        self.optimizer.keep(index)
        self.weight = self.weight[index]
        before, self.epochs = self.epochs, self._epochs()
        self.epochs.continue_from(before, torch.tensor(index, device=self.weight.device))

    def explain(self, member: int) -> ArithmeticError:
        """Return the error of an overflowing member, from a separate forward pass."""
        alone = copy.deepcopy(self.models[member]).to(self.y.device).eval()
        try:
            with torch.no_grad():
                alone(*self.graph)
        except ArithmeticError as error:
            return error
        return ArithmeticError(NOT_FINITE)
