"""Train on a partitioned graph, as for graphs that do not fit into memory.

Run: python examples/large_graph.py      (some seconds)
"""

import torch

import gread
from gread.graph.partition import cut
from gread.training.memory import parts_that_fit

data = gread.load("grid", height=200, width=40)
torch.manual_seed(0)
data.x = torch.randn(data.num_nodes, 8)
data.y = (data.x[:, 0] > 0).long()
data.train_mask, data.val_mask, data.test_mask = gread.random_splits(data.y, num_splits=1)

for part in cut(data, parts=4, halo=2):
    print(f"{part.own} own nodes, {len(part.nodes) - part.own} nodes in the halo")

for parts in (1, 4):
    torch.manual_seed(1)
    model = gread.GREAD(8, 16, 2, adjacency="original", input_dropout=0.0)
    result = gread.fit(model, data, gread.TrainConfig(epochs=20, parts=parts))
    print(f"{parts} parts: test accuracy {result.best.test:.2%}")

print("with 10 MB:", parts_that_fit(model, data, free=10e6))
