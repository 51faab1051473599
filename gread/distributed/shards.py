"""A graph on the disk in blocks of nodes, of which every process reads its own and no other.

    graph.json                 sizes, and the fingerprint that all blocks carry
    block-0000/x.npy           features of its nodes, float32 [n, F]
               y.npy           their classes, −1 where unknown, int64 [n]
               masks.npy       who trains, validates and tests in every split, bool [3, n, splits]
               nodes.npy       the numbers they had in the graph that was cut, int64 [n]
               halo.npy        nodes of other blocks that these see, int64 [h]
               edges.npy       source (from n on: in the halo) and target of edges, int32 [2, E]
               weight.npy      their weights, float32 [E], where there are some
               block.json      its number, a digest of these files, and the fingerprint

Nodes are numbered anew, block after block. It is written piece by piece: memory holds the edges of
one block, whatever the size of the graph.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.distributed.exchange import Border, processes, rank, together
from gread.distributed.operator import Block
from gread.distributed.orders import PARTITIONS, Numbers
from gread.graph.partition import neighbours

FORMAT = 1


@dataclass(frozen=True)
class Sizes:
    """What graph.json says.

    Attributes:
        nodes: N.
        edges: Of all blocks, an undirected edge in both directions.
        features: F.
        classes: How many.
        splits: How many.
        bounds: The first node of every block, and N.
        halos: How many nodes of others every block sees.
        partition: How the nodes were cut.
        fingerprint: Of all that the blocks hold.
        format: Of this folder.
    """

    nodes: int
    edges: int
    features: int
    classes: int
    splits: int
    bounds: tuple[int, ...]
    halos: tuple[int, ...]
    partition: str
    fingerprint: str
    format: int = FORMAT

    @property
    def blocks(self) -> int:
        """How many."""
        return len(self.halos)


@dataclass(frozen=True, eq=False)
class Shard:
    """What a process holds of a graph.

    Attributes:
        sizes: Of the whole graph.
        block: Its edges, and the border to the others.
        x: Features of its own nodes, [n, F].
        y: Their classes, [n].
        masks: Training, validation and test nodes of every split, [3, n, splits].
    """

    sizes: Sizes
    block: Block
    x: Tensor
    y: Tensor
    masks: Tensor


def shard(data: Data, folder: str | Path, blocks: int, partition: str = "cuthill-mckee") -> Sizes:
    """Writes a graph to a folder in blocks.

    Args:
        data: With ``x, edge_index, y, train_mask, val_mask, test_mask``, and ``edge_weight`` where
            edges have weights.
        folder: It must not exist.
        blocks: How many: as many as there will be processes.
        partition: A name of `PARTITIONS`.

    Example:
        >>> import gread, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shard(gread.load("csbm", num_nodes=60), f"{folder}/csbm", 2).bounds
        (0, 30, 60)
    """
    edges = data.edge_index.cpu().numpy()
    masks = [data[name].bool().view(data.num_nodes, -1) for name in MASKS]
    with writing(
        folder,
        nodes=data.num_nodes,
        features=data.num_features,
        splits=masks[0].size(1),
        blocks=blocks,
        partition=partition,
        near=lambda: neighbours(edges, data.num_nodes),
    ) as writer:
        weight = data.edge_weight
        writer.add_edges(edges[0], edges[1], None if weight is None else weight.cpu().numpy())
        writer.add_nodes(
            np.arange(data.num_nodes),
            data.x.cpu().numpy(),
            data.y.cpu().numpy(),
            torch.stack(masks).cpu().numpy(),
        )
        return writer.finish(classes=int(data.y.max()) + 1)


MASKS = ("train_mask", "val_mask", "test_mask")


@contextmanager
def writing(
    folder: str | Path,
    *,
    nodes: int,
    features: int,
    splits: int,
    blocks: int,
    partition: str,
    near: Any,
) -> Iterator[Writer]:
    """A `Writer` to a folder that is there whole in the end, or not at all."""
    check_count("blocks", blocks)
    if blocks > nodes:
        raise InputError(f"blocks must be at most the {nodes} nodes, got {blocks}")
    order, sizes = PARTITIONS[partition](near, nodes, blocks)
    place = None
    if order is not None:
        place = np.empty(nodes, dtype=np.int64)
        place[order] = np.arange(nodes)
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"the folder of blocks must not exist yet, got {folder}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        yield Writer(made, bounds, place, features, splits, partition)
        made.chmod(0o755)
        made.replace(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


class Writer:
    """Writes blocks piece by piece.

    Args:
        folder: An empty one.
        bounds: The first node of every block, and N.
        place: The new number of every node; None where they stay.
        features: F.
        splits: How many.
        partition: How the nodes were cut.
    """

    def __init__(
        self,
        folder: Path,
        bounds: Numbers,
        place: Numbers | None,
        features: int,
        splits: int,
        partition: str,
    ):
        self.folder, self.bounds, self.place = folder, bounds, place
        self.features, self.splits, self.partition = features, splits, partition
        self.weighted = False
        self.blocks = [folder / f"block-{number:04}" for number in range(len(bounds) - 1)]
        for block, size in zip(self.blocks, np.diff(bounds).tolist(), strict=True):
            block.mkdir()
            open_memmap(block / "x.npy", "w+", np.float32, (size, features))
            open_memmap(block / "y.npy", "w+", np.int64, (size,))
            open_memmap(block / "masks.npy", "w+", np.bool_, (3, size, splits))
            open_memmap(block / "nodes.npy", "w+", np.int64, (size,))

    def add_edges(
        self, source: Numbers, target: Numbers, weight: NDArray[np.float32] | None = None
    ) -> None:
        """Edges by the numbers of their nodes, [E] each."""
        if self.place is not None:
            source, target = self.place[source], self.place[target]
        self.weighted = weight is not None
        block = np.searchsorted(self.bounds, target, side="right") - 1
        order = np.argsort(block, kind="stable")
        ends = np.searchsorted(block[order], np.arange(len(self.blocks) + 1))
        for number in np.unique(block):
            own = order[ends[number] : ends[number + 1]]
            with (self.blocks[number] / "pairs").open("ab") as file:
                np.stack([target[own], source[own]], 1).tofile(file)
            if weight is not None:
                with (self.blocks[number] / "weights").open("ab") as file:
                    weight[own].astype(np.float32).tofile(file)

    def add_nodes(
        self,
        nodes: Numbers,
        x: NDArray[np.float32],
        y: Numbers,
        masks: NDArray[np.bool_],
    ) -> None:
        """Rows of some nodes: [k], [k, F], [k] and [3, k, splits]."""
        place = nodes if self.place is None else self.place[nodes]
        block = np.searchsorted(self.bounds, place, side="right") - 1
        for number in np.unique(block):
            mine = np.flatnonzero(block == number)
            at = place[mine] - self.bounds[number]
            folder = self.blocks[number]
            open_memmap(folder / "x.npy", "r+")[at] = x[mine]
            open_memmap(folder / "y.npy", "r+")[at] = y[mine]
            open_memmap(folder / "masks.npy", "r+")[:, at] = masks[:, mine]
            open_memmap(folder / "nodes.npy", "r+")[at] = nodes[mine]

    def finish(self, classes: int, *, distinct: bool = False) -> Sizes:
        """Sorts the edges of every block, finds its halo, and says what there is.

        Args:
            classes: How many.
            distinct: Whether edges named more than once count once, with the mean of their weights.
        """
        found = [self._finish(number, distinct) for number in range(len(self.blocks))]
        digests = [_digest(block) for block in self.blocks]
        whole = json.dumps([self.bounds.tolist(), digests]).encode()
        sizes = Sizes(
            nodes=int(self.bounds[-1]),
            edges=sum(edges for edges, _ in found),
            features=self.features,
            classes=classes,
            splits=self.splits,
            bounds=tuple(self.bounds.tolist()),
            halos=tuple(halo for _, halo in found),
            partition=self.partition,
            fingerprint=hashlib.sha256(whole).hexdigest()[:20],
        )
        for number, (block, digest) in enumerate(zip(self.blocks, digests, strict=True)):
            about = {"number": number, "fingerprint": sizes.fingerprint, "digest": digest}
            (block / "block.json").write_text(json.dumps(about))
        (self.folder / "graph.json").write_text(json.dumps(asdict(sizes), indent=1))
        return sizes

    def _finish(self, number: int, distinct: bool) -> tuple[int, int]:
        """How many edges and how large a halo a block has."""
        block, first, last = self.blocks[number], *self.bounds[number : number + 2]
        raw, raw_weight = block / "pairs", block / "weights"
        pairs = np.fromfile(raw, np.int64) if raw.exists() else np.empty(0, np.int64)
        target, source = pairs.reshape(-1, 2).T
        weight = np.fromfile(raw_weight, np.float32) if raw_weight.exists() else None
        order = np.lexsort((source, target))
        target, source = target[order], source[order]
        weight = None if weight is None else weight[order]
        if distinct and len(target):
            new = np.flatnonzero(np.diff(target, prepend=-1) | np.diff(source, prepend=-1))
            counts = np.diff(new, append=len(target))
            if weight is not None:
                weight = (np.add.reduceat(weight, new) / counts).astype(np.float32)
            target, source = target[new], source[new]
        far = (source < first) | (source >= last)
        halo, places = np.unique(source[far], return_inverse=True)
        source = source - first
        source[far] = places + (last - first)
        np.save(block / "halo.npy", halo)
        np.save(block / "edges.npy", np.stack([source, target - first]).astype(np.int32))
        if self.weighted:
            np.save(block / "weight.npy", np.empty(0, np.float32) if weight is None else weight)
        raw.unlink(missing_ok=True)
        raw_weight.unlink(missing_ok=True)
        return len(target), len(halo)


def _digest(block: Path) -> str:
    """Of all that a block holds."""
    digest = hashlib.sha256()
    for file in sorted(block.glob("*.npy")):
        digest.update(f"{file.name} {file.stat().st_size} ".encode())
        with file.open("rb") as opened:
            while piece := opened.read(2**24):
                digest.update(piece)
    return digest.hexdigest()[:20]


def read_sizes(folder: str | Path) -> Sizes:
    """What a folder of blocks holds."""
    path = Path(folder) / "graph.json"
    try:
        values = json.loads(path.read_text())
        if values.get("format") != FORMAT:
            raise InputError(
                f"{path} must be of format {FORMAT}, got {values.get('format')}: write it anew "
                "with gread shard"
            )
        return Sizes(**values | {name: tuple(values[name]) for name in ("bounds", "halos")})
    except FileNotFoundError:
        raise InputError(
            f"{folder} must be a folder that gread shard wrote, got one without graph.json"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} must say what the blocks hold, got something else") from error


def read_shard(folder: str | Path, device: str = "cpu") -> Shard:
    """The block of this process; all call it, and if it fails on one it fails on all.

    Args:
        folder: What `shard` wrote, with as many blocks as there are processes.
        device: Where its tensors go.
    """
    found = together(lambda: _read(Path(folder)))
    prints: list[str] = [found.sizes.fingerprint] * processes()
    if dist.is_initialized():
        dist.all_gather_object(prints, found.sizes.fingerprint)
    if len(set(prints)) > 1:
        other = next(n for n, one in enumerate(prints) if one != prints[0])
        raise InputError(
            f"all processes must read the same graph, got fingerprint {prints[0]} on process 0 and "
            f"{prints[other]} on process {other}"
        )
    place = torch.device(device)
    nodes = torch.cat([torch.arange(*found.sizes.bounds[rank() : rank() + 2]), found.halo])
    own = len(nodes) - len(found.halo)
    return Shard(
        found.sizes,
        Block(
            found.edge_index.to(place),
            None if found.weight is None else found.weight.to(place),
            nodes.to(place),
            _border(own, found.halo, found.sizes.bounds, place),
        ),
        found.x.to(place),
        found.y.to(place),
        found.masks.to(place),
    )


@dataclass(frozen=True)
class _Files:
    sizes: Sizes
    x: Tensor
    y: Tensor
    masks: Tensor
    halo: Tensor
    edge_index: Tensor
    weight: Tensor | None


def _read(folder: Path) -> _Files:
    sizes = read_sizes(folder)
    if sizes.blocks != processes():
        raise InputError(
            f"{folder} has {sizes.blocks} blocks, one for each process, got {processes()} "
            f"processes: start {sizes.blocks}, or write it anew with gread shard --blocks "
            f"{processes()}"
        )
    block = folder / f"block-{rank():04}"
    if not block.is_dir():
        raise InputError(f"{block} is missing: process {rank()} has nothing to read")
    try:
        about = json.loads((block / "block.json").read_text())
        if (about.get("number"), about.get("fingerprint")) != (rank(), sizes.fingerprint):
            raise InputError(
                f"{block} must be block {rank()} of the graph {sizes.fingerprint}, got block "
                f"{about.get('number')} of {about.get('fingerprint')}"
            )
        if about.get("digest") != _digest(block):
            raise InputError(
                f"{block} must hold what was written to it, got files that are missing or changed: "
                "remove the folder and write it anew"
            )
        weight = block / "weight.npy"
        found = _Files(
            sizes,
            _array(block / "x.npy"),
            _array(block / "y.npy"),
            _array(block / "masks.npy"),
            _array(block / "halo.npy"),
            _array(block / "edges.npy").long(),
            _array(weight) if weight.exists() else None,
        )
    except (OSError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{block} cannot be read ({error})") from error
    if not found.x.isfinite().all():
        raise InputError(f"the features in {block} must be finite, got NaN or infinity")
    return found


def _array(path: Path) -> Tensor:
    return torch.from_numpy(np.load(path))


def _border(own: int, halo: Tensor, bounds: tuple[int, ...], device: torch.device) -> Border:
    """Tells every other process which of its rows are wanted here."""
    first = torch.tensor(bounds)
    counts = torch.searchsorted(halo, first).diff()  # halo is sorted, so owners come in order
    if not dist.is_initialized():
        return Border(own, halo.to(device), [0], [0])
    wanted, asked = counts.to(device), torch.empty_like(counts, device=device)
    dist.all_to_all_single(asked, wanted)
    here, away = counts.tolist(), asked.tolist()
    numbers = torch.empty(sum(away), dtype=torch.int64, device=device)
    dist.all_to_all_single(numbers, halo.to(device), away, here)
    return Border(own, numbers - bounds[rank()], away, here)
