"""Fault injection scripts, and the page of their results.

``python -m studies.soak [NAME ...]`` (``make soak``: all) runs them. Each stores its rows in
``studies/soak/results/NAME.json``, and docs/reliability.md is rendered from the stored rows.
"""
