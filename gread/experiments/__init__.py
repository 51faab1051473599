"""The questions that the paper asks, one file each."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.experiments.artefact import ARTEFACTS as ARTEFACTS
    from gread.experiments.artefact import SCALES as SCALES
    from gread.experiments.artefact import Artefact as Artefact
    from gread.experiments.artefact import Plan as Plan
    from gread.experiments.artefact import complete as complete
    from gread.experiments.artefact import show as show

lazy(__name__)
