"""Sparse kernels: what they compute in plain PyTorch, and faster in C and in Triton.

plain     every kernel in PyTorch: the definition, and what the others are tested against
cpu       in C, compiled at first use
gpu       in Triton
pattern   where a sparse matrix has entries, built once for each tensor of edges
operators the kernels with their gradients
"""

from gread.kernels.choice import plain_only as plain_only
from gread.kernels.operators import attention as attention
from gread.kernels.operators import drop as drop
from gread.kernels.operators import product as product
from gread.kernels.operators import scores as scores
from gread.kernels.operators import shares as shares
from gread.kernels.pattern import Pattern as Pattern
from gread.kernels.pattern import remember as remember
