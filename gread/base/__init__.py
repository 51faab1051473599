"""Foundations: errors, checks, registries, files and processes."""
