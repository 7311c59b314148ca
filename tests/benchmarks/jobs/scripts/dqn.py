# Deep Q-learning: it acts on one observation, trains on 128 from its memory, and is evaluated every 2,000 steps.
import argparse
import random
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20_000)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(3)
random.seed(3)


def net():
    return nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))


def play(state, action):
    """Return the next state and the reward of a linear world with noise."""
    following = 0.9 * state + 0.1 * torch.randn(8)
    following[action] += 0.3
    return following, -following.square().sum().item()


online, target = net(), net()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
memory, state = [], torch.zeros(8)
for step in range(-500, options.steps):
    explores = step < 0 or random.random() < 0.1
    action = random.randrange(4) if explores else online(state[None]).argmax().item()
    following, reward = play(state, action)
    memory.append((state, action, reward, following))
    state, memory = following, memory[-10_000:]
    if step < 0:
        continue
    states, actions, rewards, followings = zip(*random.sample(memory, 128), strict=True)
    with torch.no_grad():
        best = torch.tensor(rewards) + 0.9 * target(torch.stack(followings)).max(1).values
    chosen = online(torch.stack(states)).gather(1, torch.tensor(actions)[:, None])[:, 0]
    loss = nn.functional.smooth_l1_loss(chosen, best)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 500 == 0:
        target.load_state_dict(online.state_dict())
    if step % 2000 == 1999:
        total, trial = 0.0, torch.zeros(8)
        with torch.no_grad():
            for _ in range(1000):
                trial, reward = play(trial, online(trial[None]).argmax().item())
                total += reward
        print(f"step {step}: loss {loss.item():.4f}, reward {total / 1000:.3f}", flush=True)
torch.save(online.state_dict(), options.out / "online.pt")
