"""Structures that models precompute from a graph, one file for each."""
