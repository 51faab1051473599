"""Sparse kernels: their definition in plain PyTorch, and the same in C and in Triton.

reference    every kernel in PyTorch: the definition, against which the others are tested
cpu, gpu     in C, compiled at first use, and in Triton
backend      the choice between these three
pattern      where a sparse matrix has entries, built once for each tensor of edges
operators    the kernels with their gradients
program      a list of passes over the states of all nodes
interpreter  a program run pass by pass
cuda_graph   a function recorded as a CUDA graph
"""
