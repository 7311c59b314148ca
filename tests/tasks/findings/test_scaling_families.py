from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.findings.scaling_families import base_words, families, sentences
from tasks.plausibility.physics import gate, not_its_ranks
from tasks.results.repeats import group
from tasks.results.values import RatioVerdict
from tests.tasks.examples.group_records import BOX, GIB, alone, epoch, group_of, grouped, job, repeated, steps
from tests.tasks.examples.records import failed, machine, record, repeats
from workloads.harness import registry
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Verdict, Work
from workloads.harness.registry import workload

SEQUENCES = {"millions": 124, "length": 1024}
CLOSE = (1, 1.001, 0.999)


def of(made):
    return families(group(made, (), {}))


def level(family, count, grouped=True):
    return next(x for x in family.levels if x.processes == count and x.grouped is grouped)


def near(seconds):
    return [seconds * f for f in CLOSE]


@pytest.fixture(scope="module")
def made():
    return steps()


@pytest.fixture(scope="module")
def found(made):
    return of(made)


def test_a_family_differs_only_in_processes_and_has_its_base_first(found):
    assert [(f.workload, f.scaling) for f in found] == [("ddpm_weak", "weak"), ("ddpm_strong", "strong")]
    weak, strong = found
    assert [(x.processes, x.grouped) for x in weak.levels] == [
        *((1, False), (1, True), (2, True), (4, True), (8, True)),
    ]
    assert weak.base.cell.case == Case.of("ddpm", {"batch": 32})
    assert strong.base.cell.case == Case.of("ddpm", {"batch": 256}), "the same global batch"
    assert weak.size == (("batch", 32),)


def test_weak_scaling_is_of_throughput_over_all_processes(found):
    eight = level(found[0], 8)
    assert eight.units_per_s.value == pytest.approx(8 * 32 / 0.124124, rel=1e-3)
    assert eight.over_base.estimate.value == pytest.approx(8 * 0.1001 / 0.124124, rel=1e-3)
    assert eight.efficiency.value == pytest.approx(0.1001 / 0.124124, rel=1e-3)
    assert eight.efficiency.low < eight.efficiency.value < eight.efficiency.high
    assert eight.band == "good"


def test_strong_scaling_has_karp_and_flatts_fraction_and_weak_has_gustafsons(found):
    weak, strong = level(found[0], 8), level(found[1], 8)
    s = strong.over_base.estimate.value
    assert strong.serial_fraction == pytest.approx((1 / s - 1 / 8) / (1 - 1 / 8))
    w = weak.over_base.estimate.value
    assert weak.serial_fraction == pytest.approx((8 - w) / 7)


def test_the_cost_of_ddp_is_a_row_of_its_own(found):
    one = level(found[0], 1)
    assert one.over_base.estimate.value == pytest.approx(0.1001 / 0.102102, rel=1e-3)
    assert one.over_base.outcome is RatioVerdict.SLOWER
    assert one.over_group_of_one is None and one.band == "" and one.serial_fraction is None
    eight = level(found[0], 8)
    assert eight.over_group_of_one.estimate.value > eight.over_base.estimate.value


@pytest.mark.parametrize("count", [2, 4, 8])
def test_efficiency_is_per_process_for_any_number_of_processes(count):
    times = near(0.1 / (0.8 * count))
    (family,) = of([*repeated(alone, near(0.1)), *repeated(grouped, times, count, "strong", 32)])
    assert level(family, count).efficiency.value == pytest.approx(0.8, rel=1e-3)


def test_the_seeds_example_is_good():
    (family,) = of([*repeated(alone, near(6.45)), *repeated(grouped, near(1.0), 8, "strong", 32)])
    eight = level(family, 8)
    assert eight.efficiency.value == pytest.approx(0.806, abs=5e-4) and eight.band == "good"
    assert eight.serial_fraction == pytest.approx(0.034, abs=1e-3)


def test_the_rate_is_no_ranks_rate_times_their_number():
    """Rank 1 is slow, so 2 x rank 0's rate is twice the truth."""
    slow = [replace(r, group=group_of(2, 0.2, "weak", slowest=1)) for r in repeated(grouped, near(0.2), 2)]
    fast_rank_0 = replace(slow[0].group.ranks[0], median_s=0.1)
    slow = [replace(r, group=replace(r.group, ranks=(fast_rank_0, r.group.ranks[1]))) for r in slow]
    (family,) = of([*repeated(alone, near(0.1)), *slow])
    assert level(family, 2).units_per_s.value == pytest.approx(2 * 32 / 0.2, rel=2e-3)
    assert level(family, 2).efficiency.value == pytest.approx(0.5, rel=2e-3)


