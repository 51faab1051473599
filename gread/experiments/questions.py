"""Import of all experiment files, which registers their artefacts."""

from gread.experiments import (  # noqa: F401
    ablations,
    accuracy,
    datasets,
    energy,
    evolution,
    fair,
    far,
    homophily,
    honest,
    larger,
    newer,
    runtime,
    sensitivity,
    settings,
    significance,
    source_term,
    spectrum,
)
from gread.experiments.artefact import ARTEFACTS as ARTEFACTS
