"""Reaction-diffusion in time: reactions, solvers, integration and its fast paths."""