def test_one_ranks_device_events_do_not_stand_for_the_step():
    quick = repeats([0.01] * 3)[0].wall
    made = [replace(r, device_time=quick) for r in repeated(grouped, near(0.124), 8)]
    (family,) = of([*repeated(alone, near(0.1)), *made])
    assert level(family, 8).step_s.value == pytest.approx(0.124, rel=1e-3)


def test_memory_is_each_ranks_own_and_a_zero_is_not_known():
    made = repeated(grouped, near(0.12), 3)
    assert level(of(made)[0], 3).memory_bytes == (5 * GIB, 6 * GIB, 7 * GIB)
    ranks = made[0].group.ranks
    blind = replace(
        made[0].group, ranks=(ranks[0], replace(ranks[1], device_allocated_bytes=0), Rank(2, "x", 0.1))
    )
    (family,) = of([replace(r, group=blind) for r in made])
    assert level(family, 3).memory_bytes == (5 * GIB, None, None)


def test_jobs_count_the_images_that_were_trained_on_and_the_whole_time():
    """49,984 images are not 49,920, and the mean of the steps' times is not the job's."""
    (family,) = of(epoch())
    one, eight = level(family, 1), level(family, 8)
    assert family.whole and (one.units, eight.units) == (49_984, 49_920)
    assert eight.units_per_s.value == pytest.approx(49_920 / 200.2, rel=2e-3)
    ratio = one.step_s.value / eight.step_s.value
    assert eight.over_base.estimate.value == pytest.approx(ratio * 49_920 / 49_984)
    assert family.scaling == "strong", "an epoch is the same epoch, whatever its steps are"
    assert eight.serial_fraction == pytest.approx(0.0345, abs=1e-3)
    assert any("49,984 with 1 process, 49,920 with 8 processes" in note for note in family.notes)


def test_a_base_is_of_the_same_width():
    def of_width(record):
        case = record.case
        return replace(record, case=Case.of(case.workload, case.params | {"channels": 76}))

    plain, two = repeated(alone, near(0.1)), [of_width(r) for r in repeated(grouped, near(0.05), 2)]
    (family,) = of([*plain, *two])
    assert family.base is None
    (family,) = of([*plain, *(of_width(r) for r in repeated(alone, near(0.04))), *two])
    assert family.base.cell.case == Case.of("ddpm", {"batch": 32, "channels": 76})
    (family,) = of([*(of_width(r) for r in plain), *repeated(grouped, near(0.05), 2)])
    assert family.base is None


def test_a_step_is_no_base_of_a_job():
    (family,) = of([*repeated(alone, near(0.1)), *epoch()])
    assert family.base.grouped and family.base.processes == 1
    assert any("without DDP was not measured" in note for note in family.notes)
    assert level(family, 8).efficiency.value == pytest.approx(0.805, abs=5e-3)


def test_shares_of_a_model_are_a_family_beside_its_replicas_over_the_same_base():
    def of_gpt2(record, name):
        return replace(record, case=Case.of(name, SEQUENCES | record.case.params))

    alone_s, two_s = repeated(alone, near(0.1)), repeated(grouped, near(0.06), 2)
    base = [replace(r, case=Case.of("gpt2_train", SEQUENCES | {"batch": 32})) for r in alone_s]
    one = [of_gpt2(r, "gpt2_fsdp") for r in repeated(grouped, near(0.11), 1)]
    made = {name: [of_gpt2(r, name) for r in two_s] for name in ("gpt2_ddp", "gpt2_fsdp")}
    replicas, shares = of([*base, *made["gpt2_ddp"], *made["gpt2_fsdp"]])
    assert replicas.base.cell == shares.base.cell and not shares.base.grouped
    assert base_words(replicas) == "one process without DDP"
    assert base_words(shares) == "one process without FSDP"
    (shares,) = of([*one, *made["gpt2_fsdp"]])
    assert base_words(shares) == "one process with FSDP"
    assert any("the cost of FSDP itself is unknown" in note for note in shares.notes)


def test_a_job_of_one_process_without_a_group_is_the_base():
    made = [replace(r, group=None) if r.case.params["processes"] == 1 else r for r in epoch()]
    (family,) = of(made)
    assert not family.base.grouped and not any("DDP" in note for note in family.notes)


