"""Shards of a graph on disk, one for each process.

    graph.json                 sizes, and the fingerprint of the graph
    block-0000/x.npy           features of its nodes, float32 [n, F]
               y.npy           their classes, −1 if unknown, int64 [n]; or numbers, float32
               masks.npy       training, validation and test nodes, bool [3, n, splits]
               nodes.npy       their numbers in the original graph, int64 [n]
               halo.npy        their neighbours in other shards, int64 [h]
               edges.npy       source (from n on: in the halo) and target of edges, int32 [2, E]
               weight.npy      their weights, float32 [E], if there are any
               block.json      its number, a digest of these files, and the fingerprint

Nodes are renumbered, shard after shard. The writer holds only the edges of one shard in memory. The
folders keep the name ``block`` of format 1.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.base.files import whole_folder
from gread.data.splits import MASKS
from gread.distributed.exchange import Border, fail_together, on_all, processes, rank
from gread.distributed.operator import Halves, ShardEdges
from gread.distributed.orders import ORDERS, Neighbours, Numbers
from gread.graph.operator import entries_of
from gread.graph.partition import neighbours
from gread.kernels.pattern import remember

FORMAT = 1


@dataclass(frozen=True)
class Sizes:
    """Content of graph.json.

    Attributes:
        nodes, edges, features, classes, splits: Their numbers; an undirected edge counts twice.
        bounds: The first node of every shard, and N.
        halos: Number of nodes in the halo of every shard.
        partition: Name in `ORDERS` of the partition.
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
    def shards(self) -> int:
        """Number of shards."""
        return len(self.halos)


@dataclass(frozen=True, eq=False)
class Shard:
    """Nodes, features and edges of a graph in one process.

    A model accepts it in place of ``edge_index``: ``model(shard.x, shard)`` returns the logits of
    own nodes; all processes must call it.

    Attributes:
        edge_index, edge_weight: Edges into own nodes, [2, E], with local indices; sources from
            ``border.own`` on are in the halo. Weights [E].
        nodes: Numbers of own nodes and of the halo after renumbering, [own + halo].
        x, y: Features [own, F] and classes [own] of own nodes.
        masks: Training, validation and test nodes of every split, [3, own, splits].
    """

    sizes: Sizes
    edge_index: Tensor
    edge_weight: Tensor | None
    nodes: Tensor
    border: Border
    x: Tensor
    y: Tensor
    masks: Tensor

    def edges(self, like: Tensor, self_loops: float) -> ShardEdges:
        """Edges, with a self loop at every own node if ``self_loops`` is not zero."""
        key = (self_loops, like.dtype)
        return remember(self.edge_index, key, lambda: self._edges(like, self_loops))

    def _edges(self, like: Tensor, self_loops: float) -> ShardEdges:
        weight = self.edge_weight
        weight = like.new_ones(self.edge_index.size(1)) if weight is None else weight.to(like.dtype)
        shape = self.border.own, len(self.nodes)
        entries = entries_of(self.edge_index, weight, shape, self_loops)
        halves, weighted = Halves.of(entries[0], self.border.own), self.edge_weight is not None
        return ShardEdges(*entries, weighted, nodes=self.nodes, border=self.border, halves=halves)


def shard(data: Data, folder: str | Path, shards: int, partition: str = "cuthill-mckee") -> Sizes:
    """Write a graph to a folder in shards.

    Args:
        data: Graph with ``x, edge_index, y, train_mask, val_mask, test_mask``, and ``edge_weight``
            if edges have weights.
        folder: Folder to create; it must not exist.
        shards: Number of shards, one for each process.
        partition: A name of `gread.distributed.ORDERS`.

    Example:
        >>> import gread, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shard(gread.load("csbm", num_nodes=60), f"{folder}/csbm", 2).bounds
        (0, 30, 60)
    """
    edges, weight = data.edge_index.cpu().numpy(), data.edge_weight
    masks = torch.stack([data[name].bool().view(data.num_nodes, -1) for name in MASKS])
    near = partial(neighbours, edges, data.num_nodes)
    sizes = {"nodes": data.num_nodes, "features": data.num_features, "splits": masks.size(2)}
    with whole_folder(folder) as part:
        writer = ShardWriter(part, shards, partition, near, **sizes)
        writer.add_edges(edges[0], edges[1], None if weight is None else weight.cpu().numpy())
        rows = (rows.cpu().numpy() for rows in (data.x, data.y, masks))
        writer.add_nodes(np.arange(data.num_nodes), *rows)
        return writer.finish(classes=int(data.y.max()) + 1)


