"""The explorer: reaction-diffusion on graphs in the browser, with stored runs and saved models."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.explorer.explore import explore as explore, export as export
    from gread.explorer.leaderboard import leaderboard as leaderboard
    from gread.explorer.page import page as page
    from gread.explorer.server import Runs as Runs, serve as serve
    from gread.explorer.trained import (
        portrait as portrait,
        portrait_of_folder as portrait_of_folder,
    )

lazy(__name__)
