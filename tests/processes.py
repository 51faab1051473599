"""Processes for tests that are no more than a fork away."""

from gread.processes import start_method

FRESH = start_method()
"""Where nothing but gread has been imported: that takes seconds, here once for all of them."""
