"""Sparse kernels: what they compute in plain PyTorch, and faster in C and in Triton.

plain     every kernel in PyTorch: the definition, and what the others are tested against
cpu       in C, compiled at first use
gpu       in Triton
pattern   where a sparse matrix has entries, built once for each tensor of edges
operators the kernels with their gradients
"""
