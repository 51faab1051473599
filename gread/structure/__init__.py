"""What a model wants to know of a graph before training: one file for each idea."""

from gread.structure import (  # noqa: F401  # importing a file enters its structures
    multigraph,
    positions,
    relations,
    two_hop,
)
from gread.structure.catalog import STRUCTURES as STRUCTURES
from gread.structure.catalog import Origin as Origin
from gread.structure.catalog import Prepared as Prepared
from gread.structure.catalog import Structure as Structure
from gread.structure.catalog import add_structure as add_structure
