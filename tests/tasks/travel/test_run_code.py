import asyncio
import http.server
import sys
import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from uuid import uuid4

import httpx
import pytest

from tasks.delivery.pace import Pace
from tasks.dispatch.lane import Lane
from tasks.dispatch.submit import submit_lane
from tasks.errors import GridbenchError
from tasks.planning.plan import Plan
from tasks.store.address import ResultsAddress
from tasks.store.store import Store
from tasks.travel import code_download, run_code, sending
from tasks.travel.packing import pack, unpack
from tasks.travel.run_code import code_for, keep_code, packed, refusal
from tasks.travel.sending import CODE_TRANSFER, give_code, name_of
from tasks.travel.tree import take
from tests.tasks.dispatch.dispatched import Run, serve
from tests.tasks.dispatch.fake_prefect import installed
from workloads.harness import registry
from workloads.harness.probes.code import code_hash
from workloads.harness.records.script import Script

OWN_WORKLOAD = """
from workloads.harness.registry import workload

@workload(sizes={"n": (1,)}, tiny={"n": 1})
def gb_mine(env, n):
    '''Do nothing.'''
"""


@pytest.fixture
def away(plan, code, monkeypatch):
    tree = take(code)
    script = Script(("train.py",), folder=str(code), code=tree.id, dirty=tree.dirty)
    whole = Plan.repeats_on
    monkeypatch.setattr(Plan, "repeats_on", lambda *given: [replace(r, script=script) for r in whole(*given)])
    machines = (plan.hardware[0].model_copy(update={"name": "far", "pool": "ssh"}), plan.hardware[1])
    return plan.model_copy(update={"hardware": machines, "baseline": "far"})


@pytest.fixture
def kept(away, tmp_path):
    store = Store.create(tmp_path / "runs", away)
    keep_code(store)
    return store


def test_code_too_large_to_be_sent_is_refused_at_planning(code, away, monkeypatch):
    far, here = away.hardware
    assert refusal(take(code), far) is None
    monkeypatch.setattr(run_code, "MOST_API_BYTES", 100)
    sentence = refusal(take(code), far)
    assert (
        "MiB packed, and without a bucket far gets 0 MiB at most; list files that are not code in" in sentence
    )
    folder, block, bucket = map(ResultsAddress.parse, ("results", "local-file-system/x", "s3-bucket/x"))
    assert "local-file-system" not in str(refusal(take(code), far, block))
    assert refusal(take(code), far, block) == refusal(take(code), far, folder) == sentence
    assert refusal(take(code), far, bucket) is None and refusal(take(code), here) is None
    (code / ".env").write_text("TOKEN=x")
    assert "holds .env, which looks like a secret" in refusal(take(code), far, bucket)
    assert refusal(take(code), here) is None, "it stays where it is"


def test_the_run_keeps_the_code_that_its_lanes_get(kept, code, tmp_path):
    tree = take(code)
    (code / "train.py").write_text("edited while the run is on")
    unpack(packed(kept, tree.id).read_bytes(), tree.id, tmp_path / "there")
    assert (tmp_path / "there" / "train.py").read_text() == "import lib.net\n"


def test_code_that_has_changed_since_the_plan_is_refused(away, code, tmp_path):
    (code / "train.py").write_text("edited")
    with pytest.raises(GridbenchError, match="has changed since the plan was made; start the run again"):
        keep_code(Store.create(tmp_path / "runs", away))


def test_a_run_on_this_machine_alone_packs_nothing(away, code, tmp_path):
    (code / ".env").write_text("TOKEN=x")
    here = away.hardware[1:]
    only_here = away.model_copy(update={"hardware": here, "baseline": here[0].name})
    store = Store.create(tmp_path / "runs", only_here)
    keep_code(store)
    assert not (store.folder / run_code.FOLDER).exists()
    assert code_for(store, away.hardware[1], away.repeats_on(away.hardware[1])).ids == ()


@pytest.fixture
def mine(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "gb_mine.py").write_text(OWN_WORKLOAD)
    monkeypatch.setenv("GRIDBENCH_WORKLOADS", str(folder))
    before = dict(registry._found)
    yield folder
    sys.modules.pop(f"{registry.OWN_MODULES}gb_mine", None)
    registry._found.clear()
    registry._found.update(before)


def test_a_folder_of_workloads_goes_where_it_is_needed(plan, tmp_path, mine):
    far = plan.hardware[0].model_copy(update={"pool": "ssh"})
    plan = plan.model_copy(update={"hardware": (far, plan.hardware[1])})
    store = Store.create(tmp_path / "without", plan)
    keep_code(store)
    assert code_for(store, far, plan.repeats_on(far)).ids == (), "no case is of it"
    case = plan.cases[0].model_copy(update={"workload": "gb_mine", "size": {"n": 1}})
    plan = plan.model_copy(update={"cases": (*plan.cases, case)})
    store = Store.create(tmp_path / "with", plan)
    keep_code(store)
    tree = take(mine)
    assert code_for(store, far, plan.repeats_on(far)) == ((), tree.id, None)
    assert run_code.workloads_hash(store.folder) == code_hash(mine)
    assert code_for(store, plan.hardware[1], []).ids == ()
    unpack(packed(store, tree.id).read_bytes(), tree.id, tmp_path / "there")
    assert (tmp_path / "there" / "gb_mine.py").read_text() == OWN_WORKLOAD


