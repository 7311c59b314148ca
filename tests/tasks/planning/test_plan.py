from dataclasses import replace

import pytest
from pydantic import ValidationError

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware, load_gpus, load_hardware
from tasks.planning.limits import limits_of, threads_on
from tasks.planning.plan import plan_rows, read_plan, skip_lines
from tasks.planning.planner import check_budget, make_plan
from tasks.planning.request import RunRequest
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.repeat.local_limits import limits_here

MATMULS = """
minutes = 2
repeats = 2
timeout_s = 100
[[cases]]
workload = "matmul"
size = { n = [100, 200, 10000000] }
"""


def test_a_plan_is_the_whole_grid(plan):
    assert len(plan.cells) == len(plan.cases) * len(plan.hardware) == len({cell.id for cell in plan.cells})
    assert plan.baseline == "local-cpu-1"


def test_a_plan_survives_its_file(plan):
    assert read_plan(plan.model_dump_json(), "plan.json") == plan


def test_order_is_shuffled_the_same_way_for_a_seed(plan):
    again = make_plan(RunRequest(suite="quick", hardware=["local-cpu-1", "local-cpu"], repeats=2, seed=7))
    machine = plan.hardware[0]
    ids = [repeat.id for repeat in plan.repeats_on(machine)]
    assert ids == [repeat.id for repeat in again.repeats_on(machine)]
    assert ids != sorted(ids) and len(ids) == len(set(ids)) == 2 * len(plan.cases)
    assert [repeat.order for repeat in plan.repeats_on(machine)] == list(range(len(ids)))


def test_every_machine_draws_the_same_inputs(plan):
    seeds = [{r.id.partition("/")[2]: r.seed for r in plan.repeats_on(machine)} for machine in plan.hardware]
    assert seeds[0] == seeds[1]


def test_lanes_of_one_box_take_turns_in_the_estimate():
    one, both = (
        make_plan(RunRequest(suite="quick", hardware=names))
        for names in (["local-cpu"], ["local-cpu", "local-cpu-1"])
    )
    assert both.estimate_s == 2 * one.estimate_s


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"suite": "nope", "hardware": ["local-cpu"]}, "suite 'nope' is unknown"),
        ({"suite": "quick", "hardware": ["laptop"]}, "hardware 'laptop' is unknown"),
        ({"suite": "quick", "hardware": []}, "hardware is empty"),
        ({"suite": "quick", "hardware": ["aws-p3.2xlarge"]}, "not supported: AWS Batch has no machine image"),
        (
            {"suite": "quick", "hardware": ["local-cpu"], "baseline": "local-cpu-1"},
            "baseline 'local-cpu-1' is not among",
        ),
        ({"suite": "quick", "hardware": ["local-cpu"], "repeats": 0}, "repeats=0 must be 1 or more"),
        (
            {"suite": "quick", "hardware": ["local-cpu"], "repeats": 3, "sessions": 4},
            "sessions=4 must be from 1 to",
        ),
        (
            {"suite": "quick", "hardware": ["local-cpu"], "repeats": 3, "sessions": 0},
            "sessions=0 must be from 1 to",
        ),
        (
            {"hardware": ["local-cpu-1", "local-cpu"], "repeats": 4, "sessions": 2, "break_even": True},
            "break_even measures further sizes in one session, and sessions=2",
        ),
        ({"suite": "full", "hardware": ["local-cpu"], "budget_usd": 0.0001}, "exceeds budget_usd=0.0001"),
        ({"suite": "quick", "hardware": ["local-cpu"], "budget_usd": -1}, "budget_usd=-1 must be 0 or more"),
        ({"suite": "quick", "hardware": ["local-cpu"], "budget_usd": 1e300}, "and at most 1e+09"),
        ({"suite": "quick", "hardware": ["local-cpu"], "budget_usd": float("inf")}, "budget_usd=inf must be"),
        ({"suite": "quick", "hardware": ["local-cpu"], "repeats": 10**20}, f"repeats={10**20} must be"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, words):
    with pytest.raises(GridbenchError) as caught:
        check_budget(make_plan(request := RunRequest(**arguments)), request.budget_usd)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_session_is_part_of_each_repeat_and_starts_the_machine_once():
    one, three = (
        make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=5, sessions=sessions, seed=7))
        for sessions in (1, 3)
    )
    machine = three.hardware[0]
    assert {repeat.session for repeat in one.repeats_on(machine)} == {None}
    assert {(r.repeat, r.session) for r in three.repeats_on(machine)} == {
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 1),
        (5, 2),
    }
    assert three.estimate_s == pytest.approx(one.estimate_s + 2 * machine.start_s)
    assert read_plan(three.model_dump_json(), "plan.json") == three
    with pytest.raises(GridbenchError, match="sessions=3 and repeats=2"):
        read_plan(three.model_copy(update={"repeats": 2}).model_dump_json(), "plan.json")


