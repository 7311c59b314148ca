# A Trainer as the libraries have it: closures, callbacks, a check of the validation set first, steps far from the script.
import torch
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, module, max_epochs):
        self.module, self.max_epochs = module, max_epochs
        self.optimizer = module.configure_optimizers()

    def fit(self, loader, held_out):
        self.validate(held_out, 2)
        for _ in range(self.max_epochs):
            for number, batch in enumerate(loader):
                self.optimizer.step(lambda number=number, batch=batch: self.closure(batch, number))
            self.validate(held_out, len(held_out))

    def closure(self, batch, number):
        self.optimizer.zero_grad()
        loss = self.module.training_step(batch, number)
        loss.backward()
        return loss

    @torch.no_grad()
    def validate(self, held_out, batches):
        self.module.eval()
        for _, batch in zip(range(batches), held_out, strict=False):
            self.module.training_step(batch, 0)
        self.module.train()


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(64, 10)

    def training_step(self, batch, number):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    data = TensorDataset(torch.randn(960, 64), torch.randint(0, 10, (960,)))
    Trainer(Module(), 1000).fit(DataLoader(data, batch_size=24), DataLoader(data, batch_size=80))
