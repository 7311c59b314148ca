"""The diffusion model's batch, shared by several processes."""

import pytest

from tests.workloads.diffusion import by
from tests.workloads.harness.training.environments import environment
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def alone():
    """A process group of one, as a rank has it."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


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
