"""User tables: files are read into a graph with node ids and columns."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.tables.column import Column as Column, column as column
    from gread.tables.features import (
        Preprocessing as Preprocessing,
        choose_features as choose_features,
    )
    from gread.tables.formats import FORMATS as FORMATS, read_table as read_table
    from gread.tables.graph import TableGraph as TableGraph, join as join, read_graph as read_graph
    from gread.tables.labels import (
        Labels as Labels,
        read_labels as read_labels,
        read_split as read_split,
    )
    from gread.tables.scaling import SCALINGS as SCALINGS
    from gread.tables.table import Table as Table

lazy(__name__)
