"""Sparse kernels: a reference in plain PyTorch, and implementations in C and Triton.

reference    every kernel in PyTorch: the definition that the backends are tested against
cpu, gpu     the backends in C, compiled at first use, and in Triton
dense        dense products of the Triton backend
backend      selection of the backend
pattern      sparsity patterns, built once for each tensor of edges
operators    the kernels with their gradients
program      a list of passes over the states of all nodes
interpreter  a program run pass by pass
cuda_graph   a function recorded as a CUDA graph
"""
