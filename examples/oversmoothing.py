"""Compare the Dirichlet energy over time under diffusion and under reactions.

Run: python examples/oversmoothing.py      (a second)
"""

import torch

import gread

torch.manual_seed(0)
graph = gread.load("grid", height=20, width=20)
h0 = 0.5 * torch.randn(graph.num_nodes, 1)
times = [0.0, 5.0, 10.0, 20.0, 40.0]
print("reaction    " + "".join(f"{f't = {t:g}':>11}" for t in times))
for reaction in (None, "bs", "ac", "st"):
    layer = gread.ReactionDiffusionConv(
        1,
        reaction=reaction,
        adjacency="original",
        normalization="row",
        alpha="one",
        beta="one",
        time=40.0,
        step_size=0.25,
    )
    states = layer.evolve(h0, graph.edge_index, save_at=times).saved
    energies = (gread.dirichlet_energy(h, graph.edge_index).item() for h in states)
    print(f"{reaction or 'none':12}" + "".join(f"{energy:11.2e}" for energy in energies))