def test_a_skipped_process_is_not_taken_for_one_without_ddp():
    case = Case.of("ddpm_weak", {"batch": 32, "processes": 1})
    (family,) = of([failed(Verdict.SKIPPED, "too large", case, BOX), *repeated(grouped, near(0.1), 2)])
    assert family.base is None and level(family, 1).verdict is Verdict.SKIPPED
    two = level(family, 2)
    assert two.units_per_s and two.over_base is None and two.efficiency is None
    assert any("no single process has a valid result" in note for note in family.notes)


def test_beyond_linear_is_impossible_shown_and_not_used():
    (family,) = of([*repeated(alone, near(0.1)), *repeated(grouped, near(0.08), 4)])
    four = level(family, 4)
    assert four.efficiency.value == pytest.approx(1.25, rel=1e-2) and four.band == "above 100 %"
    assert "125 % scaling" in four.impossible and four.serial_fraction is None
    assert sentences([family]) == []


@pytest.mark.parametrize("probes", [{"foreign_load_share": 0.5}, {"canary_drift": 0.3}])
@pytest.mark.parametrize("loaded", ["base", "group"])
def test_superlinear_scaling_under_other_load_is_not_impossible(probes, loaded):
    changes = {"verdict": Verdict.NOISY, "probes": probes}
    base, group_of_4 = repeated(alone, near(0.1)), repeated(grouped, near(0.08), 4)
    spoiled = [replace(r, **changes) for r in (base if loaded == "base" else group_of_4)]
    (family,) = of([*spoiled, *group_of_4] if loaded == "base" else [*base, *spoiled])
    four = level(family, 4)
    assert (four.impossible, four.efficiency, sentences([family])) == ("", None, [])
    assert four.refused.startswith("125") and "measure again on an idle machine" in four.refused


def test_one_repeat_has_no_interval_and_no_sentence():
    (family,) = of([alone(0.1), grouped(0.12, 4)])
    four = level(family, 4)
    assert four.efficiency.low is None and four.band == "good"
    assert four.over_base.outcome is RatioVerdict.UNDECIDED and sentences([family]) == []
    (family,) = of([alone(0.13), grouped(0.1, 1)])
    assert "by one repeat" in level(family, 1).impossible, "DDP does not make one process faster"


def test_a_base_of_more_threads_is_not_compared_with_processes_of_fewer():
    base = [replace(r, device="cpu", threads=2) for r in repeated(alone, near(0.1))]
    one = [replace(r, threads=1) for r in repeated(grouped, near(0.19), 1, device="cpu")]
    two = [replace(r, threads=1) for r in repeated(grouped, near(0.2), 2, device="cpu")]
    (family,) = of([*base, *one, *two])
    assert family.base.grouped and level(family, 2).efficiency.value == pytest.approx(0.95, rel=1e-2)
    odd = level(family, 1, grouped=False)
    assert odd.step_s and odd.over_base is None and odd.over_group_of_one is None
    assert any("had 2 threads, but each process of a group 1" in note for note in family.notes)
    assert level(of([*base, *two])[0], 2).efficiency is None, "there is nothing to compare it with"
    fair = [replace(r, threads=1, wall=o.wall) for r, o in zip(base, one, strict=True)]
    assert not of([*fair, *two])[0].base.grouped


def test_processes_that_share_the_threads_of_the_base_scale_with_nothing():
    one = [replace(r, threads=2) for r in repeated(grouped, near(0.1), 1, device="cpu")]
    two = [replace(r, threads=1) for r in repeated(grouped, near(0.1), 2, device="cpu")]
    shared = level(of([*one, *two])[0], 2)
    assert shared.efficiency is None and "2 processes have 2 threads" in shared.refused


def net(env, width): ...


def net_strong(env, width, processes): ...


@pytest.mark.parametrize("is_declared", [True, False])
def test_any_workload_can_have_processes(monkeypatch, is_declared):
    monkeypatch.setattr(registry, "_found", dict(registry.all_workloads()))
    if is_declared:
        workload(width=(64,), tiny={"width": 1})(net)
        several = workload(
            of="net", scaling="strong", width=(64,), processes=(1, 2), tiny={"width": 1, "processes": 2}
        )
        several(net_strong)

    def measured(workload, seconds, count=None):
        size = {"width": 64} | ({"processes": count} if count else {})
        changes = {"group": group_of(count, seconds, "strong", device="cpu")} if count else {}
        work, case = Work(8, "samples", 1e9, 1e6), Case.of(workload, size)
        return [record(t, case, BOX, i, work=work, **changes) for i, t in enumerate(near(seconds))]

    (family,) = of(
        [
            *measured("net", 1.0),
            *measured("net_strong", 0.6, 2),
            *repeats([1.0], Case.of("other", {"n": 1})),
        ]
    )
    assert (family.workload, family.base is not None) == ("net_strong", is_declared)
    if is_declared:
        assert level(family, 2).efficiency.value == pytest.approx(0.833, rel=1e-2)


