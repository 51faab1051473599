"""One graph over several processes: every one holds a block of its nodes, and training is exact.

exchange   the rows that go from one process to another, and the gradients that go back
operator   Ã of which a process holds its rows: ``model(x, block)`` in the place of ``edge_index``
partition  which process gets which nodes
shards     a graph on the disk in blocks
parquet    such a graph from edge lists larger than memory
training   fit over all processes, with checkpoints
launch     several processes on one machine
"""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.distributed.exchange import joined as joined
    from gread.distributed.exchange import processes as processes
    from gread.distributed.exchange import rank as rank
    from gread.distributed.fit import Spread as Spread
    from gread.distributed.fit import fit_shard as fit_shard
    from gread.distributed.launch import spread as spread
    from gread.distributed.operator import Block as Block
    from gread.distributed.orders import PARTITIONS as PARTITIONS
    from gread.distributed.parquet import shard_parquet as shard_parquet
    from gread.distributed.shards import Shard as Shard
    from gread.distributed.shards import read_shard as read_shard
    from gread.distributed.shards import read_sizes as read_sizes
    from gread.distributed.shards import shard as shard

lazy(__name__)