def test_sessions_keep_their_distance_and_the_estimate_has_it():
    asked = {"suite": "quick", "hardware": ["local-cpu"], "repeats": 4, "session_gap_s": 3600.0}
    row, apart = (
        make_plan(RunRequest(**asked | {"session_gap_s": gap_s}, sessions=3)) for gap_s in (0.0, 3600.0)
    )
    assert apart.session_gap_s == 3600 and apart.estimate_s == pytest.approx(row.estimate_s + 2 * 3600)
    assert apart.estimate_usd == row.estimate_usd
    assert make_plan(RunRequest(**asked)).session_gap_s == 0


def test_a_suite_states_its_sessions_of_which_a_run_with_fewer_repeats_has_fewer(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("sessions = 3\n" + MATMULS.replace("repeats = 2", "repeats = 3"))
    for repeats, sessions in ((None, 3), (2, 2), (1, 1)):
        request = RunRequest(suite=str(path), hardware=["local-cpu"], repeats=repeats)
        assert make_plan(request).sessions == sessions


def test_no_budget_is_no_limit(plan):
    check_budget(plan, None)


def test_a_plan_of_another_version_is_refused(plan):
    text = plan.model_dump_json().replace('"schema_version":1', '"schema_version":2')
    with pytest.raises(GridbenchError, match="schema 2, this version reads 1"):
        read_plan(text, "plan.json")
    with pytest.raises(GridbenchError, match=r"plan\.json can't be read"):
        read_plan(text[:50], "plan.json")


@pytest.mark.parametrize("run", ["../../../outside", "/etc/outside", "..", ".hidden", "", "a/b", "a\0b"])
def test_a_plan_of_a_run_whose_name_leads_elsewhere_is_refused(plan, run):
    with pytest.raises(GridbenchError, match="which cannot be the name of a folder"):
        read_plan(plan.model_copy(update={"run": run}).model_dump_json(), "plan.json")


@pytest.fixture
def large(tmp_path):
    """A suite with a case of 1.2 PB."""
    path = tmp_path / "large.toml"
    path.write_text(MATMULS)
    return str(path)


class TestSkips:
    def test_are_planned_with_the_reason(self, large):
        plan = make_plan(RunRequest(suite=large, hardware=["local-cpu-1", "local-cpu"]))
        huge = Case.of("matmul", {"n": 10_000_000})
        assert [(skip.hardware, skip.case.case) for skip in plan.skips] == [
            ("local-cpu-1", huge),
            ("local-cpu", huge),
        ]
        assert plan.skips[0].reason.startswith("needs at least 1.2 PB, but local-cpu-1 has ")
        assert plan.skipped_on("local-cpu") == {huge: plan.skips[1].reason}
        assert len(plan.cells) == 6  # they are part of the grid all the same
        assert read_plan(plan.model_dump_json(), "plan.json") == plan

    def test_have_a_record_for_each_repeat_and_no_lane_has_them(self, large):
        plan = make_plan(RunRequest(suite=large, hardware=["local-cpu-1", "local-cpu"]))
        records = plan.skipped()
        assert {(r.hardware, r.case.params["n"], r.repeat) for r in records} == {
            (name, 10_000_000, number) for name in ("local-cpu-1", "local-cpu") for number in (1, 2)
        }
        assert {r.verdict for r in records} == {Verdict.SKIPPED}
        assert {r.reasons for r in records if r.hardware == "local-cpu"} == {(plan.skips[1].reason,)}
        orders = {r.id: r.order for r in plan.repeats_on(plan.hardware[0])}
        assert all(orders[r.id] == r.order for r in records if r.hardware == "local-cpu-1")

    def test_a_skipped_cell_costs_nothing(self, large, tmp_path):
        all_of_it = make_plan(RunRequest(suite=large, hardware=["local-cpu"]))
        assert all_of_it.estimate_s == pytest.approx(10.0 + 2 * 2 * 30)  # 2 min are for measurable cells
        path = tmp_path / "none.toml"
        path.write_text(MATMULS.replace("[100, 200, 10000000]", "10000000"))
        nothing = make_plan(RunRequest(suite=str(path), hardware=["local-cpu"]))
        assert (nothing.estimate_s, nothing.estimate_usd) == (0, 0)

    def test_cases_for_another_device_cost_nothing(self, tmp_path):
        path = tmp_path / "both.toml"
        only = '[[cases]]\nworkload = "matmul"\nsize = { n = 300 }\ndevice = "cuda"\n'
        path.write_text(MATMULS.replace(", 10000000", "") + only)
        alone = make_plan(RunRequest(suite=str(path), hardware=["local-cpu"]))
        assert len(alone.cells) == 2 and alone.skips == ()
        both = make_plan(RunRequest(suite=str(path), hardware=["local-cpu", "aws-g6.xlarge"]))
        assert len(both.cells) == 6
        assert both.skipped_on("local-cpu") == {
            Case.of("matmul", {"n": 300}): "the suite measures it on cuda only"
        }
        assert both.skipped_on("aws-g6.xlarge") == {}
        path.write_text(only)
        with pytest.raises(GridbenchError, match="suite both has no cases for cpu"):
            make_plan(RunRequest(suite=str(path), hardware=["local-cpu"]))

    def test_a_precision_that_a_card_lacks_is_skipped(self):
        request = RunRequest(suite="acceptance", hardware=("aws-g4dn.xlarge", "aws-g6.xlarge"))
        plan, words = make_plan(request), "does not compute in tf32"
        skipped = {m.name: [w for w in plan.skipped_on(m.name).values() if words in w] for m in plan.hardware}
        assert [len(skipped[name]) for name in ("aws-g4dn.xlarge", "aws-g6.xlarge")] == [1, 0]

    def test_skips_are_shown_in_the_plan_table(self, large):
        plan = make_plan(RunRequest(suite=large, hardware=["local-cpu"]))
        assert [(row["cells"], row["skipped"]) for row in plan_rows(plan)] == [("3", "1")]
        (line,) = skip_lines(plan)
        assert "1 cell skipped on local-cpu" in line and plan.skips[0].reason in line and "n=10000000" in line
        assert skip_lines(make_plan(RunRequest(suite="quick", hardware=["local-cpu"]))) == []

    def test_a_plan_of_an_earlier_version_has_no_skips(self, plan):
        old = plan.model_dump(mode="json")
        for name in ("skips", "profile"):
            del old[name]
        for case in old["cases"]:
            del case["threads"]
        import json

        assert read_plan(json.dumps(old), "plan.json") == plan


def machine(**changes):
    return load_hardware("local-cpu").model_copy(update={"name": "a-box", "pool": "far-away", **changes})


class TestLimits:
    def test_of_this_machine_are_read_from_it(self):
        assert limits_of(load_hardware("local-cpu"), None) == limits_here("local-cpu", "cpu", None)
        one = limits_of(load_hardware("local-cpu-1"), 1)
        assert one == limits_here("local-cpu-1", "cpu", 1)
        assert (
            one.memory_bytes > 0 and one.memory_shared and one.peak_flops["fp32"] > 0 and one.processes >= 1
        )

    def test_limits_of_another_machine_are_those_of_its_file(self):
        unknown = limits_of(machine(), None)
        assert (unknown.memory_bytes, unknown.peak_flops, unknown.processes) == (None, {}, None)
        assert limits_of(machine(memory_gb=128), None).memory_bytes == 128e9
        here = machine(pool="local", memory_gb=1)
        assert limits_of(here, None) == replace(limits_here("a-box", "cpu", None), memory_bytes=1e9)

    def test_of_a_gpu_come_from_the_catalogue(self):
        l4 = limits_of(machine(device="cuda", gpus=2, gpu="l4", memory_gb=64), None)
        assert l4.memory_bytes == 24 * 2**30  # the GPU's, not the host's
        assert l4.peak_flops["fp32"] == pytest.approx(
            1.05 * 30.3e12
        )  # the gate's tolerance above the data sheet
        assert l4.peak_flops["bf16"] > l4.peak_flops["tf32"] > l4.peak_flops["fp32"]
        assert (l4.processes, l4.memory_shared) == (2, False)
        small = limits_of(machine(device="cuda", gpus=1, gpu="v100-sxm2", gpu_memory_gb=16), None)
        assert small.memory_bytes == 16 * 2**30  # as its file says, if the model has several sizes
        unknown = limits_of(machine(device="cuda", gpus=8), None)
        assert (unknown.memory_bytes, unknown.peak_flops, unknown.processes) == (None, {}, 8)
        assert limits_of(machine(device="cuda"), None).processes is None

    def test_every_gpu_has_its_memory(self):
        assert all(8 <= gpu.memory_gb <= 300 for gpu in load_gpus().values())
        assert Hardware.model_fields["memory_gb"].default is None

    @pytest.mark.parametrize(
        ("machines", "suites", "used"), [(None, None, None), (None, 1, 1), (2, None, 2), (8, 1, 1), (1, 2, 1)]
    )
    def test_a_process_has_the_fewer_threads(self, machines, suites, used):
        assert threads_on(machine(threads=machines), suites) == used


def test_a_suites_threads_and_profile_reach_the_repeats(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "threads = 1\nprofile = true\n"
        + MATMULS
        + '[[cases]]\nworkload = "matmul"\nsize = { n = 7 }\nthreads = 2\n'
    )
    plan = make_plan(RunRequest(suite=str(path), hardware=["local-cpu", "local-cpu-1"]))
    for place, of_seven in ((0, 2), (1, 1)):
        repeats = plan.repeats_on(plan.hardware[place])
        assert {(r.case.params["n"] == 7, r.threads) for r in repeats} == {(True, of_seven), (False, 1)}
        assert all(r.profile is (r.repeat == 1) for r in repeats)


def test_a_cases_soak_reaches_its_repeats_and_is_estimated(tmp_path):
    def planned(soak):
        head = '[[cases]]\nworkload = "matmul"\nestimate_s = 5\n'
        cases = (f"{head}size = {{ n = {n} }}\n" for n in (7, 8))
        path = tmp_path / "mine.toml"
        path.write_text("repeats = 2\n" + "".join(cases) + soak)
        return make_plan(RunRequest(suite=str(path), hardware=["local-cpu"]))

    plan = planned("soak_s = 60\n")
    assert {(r.case.params["n"], r.soak_s) for r in plan.repeats_on(plan.hardware[0])} == {
        (7, None),
        (8, 60.0),
    }
    assert plan.estimate_s == planned("").estimate_s + 2 * 60
    assert read_plan(plan.model_dump_json(), "plan.json") == plan


class TestRequest:
    def test_the_plan_reaches_another_process_unchanged(self):
        request = RunRequest(hardware=("local-cpu", "local-cpu-1"), baseline="local-cpu-1", repeats=3)
        shown = make_plan(request)
        sent = request.model_copy(update={"plan": shown}).model_dump_json(exclude_none=True)
        measured = RunRequest.model_validate_json(sent).plan
        orders = [[plan.repeats_on(machine) for machine in plan.hardware] for plan in (shown, measured)]
        assert measured == shown and orders[0] == orders[1]

    def test_two_plans_of_a_request_differ(self):
        request = RunRequest(hardware=("local-cpu",))
        first, second = make_plan(request), make_plan(request)
        assert first.run != second.run and first.seed != second.seed

    @pytest.mark.parametrize("run", ["../elsewhere", ".hidden", "a/b", ""])
    def test_a_run_can_not_leave_the_results_folder(self, run):
        with pytest.raises(ValidationError):
            RunRequest(plan=make_plan(RunRequest(hardware=("local-cpu",))).model_copy(update={"run": run}))
