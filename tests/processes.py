"""Processes for tests that are no more than a fork away."""

import multiprocessing

FRESH = multiprocessing.get_context("forkserver")
"""Where nothing but gread has been imported: that takes seconds, here once for all of them."""

FRESH.set_forkserver_preload(["gread"])
