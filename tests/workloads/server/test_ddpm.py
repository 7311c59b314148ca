import copy
import math

import pytest
import torch
from torch import nn

from tests.workloads.diffusion import NARROW, by, narrow
from tests.workloads.harness.training.environments import environment
from workloads.harness.engine.correctness import WrongError, check, first_step, recheck
from workloads.harness.engine.device import UnsupportedError
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.harness.training.layers import layer_flops, parameter_count
from workloads.harness.training.loading import Loader
from workloads.harness.training.training import training_step
from workloads.nets import diffusion
from workloads.nets.ddpm_step import image_flops, parameters
from workloads.nets.diffusion import Trainer, losses, schedule
from workloads.nets.unet import ImageAttention, UNet, _sinusoids

pytestmark = pytest.mark.usefixtures("one_thread")


def batch_of(env, n=2):
    shape = (n, 3, 32, 32)
    images, noise = (torch.randn(shape, generator=env.generator) for _ in range(2))
    return images, noise, torch.randint(1000, (n,), generator=env.generator)


class TestNet:
    @pytest.mark.parametrize(("channels", "counted"), [(128, 35_746_307), (76, 12_616_915), (32, 2_245_763)])
    def test_the_net_has_the_published_and_the_requested_size(self, channels, counted):
        """The paper states 35.7 million; the other digits come from its layers."""
        with torch.device("meta"):
            net = UNet(channels)
        assert parameter_count(net) == parameters(channels) == by_hand(channels, (1, 2, 2, 2)) == counted
        one = torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.int64)
        forward, training = layer_flops(net, *one)
        attention = net.attention_flops()
        assert attention == 5 * 4 * 2 * channels * 256**2 + 4 * 2 * channels * 16**2
        assert training + 3 * attention == pytest.approx(image_flops(channels), rel=1e-12)
        assert 0.005 < attention / (forward + attention) < 0.1

    def test_norms_of_the_net_have_the_papers_groups(self):
        def groups(channels):
            with torch.device("meta"):
                return {m.num_groups for m in UNet(channels).modules() if isinstance(m, nn.GroupNorm)}

        assert groups(128) == {32}
        assert max(groups(76)) < 32

    def test_attention_is_torchs_own(self):
        torch.manual_seed(0)
        layer, x = ImageAttention(64, 16).double(), torch.randn(2, 64, 4, 4).double()
        q, k, v = (part.transpose(1, 2) for part in layer.ask(layer.norm(x)).flatten(2).chunk(3, 1))
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        torch.testing.assert_close(layer(x), x + layer.answer(found.unflatten(2, (4, 4))))

    def test_times_are_told_by_sines_and_cosines(self):
        table = _sinusoids(1000, 8)
        assert table.shape == (1000, 8)
        frequencies = [1, 10_000 ** (-1 / 3), 10_000 ** (-2 / 3), 1 / 10_000]
        wanted = [math.sin(777 * f) for f in frequencies] + [math.cos(777 * f) for f in frequencies]
        assert table[777].tolist() == pytest.approx(wanted, abs=1e-6)

    def test_every_layer_counts_for_its_result(self):
        env = environment()
        net = narrow(env)
        images, _, times = batch_of(env)
        net(images, times).square().mean().backward()
        idle = [name for name, p in net.named_parameters() if not p.grad.abs().max() > 0]
        assert idle == []
        other = net.eval()(images, (times + 500) % 1000)
        assert not torch.allclose(other, net(images, times), rtol=1e-2)


def by_hand(base, multipliers, blocks=2):
    """Return the parameters by the paper's description, without the net's code."""

    def conv(c_in, c_out, side=3):
        return c_in * c_out * side**2 + c_out

    def block(c_in, c_out):
        shortcut = conv(c_in, c_out, 1) if c_in != c_out else 0
        time = 4 * base * c_out + c_out
        return 2 * c_in + conv(c_in, c_out) + time + 2 * c_out + conv(c_out, c_out) + shortcut

    def attention(c):
        return 2 * c + 4 * conv(c, c, 1)

    widths = [base * m for m in multipliers]
    total = base * 4 * base + 4 * base + 16 * base**2 + 4 * base + conv(3, base)
    skips, c = [base], base
    for level, width in enumerate(widths):
        for _ in range(blocks):
            total += block(c, width) + (attention(width) if level == 1 else 0)
            c = width
            skips.append(c)
        if level < len(widths) - 1:
            total += conv(c, c)
            skips.append(c)
    total += 2 * block(c, c) + attention(c)
    for level, width in reversed(list(enumerate(widths))):
        for _ in range(blocks + 1):
            total += block(c + skips.pop(), width) + (attention(width) if level == 1 else 0)
            c = width
        total += conv(c, c) if level else 0
    return total + 2 * c + conv(c, 3)


