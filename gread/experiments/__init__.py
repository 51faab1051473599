"""The questions that the paper asks, one file each."""

from gread.experiments import (  # noqa: F401  # importing enters artefacts
    ablations,
    accuracy,
    datasets,
    energy,
    evolution,
    homophily,
    newer,
    runtime,
    sensitivity,
    settings,
    significance,
    source_term,
    spectrum,
)
from gread.experiments.artefact import ARTEFACTS as ARTEFACTS
from gread.experiments.artefact import SCALES as SCALES
from gread.experiments.artefact import Artefact as Artefact
from gread.experiments.artefact import Plan as Plan
from gread.experiments.artefact import complete as complete
from gread.experiments.artefact import show as show
