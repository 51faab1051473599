"""Explain a prediction by edges and features with PyG's GNNExplainer.

Run: python examples/explain.py      (a few seconds)
"""

import torch
from torch_geometric.explain import Explainer, GNNExplainer

import gread

torch.manual_seed(0)
data = gread.load("csbm", num_nodes=200, num_classes=3, homophily=0.8, degree=6, num_features=16)
model = gread.GREAD(data.num_features, 16, 3, adjacency="original")
gread.fit(model, data, gread.TrainConfig(epochs=50))
explainer = Explainer(
    model,
    algorithm=GNNExplainer(epochs=100),
    explanation_type="model",
    node_mask_type="attributes",
    edge_mask_type="object",
    model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
)
node = 7
explanation = explainer(data.x, data.edge_index, index=node)
source, target = data.edge_index
print(
    f"node {node} is predicted to be of class {explanation.prediction[node].argmax()} because of:"
)
for edge in explanation.edge_mask.topk(5).indices:
    print(f"  {source[edge]} -> {target[edge]} with weight {explanation.edge_mask[edge]:.2f}")
print("features", explanation.node_mask.sum(dim=0).topk(3).indices.tolist())
