"""Hyperparameter search: sample settings, train them on all splits, select by validation."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.search.report import Report as Report, report as report
    from gread.search.search import SearchProgress as SearchProgress, search as search
    from gread.search.selection import RULES as RULES, Trial as Trial, select as select
    from gread.search.space import Space as Space, read_space as read_space
    from gread.search.study import SAMPLERS as SAMPLERS

lazy(__name__)
