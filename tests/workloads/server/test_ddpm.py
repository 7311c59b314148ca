"""The diffusion model: its published size, its arithmetic against float64, and what each process takes of it."""

import copy
import math

import pytest

from tests.workloads.harness.group.test_distributed import MEASURED
from tests.workloads.harness.training.test_training import environment
from workloads.harness.engine.correctness import WrongError, check, first_step, recheck
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat
from workloads.harness.training.layers import layer_flops, parameter_count

NARROW = 32  # base channels: a sixteenth of the work, and all kinds of layers


@pytest.fixture(autouse=True)
def one_thread():
    """Several would wait for each other on a machine that runs other tests too."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def alone():
    """A process group of one, as a rank has it."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def narrow(env):
    from workloads.nets.unet import UNet

    return env.model(lambda: UNet(NARROW))


def batch_of(env, n=2):
    import torch

    shape = (n, 3, 32, 32)
    images, noise = (torch.randn(shape, generator=env.generator) for _ in range(2))
    return images, noise, torch.randint(1000, (n,), generator=env.generator)


class TestNet:
    def test_it_is_as_large_as_published(self):
        """The paper says 35.7 million; four more digits come from counting its layers."""
        import torch

        from workloads.ddpm import GFLOP, PARAMETERS
        from workloads.nets.unet import UNet

        with torch.device("meta"):
            net = UNet()
        assert parameter_count(net) == PARAMETERS == by_hand(128, (1, 2, 2, 2)) == 35_746_307
        one = torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.int64)
        forward, training = layer_flops(net, *one)
        attention = net.attention_flops()
        assert attention == 5 * 4 * 256 * 256**2 + 4 * 256 * 16**2
        assert training + 3 * attention == pytest.approx(GFLOP * 1e9, rel=1e-12)
        assert 0.005 < attention / (forward + attention) < 0.05

    def test_attention_is_torchs_own(self):
        import torch

        from workloads.nets.unet import Attention

        torch.manual_seed(0)
        layer, x = Attention(64, 16).double(), torch.randn(2, 64, 4, 4).double()
        q, k, v = (part.transpose(1, 2) for part in layer.ask(layer.norm(x)).flatten(2).chunk(3, 1))
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        torch.testing.assert_close(layer(x), x + layer.answer(found.unflatten(2, (4, 4))))

    def test_times_are_told_by_sines_and_cosines(self):
        from workloads.nets.unet import _sinusoids

        table = _sinusoids(1000, 8)
        assert table.shape == (1000, 8)
        frequencies = [1, 10_000 ** (-1 / 3), 10_000 ** (-2 / 3), 1 / 10_000]
        wanted = [math.sin(777 * f) for f in frequencies] + [math.cos(777 * f) for f in frequencies]
        assert table[777].tolist() == pytest.approx(wanted, abs=1e-6)

    def test_every_layer_counts_for_its_result(self):
        import torch

        env = environment()
        net = narrow(env)
        images, _, times = batch_of(env)
        net(images, times).square().mean().backward()
        idle = [name for name, p in net.named_parameters() if not p.grad.abs().max() > 0]
        assert idle == []
        other = net.eval()(images, (times + 500) % 1000)
        assert not torch.allclose(other, net(images, times), rtol=1e-2)


def by_hand(base, multipliers, blocks=2):
    """Parameters by the paper's description, without a line of the net's code."""

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
        from workloads.nets.diffusion import schedule

        kept, added = schedule().double()
        assert float(kept[0] ** 2) == pytest.approx(1 - 1e-4, rel=1e-6)
        assert float(kept[1] ** 2) == pytest.approx((1 - 1e-4) * (1 - 1e-4 - (0.02 - 1e-4) / 999), rel=1e-6)
        assert float(kept[-1] ** 2) == pytest.approx(4.036e-5, rel=1e-3)
        assert ((kept**2 + added**2 - 1).abs() < 1e-6).all()

    def test_a_loss_is_the_error_of_the_noise(self):
        import torch

        from workloads.nets.diffusion import losses, schedule

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
        import torch

        from workloads.nets.diffusion import Trainer

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
        """Of a narrower net, because that of a full one takes seconds; dropout's masks are the same."""
        import torch

        from workloads.harness.training.training import training_step
        from workloads.nets.diffusion import losses, schedule

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


def by(env, monkeypatch, name="ddpm", **size):
    """A workload with a narrow net."""
    monkeypatch.setattr("workloads.ddpm._net", narrow)
    return find(name).build(env, **size)


