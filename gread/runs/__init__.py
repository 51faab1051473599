"""Runs: a spec is a value with a key, and its result is stored with its provenance."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.runs.archive import known_results as known_results
    from gread.runs.compare import compare as compare
    from gread.runs.complete import complete as complete
    from gread.runs.executors.find import EXECUTORS as EXECUTORS, find_executor as find_executor
    from gread.runs.executors.job import Executor as Executor
    from gread.runs.executors.ray import Ray as Ray
    from gread.runs.launch import launch as launch
    from gread.runs.presets import Preset as Preset, find_preset as find_preset
    from gread.runs.records import RECORDS as RECORDS
    from gread.runs.result import Result as Result
    from gread.runs.run import division as division, run as run, with_structure as with_structure
    from gread.runs.spec import RunSpec as RunSpec
    from gread.runs.store import ResultStore as ResultStore, StoreError as StoreError
    from gread.runs.train import (
        ShardedRun as ShardedRun,
        train as train,
        train_shards as train_shards,
    )

lazy(__name__)
