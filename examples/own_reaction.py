"""Define a reaction with a learned parameter in ten lines.

Run: python examples/own_reaction.py      (a few seconds)
"""

import torch
from torch import nn

import gread


class Threshold(nn.Module):
    """r(H) = H ⊙ (1 − H) ⊙ (H − a): growth above a, decay below."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.25))

    def forward(self, s: gread.State) -> torch.Tensor:
        return s.h * (1 - s.h) * (s.h - self.a)


torch.manual_seed(0)
data = gread.load("csbm", num_nodes=300, num_classes=3, homophily=0.7, degree=8, num_features=32)
# A cubic reaction is stiff far from its fixed points: small features, a positive beta, short steps.
data.x = data.x / 10
model = gread.GREAD(
    data.num_features, 32, 3, reaction=Threshold(), beta="scalar", time=1.0, step_size=0.25
)
fit = gread.fit(model, data, gread.TrainConfig(epochs=100))
print(f"test accuracy {fit.best.test:.1%}, threshold learned: {model.layer.reaction.a.item():.3f}")
