# A decoder-only transformer with its own loop: no DataLoader, accumulation, clipping, evaluation every so often.
import torch
from torch import nn
from torch.nn import functional as F

block, batch, vocab, width, accumulate = 16, 4, 50, 32, 2
data = torch.randint(0, vocab, (10_000,))


def get_batch():
    at = torch.randint(len(data) - block, (batch,))
    x = torch.stack([data[i : i + block] for i in at])
    return x, torch.stack([data[i + 1 : i + 1 + block] for i in at])


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, idx, targets=None):
        mask = nn.Transformer.generate_square_subsequent_mask(block)
        logits = self.head(self.layer(self.embed(idx), mask, is_causal=True))
        return logits, F.cross_entropy(logits.view(-1, vocab), targets.view(-1)) / accumulate


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(100_000):
    if step % 50 == 0:
        model.eval()
        with torch.no_grad():
            losses = [model(*get_batch())[1].item() for _ in range(10)]
        model.train()
    for _ in range(accumulate):
        _, loss = model(*get_batch())
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
