import json
import signal

import pytest

from infra.aws import stack as stacks
from infra.aws.account import connect
from infra.aws.plan import make_plan
from infra.aws.settings import StackOptions
from tests.emulators.aws import smoke, smoke_beliefs, smoke_cases, smoke_template
from tests.emulators.aws.smoke_cases import Case

QUEUE = "gridbench-c5-2xlarge"
EXITED = "Essential container in task exited"


def make_stack(monkeypatch):
    monkeypatch.setattr(stacks, "POLL_S", 0.02)
    account = connect("us-east-1")
    cfn, plan = (
        account.client("cloudformation"),
        make_plan(account, StackOptions("gridbench", ("c5.2xlarge",))),
    )
    change_set = stacks.prepare(cfn, {"TemplateBody": plan.body}, plan.parameters, "gridbench", creates=True)
    stacks.execute(cfn, change_set, lambda event: None)


@pytest.fixture
def quick(aws, base_image, monkeypatch, tmp_path):
    aws.control.least_timeout_s = 1
    monkeypatch.setattr(smoke_cases, "TIMEOUT_S", 2)
    monkeypatch.setattr(smoke_cases, "BAD_IMAGE", "localhost/no-such-image:none")
    monkeypatch.setattr(smoke, "POLL_S", 0.1)
    make_stack(monkeypatch)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    out = tmp_path / "smoke.json"

    def go(*words):
        asked = ["--queue", QUEUE, "--usd-per-hour", "0.34", "--region", "us-east-1", "--image", base_image]
        code = smoke.main([*asked, "--out", str(out), *words])
        return code, json.loads(out.read_text()) if out.exists() else None

    yield go
    for number, handler in handlers.items():
        signal.signal(number, handler)


def nothing_is_left(aws):
    batch = aws.client("batch")
    live = [
        row
        for state in smoke.LIVE
        for row in batch.list_jobs(jobQueue=QUEUE, jobStatus=state)["jobSummaryList"]
        if not batch.describe_jobs(jobs=[row["jobId"]])["jobs"][0].get("isTerminated")
    ]
    return not live and batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"] == []


def test_the_aws_smoke_test_records_every_end_and_finds_the_emulator_as_believed(aws, quick, capsys):
    code, found = quick("--yes")
    assert code == 0, capsys.readouterr().out
    ends = {name: (case["status"], case["exit_code"]) for name, case in found["cases"].items()}
    assert ends == {
        "ok": ("SUCCEEDED", 0),
        "metadata": ("SUCCEEDED", 0),
        "exit_3": ("FAILED", 3),
        "out_of_memory": ("FAILED", 137),
        "bad_image": ("FAILED", None),
        "too_long": ("FAILED", None),
        "timeout": ("FAILED", 137),
        "terminated": ("FAILED", 137),
        "too_large": ("RUNNABLE", None),
    }
    assert found["cases"]["terminated"]["status_reason"] == smoke_cases.TERMINATED
    assert found["cases"]["ok"]["states"][-1]["state"] == "SUCCEEDED"
    assert found["cases"]["too_large"]["status_reason"].startswith(
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
    )
    assert found["stopped"] is None and 0 < found["usd"] < 1
    assert nothing_is_left(aws)


def test_the_worker_s_rights_are_those_of_its_policy(aws, quick, capsys, monkeypatch):
    monkeypatch.setattr(smoke, "cases", lambda image: smoke_cases.cases(image)[:1])
    code, found = quick("--yes", "--as-worker")
    assert code == 0, capsys.readouterr().out
    assert set(found["cases"]) == {"ok"} and aws.control.calls["GetFederationToken"] == 1


def test_the_aws_smoke_test_rents_nothing_without_yes(aws, quick, capsys):
    code, found = quick()
    assert code == 2 and found is None
    said = capsys.readouterr().err
    assert said == (
        "error: this rents c5.2xlarge at 0.34 USD an hour, for at most 60 minutes and 1 USD: say --yes to do it\n"
    )
    assert aws.control.calls["SubmitJob"] == 0


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        (("--max-minutes", "0"), "0 minutes are over"),
        (("--max-usd", "0"), "0 USD are spent, by estimate"),
    ],
)
def test_the_aws_smoke_test_stops_at_its_limits_and_ends_its_jobs(aws, quick, capsys, limit, sentence):
    code, found = quick("--yes", *limit)
    assert code == 1 and found["stopped"] == sentence
    assert f"stopped early: {sentence}" in capsys.readouterr().out
    assert nothing_is_left(aws)


