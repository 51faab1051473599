"""Which runs are computed together."""

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
"""Of the free memory of a device, or of what PyTorch was told to use of it, what a population may
take by our estimate."""

CPU_BYTES = 2**31
"""What it may take on a CPU."""

MOST = 2048
"""Members of a population, at most."""

ENOUGH = 2**20
"""Numbers in the states of all members from which, on a CPU, those with many fewer steps go
elsewhere: there all take as many as the first."""


def populations(
    specs: Iterable[RunSpec], device: str, root: str | None, memory: float | None = None
) -> list[list[RunSpec]]:
    """Specs in groups to be computed together, each as large as the memory allows.

    Members come in falling order of steps: on a GPU those with fewer are done earlier; on a CPU
    all take as many as the first, and so those with about as many go together. A spec whose model
    cannot be stacked stays alone.

    Args:
        specs: What to compute, completed.
        device: Where.
        root: The data root.
        memory: Bytes that a group may take; by default those of the device here.
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
            if group and (len(group) == MOST or taken + need > limit or apart):
                groups.append(group)
                group, taken = [], 0
            group.append(spec)
            taken += need
        groups.append(group)
    return groups


def free(device: str) -> float:
    """Bytes that a population may take on a device of this machine."""
    if not device.startswith("cuda"):
        return CPU_BYTES
    index = torch.device(device).index
    unused, total = torch.cuda.mem_get_info(index)
    return SHARE * min(unused, torch.cuda.get_per_process_memory_fraction(index) * total)


def size_of(data: Data) -> GraphSize:
    """What the memory of a member depends on. Takes a pass over the features."""
    nonzeros = int(data.x.count_nonzero())
    return GraphSize(data.num_nodes, data.num_edges, data.num_features, nonzeros)


def bytes_of(spec: RunSpec, size: GraphSize) -> int:
    """About what a member needs, by what it keeps for backward."""
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
    """Whether it will fail for that, which must not touch others."""
    return integration_of(spec.hyper).evaluations > MAX_EVALUATIONS
