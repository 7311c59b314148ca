from dataclasses import replace

import pytest
from prefect.filesystems import LocalFileSystem
from prefect_aws import AwsCredentials, S3Bucket

from tasks.gather import judged
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.population import population_of
from tasks.store.bucket import Bucket
from tasks.store.store import Store
from tests.tasks.examples.records import ENVIRONMENT, record
from workloads.harness.records.record import Verdict, Work


def plan(run, suite="acceptance"):
    made = make_plan(RunRequest(suite=suite, hardware=["local-cpu"], seed=7))
    return made.model_copy(update={"run": run})


def stored(results, run, slower=1.0, suite="acceptance", verdict=Verdict.OK, bucket=None):
    store = Store.create(results, plan(run, suite), bucket)
    for repeat in store.plan.repeats_on(store.plan.hardware[0]):
        seconds = slower * (0.1 + 1e-4 * repeat.repeat + 1e-4 * (sum(map(ord, run)) % 9))
        work = Work(1, "steps", None, None)  # nothing that could be impossible
        made = record(seconds, repeat.case, "local-cpu", repeat.repeat, run=run, verdict=verdict, work=work)
        store.add(replace(made, environment=ENVIRONMENT | {"hostname": run}))
    return store


@pytest.fixture
def store(tmp_path):
    for run in ("one", "two", "three"):
        stored(tmp_path, run)
    return stored(tmp_path, "mine")


def runs_of(store):
    records, problems = population_of(store)
    assert problems == []
    return {record.run for record in records}


def test_other_runs_that_asked_the_same_are_the_population(store, tmp_path):
    stored(tmp_path, "quick one", suite="quick")
    stored(tmp_path, "refused", verdict=Verdict.THROTTLED)
    assert runs_of(store) == {"one", "two", "three"}


def test_a_run_that_does_not_ask_reads_no_other(store, tmp_path):
    assert population_of(stored(tmp_path, "quick one", suite="quick")) == (None, [])


def test_an_unreadable_sibling_run_is_reported_and_the_rest_counts(store, tmp_path):
    (tmp_path / "two" / "plan.json").write_text("{")
    records, (problem,) = population_of(store)
    assert {record.run for record in records} == {"one", "three"} and problem.startswith(
        "Not among the siblings: "
    )
    assert problem in judged(store.records()[0], store).sentences


@pytest.mark.parametrize(
    ("slower", "words"), [(1.0, "Keep local-cpu: 4 measures"), (1.5, "Return local-cpu: ")]
)
def test_the_advice_leads_the_answer_of_a_run(store, tmp_path, slower, words):
    own = stored(tmp_path, "last", slower)
    assert judged(own.records()[0], own).answer[0].startswith(words)


def test_siblings_in_a_bucket_are_brought(tmp_path):
    there = tmp_path / "there"
    for run in ("one", "two", "three"):
        stored(there, run)
    (there / "one" / "results.parquet").write_text(
        "a finished run: its records come only because they are needed"
    )
    bucket = Bucket("local-file-system/results", LocalFileSystem(basepath=str(there)))
    own = stored(tmp_path / "here", "mine", bucket=bucket)
    assert runs_of(own) == {"one", "two", "three"}
    assert (tmp_path / "here" / "one" / "records").is_dir()


def test_a_bucket_that_cannot_be_read_leaves_the_siblings_of_the_folder(store, aws):
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    credentials = AwsCredentials(**keys, aws_client_parameters={"endpoint_url": aws.url})
    nowhere = Bucket("s3-bucket/nowhere", S3Bucket(bucket_name="nowhere", credentials=credentials))
    records, (problem,) = population_of(Store(store.folder, nowhere))
    assert {record.run for record in records} == {"one", "two", "three"}
    assert problem.startswith(
        "Siblings are those of this folder alone: results: s3-bucket/nowhere can't be read"
    )
