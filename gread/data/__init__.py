"""Datasets by name: ``load("texas")`` returns a PyG ``Data`` with ten splits."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.data.catalog import DATASETS as DATASETS, DatasetEntry as DatasetEntry
    from gread.data.files import DataError as DataError
    from gread.data.load import load as load
    from gread.data.rows import DatasetRow as DatasetRow, dataset_rows as dataset_rows
    from gread.data.splits import random_splits as random_splits
    from gread.data.synthetic import (
        csbm as csbm,
        grid as grid,
        preferential_attachment as preferential_attachment,
    )

lazy(__name__)
