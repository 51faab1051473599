"""Grouping of runs into populations."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch_geometric.data import Data

from gread.dynamics.tableau import MAX_EVALUATIONS
from gread.models.catalog import MODELS, GraphSize, flow_memory, integration_of
from gread.models.stacking import CannotStack, stack
from gread.runs.run import built, form, prepared
from gread.runs.spec import RunSpec

SHARE = 0.4
"""Fraction of the free memory of a device, or of PyTorch's memory limit, for the estimated memory
of a population."""

CPU_BYTES = 2**31
"""Memory limit of a population on a CPU."""

MOST = 2048
"""Largest number of members of a population."""

ENOUGH = 2**20
"""Number of values in the states of a population above which it takes no members with far fewer
steps. This applies to a CPU, where all members take as many steps as the first."""


def populations(
    specs: Iterable[RunSpec],
    device: str,
    root: str | None,
    memory: float | None = None,
    most: int = MOST,
) -> list[list[RunSpec]]:
    """Group specs into populations as large as memory allows.

    Members are in decreasing order of steps. On a GPU, members with fewer steps finish earlier. On
    a CPU all take as many steps as the first, so members with similar numbers of steps are grouped.
    A spec whose model cannot be stacked forms its own group.

    Args:
        specs: Completed specs.
        device: Device to compute on.
        root: The data root.
        memory: Memory limit of a group in bytes; by default that of the local device.
        most: Largest number of members.
    """
    forms: dict[str, list[RunSpec]] = {}
    for spec in specs:
        forms.setdefault(spec.key if _too_many_steps(spec) else form(spec), []).append(spec)
    groups: list[list[RunSpec]] = []
    limit = free(device) if memory is None else memory
    for members in forms.values():
        if len(members) == 1:
            groups.append(members)
            continue
        data = prepared(members[0], root, "cpu")[0]
        size = size_of(data)
        if not _can_stack(members[0], data):
            groups += [[spec] for spec in members]
            continue
        members.sort(key=_steps, reverse=True)
        on_cpu = not device.startswith("cuda")
        width = int(members[0].hyper["hidden_channels"])  # type: ignore[arg-type]
        group: list[RunSpec] = []
        taken = 0
        for spec in members:
            need = bytes_of(spec, size)
            enough = on_cpu and len(group) * data.num_nodes * width >= ENOUGH
            apart = enough and _steps(group[0]) > 1.5 * _steps(spec)
            if group and (len(group) == most or taken + need > limit or apart):
                groups.append(group)
                group, taken = [], 0
            group.append(spec)
            taken += need
        groups.append(group)
    return groups


def free(device: str) -> float:
    """Memory limit in bytes of a population on a local device."""
    if not device.startswith("cuda"):
        return CPU_BYTES
    index = torch.device(device).index
    unused, total = torch.cuda.mem_get_info(index)
    return SHARE * min(unused, torch.cuda.get_per_process_memory_fraction(index) * total)


def size_of(data: Data) -> GraphSize:
    """Sizes that determine the memory of a member; needs a pass over the features."""
    nonzeros = int(data.x.count_nonzero())
    return GraphSize(data.num_nodes, data.num_edges, data.num_features, nonzeros)


def bytes_of(spec: RunSpec, size: GraphSize) -> int:
    """Estimated bytes of a member, from the tensors kept for the backward pass."""
    population = MODELS[spec.model].population
    memory = flow_memory if population is None else population.memory
    return memory(spec.hyper, size)


def _can_stack(spec: RunSpec, data: Data) -> bool:
    if spec.train.parts > 1:
        return False
    try:
        stack([built(spec, data)])
    except CannotStack:
        return False
    return True


def _steps(spec: RunSpec) -> int:
    return integration_of(spec.hyper).num_steps


def _too_many_steps(spec: RunSpec) -> bool:
    """Whether the run exceeds the limit on evaluations; it is then computed separately."""
    return integration_of(spec.hyper).evaluations > MAX_EVALUATIONS
