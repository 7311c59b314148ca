import pytest
import torch
import torch.distributed as dist

from tests.workloads.diffusion import by
from tests.workloads.harness.training.environments import environment
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.nets.ddpm_step import image_flops

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def alone():
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class TestShares:
    @pytest.mark.parametrize("processes", [1, 2, 4])
    def test_weak_and_strong_state_the_work_of_all(self, alone, processes):
        env = environment()
        env.world, env.rank = processes, processes - 1
        weak = by(env, "ddpm_weak", batch=2, processes=processes)
        strong = by(env, "ddpm_strong", batch=4, processes=processes)
        assert (weak.units, strong.units) == (2 * processes, 4)
        assert (len(weak.inputs[0]), len(strong.inputs[0])) == (2, 4 // processes)
        assert strong.flops == 4 * weak.flops / weak.units

    def test_the_shares_of_a_batch_are_the_batch_that_one_process_has(self, alone):
        def shares(world):
            for rank in range(world):
                env = environment()
                env.world, env.rank = world, rank
                yield by(env, "ddpm_strong", batch=4, processes=world).inputs

        whole, halves = next(shares(1)), list(shares(2))
        for part, first, second in zip(whole, *halves, strict=True):
            assert torch.equal(torch.stack([first, second], 1).flatten(0, 1), part)

    def test_a_batch_that_can_not_be_shared_is_refused(self):
        with pytest.raises(WorkloadsError, match=r"^batch=3 can't be divided by processes=2; choose"):
            find("ddpm_strong").build(environment(), batch=3, processes=2)

    def test_an_epoch_of_less_than_a_batch_is_refused(self):
        said = r"^images=7 is less than one batch=4 for each of processes=2; choose at least 8$"
        with pytest.raises(WorkloadsError, match=said):
            find("ddpm_job").build(environment(), images=7, batch=4, processes=2)

    @pytest.mark.parametrize(("processes", "images"), [(1, 49_984), (2, 49_984), (8, 49_920)])
    def test_an_epoch_counts_its_flops_and_bytes(self, processes, images):
        flops = find("ddpm_job").flops(images=50_000, batch=32, processes=processes)
        assert flops / image_flops() == pytest.approx(images, rel=1e-12)
        narrow = find("ddpm_job").flops(images=50_000, batch=32, processes=processes, workers=2, channels=76)
        assert narrow / image_flops(76) == pytest.approx(images, rel=1e-12)

    def test_an_epoch_takes_each_image_once_and_says_how_it_went(self, alone):
        taken = []
        for rank in range(2):
            env = environment()
            env.world, env.rank = 2, rank
            job = by(env, "ddpm_job", images=9, batch=2, processes=2)
            epoch = job.run.__self__
            taken += [image.numpy().tobytes() for image in epoch._images]
        assert (len(taken), len(set(taken)), job.units) == (8, 8, 8)
        job.warm_up()
        first, again = job.run(), job.run()
        assert first.losses == pytest.approx(again.losses, rel=1e-5)
        assert (len(first.losses), len(first.step_s), first.target) == (2, 2, None)
        assert [row[:2] for row in first.memory] == [(2, 0)]

    @pytest.mark.parametrize("workers", [0, 2])
    def test_an_epoch_from_a_loader_has_the_same_pictures(self, alone, workers):
        plain = by(environment(), "ddpm_job", images=6, batch=2, processes=1).run.__self__
        job = by(environment(), "ddpm_job", images=6, batch=2, processes=1, workers=workers)
        epoch, batches = job.run.__self__, []
        assert torch.equal(epoch._images, plain._images)
        learn = epoch._trainer.step
        epoch._trainer.step = lambda images, *rest: batches.append(len(images)) or learn(images, *rest)
        job.warm_up()
        batches.clear()
        first, again = job.run(), job.run()
        assert batches == [2] * 6 and first.losses == pytest.approx(again.losses, rel=1e-5)
        seen = torch.cat([epoch._loader.at(0, place)[0] for place in range(3)])
        assert {tuple(row) for row in epoch._images.flatten(1).tolist()} == {
            tuple(row) for row in ((seen + 1) * 127.5).round().flatten(1).tolist()
        }

    def test_an_epoch_must_lower_the_loss(self, alone):
        job = by(environment(), "ddpm_job", images=40, batch=1, processes=1)
        outcome = job.run()
        assert (len(outcome.losses), outcome.target) == (40, outcome.losses[0])
        assert outcome.met
        assert outcome.value < outcome.losses[0]