def test_machines_and_precisions_are_families_of_their_own():
    one = repeated(grouped, near(0.1), 2)
    other = [replace(r, hardware="b") for r in one]
    half = [replace(r, case=replace(r.case, precision="bf16")) for r in one]
    assert [(f.hardware, f.precision) for f in of([*one, *other, *half])] == [
        *((BOX, "fp32"), (BOX, "bf16"), ("b", "fp32")),
    ]


def test_the_comparison_reports_scaling_families_and_their_gain(made):
    compared = compare(made, [machine(BOX)], BOX)
    assert [family.workload for family in compared.families] == ["ddpm_weak", "ddpm_strong"]
    said = [sentence for sentence in compared.sentences if "processes" in sentence]
    assert any("8 processes are 6.4" in s and "strong scaling: good" in s for s in said)
    assert compare(repeats([1.0]), [machine()], "cpu-box").families == ()


def test_scaling_on_a_busy_machine_is_provisional():
    def said(**changes):
        four = [replace(r, **changes) for r in repeated(grouped, near(0.11), 4)]
        (sentence,) = sentences(of([*repeated(alone, near(0.1)), *four]))
        return sentence

    assert said().endswith("weak scaling: very good.")
    noisy = said(verdict=Verdict.NOISY, probes={"foreign_load_share": 0.5})
    assert noisy.endswith("weak scaling: very good; provisional.")


def test_honest_groups_and_jobs_pass_the_gate(made):
    peaks = machine(BOX, peak_flops=(("fp32", 2.5e12),), peak_bytes_per_s=600e9, devices=8)
    assert gate([*made, *epoch()], [peaks]) == {}
    lone = [r for r in made if r.case.params.get("processes") in (None, 8)]
    assert gate(lone, [peaks]) == {}


def test_a_group_of_eight_has_eight_peaks():
    one_peak = machine(BOX, peak_flops=(("fp32", 2.5e12),), devices=8)
    assert gate([grouped(0.124, 8)], [one_peak]) == {}
    assert gate([grouped(0.05, 8)], [one_peak]) != {}


def test_a_step_is_no_shorter_than_its_slowest_rank():
    hurried = replace(grouped(0.1, 2), group=group_of(2, 0.2, "weak"))
    assert not_its_ranks(hurried) == "its step took 0.1 s, that of its slowest rank 0.2 s"
    assert not_its_ranks(grouped(0.1, 2)) is None
    assert not_its_ranks(alone(0.1)) is None
    lost = replace(grouped(0.1, 4), group=Group("nccl", "weak", group_of(3, 0.1, "weak").ranks))
    assert not_its_ranks(lost) == "its case asks for 4 processes, 3 measured"


def test_jobs_with_larger_batches_may_be_faster_and_a_job_that_shrinks_may_not():
    def mnist(batch, epochs, seconds, steps):
        case = Case.of("mnist_job", {"epochs": epochs, "samples": 6000, "batch": batch})
        made = job(seconds, 1, 32 * steps)
        work = Work(6000 * epochs, "images", 1e6 * 6000 * epochs, 1e3)
        return replace(made, case=case, work=work, group=None)

    small = [mnist(8, 1, 60.0, 750), mnist(16, 1, 40.0, 375)]
    assert gate([*small, mnist(1000, 4, 8.0, 24)], []) == {}
    assert gate([*small, mnist(8, 4, 8.0, 3000)], []) != {}


def test_workers_add_hands_and_no_work():
    def loader(batch, workers, seconds):
        case = Case.of("simple_cnn_train_loader", {"batch": batch, "workers": workers})
        return record(seconds, case, work=Work(batch, "images", 1e6 * batch, 1e3 * batch))

    honest = [loader(16, 0, 0.2), loader(32, 0, 0.4), loader(128, 4, 0.09)]
    assert gate(honest, []) == {}
    assert gate([loader(16, 0, 0.2), loader(32, 0, 0.4), loader(128, 0, 0.09)], []) != {}
