"""The graph: Ã as an operator, its checks, measures and parts, and what models precompute."""