class TestSteps:
    def test_it_passes_its_checks(self, monkeypatch):
        prepared = by(environment(), monkeypatch, batch=4)
        assert first_step(prepared).shape == (4,)
        assert check(prepared, first_step(prepared), "fp32").checked_elements == 2 + 2 * 3 * 32 * 32
        recheck(prepared, prepared.step(), "fp32")

    @pytest.mark.parametrize("broken", ["attention", "time", "skips", "dropout"])
    def test_a_net_that_leaves_something_out_is_wrong(self, monkeypatch, broken):
        import torch

        from workloads.nets.diffusion import Trainer

        prepared = by(environment(), monkeypatch, batch=2)
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

    def test_fp16_on_a_cpu_is_refused(self, monkeypatch):
        from workloads.harness.engine.device import UnsupportedError

        with pytest.raises(UnsupportedError, match=r"fp16 on a CPU takes a minute .*; measure bf16 or fp32"):
            by(environment("fp16"), monkeypatch, batch=1)


class TestShares:
    @pytest.mark.parametrize("processes", [1, 2, 4])
    def test_weak_and_strong_state_the_work_of_all(self, monkeypatch, alone, processes):
        env = environment()
        env.world, env.rank = processes, processes - 1
        weak = by(env, monkeypatch, "ddpm_weak", batch=2, processes=processes)
        strong = by(env, monkeypatch, "ddpm_strong", batch=4, processes=processes)
        assert (weak.units, strong.units) == (2 * processes, 4)
        assert (len(weak.inputs[0]), len(strong.inputs[0])) == (2, 4 // processes)
        assert strong.flops == 4 * weak.flops / weak.units

    def test_the_shares_of_a_batch_are_the_batch_that_one_process_has(self, monkeypatch, alone):
        import torch

        def shares(world):
            for rank in range(world):
                env = environment()
                env.world, env.rank = world, rank
                yield by(env, monkeypatch, "ddpm_strong", batch=4, processes=world).inputs

        whole, halves = next(shares(1)), list(shares(2))
        for part, first, second in zip(whole, *halves, strict=True):
            assert torch.equal(torch.stack([first, second], 1).flatten(0, 1), part)

    def test_a_batch_that_can_not_be_shared_is_refused(self):
        with pytest.raises(WorkloadsError, match=r"^batch=3 can't be shared evenly by processes=2; choose"):
            find("ddpm_strong").build(environment(), batch=3, processes=2)

    def test_an_epoch_of_less_than_a_batch_is_refused(self):
        said = r"^images=7 give none of processes=2 a whole batch=4; choose images of at least 8$"
        with pytest.raises(WorkloadsError, match=said):
            find("ddpm_job").build(environment(), images=7, batch=4, processes=2)

    @pytest.mark.parametrize(("processes", "images"), [(1, 49_984), (2, 49_984), (8, 49_920)])
    def test_an_epoch_counts_what_it_takes(self, processes, images):
        from workloads.ddpm import GFLOP

        flops = find("ddpm_job").flops(images=50_000, batch=32, processes=processes)
        assert flops / GFLOP / 1e9 == pytest.approx(images, rel=1e-12)

    def test_an_epoch_takes_each_image_once_and_says_how_it_went(self, monkeypatch, alone):
        taken = []
        for rank in range(2):
            env = environment()
            env.world, env.rank = 2, rank
            job = by(env, monkeypatch, "ddpm_job", images=9, batch=2, processes=2)
            epoch = job.run.__self__
            taken += [image.numpy().tobytes() for image in epoch._images]
        assert (len(taken), len(set(taken)), job.units) == (8, 8, 8)
        job.warm_up()
        first, again = job.run(), job.run()
        assert first.losses == pytest.approx(again.losses, rel=1e-5)
        assert (len(first.losses), len(first.step_s), first.target) == (2, 2, None)
        assert [row[:2] for row in first.memory] == [(2, 0)]

    def test_an_epoch_must_lower_the_loss(self, monkeypatch, alone):
        job = by(environment(), monkeypatch, "ddpm_job", images=40, batch=1, processes=1)
        outcome = job.run()
        assert (len(outcome.losses), outcome.target) == (40, outcome.losses[0])
        assert outcome.met
        assert outcome.value < outcome.losses[0]


@pytest.mark.chaos
def test_two_processes_do_the_whole_job(box_lock):
    """A step of theirs is measured with the suites, where it takes its time once."""
    case = find("ddpm_job").case({"images": 4, "batch": 1, "processes": 2})
    with whole_box() as lock:
        record = run_repeat(Repeat("a-run", "a-box", case, quick=True, timeout_s=280), lock, print)
    assert record.verdict in MEASURED, record.reasons
    assert len(record.group.ranks) == 2
    assert record.work.parameters == 35_746_307 and record.work.units == 4
    assert Record.from_json(record.to_json()) == record
    assert len(record.training.losses) == len(record.training.step_s) == 2
    assert [(m.step, m.rank) for m in record.training.memory] == [(2, 0), (2, 1)]