def test_ctrl_c_in_the_aws_smoke_test_ends_its_jobs(aws, quick, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(smoke.Meter, "check", interrupted)
    code, found = quick("--yes")
    assert code == 130 and set(found["cases"]) >= {"ok", "timeout"}
    assert nothing_is_left(aws)


def test_without_a_stack_there_is_nothing_to_ask(quick, capsys):
    code, _ = quick("--project", "another", "--yes")
    assert (
        code == 2
        and "there is no stack 'another' in us-east-1: `gridbench up aws` first" in capsys.readouterr().err
    )


def test_an_unknown_queue_is_one_sentence(quick, capsys):
    code, _ = quick("--queue", "nope", "--yes")
    assert code == 2 and "there is no queue 'nope' in us-east-1" in capsys.readouterr().err


def a_case(**more):
    return Case("exit_3", ("false",), "image", "FAILED", ("ESSENTIAL_EXITED", None), 3, **more)


def seen(**more):
    return {"exit_3": {"status": "FAILED", "status_reason": EXITED, "reason": None, "exit_code": 3} | more}


def test_an_answer_as_believed_is_not_reported():
    assert smoke_beliefs.differences([a_case()], seen()) == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"exit_code": 1}, "exit_3: exit code 1, expected 3"),
        ({"status": "SUCCEEDED"}, "exit_3: SUCCEEDED, expected FAILED"),
        ({"status_reason": "It ended"}, f"exit_3: statusReason is 'It ended', the emulator says '{EXITED}'"),
        ({"status_reason": None}, f"exit_3: statusReason is None, the emulator says '{EXITED}'"),
    ],
)
def test_an_answer_that_differs_from_the_belief_is_reported(answer, sentence):
    assert smoke_beliefs.differences([a_case()], seen(**answer)) == [sentence]


def test_a_case_that_was_never_submitted_is_reported():
    assert smoke_beliefs.differences([a_case()], {}) == ["exit_3: never submitted, expected FAILED"]


def test_gaps_in_a_belief_fit_anything_but_nothing():
    assert smoke_beliefs._fits("CannotPull: {detail}", "CannotPull: no such image")
    assert not smoke_beliefs._fits("CannotPull: {detail}", "CannotPull: ")
    assert not smoke_beliefs._fits("a.c", "abc")


def test_without_an_emulator_the_aws_smoke_test_only_records(tmp_path):
    found = seen(status_reason="whatever AWS says")
    assert smoke_beliefs.differences([a_case()], found, tmp_path / "none.py") == []


def test_every_belief_is_one_that_the_emulator_has():
    known = smoke_beliefs.beliefs()
    for case in smoke_cases.cases("image"):
        for name in filter(None, case.believed):
            assert name in known


def test_the_template_is_asked_about_and_nothing_is_made(aws, monkeypatch, capsys):
    monkeypatch.setattr(stacks, "POLL_S", 0.02)
    assert smoke_template.main(["--region", "us-east-1"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["7 types", "25 types"]
    assert aws.client("cloudformation").describe_stacks()["Stacks"] == []
    assert aws.client("s3").list_buckets()["Buckets"] == []
    assert aws.control.calls["ExecuteChangeSet"] == 0


def test_a_template_that_cloudformation_refuses_is_reported_in_one_sentence(aws, monkeypatch, capsys):
    monkeypatch.setattr(stacks, "POLL_S", 0.02)
    monkeypatch.setattr("infra.aws.plan.body", lambda project, machines: '{"Resources": {}, "Extra": {}}')
    assert smoke_template.main(["--region", "us-east-1"]) == 1
    assert "Invalid template property or properties [Extra]" in capsys.readouterr().err
