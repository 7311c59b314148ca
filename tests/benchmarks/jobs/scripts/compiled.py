# A model under torch.compile: a long first step, another at the first evaluation.
import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1500)
parser.add_argument("--eval-every", type=int, default=100)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(11)


class Mixer(nn.Module):
    def __init__(self, tokens=49, width=128):
        super().__init__()
        self.into = nn.Linear(48, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(6))
        self.over_tokens = nn.ModuleList(nn.Linear(tokens, tokens) for _ in range(3))
        self.over_width = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.into(x)
        for number in range(3):
            mixed = self.over_tokens[number](self.norms[2 * number](x).transpose(1, 2)).transpose(1, 2)
            x = x + nn.functional.gelu(mixed)
            x = x + nn.functional.gelu(self.over_width[number](self.norms[2 * number + 1](x)))
        return self.head(x.mean(1))


plain = Mixer()
model = torch.compile(plain)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
labels = torch.randint(0, 10, (8192,))
patches = torch.randn(8192, 49, 48) + labels.view(-1, 1, 1) / 10
for step in range(options.steps):
    at = torch.randint(0, 7168, (64,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(patches[at]), labels[at])
    loss.backward()
    optimizer.step()
    if (step + 1) % options.eval_every == 0:
        model.eval()
        with torch.no_grad():
            right = sum(
                int((model(patches[i : i + 256]).argmax(1) == labels[i : i + 256]).sum())
                for i in range(7168, 8192, 256)
            )
        model.train()
        print(f"step {step}: loss {loss.item():.4f}, accuracy {right / 1024:.3f}", flush=True)
torch.save(plain.state_dict(), options.out / "mixer.pt")
