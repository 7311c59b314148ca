# Proximal policy optimization: rollouts of 512 steps without gradients, then 4 passes over them in minibatches of 128.
import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--updates", type=int, default=3200)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(4)
actor = nn.Sequential(nn.Linear(16, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 4))
critic = nn.Sequential(nn.Linear(16, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4, eps=1e-5)
world, updates, rollouts = torch.randn(4, 16) / 4, 0, 0
state = torch.zeros(4, 16)
while updates < options.updates:
    states, actions, logs, rewards = [], [], [], []
    with torch.no_grad():
        for _ in range(128):
            policy = torch.distributions.Categorical(logits=actor(state))
            action = policy.sample()
            states.append(state)
            actions.append(action)
            logs.append(policy.log_prob(action))
            state = 0.9 * state + 0.2 * world[action] + 0.1 * torch.randn(4, 16)
            rewards.append(-state.square().mean(1))
        values = critic(torch.cat(states))[:, 0]
        gained = torch.cat(rewards) - values
    batch = torch.cat(states), torch.cat(actions), torch.cat(logs), gained, gained + values
    for _ in range(4):
        for part in torch.randperm(512).split(128):
            seen, taken, before, gain, wanted = (each[part] for each in batch)
            ratio = (torch.distributions.Categorical(logits=actor(seen)).log_prob(taken) - before).exp()
            clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = 0.5 * (critic(seen)[:, 0] - wanted).square().mean() - clipped
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizer.step()
            updates += 1
    rollouts += 1
    if rollouts % 10 == 0:
        print(f"update {updates}: reward {torch.cat(rewards).mean().item():.4f}", flush=True)
        torch.save(actor.state_dict(), options.out / "actor.pt")
