# Mixed precision in bf16 with a GradScaler, accumulation over two batches, one-cycle schedule, accuracy after each epoch.
import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--accumulate", type=int, default=2)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(0)
labels = torch.randint(0, 20, (6000,))
features = torch.randn(6000, 32, 64) + labels.view(-1, 1, 1) / 20
train = DataLoader(TensorDataset(features[:5120], labels[:5120]), batch_size=32, shuffle=True, drop_last=True)
held_out = DataLoader(TensorDataset(features[5120:], labels[5120:]), batch_size=80)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 20)

    def forward(self, x):
        return self.head(self.layers(self.into(x)).mean(1))


model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
scaler = torch.amp.GradScaler("cpu", enabled=True)
steps = len(train) // options.accumulate
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, epochs=options.epochs, steps_per_epoch=steps)
for epoch in range(options.epochs):
    model.train()
    for number, (x, y) in enumerate(train, 1):
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1) / options.accumulate
        scaler.scale(loss).backward()
        if number % options.accumulate == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        right = sum(int((model(x).argmax(1) == y).sum()) for x, y in held_out)
    print(f"epoch {epoch}: accuracy {right / len(held_out.dataset):.3f}", flush=True)
    torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, options.out / "last.pt")
