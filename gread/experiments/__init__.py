"""The questions that the paper asks, one file each."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.experiments.artefact import ARTEFACTS as ARTEFACTS
    from gread.experiments.artefact import SCALES as SCALES
    from gread.experiments.artefact import Artefact as Artefact
    from gread.experiments.artefact import Plan as Plan
    from gread.experiments.artefact import show as show
    from gread.experiments.artefact import with_all_runs as with_all_runs

lazy(__name__)
