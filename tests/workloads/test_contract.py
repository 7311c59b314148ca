"""Every workload in the folder keeps the contract, also a new one."""

import time
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.utils.flop_counter import FlopCounterMode

from tests.workloads.building import build, is_ours, takes_seconds
from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.correctness import BOUNDS, check, check_inputs, check_loss, first_step, recheck
from workloads.harness.engine.device import UnsupportedError, open_device
from workloads.harness.engine.measure import measure_job
from workloads.harness.engine.phases import Phases
from workloads.harness.prepared import Job
from workloads.harness.records.case import PRECISIONS
from workloads.harness.registry import LAYOUTS, all_workloads, find

OURS = [name for name, w in all_workloads().items() if is_ours(w)]


def made_alone(name):
    """Return whether a single process on a CPU can build it; groups and transfers have other tests."""
    workload = find(name)
    return not workload.in_group and "cpu" in workload.devices


def names_of(are_jobs):
    return [name for name in OURS if (find(name).kind == "job") == are_jobs and made_alone(name)]


def named(are_jobs):
    return [pytest.param(n, marks=pytest.mark.server) if is_slow(n) else n for n in names_of(are_jobs)]


def each_with(values, enough):
    """Return every workload with a step and every value; slow ones in `make test` with `enough` of them."""
    levels = {
        (name, value): (pytest.mark.server if value in enough else pytest.mark.chaos) if is_slow(name) else ()
        for name in names_of(are_jobs=False)
        for value in values
    }
    return [pytest.param(*pair, marks=marks) for pair, marks in levels.items()]


def is_slow(name):
    """Return whether its contract takes seconds, mostly torch's fp16 and bf16 on a CPU."""
    return takes_seconds(name) or name.startswith(("resnet_train", "resnet50", "unet"))


STEPS = named(are_jobs=False)


def other_size(workload):
    """Return a size that is not tiny, for formulas that hold at one size only."""
    kept = {*workload.published, *workload.optional}
    return {name: value if name in kept else 2 * value + 2 for name, value in workload.tiny.items()}


@pytest.mark.parametrize("name", OURS)
def test_declarations_of_a_workload_agree(name):
    workload = find(name)
    assert (workload.scaling is not None) == workload.in_group
    assert (workload.kind == "loader") <= (workload.of is not None and "workers" in workload.sizes)
    if workload.of is not None:
        alone = find(workload.of)
        assert (alone.kind, alone.of, alone.in_group) == ("step", None, False)
        assert alone.sizes.keys() <= workload.sizes.keys()
        assert (alone.model, alone.task, alone.by_size) == (workload.model, workload.task, workload.by_size)
        assert workload.kind != "step" or workload.scaling  # else it would be the same measurement
    needed = {"matrix": {"n"}, "images": {"pixels", "batch"}, None: set()}[workload.by_size]
    assert needed <= workload.sizes.keys()
    assert (workload.model is None) == (workload.task is None)
    if workload.of is not None:
        assert workload.has_model == find(workload.of).has_model


@pytest.mark.parametrize(("name", "precision"), each_with(PRECISIONS, {"fp32"}))
def test_a_workload_passes_its_own_check_before_and_after(name, precision):
    try:
        open_device("cpu", precision, 1)
    except UnsupportedError:
        pytest.skip(f"no CPU has {precision}")
    if precision == "fp16" and find(name).kind == "loader":
        pytest.skip("its step is that of the workload whose loader it is, and a CPU takes seconds for it")
    for layout in find(name).layouts[: 1 if takes_seconds(name) or precision == "fp16" else None]:
        try:
            prepared = build(name, precision, layout)
        except UnsupportedError as error:
            pytest.skip(str(error))
        check_inputs(prepared)
        found = check(prepared, first_step(prepared), precision)
        assert found.error <= BOUNDS[precision] * prepared.tolerance
        assert found.checked_elements > 0
        assert recheck(prepared, first_step(prepared), precision).checked_elements == found.checked_elements