class ShardWriter:
    """Incremental writer of shards to an empty folder.

    Args:
        folder: Folder to write to.
        shards: Number of shards.
        partition: A name of `ORDERS`.
        near: Function that returns the neighbours, for the partition.
        nodes, features, splits: Their numbers in the graph.
    """

    def __init__(
        self,
        folder: Path,
        shards: int,
        partition: str,
        near: Neighbours,
        *,
        nodes: int,
        features: int,
        splits: int,
    ):
        check_count("shards", shards)
        if shards > nodes:
            raise InputError(f"shards must be at most the {nodes} nodes, got {shards}")
        order, sizes = ORDERS[partition](near, nodes, shards)
        self.place: Numbers | None = None  # new number of every node
        if order is not None:
            self.place = np.empty(nodes, dtype=np.int64)
            self.place[order] = np.arange(nodes)
        self.bounds = np.concatenate([[0], np.cumsum(sizes)])
        self.folder, self.partition, self.weighted = folder, partition, False
        self.features, self.splits = features, splits
        self.folders = [folder / f"block-{number:04}" for number in range(shards)]
        for each in self.folders:
            each.mkdir()

    def add_edges(
        self, source: Numbers, target: Numbers, weight: NDArray[np.float32] | None = None
    ) -> None:
        """Add edges, given by node numbers, [E] each."""
        if self.place is not None:
            source, target = self.place[source], self.place[target]
        self.weighted = weight is not None
        owner = np.searchsorted(self.bounds, target, side="right") - 1
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(len(self.folders) + 1))
        for number in np.unique(owner):
            own = order[ends[number] : ends[number + 1]]
            with (self.folders[number] / "pairs").open("ab") as file:
                np.stack([target[own], source[own]], 1).tofile(file)
            if weight is not None:
                with (self.folders[number] / "weights").open("ab") as file:
                    weight[own].astype(np.float32).tofile(file)

    def add_nodes(
        self, nodes: Numbers, x: NDArray[np.float32], y: Numbers, masks: NDArray[np.bool_]
    ) -> None:
        """Add rows of some nodes: [k], [k, F], [k] or [k, m], and [3, k, splits]."""
        if not (self.folders[0] / "y.npy").exists():
            kind = np.float32 if y.dtype.kind == "f" else np.int64  # numbers, or classes
            for each, size in zip(self.folders, np.diff(self.bounds).tolist(), strict=True):
                open_memmap(each / "x.npy", "w+", np.float32, (size, self.features))
                open_memmap(each / "y.npy", "w+", kind, (size, *y.shape[1:]))
                open_memmap(each / "masks.npy", "w+", np.bool_, (3, size, self.splits))
                open_memmap(each / "nodes.npy", "w+", np.int64, (size,))
        place = nodes if self.place is None else self.place[nodes]
        owner = np.searchsorted(self.bounds, place, side="right") - 1
        for number in np.unique(owner):
            mine = np.flatnonzero(owner == number)
            at = place[mine] - self.bounds[number]
            folder = self.folders[number]
            for name, rows in (("x", x), ("y", y), ("nodes", nodes)):
                open_memmap(folder / f"{name}.npy", "r+")[at] = rows[mine]
            open_memmap(folder / "masks.npy", "r+")[:, at] = masks[:, mine]

    def finish(self, classes: int, *, distinct: bool = False) -> Sizes:
        """Sort the edges of every shard, find its halo, and write graph.json.

        With ``distinct``, repeated edges count once, with their mean weight.
        """
        found = [self._finish(number, distinct) for number in range(len(self.folders))]
        digests = [_digest(folder) for folder in self.folders]
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
        for number, (folder, digest) in enumerate(zip(self.folders, digests, strict=True)):
            about = {"number": number, "fingerprint": sizes.fingerprint, "digest": digest}
            (folder / "block.json").write_text(json.dumps(about))
        (self.folder / "graph.json").write_text(json.dumps(asdict(sizes), indent=1))
        return sizes

    def _finish(self, number: int, distinct: bool) -> tuple[int, int]:
        """Write the edges and the halo of a shard, and return their numbers."""
        folder, first, last = self.folders[number], *self.bounds[number : number + 2]
        raw, raw_weight = folder / "pairs", folder / "weights"
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
        np.save(folder / "halo.npy", halo)
        np.save(folder / "edges.npy", np.stack([source, target - first]).astype(np.int32))
        if self.weighted:
            np.save(folder / "weight.npy", np.empty(0, np.float32) if weight is None else weight)
        raw.unlink(missing_ok=True)
        raw_weight.unlink(missing_ok=True)
        return len(target), len(halo)


