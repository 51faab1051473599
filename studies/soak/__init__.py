"""Faults tried for real, each by a script of its own, and the page that says what was found.

``python -m studies.soak [NAME ...]`` (``make soak``: all) runs them; each leaves its rows in
``studies/soak/results/NAME.json``, and docs/reliability.md is what the stored rows render to.
"""
