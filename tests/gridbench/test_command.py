import sys
from types import SimpleNamespace
from uuid import uuid4

import httpx
import pytest
from prefect.states import Cancelled, Completed, Failed, Running
from rich.console import Console

from gridbench import main
from gridbench.run import command, follow, outcome
from tasks.errors import GridbenchError
from tasks.findings.acceptance.acceptance import Acceptance
from tasks.findings.acceptance.advice import Advice
from tasks.findings.confirmation import Confirmation, Confirmed
from tasks.planning.plan import PlannedSkip
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.publish import report_url
from tasks.store.store import REPORTS_FOLDER, REPORTS_URL, Store
from workloads.harness.records.record import Verdict


def printed(capsys):
    return " ".join("".join(capsys.readouterr()).split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "[/x]"], "error: suite '[/x]' is unknown"),
        (["run", "block:x:"], "error: suite 'block:x:' is unknown"),
        (["run", "quick", "--on", "laptop"], "error: hardware 'laptop' is unknown"),
        (["run", "quick", "--repeats", "0"], "error: repeats=0 must be 1 or more"),
        (["run", "quick", "--on", "aws-p3.2xlarge"], "error: hardware aws-p3.2xlarge is not supported: AWS"),
        (
            ["run", "quick", "--on", "aws-c5.2xlarge"],
            "error: machines of work pool aws-batch, such as aws-c5.2xlarge, need a Prefect API that they reach",
        ),
        (["show", "a**"], "error: run 'a**' is unknown"),
        (["resume", "../x"], "error: run '../x'"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2(monkeypatch, capsys, tmp_path, words, sentence):
    monkeypatch.setattr(sys, "argv", ["gridbench", *words, "--results", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2 and sentence in printed(capsys)


def test_a_results_folder_that_is_not_there_is_no_success(monkeypatch, capsys, tmp_path):
    for folder, code in ((tmp_path / "typo", 2), (tmp_path, 0)):
        monkeypatch.setattr(sys, "argv", ["gridbench", "show", "--results", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert (ended.value.code or 0) == code
    text = printed(capsys)
    assert "typo does not exist" in text and "gridbench run quick" in text and "no runs in" in text


@pytest.mark.parametrize(
    ("sees", "words", "code"),
    [
        ("cpu", ["--dry-run"], 0),
        ("cpu", [], 2),
        ("cuda", ["--dry-run"], 0),
    ],
)
def test_a_gpu_that_this_machine_lacks_is_named_with_the_plan(monkeypatch, capsys, sees, words, code):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr("workloads.harness.probes.device_here.device_here", lambda: sees)
    monkeypatch.setattr(sys, "argv", ["gridbench", "run", "quick", "--on", "local-cuda", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code or 0) == code
    assert ("local-cuda can't be measured: torch finds no GPU" in printed(capsys)) is (sees == "cpu")


def test_a_server_elsewhere_can_have_the_gpu(monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://elsewhere/api")
    assert command.without_gpu(make_plan(RunRequest(suite="quick", hardware=["local-cuda"]))) == ""


def test_a_resumed_run_says_how_much_of_it_is_kept(store):
    plan = store.plan
    assert f"0 of {len(plan.cells)} repeats are measured and kept" in command.kept_text(store)
    repeats = plan.repeats_on(plan.hardware[0])
    for repeat, verdict in zip(repeats, (Verdict.OK, Verdict.CRASHED, Verdict.CAPACITY), strict=False):
        store.add(repeat.failed(verdict, "for a test"))
    text = command.kept_text(store)
    assert f"2 of {len(plan.cells)} repeats are measured and kept (2 of {len(plan.cells)} cells" in text
    assert f"{len(plan.cells) - 2} left to measure" in text


def test_a_resumed_run_names_the_sessions_that_lack_repeats(store):
    store = Store.create(store.folder.parent, store.plan.model_copy(update={"repeats": 2, "sessions": 2}))
    assert command.kept_text(store).endswith("They are of session 1 and session 2.")
    for machine in store.plan.hardware:
        for repeat in store.plan.repeats_on(machine):
            if repeat.session == 1:
                store.add(repeat.failed(Verdict.CRASHED, "for a test"))
    assert command.kept_text(store).endswith("They are of session 2.")


def ended(store, state):
    return SimpleNamespace(id=uuid4(), name=store.plan.run, state=state)


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path, make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=1)))


def fill(store, verdict, but=0):
    repeats = store.plan.repeats_on(store.plan.hardware[0])
    for repeat in repeats[: len(repeats) - but]:
        store.add(repeat.failed(verdict, "for a test"))


@pytest.mark.parametrize(
    ("verdict", "but", "well"),
    [
        (Verdict.OK, 0, True),
        (Verdict.OK, 1, False),
        (Verdict.NOISY, 0, False),
        (Verdict.CRASHED, 0, False),
        (Verdict.CAPACITY, 0, False),
    ],
)
def test_only_a_record_for_every_repeat_is_a_success(store, capsys, verdict, but, well):
    fill(store, verdict, but)
    code = outcome.tell(ended(store, Completed()), store.folder.parent, "http://ui", Console())
    assert code == (0 if well else 1)
    text = printed(capsys)
    assert ("gridbench resume" in text) is (verdict is Verdict.CAPACITY)
    assert ("No result counts" in text and "noisy" in text) is (verdict is Verdict.NOISY)


def test_one_reason_of_many_repeats_is_printed_once(store, capsys):
    fill(store, Verdict.CAPACITY)
    outcome.tell(ended(store, Completed()), store.folder.parent, "http://ui", Console())
    text = printed(capsys)
    assert text.count("for a test") == 1
    assert f"and {len(store.plan.cells) - 1} more repeats: capacity" in text


@pytest.mark.parametrize(("verdict", "kept"), [(Verdict.OK, True), (Verdict.CAPACITY, False)])
def test_repeats_are_only_said_to_be_kept_if_there_are_some(store, capsys, monkeypatch, verdict, kept):
    async def nothing(store):
        return []

    monkeypatch.setattr(outcome, "_rescue", nothing)
    fill(store, verdict)
    assert outcome.tell(ended(store, Failed()), store.folder.parent, "http://ui", Console()) == 1
    text = printed(capsys)
    assert ("Measured repeats are kept" in text, "Nothing was measured" in text) == (kept, not kept)
    assert f"gridbench resume {store.plan.run}" in text


@pytest.mark.parametrize(
    ("url", "words"), [("http://ui", "http://ui/runs/flow-run/"), (None, "`gridbench up` shows it")]
)
def test_a_page_is_linked_only_while_its_server_lasts(store, capsys, url, words):
    fill(store, Verdict.OK)
    outcome.tell(ended(store, Completed()), store.folder.parent, url, Console())
    text = printed(capsys)
    assert words in text and ("http" in text) is (url is not None)


def test_a_run_with_planned_skips_succeeds(store, capsys):
    skip = PlannedSkip(hardware="local-cpu", case=store.plan.cases[0], reason="too large for a test")
    store = Store.create(
        store.folder.parent, store.plan.model_copy(update={"skips": (skip,), "run": "with-a-skip"})
    )
    for record in store.plan.skipped():
        store.add(record)
    fill(store, Verdict.OK)
    assert outcome.tell(ended(store, Completed()), store.folder.parent, "http://ui", Console()) == 0
    text = printed(capsys)
    assert "1 cell skipped on local-cpu: too large for a test" in text and skip.case.case.id in text


@pytest.mark.parametrize(
    ("advice", "but", "code"),
    [
        (Advice.KEEP, 0, 0),
        (Advice.KEEP, 1, 1),
        (Advice.UNDECIDED, 0, 3),
        (Advice.UNDECIDED, 1, 1),
        (Advice.RETURN, 0, 4),
        (Advice.RETURN, 1, 4),
    ],
)
def test_a_script_learns_by_the_exit_code_whether_to_keep_a_machine(store, monkeypatch, advice, but, code):
    fill(store, Verdict.OK, but)
    machine = SimpleNamespace(advice=advice)
    found = SimpleNamespace(
        answer=(), caveats=(), finding=lambda kind: kind((machine,)) if kind is Acceptance else None
    )
    monkeypatch.setattr(outcome, "comparison_of", lambda store: found)
    assert outcome.tell(ended(store, Completed()), store.folder.parent, "http://ui", Console()) == code


@pytest.mark.parametrize(
    ("verdict", "but", "code"),
    [
        (Confirmed.CONFIRMED, 0, 0),
        (Confirmed.CONFIRMED, 1, 3),
        (Confirmed.OPEN, 0, 3),
        (Confirmed.REFUTED, 0, 1),
        (Confirmed.REFUTED, 1, 1),
    ],
)
def test_a_confirmation_that_lacks_a_cell_is_open(store, monkeypatch, verdict, but, code):
    fill(store, Verdict.OK, but)
    claims = (SimpleNamespace(verdict=verdict),)
    monkeypatch.setattr(Confirmation, "details", lambda self: ())
    found = SimpleNamespace(
        answer=(), caveats=(), finding=lambda kind: kind("first", claims) if kind is Confirmation else None
    )
    monkeypatch.setattr(outcome, "comparison_of", lambda store: found)
    assert outcome.tell(ended(store, Completed()), store.folder.parent, "http://ui", Console()) == code


def test_a_run_that_was_stopped_says_how_to_go_on_even_without_the_api(store, capsys, monkeypatch):
    async def away(store):
        raise httpx.ConnectError("nobody there")

    monkeypatch.setattr(outcome, "_rescue", away)
    assert outcome.tell(ended(store, Cancelled()), store.folder.parent, "http://ui", Console()) == 1
    words = printed(capsys)
    assert "ended Cancelled" in words and f"gridbench resume {store.plan.run}" in words


class AwayApi:
    """An API that answers only after a look after it."""

    def __init__(self):
        self.up, self.api_url = False, "http://api"

    def check(self):
        self.up = True
        return "mended [/it]"

    async def read_flow_run(self, run_id):
        if not self.up:
            raise httpx.ConnectError("away")
        return SimpleNamespace(name="run", state=Completed())

    async def read_task_runs(self, **filters):
        state = Running()
        return [SimpleNamespace(name="local-cpu/nap/ms=2/fp32", task_key="measure-1", state=state)]


async def test_a_stack_is_looked_after_before_it_is_asked(capsys):
    api = AwayApi()
    assert (
        await follow._watch(api, [SimpleNamespace(id=uuid4())], Console(), api.check, None, 1)
    ).state.is_completed()
    assert "mended [/it]" in printed(capsys)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (409, "'nope' is not one of"),
        (503, "http://api does not answer .*`prefect server start`.*PREFECT_API_URL"),
    ],
)
async def test_an_api_error_for_a_new_run_is_reported_in_a_sentence(code, words):
    async def read_deployment_by_name(name):
        request = httpx.Request("POST", "http://api")
        response = httpx.Response(code, json={"detail": "'nope' is not one of"}, request=request)
        response.raise_for_status()

    api = SimpleNamespace(read_deployment_by_name=read_deployment_by_name, api_url="http://api")
    with pytest.raises(GridbenchError, match=words):
        await follow._begin(api, "bench/quick", RunRequest())


def test_a_report_is_linked_to_where_its_folder_is_served(tmp_path, monkeypatch):
    report = tmp_path / "results" / "r1" / "report.html"
    assert report_url(report) == report.as_uri()
    monkeypatch.setenv(REPORTS_URL, "http://127.0.0.1:4280")
    monkeypatch.setenv(REPORTS_FOLDER, str(tmp_path / "results"))
    assert report_url(report) == "http://127.0.0.1:4280/r1/report.html"
    monkeypatch.setenv(REPORTS_FOLDER, str(tmp_path / "elsewhere"))
    assert report_url(report) == report.as_uri()
