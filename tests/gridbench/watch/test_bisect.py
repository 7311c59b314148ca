import subprocess
import sys
from dataclasses import replace

import pytest

from gridbench import main
from gridbench.run.box import hardware_of
from gridbench.watch import bisect
from gridbench.watch.bisect import searched
from gridbench.watch.bisect_request import BisectRequest
from gridbench.watch.versions import runnable_versions, versions_between
from tasks.errors import GridbenchError
from tasks.planning.hardware import load_suite_checked
from tasks.planning.planner import make_plan
from tasks.regressions.bisect import FirstBadVersion, NextMeasurement, NoCulprit
from tasks.regressions.series_reader import read_nights
from tasks.store.address import ResultsAddress
from tasks.store.store import Store
from tests.tasks.examples.records import ENVIRONMENT, record
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Verdict

CASE = load_suite_checked("nightly").cases[0].id
SIX = "v1,v2,v3,v4,v5,v6"
COMMAND = ("--command-template", "/envs/{version}/bin/python -P -m workloads")
LIST = ("--versions", SIX, *COMMAND)
IMAGES = ("--versions", SIX, "--image-template", "r/g:{version}")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    def never(*args, **kwargs):
        raise AssertionError("something is measured")

    monkeypatch.setattr("gridbench.run.session.session", never)

    def said(*words, on="local-cpu-1"):
        asked = ["gridbench", "bisect", "--on", on, "--results", str(tmp_path / "results"), *words]
        monkeypatch.setattr(sys, "argv", asked)
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code or 0, "".join(capsys.readouterr())

    return said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((CASE, "v1", "v6", *LIST[:2]), "give exactly one of --image-template and --command-template"),
        ((CASE, "v1", "v6", *LIST, "--image-template", "r/g:{version}"), "exactly one of"),
        (
            (CASE, "v1", "v6", *LIST[:2], "--command-template", "python"),
            "command_template='python' has no {version}",
        ),
        (
            (CASE, "v1", "v6", *LIST[:2], "--image-template", "r/g:new"),
            "image_template='r/g:new' has no {version}",
        ),
        ((CASE, "v1", "v6", *LIST[:2], "--command-template", "'{version}"), "can't be read as a command"),
        ((CASE, "v1", "v6", *LIST[:2], "--image-template", "r/g:{version}"), "--command-template"),
        ((CASE, "v1", "v1", *LIST), "GOOD and BAD are both 'v1'"),
        ((CASE, "v0", "v6", *LIST), "GOOD 'v0' is not among the versions; there are v1"),
        ((CASE, "v1", "w9", *LIST), "BAD 'w9' is not among the versions; there are v1, v2"),
        ((CASE, "v6", "v1", *LIST), "GOOD 'v6' comes after BAD 'v1'"),
        ((CASE, "v1", "v6", "--versions", "v1,v1,v6", *COMMAND), "versions has 'v1' twice"),
        (
            (CASE, "v1", "v6", "--versions", "nowhere.txt", *COMMAND),
            "versions='nowhere.txt' is neither a readable file",
        ),
        ((CASE, "v1", "v 2", "--versions", "v1,v 2", *COMMAND), "version 'v 2': name is 'v 2'"),
        (
            ("matmul/n=2001/fp32", "v1", "v6", *LIST),
            f"has no case 'matmul/n=2001/fp32'; did you mean {CASE}?",
        ),
        ((CASE, "v1", "v6", *LIST, "--suite", "nightlie"), "suite 'nightlie' is unknown"),
        ((CASE, "v1", "v6", *LIST, "--repeats", "2"), "repeats=2 must be 3 or more"),
        ((CASE, "v1", "v6", *LIST, "--budget-usd", "-1"), "budget_usd=-1 must be 0 or more"),
        (
            (CASE, "v1", "v6", *LIST, "--budget-usd", "0.0001"),
            "USD for 5 measurements is above budget_usd=0.0001",
        ),
        ((CASE, "v1", "v6", *LIST, "--resume", "20260101"), "resume='20260101' is not a search"),
        ((CASE, "v1", "v6", *LIST, "--resume", "bisect-none"), "has no run of 'bisect-none'"),
        ((CASE, "--HEAD~1", "HEAD", *COMMAND), "GOOD '--HEAD~1' is not a commit"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_measured(run, words, sentence):
    ends = [word for word in words[1:3] if word.startswith("-")]
    code, text = run(*words[3:], "--", *words[:3]) if ends else run(*words)
    assert code == 2 and sentence in text, text
    assert len([line for line in text.splitlines() if line.startswith("error: ")]) == 1


def test_hardware_that_is_unknown_is_one_sentence(run):
    code, text = run(CASE, "v1", "v6", *LIST, on="laptop")
    assert code == 2 and text.startswith("error: hardware 'laptop' is unknown")


def test_a_dry_run_of_a_bisection_prints_its_estimate(run, tmp_path):
    code, text = run(CASE, "v1", "v6", *LIST, "--dry-run")
    assert (
        code == 0 and "at most 5 measurements of 15 processes of each of two versions, in turns, if" in text
    )
    assert " min and " in text and " USD " in text and not (tmp_path / "results").exists()
    code, text = run(CASE, "v2", "v3", *LIST, "--repeats", "4", "--dry-run")
    assert "2 versions from v2 to v3: at most 2 measurements of 4 processes of each" in text
    code, text = run(CASE, "v1", "v6", *IMAGES, "--dry-run", on="aws-c5.2xlarge")
    assert "6 versions from v1 to v6: at most 7 measurements of 15 processes if" in text


def test_versions_of_a_file_are_its_lines(tmp_path):
    path = tmp_path / "versions.txt"
    path.write_text("# oldest first\nv1\n\n v2 \nv3\nv4\n")
    assert versions_between("v2", "v4", str(path)) == (("v2", "v3", "v4"), False)


def test_templates_are_filled_in_word_by_word():
    (version,) = runnable_versions(
        ["v 1".replace(" ", "-")], None, "'/my envs/{version}/python' -m workloads"
    )
    assert version.command == ("/my envs/v-1/python", "-m", "workloads") and version.image is None
    (version,) = runnable_versions(["v1"], "host/{other}/gridbench:{version}", None)
    assert version.image == "host/{other}/gridbench:v1" and version.command is None


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Three commits on main, the second one a merge of a branch with one commit."""
    monkeypatch.chdir(tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "somebody@example.org")

    def git(*words):
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "first")
    git("checkout", "-b", "side")
    git("commit", "--allow-empty", "-m", "aside")
    git("checkout", "main")
    git("merge", "--no-ff", "-m", "second", "side")
    git("commit", "--allow-empty", "-m", "third")
    return git


def test_versions_are_the_commits_of_first_parents(checkout):
    wanted = tuple(checkout("rev-parse", name) for name in ("HEAD~2", "HEAD~1", "HEAD"))
    assert versions_between("HEAD~2", "main", None) == (wanted, True)
    with pytest.raises(GridbenchError, match=r"^GOOD 'main' is not an ancestor of BAD 'HEAD~1'"):
        versions_between("main", "HEAD~1", None)
    with pytest.raises(GridbenchError, match=r"^GOOD 'main' and BAD 'HEAD' are the same commit"):
        versions_between("main", "HEAD", None)
    with pytest.raises(GridbenchError, match=r"^BAD 'nothing' is not a commit"):
        versions_between("main", "nothing", None)


class Bench:
    """In place of the flow: plan like it and write records with known times."""

    def __init__(self, search_request, times, verdicts=(), cut=0):
        self.search_request, self.times, self.verdicts, self.cut = search_request, times, dict(verdicts), cut
        self.started, self.left_usd = [], []

    def __call__(self, request):
        self.left_usd.append(request.budget_usd)
        if request.resume:
            store = Store.open(self.search_request.results.folder, request.resume)
        else:
            version = request.night.version
            self.started.append(
                f"{version.name} beside {version.partner.name}" if version.partner else version.name
            )
            plan = make_plan(request)
            stamp = f"2026-11-01T00:00:{len(self.started):02d}+00:00"
            plan = plan.model_copy(update={"created_at": stamp, "run": f"{len(self.started):02d}-{plan.run}"})
            store = Store.create(self.search_request.results.folder, plan)
        self.fill(store)
        if self.cut and len(self.started) == self.cut:
            raise KeyboardInterrupt
        return store.plan.run

    def fill(self, store):
        plan = store.plan
        name, other = plan.night.version.name, plan.night.version.partner
        end = 2 if self.cut and len(self.started) == self.cut else plan.repeats
        for repeat in plan.repeats_on(plan.hardware[0])[:end]:
            seconds = self.times[name] * (1 + 0.002 * (repeat.repeat % 5 - 2))
            made = record(
                seconds, repeat.case, repeat.hardware, repeat.repeat, run=plan.run, environment=ENVIRONMENT
            )
            if other:
                made = replace(made, control=self.control(other.name))
            store.add(repeat.failed(self.verdicts[name], "for a test") if name in self.verdicts else made)

    def control(self, name):
        if name in self.verdicts:
            return Control("", self.verdicts[name].value, ("for a test",))
        return Control("", "ok", (), self.times[name])


@pytest.fixture
def search_request(tmp_path):
    versions = runnable_versions(SIX.split(","), None, COMMAND[1])
    return BisectRequest(
        CASE, "local-cpu-1", "nightly", versions, 5, 5.0, ResultsAddress(tmp_path / "results"), "bisect-1"
    )


WITH = ("v1", "v1", "v1", "v3")  # which one takes turns, in each run
TIMES = {name: 1.1 if name >= "v4" else 1.0 for name in SIX.split(",")}


def test_the_search_ends_with_the_version_and_its_runs_are_no_nights(search_request, capsys):
    bench = Bench(search_request, TIMES)
    search, step = searched(search_request, iter([]), bench)
    assert isinstance(step, FirstBadVersion) and search.versions[step.first_bad] == "v4" and not step.doubt
    assert bench.started == ["v1", "v6", "v3", "v4", "v3", "v4"]
    assert read_nights(search_request.results.folder) == ([], [])
    plans = [store.plan for store in bisect.runs_of(search_request.results, "bisect-1")]
    assert [plan.night.version.name for plan in plans] == bench.started
    assert {plan.sessions for plan in plans} == {1}
    assert plans[0].hardware[0].command == ("/envs/v1/bin/python", "-P", "-m", "workloads")
    assert "measurement 5: v3, once more to confirm" in capsys.readouterr().out


def test_in_turns_each_run_measures_two_versions_and_each_process_is_half_of_a_pair(search_request, capsys):
    in_turns = replace(search_request, in_turns=True)
    bench = Bench(in_turns, TIMES)
    search, step = searched(in_turns, iter([]), bench)
    assert isinstance(step, FirstBadVersion) and search.versions[step.first_bad] == "v4" and not step.doubt
    assert bench.started == ["v6 beside v1", "v3 beside v1", "v4 beside v1", "v4 beside v3"]
    plans = [store.plan for store in bisect.runs_of(in_turns.results, "bisect-1")]
    assert [plan.hardware[0].reference[0] for plan in plans] == [f"/envs/{v}/bin/python" for v in WITH]
    controlled = search_request.plan(NextMeasurement(0))
    assert plans[0].estimate_s == controlled.estimate_s
    assert "measurement 4: v4 in turns with v3, once more to confirm" in capsys.readouterr().out
    (told,) = bisect.ending(CASE, search, step)
    assert told.startswith(f"v4 is the first slow version: {CASE} takes 10.00 % longer than with v3 (9.")
    bisect.console.print(bisect.table(CASE, search))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("v")]
    assert [row[0] for row in rows[1:]] == ["v1", "v3", "v4", "v6"] and rows[1][-2:] == ["3×", "good"]


def test_in_turns_an_interrupted_search_goes_on(search_request):
    in_turns = replace(search_request, in_turns=True)
    with pytest.raises(KeyboardInterrupt):
        searched(in_turns, iter([]), Bench(in_turns, TIMES, cut=2))
    alone = replace(search_request, in_turns=False)
    with pytest.raises(
        GridbenchError, match=r"measured v6 \(.*\) in turns with v1 \(.* but would now measure v1 \("
    ):
        searched(alone, iter(bisect._earlier(alone)), Bench(alone, TIMES))
    second = Bench(in_turns, TIMES)
    search, step = searched(in_turns, iter(bisect._earlier(in_turns)), second)
    assert search.versions[step.first_bad] == "v4" and second.started == ["v4 beside v1", "v4 beside v3"]


@pytest.mark.parametrize(("broken", "said"), [("v1", "v1 can't"), ("v6", "v6 can't")])
def test_in_turns_an_end_that_does_not_run_is_named(search_request, broken, said):
    in_turns = replace(search_request, in_turns=True)
    search, step = searched(in_turns, iter([]), Bench(in_turns, TIMES, {broken: Verdict.CRASHED}))
    assert isinstance(step, NoCulprit) and len(search.rounds) == 2
    assert step.reason.startswith(f"{said} be measured: crashed: for a test (0 of 5")


def test_in_turns_a_version_that_does_not_run_is_skipped(search_request):
    in_turns = replace(search_request, in_turns=True)
    search, step = searched(in_turns, iter([]), Bench(in_turns, TIMES, {"v3": Verdict.CRASHED}))
    assert (step.last_good, step.first_bad, step.skipped, step.doubt) == (1, 3, (2,), "")
    assert search.reason(2) == "crashed: for a test (0 of 5 processes are valid)"


def test_an_interrupted_search_goes_on_and_measures_nothing_twice(search_request):
    first = Bench(search_request, TIMES, cut=3)
    with pytest.raises(KeyboardInterrupt):
        searched(search_request, iter([]), first)
    assert first.started == ["v1", "v6", "v3"]
    second = Bench(search_request, TIMES)
    search, step = searched(search_request, iter(bisect._earlier(search_request)), second)
    assert search.versions[step.first_bad] == "v4" and len(search.rounds) == 6
    second.started.remove("v4")
    assert second.started == ["v3", "v4"] and len(second.left_usd) == 4  # one run is completed


def test_other_options_than_before_are_refused(search_request):
    searched(search_request, iter([]), Bench(search_request, TIMES))
    stored = bisect._earlier(search_request)
    fewer = replace(search_request, repeats=7)
    with pytest.raises(GridbenchError, match="resume with the same options as at the start"):
        bisect._earlier(fewer)
    moved = replace(search_request, versions=search_request.versions[1:])
    with pytest.raises(
        GridbenchError, match=r"measured v1 \(/envs/v1/.* in run .* but would now measure v2 \("
    ):
        searched(moved, iter(stored), Bench(moved, TIMES))
    other = replace(
        search_request, versions=runnable_versions(search_request.names, None, "/other/{version}/python")
    )
    with pytest.raises(GridbenchError, match="resume with the same versions as at the start"):
        searched(other, iter(stored), Bench(other, TIMES))


def test_the_words_that_go_on_with_a_search_name_it_once(search_request, monkeypatch):
    for more in ((), ("--resume", "bisect-1"), ("--resume=bisect-1",)):
        monkeypatch.setattr(sys, "argv", ["/bin/gridbench", "bisect", CASE, "v1", "v 6", *more])
        assert bisect._again(search_request) == f"gridbench bisect --resume bisect-1 {CASE} v1 'v 6'"


def test_versions_that_do_not_run_are_skipped_with_their_reason(search_request):
    search, step = searched(search_request, iter([]), Bench(search_request, TIMES, {"v3": Verdict.CRASHED}))
    assert (step.last_good, step.first_bad, step.skipped) == (1, 3, (2,))
    assert search.reason(2) == "crashed: for a test (0 of 5 processes are valid)"
    told = " ".join(bisect.ending(CASE, search, step))
    assert "with v4 " in told and "longer than with v2" in told and told.endswith("decided: v3")


def test_the_answer_is_a_sentence(search_request, capsys):
    search, step = searched(search_request, iter([]), Bench(search_request, TIMES))
    (told,) = bisect.ending(CASE, search, step)
    assert told.startswith(f"v4 is the first slow version: {CASE} takes 10.0 % longer than with v3 (9.")
    bisect.console.print(bisect.table(CASE, search))
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines() if line.startswith("v")] == [
        "version",
        "v1",
        "v3",
        "v4",
        "v6",
    ]
    assert "good" in text and "bad" in text


def test_the_first_fast_version_is_named(search_request):
    search, step = searched(
        search_request, iter([]), Bench(search_request, {name: 1 / s for name, s in TIMES.items()})
    )
    (told,) = bisect.ending(CASE, search, step)
    assert told.startswith(f"v4 is the first fast version: {CASE} takes 9.09 % less time than with v3 (")


def test_a_box_by_its_address_is_asked_once_and_goes_with_every_measurement(run, monkeypatch):
    asked, host = [], {"address": "box.example"}
    facts = hardware_of(host, {"cpu": ["AMD EPYC"], "memory_kib": ["65536000"]}, {}, {"hosts": [host]})
    monkeypatch.setattr("gridbench.run.box.ask", lambda address: asked.append(address) or facts)
    made = []
    monkeypatch.setattr("gridbench.watch.bisect.plan_text", lambda names, plan: made.append(plan) or "a plan")
    code, text = run(CASE, "v1", "v6", *LIST, "--dry-run", on="ssh://box.example")
    assert (code, asked) == (0, ["ssh://box.example"]), text
    (machine,) = made[0].hardware
    assert (machine.name, machine.pool, machine.command[0]) == ("box.example", "ssh", "/envs/v6/bin/python")
    assert machine.reference[0] == "/envs/v1/bin/python"
    code, text = run(CASE, "v1", "v6", *LIST[:2], "--image-template", "r/g:{version}", on="ssh://box.example")
    assert code == 2 and "box.example has no image" in text


def test_a_bisection_without_a_change_is_reported(search_request):
    search, step = searched(search_request, iter([]), Bench(search_request, dict.fromkeys(TIMES, 1.0)))
    assert isinstance(step, NoCulprit) and len(search.rounds) == 2
    (told,) = bisect.ending(CASE, search, step)
    assert "v1 and v6 do not differ by more than 2.0 %" in told


def test_a_step_that_explains_only_part_of_the_change_is_reported_with_its_share(search_request):
    search, step = searched(
        search_request, iter([]), Bench(search_request, {f"v{i}": 1.1**i for i in range(1, 7)})
    )
    told = bisect.ending(CASE, search, step)
    assert len(told) == 2 and told[1].startswith(
        "that is 20 % of the whole change of +61.1 %; the rest is elsewhere: "
    )
    assert "% from v1 to " in told[1] and " to v6" in told[1]


def test_the_budget_is_for_all_of_it(search_request, monkeypatch):
    monkeypatch.setattr("tasks.dispatch.job_notes.spent_usd", lambda store: 1.5)
    bench = Bench(search_request, TIMES)
    searched(search_request, iter([]), bench)
    assert bench.left_usd == [5.0, 3.5, 2.0, 0.5, 0.0, 0.0]
