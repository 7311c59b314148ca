import json
from dataclasses import replace

import pytest

from tests.workloads.harness.roofline.roofline_records import timing
from workloads.__main__ import main
from workloads.command import roof
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Verdict, Work
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.roofline.roof import ALL_REDUCE, LATENCY, PRODUCT, UNITS


@pytest.fixture
def box(tmp_path, monkeypatch, box_lock):
    monkeypatch.setenv("GRIDBENCH_ROOF", str(tmp_path / "roof"))
    monkeypatch.setattr(roof, "_processes", lambda device: 2)

    class Box:
        def __init__(self):
            self.repeats, self.verdict, self.fast = [], Verdict.OK, None

        def measure(self, repeat, lock, say, start):
            self.repeats.append(repeat)
            if self.verdict is not Verdict.OK:
                return repeat.failed(self.verdict, "so it was")
            seconds, params = 1e-3, repeat.case.params
            if params == self.fast:
                seconds /= 2
            ranks = tuple(Rank(n, "cpu", seconds) for n in range(params.get("processes", 1)))
            size = 2**20 * params.get("mib", 1)
            return replace(
                repeat.failed(Verdict.OK, ""),
                reasons=(),
                wall=timing(seconds),
                work=Work(size, "things", 1e9, size, chosen=(64, 32, 16) if "side" in params else ()),
                group=Group("gloo", "weak", ranks) if len(ranks) > 1 else None,
            )

    made = Box()
    monkeypatch.setattr(roof, "run_repeat", made.measure)
    return made


def run(capsys, *arguments):
    code = main(["roof", *arguments])
    return code, capsys.readouterr().out


def test_everything_is_measured_once_and_kept(box, capsys):
    code, out = run(capsys)
    measured = [(r.case.workload, r.case.precision, r.case.mode) for r in box.repeats if not r.brief]
    assert code == 0
    assert measured[:3] == [("roof", precision, "eager") for precision in ("fp32", "fp16", "bf16")]
    assert measured[-3:] == [("roof", precision, "compiled") for precision in ("fp32", "fp16", "bf16")]
    assert {"memory_read", "memory_bandwidth", "kernel_launch", "all_reduce"} <= {
        name for name, *_ in measured
    }
    assert "m=64,n=32,k=16" in out and "tf32, fp8 and graphs are of NVIDIA GPUs" in out
    box.repeats.clear()
    assert run(capsys) == (0, out)
    assert not box.repeats


def test_roof_again_measures_all_rates_again(box, capsys):
    run(capsys)
    count = len(box.repeats)
    run(capsys, "--again")
    assert len(box.repeats) == 2 * count


def test_the_fastest_of_several_sizes_is_measured_afresh(box, capsys):
    box.fast = {"kib": 16_384, "processes": 2}
    run(capsys)
    exchanges = [(r.case.params["kib"], r.brief) for r in box.repeats if r.case.workload == "all_reduce"]
    assert exchanges == [(1, False), (1024, True), (16_384, True), (65_536, True), (16_384, False)]
    assert {r.threads for r in box.repeats if r.case.workload == "all_reduce"} == {1}


def test_the_values_are_kept_as_json_with_units(box, capsys):
    _, out = run(capsys, "--json")
    kept = json.loads(out)
    assert {rate["kind"] for rate in kept["rates"]} == set(UNITS)
    assert {rate["processes"] for rate in kept["rates"] if rate["kind"] in (ALL_REDUCE, LATENCY)} == {2}
    product = next(rate for rate in kept["rates"] if rate["kind"] == PRODUCT)
    assert product["value"] == pytest.approx(1e12) and product["verdict"] == "ok"


def test_a_failed_rate_is_reported_and_measured_by_the_next_call(box, capsys):
    box.verdict = Verdict.THROTTLED
    code, out = run(capsys)
    assert code == 1 and "product fp32: throttled: so it was" in out
    box.verdict = Verdict.OK
    assert run(capsys)[0] == 0


def test_rates_without_time_left_are_left_for_the_next_call(box, capsys):
    code, out = run(capsys, "--minutes", "0.1")
    assert code == 1 and not box.repeats
    assert "product fp32: no time was left; run it again, or with more --minutes" in out


@pytest.mark.parametrize("minutes", ["0", "-1", "x", "inf"])
def test_minutes_are_a_number(minutes, capsys):
    with pytest.raises(SystemExit):
        main(["roof", "--minutes", minutes])
    assert "must be a number of minutes above 0, such as 5" in capsys.readouterr().err


def test_a_machine_with_one_processor_has_no_all_reduce(box, capsys, monkeypatch):
    monkeypatch.setattr(roof, "_processes", lambda device: 1)
    code, out = run(capsys)
    assert code == 0 and "all-reduce: a single process" in out


def test_five_minutes_are_enough_for_all_rates_of_a_cpu():
    assert sum(item.estimate_s for item in roof.limits("cpu")) <= 300


@pytest.mark.chaos
@pytest.mark.alone
@pytest.mark.flaky(reruns=2, reason="a neighbour's load may keep a limit from being measured")
def test_a_real_limit_is_measured_and_every_record_carries_it(tmp_path, monkeypatch, box_lock, capsys):
    from workloads.harness.records.case import Case
    from workloads.harness.records.repeat import Repeat
    from workloads.harness.repeat.runs import run_repeat

    monkeypatch.setenv("GRIDBENCH_ROOF", str(tmp_path))
    launch = next(item for item in roof.limits("cpu") if item.workload == "kernel_launch")
    monkeypatch.setattr(roof, "limits", lambda device: iter([launch]))
    assert run(capsys, "--threads", "1")[0] == 0
    with whole_box() as lock:
        repeat = Repeat("a-run", "here", Case.of("matmul", {"n": 64}), threads=1, brief=True)
        record = run_repeat(repeat, lock, print)
        other = run_repeat(replace(repeat, threads=2), lock, print)
    (kept,) = record.environment["roof"]
    assert kept["kind"] == "launch" and 1e-8 < kept["value"] < 1e-3
    assert "roof" not in other.environment
