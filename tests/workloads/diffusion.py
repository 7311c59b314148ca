"""A narrow diffusion model."""

from workloads.harness.registry import find

NARROW = 32  # base channels: a sixteenth of the work, and all kinds of layers


def narrow(env):
    from workloads.nets.unet import UNet

    return env.model(lambda: UNet(NARROW))


def by(env, name="ddpm", **size):
    return find(name).build(env, channels=NARROW, **size)