@pytest.mark.parametrize(("name", "seed"), each_with(range(3), {0}))
def test_passes_at_another_size_and_seed(name, seed):
    if seed and (takes_seconds(name) or find(name).kind == "loader"):
        pytest.skip("one seed says enough, and its step is that of the workload whose loader it is")
    prepared = build(name, seed=seed, **other_size(find(name)))
    recheck(prepared, first_step(prepared), "fp32")


@pytest.mark.parametrize("tiny", [True, False])
@pytest.mark.parametrize("name", STEPS)
def test_the_flops_formula_of_a_workload_agrees_with_torch(name, tiny):
    size = find(name).tiny if tiny else other_size(find(name))
    prepared = build(name, **size)
    with FlopCounterMode(display=False) as counter:
        prepared.step()
    assert prepared.matmul_flops == counter.get_total_flops()
    assert prepared.matmul_flops <= prepared.flops


@pytest.mark.parametrize("name", STEPS)
def test_inputs_of_a_workload_follow_the_seed(name):
    one, same, other = (build(name, seed=seed).inputs for seed in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", STEPS)
def test_data_and_bytes_of_a_workload_are_the_same_in_every_layout(name):
    kinds = [build(name, layout=layout) for layout in find(name).layouts]
    for kind in kinds[1:]:
        assert all(torch.equal(a, b) for a, b in zip(kinds[0].inputs, kind.inputs, strict=True))
        assert (kind.bytes, kind.flops, kind.units) == (kinds[0].bytes, kinds[0].flops, kinds[0].units)


@pytest.mark.parametrize("name", STEPS)
def test_the_loss_of_a_training_falls_and_a_reset_starts_again(name):
    prepared = build(name)
    if not prepared.is_training:
        pytest.skip("it trains nothing")
    first = float(first_step(prepared).mean())
    steps = 10 if takes_seconds(name) else 20
    last = [float(prepared.step().mean()) for _ in range(steps)][-1]
    check_loss(first, last, steps)
    assert float(first_step(prepared).mean()) == pytest.approx(first, rel=0.5)
    assert prepared.parameters > 0


@pytest.mark.parametrize("name", named(are_jobs=True))
def test_a_job_runs_from_the_beginning_each_time(name):
    job = build(name)
    assert isinstance(job, Job) and find(name).kind == "job"
    done = [measure_job(job, HostClock(), Phases(), nullcontext()) for _ in range(2)]
    losses = [one.training.first_loss for one in done]
    assert losses[0] is losses[1] is None or losses[0] == pytest.approx(losses[1], rel=0.2)
    assert done[0].training.metric
    assert (done[0].wall.whole, len(done[0].wall.samples_s)) == (True, 1)
    assert min(job.units, job.flops, job.bytes) > 0


@pytest.mark.parametrize("name", STEPS)
def test_a_workload_states_the_work_of_a_step(name):
    workload, prepared = find(name), build(name)
    assert (prepared.parameters is not None) == workload.has_model
    assert prepared.units > 0
    assert prepared.unit
    assert prepared.flops >= 0
    assert prepared.moves_inputs or prepared.bytes >= sum(
        t.numel() * t.element_size() for t in prepared.inputs
    )
    if not prepared.chosen:  # another size can be chosen in bf16
        assert build(name, "bf16").bytes <= prepared.bytes
    assert set(workload.layouts) <= set(LAYOUTS)
    assert workload.summary.endswith(".") or ":" in workload.summary
    assert workload.tiny.keys() | workload.optional.keys() == workload.sizes.keys()
    assert all(list(values) == sorted(set(values)) for values in workload.sizes.values())


@pytest.mark.parametrize("name", [name for name in OURS if find(name).kind != "job" and made_alone(name)])
def test_a_workload_of_tiny_size_is_quick(name):
    if (
        takes_seconds(name) or name == "resnet50_train"
    ):  # whose norms take noise for gradients below 8 pictures
        pytest.skip("its smallest size is no small one")
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # the first optimizer imports torch's compiler
    started = time.process_time()  # of this process's one thread, whatever else the machine does
    prepared = build(name)
    check(prepared, first_step(prepared), "fp32")
    assert time.process_time() - started < 5  # 0.7 s were seen, and a core can be a third as fast


@pytest.mark.parametrize("name", STEPS)
def test_a_step_leaves_the_inputs_of_a_workload_unchanged(name):
    prepared = build(name)
    before = [t.clone() for t in prepared.inputs]
    prepared.step()
    assert all((a == b).all() for a, b in zip(before, prepared.inputs, strict=True))


class TestAgainstOthers:
    """The references against implementations that share no code with them."""

    def test_matmul_is_numpys(self):
        prepared = build("matmul", n=65)
        a, b = (t.numpy() for t in prepared.inputs)
        np.testing.assert_allclose(prepared.step().numpy(), a @ b, rtol=1e-4, atol=1e-4)
        rows = prepared.reference().numpy()
        exact = a.astype(np.float64) @ b.astype(np.float64)
        assert all(np.isclose(exact, row, rtol=1e-12).all(axis=1).any() for row in rows)

    @pytest.mark.parametrize("pixels", [32, 75])
    def test_the_blur_is_scipys(self, pixels):
        prepared = build("gaussian_blur", pixels=pixels)
        (image,) = (t.double().numpy() for t in prepared.inputs)
        wanted = np.stack([ndimage.gaussian_filter(c, 1.0, mode="mirror", radius=2) for c in image[0]])
        np.testing.assert_allclose(prepared.step()[0].numpy(), wanted, atol=1e-6)
        assert_shown(prepared, wanted[None])

    @pytest.mark.parametrize("pixels", [32, 75])
    def test_the_edges_are_scipys(self, pixels):
        prepared = build("edge_detection", pixels=pixels)
        (image,) = (t.double().numpy() for t in prepared.inputs)
        grey = 0.299 * image[0, 0] + 0.587 * image[0, 1] + 0.114 * image[0, 2]
        wanted = np.hypot(*(ndimage.sobel(grey, axis, mode="constant") for axis in (0, 1)))
        np.testing.assert_allclose(prepared.step()[0, 0].numpy(), wanted, atol=1e-5)
        assert_shown(prepared, wanted[None, None])

    @pytest.mark.parametrize(
        "size", [{"pixels": 32, "batch": 2}, {"pixels": 70, "batch": 1}, {"pixels": 75, "batch": 3}]
    )
    def test_the_pipeline_is_a_filter_a_resize_and_a_norm(self, size):
        prepared = build("image_pipeline", **size)
        (images,) = (t.double().numpy() for t in prepared.inputs)
        kernel = drawn_kernel(size)
        padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
        rows = size["pixels"]
        filtered = sum(
            np.einsum("oi,bihw->bohw", kernel[:, :, dy, dx], padded[:, :, dy : dy + rows, dx : dx + rows])
            for dy in range(3)
            for dx in range(3)
        )
        mean, std = (np.array(v).reshape(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        wanted = (halved(halved(filtered, 2), 3) - mean) / std
        np.testing.assert_allclose(prepared.step().numpy(), wanted, rtol=1e-4, atol=1e-4)
        assert_shown(prepared, wanted)


def assert_shown(prepared, wanted):
    """Compare the reference with float64, up to constants that are drawn in float32."""
    shown = prepared.view(torch.from_numpy(wanted)).numpy()
    np.testing.assert_allclose(prepared.reference().numpy(), shown, rtol=1e-5, atol=1e-5)
    assert shown.size > 0


def drawn_kernel(size):
    """Return the kernel that the pipeline draws after its images, from the same seed."""
    generator = torch.Generator().manual_seed(0)
    torch.rand(size["batch"], 3, size["pixels"], size["pixels"], generator=generator)
    return torch.randn(3, 3, 3, 3, generator=generator).double().numpy()


def halved(images, axis):
    """Interpolate at every second pixel border: the mean of two neighbours."""
    places = 2 * np.arange(images.shape[axis] // 2)
    return (np.take(images, places, axis) + np.take(images, places + 1, axis)) / 2