def _digest(folder: Path) -> str:
    """Digest of the files of a shard."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.npy")):
        digest.update(f"{file.name} {file.stat().st_size} ".encode())
        with file.open("rb") as opened:
            while piece := opened.read(2**24):
                digest.update(piece)
    return digest.hexdigest()[:20]


def read_sizes(folder: str | Path) -> Sizes:
    """Read graph.json of a folder of shards."""
    path = Path(folder) / "graph.json"
    try:
        values = json.loads(path.read_text())
        if values.get("format") != FORMAT:
            raise InputError(
                f"{path} must be of format {FORMAT}, got {values.get('format')}: write it "
                "again with gread shard"
            )
        return Sizes(**values | {name: tuple(values[name]) for name in ("bounds", "halos")})
    except FileNotFoundError:
        raise InputError(
            f"{folder} must be a folder that gread shard wrote, got one without graph.json"
        ) from None
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} must describe the shards, got invalid content") from error


def read_shard(folder: str | Path, device: str = "cpu") -> Shard:
    """Read the shard of this process from a folder written by `shard`.

    All processes must call it. A failure on one process raises on all of them.
    """
    sizes, files = fail_together(lambda: _read(Path(folder)))
    prints = on_all(sizes.fingerprint)
    if len(set(prints)) > 1:
        other = next(n for n, one in enumerate(prints) if one != prints[0])
        raise InputError(
            f"all processes must read the same graph, got fingerprint {prints[0]} on process 0 and "
            f"{prints[other]} on process {other}"
        )
    nodes = torch.cat([torch.arange(*sizes.bounds[rank() : rank() + 2]), files["halo"]])
    border = _border(len(nodes) - len(files["halo"]), files["halo"], sizes.bounds, device)
    here = {name: tensor.to(device) for name, tensor in files.items()}
    edges, weight = here["edges"].long(), here.get("weight")
    rows = here["x"], here["y"], here["masks"]
    return Shard(sizes, edges, weight, nodes.to(device), border, *rows)


def _read(folder: Path) -> tuple[Sizes, dict[str, Tensor]]:
    """Content of graph.json, and the files of this process's shard by name."""
    sizes = read_sizes(folder)
    if sizes.shards != processes():
        raise InputError(
            f"{folder} has {sizes.shards} shards, one for each process, got {processes()} "
            f"processes: start {sizes.shards}, or write it again with gread shard --blocks "
            f"{processes()}"
        )
    mine = folder / f"block-{rank():04}"
    if not mine.is_dir():
        raise InputError(f"{mine} is missing: process {rank()} has nothing to read")
    try:
        about = json.loads((mine / "block.json").read_text())
        if (about.get("number"), about.get("fingerprint")) != (rank(), sizes.fingerprint):
            raise InputError(
                f"{mine} must be shard {rank()} of the graph {sizes.fingerprint}, got shard "
                f"{about.get('number')} of {about.get('fingerprint')}"
            )
        if about.get("digest") != _digest(mine):
            raise InputError(
                f"{mine} must hold what was written to it, got files that are missing or changed: "
                "remove the folder and write it again"
            )
        paths = [path for path in mine.glob("*.npy") if path.stem != "nodes"]
        files = {path.stem: torch.from_numpy(np.load(path)) for path in paths}
    except InputError:
        raise
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{mine} cannot be read ({error})") from error
    if not files["x"].isfinite().all():
        raise InputError(f"the features in {mine} must be finite, got NaN or infinity")
    return sizes, files


def _border(own: int, halo: Tensor, bounds: tuple[int, ...], device: str) -> Border:
    """Send every other process the indices of the rows that this one needs."""
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
