import asyncio
import json

import pytest

from tasks import start as opening
from tasks.dispatch.dispatcher import Dispatcher
from tasks.errors import GridbenchError
from tasks.planning import hardware
from tasks.planning.as_written import check_machines
from tasks.planning.channel import Night, Version
from tasks.planning.estimates import controls_on, lane_s
from tasks.planning.hardware import load_hardware, load_suite_checked
from tasks.planning.machines import with_version
from tasks.planning.plan import read_plan
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.regressions.series_reader import read_nights
from tasks.schema import validated
from tasks.store.store import Store
from tests.tasks.dispatch.fake_prefect import installed

REFERENCE = ("/opt/reference/bin/python", "-P", "-m", "workloads")


def some_cases(*places):
    cases = load_suite_checked("quick").cases
    return tuple(cases[place].id for place in places)


def referenced(name, **changes):
    return load_hardware(name).model_copy(update={"reference": REFERENCE, **changes})


class TestNight:
    def test_says_nothing_by_default_but_the_channel(self):
        assert Night() == Night(channel="main", confirms=None, cases=())

    @pytest.mark.parametrize(
        ("raw", "words"),
        [
            ({"chanel": "main"}, "night: the key 'chanel' is unknown"),
            ({"channel": ""}, "night: channel is ''"),
            ({"channel": "two words"}, "night: channel is 'two words'"),
            ({"confirms": 7}, "night: confirms is 7"),
            ({"cases": "matmul/n=1/fp32"}, "night: cases is 'matmul/n=1/fp32'"),
        ],
    )
    def test_a_mistake_is_one_sentence(self, raw, words):
        with pytest.raises(GridbenchError) as caught:
            validated(Night, raw, "night")
        assert str(caught.value).startswith(words) and "\n" not in str(caught.value)


class TestVersion:
    @pytest.mark.parametrize(
        ("raw", "words"),
        [
            ({"name": "v1"}, "version: version v1 has none of image, command and folder"),
            ({"name": "v1", "image": "a:v1", "command": ["a"]}, "version: version v1 has several of image,"),
            ({"name": "v1", "command": []}, "version.command is []"),
            ({"name": "v1", "image": ""}, "version.image is ''"),
            ({"name": "v 1", "image": "a:v1"}, "version.name is 'v 1'"),
            ({"image": "a:v1"}, "the key 'version.name' is missing"),
            (
                {"name": "v2", "image": "a:v2", "partner": {"name": "v1", "command": ["a"]}},
                "version: version v2 can't take turns with v1: give a command or a folder of each",
            ),
        ],
    )
    def test_a_mistake_is_one_sentence(self, raw, words):
        with pytest.raises(GridbenchError) as caught:
            validated(Night, {"version": raw}, "night")
        assert str(caught.value).startswith(f"night: {words}") and "\n" not in str(caught.value)

    def test_is_measured_on_every_machine_of_the_run(self):
        night = Night(
            confirms="bisect-1", version=Version(name="v1", command=("/v1/python", "-m", "workloads"))
        )
        plan = make_plan(
            RunRequest(suite="quick", hardware=["local-cpu", "local-cpu-1"], repeats=2, night=night)
        )
        assert {machine.command for machine in plan.hardware} == {night.version.command}
        assert read_plan(plan.model_dump_json(), "plan.json") == plan
        usual = make_plan(
            RunRequest(suite="quick", hardware=["local-cpu", "local-cpu-1"], repeats=2, night=Night())
        )
        assert not any(machine.command for machine in usual.hardware)

    def test_a_version_measured_in_turns_replaces_the_reference(self):
        other = Version(name="v1", command=("/v1/python", "-m", "workloads"))
        night = Night(version=Version(name="v2", command=("/v2/python",), partner=other))
        plan = make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=2, night=night))
        assert plan.hardware[0].reference == other.command
        assert read_plan(plan.model_dump_json(), "plan.json") == plan
        check_machines(plan, night.version)
        strange = Version(name="v2", command=("/v2/python",), partner=Version(name="v1", command=("/tmp/x",)))
        with pytest.raises(GridbenchError, match=r"its plan has reference '/v1/python -m workloads'"):
            check_machines(plan, strange)

    def test_an_image_takes_the_place_of_the_machines_own(self):
        machine = load_hardware("aws-c5.2xlarge")
        found = with_version(machine, Version(name="v1", image="host/gridbench:v1"))
        assert found.job_variables == {**machine.job_variables, "image": "host/gridbench:v1"}
        assert found.command == machine.command and machine.job_variables["image"] != "host/gridbench:v1"
        night = Night(version=Version(name="v1", image="host/gridbench:v1"))
        with pytest.raises(
            GridbenchError, match=r"^hardware local-cpu has no image in job_variables.*--command-template$"
        ):
            make_plan(RunRequest(suite="quick", hardware=["local-cpu"], night=night))

    def test_a_run_of_a_search_is_in_no_series(self, tmp_path):
        version = Version(name="v1", command=("python",))
        for night in (Night(), Night(confirms="bisect-1", version=version)):
            Store.create(
                tmp_path, make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=1, night=night))
            )
        (found,), _ = read_nights(tmp_path)
        assert found.plan.night == Night()


