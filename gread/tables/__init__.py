"""A user's tables: files in, a graph of nodes with ids and columns out."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.tables.column import Column as Column
    from gread.tables.column import column as column
    from gread.tables.features import Preprocessing as Preprocessing
    from gread.tables.features import choose_features as choose_features
    from gread.tables.formats import FORMATS as FORMATS
    from gread.tables.formats import read_table as read_table
    from gread.tables.graph import TableGraph as TableGraph
    from gread.tables.graph import join as join
    from gread.tables.graph import read_graph as read_graph
    from gread.tables.labels import Labels as Labels
    from gread.tables.labels import read_labels as read_labels
    from gread.tables.labels import read_split as read_split
    from gread.tables.table import Table as Table

lazy(__name__)