class TestTraining:
    def test_the_schedule_is_the_papers(self):
        kept, added = schedule().double()
        assert float(kept[0] ** 2) == pytest.approx(1 - 1e-4, rel=1e-6)
        assert float(kept[1] ** 2) == pytest.approx((1 - 1e-4) * (1 - 1e-4 - (0.02 - 1e-4) / 999), rel=1e-6)
        assert float(kept[-1] ** 2) == pytest.approx(4.036e-5, rel=1e-3)
        assert ((kept**2 + added**2 - 1).abs() < 1e-6).all()

    def test_a_loss_is_the_error_of_the_noise(self):
        images, noise, times = batch_of(environment())
        amounts, seen = schedule(), []

        def net(mixed, at):
            seen.append((mixed, at))
            return torch.zeros_like(mixed)

        found, _ = losses(net, amounts, images, noise, times)
        torch.testing.assert_close(found, noise.square().mean((1, 2, 3)))
        mixed = [amounts[0, t] * x + amounts[1, t] * e for x, e, t in zip(images, noise, times, strict=True)]
        torch.testing.assert_close(seen[0][0], torch.stack(mixed))

    def test_the_average_follows_slowly_and_both_go_back(self):
        env = environment()
        net = narrow(env)
        inputs, first = batch_of(env), copy.deepcopy(net.state_dict())
        trainer = Trainer(env, net, in_group=False)
        trainer.step(*inputs)
        for name, weight in trainer.average.named_parameters():
            moved = dict(net.named_parameters())[name] - first[name]
            torch.testing.assert_close(weight, first[name] + 1e-4 * moved, rtol=0, atol=1e-7)
            assert float(moved.detach().abs().max()) < 2.1e-4  # Adam's first step
        trainer.reset()
        for module in (net, trainer.average):
            assert all(torch.equal(w, first[name]) for name, w in module.state_dict().items())

    def test_gradients_are_those_of_float64(self):
        env = environment()
        prepared = training_step(
            env,
            narrow(env),
            lambda net, *inputs: losses(net, schedule().to(inputs[0].dtype), *inputs)[0].mean(),
            batch_of(env),
            lambda parameters: torch.optim.Adam(parameters, 2e-4),
            unit="images",
            units=2,
            tolerance=10,
            flops=1.0,
        )
        assert check(prepared, first_step(prepared), "fp32").checked_elements > 10_000


class TestSteps:
    def test_a_ddpm_step_passes_its_checks(self):
        prepared = by(environment(), batch=4)
        assert first_step(prepared).shape == (4,)
        assert check(prepared, first_step(prepared), "fp32").checked_elements == 2 + 2 * 3 * 32 * 32
        recheck(prepared, prepared.step(), "fp32")

    @pytest.mark.parametrize("broken", ["attention", "time", "skips", "dropout"])
    def test_a_net_that_leaves_something_out_is_wrong(self, monkeypatch, broken):
        prepared = by(environment(), batch=2)
        honest = Trainer.step

        def step(trainer, *inputs):
            net = trainer.learner.model
            kept = {name: copy.deepcopy(p.data) for name, p in net.named_parameters()}
            if broken == "attention":
                net.middle[0].attention.answer.weight.data.zero_()
            elif broken == "time":
                net.middle[0].time.weight.data.zero_()
            elif broken == "skips":
                net.up[0].first[2].weight.data[:, -NARROW:].zero_()
            else:
                net.eval()
            result = honest(trainer, *inputs)
            for name, p in net.named_parameters():
                p.data.copy_(kept[name] + 1e-4 * torch.ones_like(p))
            net.train()
            return result

        monkeypatch.setattr(Trainer, "step", step)
        with pytest.raises((WrongError, StopIteration), match=r"is off by|^$"):
            check(prepared, first_step(prepared), "fp32")

    def test_channels_without_groups_are_refused(self):
        said = r"^channels=30 must be a multiple of 4, "
        with pytest.raises(WorkloadsError, match=said):
            find("ddpm").build(environment(), batch=1, channels=30)

    def test_fp16_on_a_cpu_is_refused(self):
        with pytest.raises(UnsupportedError, match=r"fp16 on a CPU takes a minute .*; measure bf16 or fp32"):
            by(environment("fp16"), batch=1)


class TestLoaded:
    @pytest.mark.parametrize("workers", [0, 2])
    def test_pictures_come_from_the_loader_and_are_checked(self, workers):
        prepared = by(environment(), "ddpm_loader", batch=2, workers=workers)
        assert prepared.inputs[0].dtype.itemsize == 1  # bytes: each becomes float32 when loaded
        assert (prepared.units, prepared.moves_inputs, prepared.parameters) == (2, True, 2_245_763)
        check(prepared, first_step(prepared), "fp32")
        recheck(prepared, prepared.step(), "fp32")

    @pytest.mark.parametrize("broken", ["flips", "pictures"])
    def test_a_step_on_other_pictures_is_wrong(self, monkeypatch, broken):
        prepared = by(environment(), "ddpm_loader", batch=2, workers=0)
        taken, flipped = Loader.take, diffusion.flipped
        with monkeypatch.context() as patch:
            if broken == "flips":
                patch.setattr(diffusion, "flipped", lambda images, flips: flipped(images, ~flips))
            else:
                patch.setattr(Loader, "take", lambda self: tuple(t.roll(1, 3) for t in taken(self)))
            result = first_step(prepared)
        with pytest.raises(WrongError, match="is off by"):
            check(prepared, result, "fp32")

    def test_each_step_has_other_pictures_and_a_reset_the_same_noise(self):
        prepared = by(environment(), "ddpm_loader", batch=2, workers=0)
        steps = prepared.step.__self__
        first_step(prepared)
        noise, images = steps._drawn[1].clone(), steps._loader.latest()[0]
        prepared.step()
        assert not torch.equal(steps._drawn[1], noise)
        assert not torch.equal(steps._loader.latest()[0], images)
        first_step(prepared)
        assert torch.equal(steps._drawn[1], noise)
