"""``gread shard``: a graph on the disk, for training over several processes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from gread.cli.console import out, print_json
from gread.cli.options import Json


def shard(
    nodes: Annotated[Path, typer.Option(metavar="FILE", help="Parquet: row k is node k.")],
    edges: Annotated[
        Path, typer.Option(metavar="FILE", help="Parquet: source and target, numbers of nodes.")
    ],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The class; empty where unknown.")],
    blocks: Annotated[int, typer.Option(help="One for each process of the training.")],
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where shards go; it must not exist.")
    ],
    partition: Annotated[
        str, typer.Option(help="Which nodes go together: cuthill-mckee, metis, given.")
    ] = "cuthill-mckee",
    split: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Says train, val or test; else drawn.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of the edges' weights.")
    ] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Edges have one direction.")] = False,
    as_json: Json = False,
) -> None:
    """Cut a graph into blocks on the disk, one for each process that will train on it."""
    from gread.distributed.parquet import shard_parquet

    sizes = shard_parquet(
        nodes,
        edges,
        folder,
        label=label,
        shards=blocks,
        partition=partition,
        split=split,
        weight=weight,
        directed=directed,
    )
    if as_json:
        print_json(dataclasses.asdict(sizes))
        return
    share = max(sizes.halos) / (sizes.nodes / sizes.shards)
    out.print(
        f"{sizes.nodes:,} nodes and {sizes.edges:,} edges in {sizes.shards} shards; the largest "
        f"halo has {max(sizes.halos):,} nodes, {share:.1%} of a shard",
        highlight=False,
        soft_wrap=True,
    )
    out.print(f"gread train {folder} --processes {sizes.shards}", highlight=False, soft_wrap=True)