class TestPlan:
    def test_keeps_only_the_nights_cases_in_the_suites_order(self):
        wanted = some_cases(3, 1)
        night = Night(channel="release/2.1", confirms="20260101-000000-nightly-ab12", cases=wanted)
        plan = make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=2, night=night))
        assert [planned.case.id for planned in plan.cases] == [wanted[1], wanted[0]]
        assert {repeat.case.id for repeat in plan.repeats_on(plan.hardware[0])} == {*wanted}
        assert plan.night == night
        assert read_plan(plan.model_dump_json(), "plan.json") == plan

    def test_of_no_cases_keeps_all(self):
        both = (
            make_plan(RunRequest(suite="quick", hardware=["local-cpu"])),
            make_plan(RunRequest(suite="quick", hardware=["local-cpu"], night=Night())),
        )
        assert both[0].cases == both[1].cases and both[0].night is None

    def test_a_case_that_the_suite_has_not_is_one_sentence(self):
        with pytest.raises(GridbenchError) as caught:
            make_plan(
                RunRequest(
                    suite="quick",
                    hardware=["local-cpu"],
                    night=Night(cases=(*some_cases(0), "matmul/n=3/fp32")),
                )
            )
        assert str(caught.value).startswith("night: cases has 'matmul/n=3/fp32', which suite quick lacks; ")
        assert "\n" not in str(caught.value)

    def test_a_plan_of_an_earlier_version_has_no_night(self, plan):
        old = plan.model_dump(mode="json")
        del old["night"]
        for machine in old["hardware"]:
            del machine["reference"]
        without = tuple(machine.model_copy(update={"reference": None}) for machine in plan.hardware)
        assert read_plan(json.dumps(old), "plan.json") == plan.model_copy(update={"hardware": without})

    def test_the_estimate_counts_controls(self, monkeypatch):
        usual = make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=2))
        monkeypatch.setattr("tasks.planning.machines.load_hardware", referenced)
        by_day, by_night = (
            make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=2, night=n))
            for n in (None, Night())
        )
        start_s = usual.hardware[0].start_s
        assert usual.estimate_s == by_day.estimate_s > start_s
        assert by_night.estimate_s - start_s == 2 * (by_day.estimate_s - start_s)
        assert by_night.estimate_usd > by_day.estimate_usd

    def test_a_machine_starts_once_for_both(self):
        suite, machine = load_suite_checked("quick"), referenced("local-cpu", start_s=100.0)
        plain, controlled = (lane_s(machine, suite, 3, (), controls) for controls in (False, True))
        assert controlled - 100 == 2 * (plain - 100)
        assert lane_s(machine, suite, 3, suite.cases, True) == 0

    def test_versions_in_turns_take_the_time_of_both(self):
        suite, machine = load_suite_checked("quick"), load_hardware("local-cpu")
        alone, both = (lane_s(machine, suite, 3, (), in_turns=turns) for turns in (False, True))
        assert both - machine.start_s == 2 * (alone - machine.start_s)


