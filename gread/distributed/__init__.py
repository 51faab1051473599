"""One graph over several processes: each holds a shard of its nodes, and training is exact."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.distributed.exchange import (
        process_group as process_group,
        processes as processes,
        rank as rank,
    )
    from gread.distributed.fit import ShardFit as ShardFit, fit_shard as fit_shard
    from gread.distributed.launch import run_processes as run_processes
    from gread.distributed.orders import ORDERS as ORDERS
    from gread.distributed.parquet import shard_parquet as shard_parquet
    from gread.distributed.shards import (
        Shard as Shard,
        read_shard as read_shard,
        read_sizes as read_sizes,
        shard as shard,
    )

lazy(__name__)
