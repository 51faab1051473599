"""Neural sheaf diffusion: diffusion with learned maps at both ends of every edge.

A node u has d coordinates of f channels each, X_u [d, f]. Each end u of an edge has a map F_u
[d, d] into the space of the edge, computed from the states of both ends; v is the other end:

    (L X)_u = Σ F_uᵀ (F_u X_u − F_v X_v)                   the sheaf Laplacian
    Δ = D*^-½ L D*^-½,   D* = I + D,   D_u = Σ F_uᵀ F_u
    X ← (1 + tanh ε) X − ELU(Δ W₁ X W₂)

with sums over the edges of u. The three models differ in what a map may be: diagonal, orthogonal
(a bundle, the paper's row "Sheaf") or any matrix (general).
"""
