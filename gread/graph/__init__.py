"""Graphs: the operator Ã, checks, measures, partitions and precomputed structures."""
