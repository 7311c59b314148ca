# A language model with an optimizer for its matrices and one for the rest; it is evaluated every 100 steps.
import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(9)
length, words, width = 64, 512, 128


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        x = self.word(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.layers(x, mask=mask, is_causal=True))


model = Model()
text = torch.randint(0, words, (100_000,))
matrices = [p for p in model.layers.parameters() if p.ndim == 2]
rest = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
optimizers = (
    torch.optim.SGD(matrices, lr=0.02, momentum=0.95, nesterov=True),
    torch.optim.AdamW(rest, lr=3e-4),
)


def loss_of_batch():
    places = torch.randint(0, len(text) - length - 1, (8,))
    ids = torch.stack([text[place : place + length + 1] for place in places])
    return nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


for step in range(options.steps):
    if step % 100 == 0:
        model.eval()
        with torch.no_grad():
            held_out = sum(loss_of_batch().item() for _ in range(20)) / 20
        print(f"step {step}: held out {held_out:.4f}", flush=True)
        model.train()
    loss_of_batch().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
torch.save(model.state_dict(), options.out / "model.pt")
