# A Trainer as libraries have it: callbacks, closures, a sanity check first; it logs, evaluates and saves every k steps.
import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def on_step(self, trainer):
        pass


class Log(Callback):
    def __init__(self, every):
        self.every, self.since = every, time.monotonic()

    def on_step(self, trainer):
        if trainer.step % self.every == 0:
            rate, self.since = self.every / (time.monotonic() - self.since), time.monotonic()
            print(f"step {trainer.step}: loss {trainer.loss.item():.4f}, {rate:.1f} steps/s", flush=True)


class Evaluate(Callback):
    def __init__(self, every):
        self.every = every

    def on_step(self, trainer):
        if trainer.step % self.every == 0:
            print(f"step {trainer.step}: held out {trainer.validate():.4f}", flush=True)


class Save(Callback):
    def __init__(self, every, folder, kept=3):
        self.every, self.folder, self.kept = every, folder, kept

    def on_step(self, trainer):
        if trainer.step % self.every == 0:
            state = {"model": trainer.module.state_dict(), "optimizer": trainer.optimizer.state_dict()}
            torch.save(state, self.folder / f"checkpoint-{trainer.step:06}.pt")
            for old in sorted(self.folder.glob("checkpoint-*.pt"))[: -self.kept]:
                old.unlink()


class Trainer:
    def __init__(self, module, max_steps, callbacks):
        self.module, self.max_steps, self.callbacks = module, max_steps, callbacks
        self.optimizer, self.schedule = module.optimizers()
        self.step, self.loss = 0, None

    def fit(self, loader, held_out):
        self.held_out = held_out
        self.validate(2)
        while self.step < self.max_steps:
            for batch in loader:
                self.optimizer.step(lambda batch=batch: self.closure(batch))
                self.schedule.step()
                self.step += 1
                for callback in self.callbacks:
                    callback.on_step(self)
                if self.step == self.max_steps:
                    break

    def closure(self, batch):
        self.optimizer.zero_grad()
        self.loss = self.module.loss(batch)
        self.loss.backward()
        nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        return self.loss

    @torch.no_grad()
    def validate(self, most=10**9):
        self.module.eval()
        losses = [
            self.module.loss(batch).item() for _, batch in zip(range(most), self.held_out, strict=False)
        ]
        self.module.train()
        return sum(losses) / len(losses)


class Mlp(nn.Module):
    def __init__(self, max_steps):
        super().__init__()
        self.max_steps = max_steps
        self.net = nn.Sequential(
            nn.Linear(512, 1024),
            nn.LayerNorm(1024),
            nn.GELU(),
            nn.Linear(1024, 1024),
            nn.GELU(),
            nn.Linear(1024, 512),
        )

    def loss(self, batch):
        (x,) = batch
        return nn.functional.mse_loss(self.net(x + 0.1 * torch.randn_like(x)), x)

    def optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4)
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=50)
        rest = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(self.max_steps - 50, 1))
        return optimizer, torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, rest], [50])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=3000)
    parser.add_argument("--save_steps", type=int, default=150)
    parser.add_argument("--eval_steps", type=int, default=300)
    parser.add_argument("--output_dir", type=Path, default=".")
    options = parser.parse_args()
    torch.manual_seed(42)
    data, held_out = TensorDataset(torch.randn(16_000, 512)), TensorDataset(torch.randn(4096, 512))
    callbacks = [Log(50), Evaluate(options.eval_steps), Save(options.save_steps, options.output_dir)]
    trainer = Trainer(Mlp(options.max_steps), options.max_steps, callbacks)
    trainer.fit(DataLoader(data, batch_size=64, shuffle=True), DataLoader(held_out, batch_size=256))