class TestHardware:
    @pytest.mark.parametrize("name", ["local-cpu", "local-cpu-1", "local-cuda"])
    def test_nights_on_this_machine_have_controls_by_default(self, name):
        machine = load_hardware(name)
        assert machine.reference == ("auto",) and controls_on(machine, Night())
        assert not controls_on(machine, None)

    def test_says_how_its_reference_is_run(self, tmp_path):
        (tmp_path / "hardware").mkdir()
        text = (hardware.DEPLOYMENTS / "hardware" / "local-cpu.yaml").read_text()
        for name in ("gpus.yaml", "prices.yaml"):
            (tmp_path / name).write_text((hardware.DEPLOYMENTS / name).read_text())
        path = tmp_path / "hardware" / "mine.yaml"
        path.write_text(f"{text}reference: {json.dumps(REFERENCE)}\n")
        assert load_hardware("mine", tmp_path).reference == REFERENCE
        path.write_text(f"{text}reference: []\n")
        with pytest.raises(GridbenchError, match=r"mine\.yaml: reference"):
            load_hardware("mine", tmp_path)


class TestLaneJobs:
    async def parameters(self, monkeypatch, store, **changes):
        api = installed(monkeypatch)
        plan = store.plan.model_copy(update=changes)
        async with (
            asyncio.timeout(60),
            Dispatcher(Store.create(store.folder.parent, plan), None, print) as lanes,
        ):
            lanes.poll_s = 0.01
            asked = [asyncio.create_task(lanes.records_of(cell)) for cell in plan.cells]
            while len(api.jobs) < len(lanes.lanes):
                for job in list(api.jobs.values()):
                    if not job.state.is_final():
                        api.complete(job)
                await asyncio.sleep(0.01)
            for job in api.jobs.values():
                api.complete(job)
            await asyncio.gather(*asked)
        return {api.repeats(job)[0].hardware: job.parameters for job in api.jobs.values()}

    async def test_of_a_night_name_the_reference(self, monkeypatch, store, plan):
        one, other = plan.hardware
        changes = {
            "night": Night(),
            "hardware": (
                one.model_copy(update={"reference": REFERENCE, "box": "a"}),
                other.model_copy(update={"reference": None}),
            ),
        }
        found = await self.parameters(monkeypatch, store, **changes)
        assert found[one.name]["reference"] == list(REFERENCE)
        assert "reference" not in found[other.name]

    async def test_of_a_version_in_turns_name_the_other_one_in_its_place(self, monkeypatch, store, plan):
        other = Version(name="v1", command=REFERENCE)
        changes = {
            "night": Night(version=Version(name="v2", command=("/v2/python",), partner=other)),
            "hardware": (plan.hardware[0].model_copy(update={"reference": other.command}),),
        }
        (found,) = (await self.parameters(monkeypatch, store, **changes)).values()
        assert found["partner"] == list(REFERENCE) and "reference" not in found

    async def test_of_any_other_run_do_not(self, monkeypatch, store, plan):
        changes = {"hardware": tuple(m.model_copy(update={"reference": REFERENCE}) for m in plan.hardware)}
        found = await self.parameters(monkeypatch, store, **changes)
        assert found and not any("reference" in parameters for parameters in found.values())


class TestFlow:
    def opened(self, monkeypatch, tmp_path, night):
        class Enough(Exception):
            pass

        async def sent(store):
            raise Enough(store.plan)

        monkeypatch.setattr(opening, "send", sent)
        request = RunRequest(
            suite="quick",
            hardware=("local-cpu",),
            repeats=2,
            results=str(tmp_path / "results"),
            night=None if night is None else validated(Night, night, "night"),
        )
        with pytest.raises((Enough, GridbenchError)) as caught:
            asyncio.run(opening.open_store(request))
        if isinstance(caught.value, GridbenchError):
            raise caught.value
        return caught.value.args[0]

    def test_a_night_becomes_part_of_the_plan(self, monkeypatch, tmp_path):
        told = {"channel": "main", "confirms": "a-run", "cases": [*some_cases(0)]}
        plan = self.opened(monkeypatch, tmp_path, told)
        assert plan.night == Night(**told) and len(plan.cells) == 1
        assert self.opened(monkeypatch, tmp_path, {}).night == Night()
        assert self.opened(monkeypatch, tmp_path, None).night is None

    def test_a_mistake_in_it_is_one_sentence(self, monkeypatch, tmp_path):
        with pytest.raises(GridbenchError, match=r"^night: the key 'nights' is unknown"):
            self.opened(monkeypatch, tmp_path, {"nights": 1})
