"""Artefacts: tables and figures, one file for each question of the paper."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.experiments.artefact import (
        SCALES as SCALES,
        Artefact as Artefact,
        Plan as Plan,
        show as show,
        with_all_runs as with_all_runs,
    )
    from gread.experiments.catalogue import LISTINGS as LISTINGS, catalogue as catalogue
    from gread.experiments.demo import demo as demo
    from gread.experiments.questions import ARTEFACTS as ARTEFACTS
    from gread.experiments.report import write_report as write_report
    from gread.experiments.reproduce import (
        Forecast as Forecast,
        Reproduction as Reproduction,
        export as export,
        plan as plan,
        reproduce as reproduce,
    )

lazy(__name__)
