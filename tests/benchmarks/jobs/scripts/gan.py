# A DCGAN: generator and discriminator in turns, each with an Adam; samples and both models are kept after each epoch.
import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--niter", type=int, default=25)
parser.add_argument("--outf", type=Path, default=".")
options = parser.parse_args()
latent, width = 64, 32


def initialize(module):
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)


torch.manual_seed(7)
generator = nn.Sequential(
    nn.ConvTranspose2d(latent, 4 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True),
    nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
    nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
    nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
).apply(initialize)  # fmt: skip
discriminator = nn.Sequential(
    nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
    nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2, True),
    nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width), nn.LeakyReLU(0.2, True),
    nn.Conv2d(4 * width, 1, 4, 1, 0, bias=False), nn.Flatten(0),
).apply(initialize)  # fmt: skip
criterion = nn.BCEWithLogitsLoss()
of_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
loader = DataLoader(TensorDataset(torch.rand(3200, 3, 32, 32) * 2 - 1), batch_size=64, shuffle=True)
fixed = torch.randn(64, latent, 1, 1)
for epoch in range(options.niter):
    for number, (real,) in enumerate(loader):
        discriminator.zero_grad()
        ones, zeros = torch.ones(len(real)), torch.zeros(len(real))
        of_real = criterion(discriminator(real), ones)
        of_real.backward()
        fake = generator(torch.randn(len(real), latent, 1, 1))
        of_fake = criterion(discriminator(fake.detach()), zeros)
        of_fake.backward()
        of_d.step()
        generator.zero_grad()
        fooled = criterion(discriminator(fake), ones)
        fooled.backward()
        of_g.step()
        if number % 10 == 0:
            print(f"{epoch} {number}: D {(of_real + of_fake).item():.3f}, G {fooled.item():.3f}", flush=True)
    with torch.no_grad():
        torch.save(generator(fixed), options.outf / f"samples-{epoch:03}.pt")
    torch.save(generator.state_dict(), options.outf / f"generator-{epoch}.pt")
    torch.save(discriminator.state_dict(), options.outf / f"discriminator-{epoch}.pt")