def test_the_hash_of_own_workloads_is_kept_without_other_machines(plan, tmp_path, mine):
    here = tuple(machine for machine in plan.hardware if not run_code.travels_to(machine))
    case = plan.cases[0].model_copy(update={"workload": "gb_mine", "size": {"n": 1}})
    local = plan.model_copy(update={"hardware": here, "baseline": here[0].name})
    stores = (
        Store.create(tmp_path / "without", local),
        Store.create(tmp_path / "with", local.model_copy(update={"cases": (*plan.cases, case)})),
    )
    for store in stores:
        keep_code(store)
    assert [run_code.workloads_hash(store.folder) for store in stores] == [None, code_hash(mine)]


async def test_a_job_has_its_code_before_its_order(kept, away, monkeypatch):
    prefect = installed(monkeypatch)
    monkeypatch.setattr(sending, "PIECE_BYTES", 100)
    far, here = away.hardware
    keys = []
    monkeypatch.setattr(type(prefect), "create_flow_run_input", noting(prefect, keys))
    repeats = away.repeats_on(far)
    job, order = await submit_lane(prefect, kept, Lane((far,)), repeats, {}, Pace())
    code_id = repeats[0].script.code
    assert job.parameters["code"] == [code_id] and order == repeats
    assert keys[-2:] == [name_of(code_id), "repeats"] and len(keys) > 4
    assert job.job_variables == {"keep": True}
    keys.clear()
    job, _ = await submit_lane(prefect, kept, Lane((here,)), away.repeats_on(here), {}, Pace())
    assert "code" not in job.parameters and keys == ["repeats"] and job.job_variables == {}


async def test_nothing_of_a_runs_code_is_left_in_the_api(kept, away, monkeypatch):
    prefect, keys = installed(monkeypatch), []
    monkeypatch.setattr(type(prefect), "create_flow_run_input", noting(prefect, keys))
    worker = asyncio.create_task(serve(prefect))
    async with Run(kept) as run:
        assert {record.hardware for record in await run.ended()} == {"far", away.hardware[1].name}
    worker.cancel()
    assert any(key.startswith(sending.KEY) for key in keys) and prefect.inputs == {}


def noting(prefect, keys):
    create = type(prefect).create_flow_run_input

    async def note(self, flow_run_id, key, value):
        keys.append(key)
        await create(self, flow_run_id, key, value)

    return note


@pytest.fixture
def shelf(tmp_path):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    folder = tmp_path / "bucket"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield SimpleNamespace(folder=folder, url=f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()


class LinkingBucket:
    name = "s3-bucket/results"

    def __init__(self, shelf):
        self.shelf, self.asked = shelf, []

    def signed(self, key, lasts_s):
        self.asked.append((key, lasts_s))
        return f"{self.shelf.url}/{key}"


async def test_code_too_large_for_the_api_is_sent_by_an_expiring_link(kept, code, shelf, monkeypatch):
    prefect, tree, flow_run_id = installed(monkeypatch), take(code), uuid4()
    monkeypatch.setattr(sending, "MOST_API_BYTES", 100)
    bucket = LinkingBucket(shelf)
    await give_code(prefect, flow_run_id, replace(kept, bucket=bucket), [tree.id])
    ((key, lasts_s),) = bucket.asked
    assert key == f"{kept.folder.name}/code/{packed(kept, tree.id).name}" and 0 < lasts_s <= 24 * 3600
    (value,) = prefect.inputs.values()
    way = CODE_TRANSFER.validate_json(value)
    assert (way.id, way.pieces, way.link) == (tree.id, 0, f"{shelf.url}/{key}")
    content = pack(tree)
    (shelf.folder / kept.folder.name / "code").mkdir(parents=True)
    (shelf.folder / key).write_bytes(content)
    assert code_download._download(way.link, way.bytes) == content
    with pytest.raises(GridbenchError, match="the results bucket gives more than"):
        code_download._download(way.link, way.bytes - 1)
    with pytest.raises(GridbenchError, match=r"does not give the run's code \(status 404\)") as caught:
        code_download._download(f"{way.link}x?signature=secret", way.bytes)
    assert "secret" not in str(caught.value)
    with pytest.raises(GridbenchError, match=r"does not give the run's code \(status 301\)"):
        code_download._download(f"{shelf.url}/{kept.folder.name}", way.bytes)
    with pytest.raises(GridbenchError, match="too large for the Prefect API, and its results no S3 bucket"):
        await give_code(prefect, flow_run_id, kept, [tree.id])


class Inputs:
    """Deletable inputs of flow runs; a name can have a status instead."""

    def __init__(self, statuses):
        self.statuses, self.asked = statuses, []

    async def delete_flow_run_input(self, flow_run_id, key):
        self.asked.append(key)
        status = self.statuses.get(key)
        request = httpx.Request("DELETE", "http://api/inputs")
        if status == "away":
            raise httpx.ConnectError("nobody answers")
        if status:
            raise httpx.HTTPStatusError(
                "no", request=request, response=httpx.Response(status, request=request)
            )


@pytest.mark.parametrize(
    ("status", "asked", "said"),
    [(404, 3, ""), (None, 3, ""), (500, 3, "can remain in the inputs of"), ("away", 1, "nobody answers")],
)
def test_code_that_can_not_be_deleted_is_reported_and_stops_nothing(kept, monkeypatch, status, asked, said):
    (tree_id,) = code_for(kept, kept.plan.hardware[0], kept.plan.repeats_on(kept.plan.hardware[0])).ids
    monkeypatch.setattr(sending, "PIECE_BYTES", -(-packed(kept, tree_id).stat().st_size // 2))
    client, sentences = Inputs({name_of(tree_id): status}), []
    asyncio.run(sending.forget_code(client, kept, [uuid4()], sentences.append))
    assert len(client.asked) == asked and bool(sentences) == bool(said) and said in "".join(sentences)
