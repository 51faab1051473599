"""Executors of runs: this machine or a Ray cluster."""
