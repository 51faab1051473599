"""The questions that the paper asks, one file each."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.experiments.artefact import SCALES as SCALES
    from gread.experiments.artefact import Artefact as Artefact
    from gread.experiments.artefact import Plan as Plan
    from gread.experiments.artefact import show as show
    from gread.experiments.artefact import with_all_runs as with_all_runs
    from gread.experiments.catalogue import LISTINGS as LISTINGS
    from gread.experiments.catalogue import catalogue as catalogue
    from gread.experiments.demo import demo as demo
    from gread.experiments.questions import ARTEFACTS as ARTEFACTS
    from gread.experiments.report import write_report as write_report
    from gread.experiments.reproduce import Forecast as Forecast
    from gread.experiments.reproduce import Reproduction as Reproduction
    from gread.experiments.reproduce import export as export
    from gread.experiments.reproduce import plan as plan
    from gread.experiments.reproduce import reproduce as reproduce

lazy(__name__)
