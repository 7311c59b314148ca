# A Wasserstein GAN: the critic steps 20 times before each of the first 5 steps of the generator, and 5 times later.
import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=500)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(2)
generator = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 784))
critic = nn.Sequential(
    nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)
)
of_generator = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
of_critic = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
loader = DataLoader(TensorDataset(torch.rand(6400, 784)), batch_size=64, shuffle=True)


def endless():
    while True:
        yield from loader


batches = endless()
for iteration in range(options.iterations):
    for _ in range(20 if iteration < 5 else 5):
        (real,) = next(batches)
        of_critic.zero_grad()
        fake = generator(torch.randn(len(real), 32)).detach()
        distance = critic(fake).mean() - critic(real).mean()
        distance.backward()
        of_critic.step()
        for parameter in critic.parameters():
            parameter.data.clamp_(-0.01, 0.01)
    of_generator.zero_grad()
    (-critic(generator(torch.randn(64, 32))).mean()).backward()
    of_generator.step()
    if iteration % 20 == 0:
        print(f"iteration {iteration}: distance {-distance.item():.4f}", flush=True)
torch.save(generator.state_dict(), options.out / "generator.pt")
