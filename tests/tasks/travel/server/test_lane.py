import asyncio
import sys

import pytest
from prefect.flow_engine import run_flow

from flows.lane import lane
from tasks.delivery import job_orders, unsent_records
from tasks.delivery.artifact_encoding import records_in
from tasks.delivery.artifact_queue import ArtifactQueue
from tasks.errors import GridbenchError
from tasks.travel import sending
from tasks.travel.code_download import download_code, unpack_code
from tasks.travel.packing import pack
from tasks.travel.run_code import packed
from tasks.travel.sending import forget_code, give_code
from tasks.travel.tree import hex_of, take
from workloads.harness.records.case import Case
from workloads.harness.records.files import write_whole
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script

# In the place of `python -m workloads`: it runs the script's file and reports what that printed.
STAND_IN = """
import json, os, subprocess, sys
from dataclasses import replace
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import ScriptRun
repeat = Repeat.from_json(sys.argv[2])
script = repeat.script
words = [word.format(data=script.data) for word in script.command]
done = subprocess.run([sys.executable, *words], cwd=script.folder, capture_output=True, text=True)
record = repeat.failed(Verdict.OK, done.stdout.strip() or done.stderr[-300:], wall_s=1.0)
print(replace(record, script=ScriptRun(script.command, code=script.code)).to_json())
"""
TRAIN = "import os, sys, lib.net; print(lib.net.WIDTH, sys.argv[1], os.path.basename(os.getcwd()))\n"


@pytest.fixture
def sent(code, tmp_path, monkeypatch, store, box_lock):
    """A run with code in pieces of 40 bytes, and a caching machine."""
    monkeypatch.setattr(sending, "PIECE_BYTES", 40)
    monkeypatch.setattr(unsent_records, "FOLDER", tmp_path / "unsent")
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / "kept"))
    (code / "train.py").write_text(TRAIN)
    tree = take(code)
    write_whole(packed(store, tree.id), pack(tree))
    return tree


async def job(client, store, tree, repeats, **parameters):
    asked = {
        "run": store.plan.run,
        "hardware": "a-box",
        "count": len(repeats),
        "code": [tree.id],
        **parameters,
    }
    run = await client.create_flow_run(lane, parameters=asked)
    await give_code(client, run.id, store, [tree.id])
    await job_orders.send_order(client, run.id, repeats)
    return run


def repeats_of(tree, tmp_path, **changes):
    stand_in = tmp_path / "stand_in.py"
    stand_in.write_text(STAND_IN)
    script = Script(("train.py", "{data}"), folder="/not/here", code=tree.id, data=str(tmp_path), **changes)
    case = Case.of("matmul", {"n": 8})
    repeats = [Repeat("a-run", "a-box", case, repeat=number, script=script) for number in (1, 2)]
    return repeats, [sys.executable, str(stand_in)]


async def records_of(client, run):
    uploads = await ArtifactQueue(client).new([run.id])
    return [record for upload in uploads for record in records_in(upload.text, 1000)[0]]


async def test_a_lane_gets_the_code_and_runs_it(prefect, sent, store, tmp_path):
    repeats, command = repeats_of(sent, tmp_path)
    with prefect.settings():
        async with prefect.client() as client:
            run = await job(client, store, sent, repeats, command=command)
            run = await client.read_flow_run(run.id)
            state = await asyncio.to_thread(run_flow, lane, run, run.parameters, None, "state")
            records = await records_of(client, run)
            assert state.is_completed(), state.message
            assert [record.reasons for record in records] == [(f"8 {tmp_path} 0",)] * 2
            first, second = records
            assert {"code", "data"} <= first.phases_s.keys() and second.phases_s == {}
            assert first.wall_s == pytest.approx(1.0 + sum(first.phases_s.values())) and second.wall_s == 1.0


async def test_a_machine_that_has_it_fetches_nothing(prefect, sent, store, tmp_path):
    fetched = []
    with prefect.settings():
        async with prefect.client() as client:
            run = await job(client, store, sent, [])
            assert len(await client.filter_flow_run_input(run.id, "code-", 200, set())) > 5

            def fetch(tree_id):
                fetched.append(tree_id)
                return download_code(run.id, tree_id)

            for name in ("first", "second"):
                await asyncio.to_thread(unpack_code, sent.id, tmp_path / name, fetch)
                assert take(tmp_path / name).id == sent.id
            assert fetched == [sent.id]
            kept = tmp_path / "kept" / "code" / f"{hex_of(sent.id)}.pack"
            kept.write_bytes(b"somebody has changed it")
            await asyncio.to_thread(unpack_code, sent.id, tmp_path / "third", fetch)
            assert take(tmp_path / "third").id == sent.id and len(fetched) == 2


async def test_nothing_of_it_is_left_in_the_api(prefect, sent, store):
    with prefect.settings():
        async with prefect.client() as client:
            run, other = [await job(client, store, sent, []) for _ in range(2)]
            await give_code(client, run.id, store, [sent.id])  # an answer was lost: it is sent again
            await forget_code(client, store, [run.id], print)
            assert [i.key for i in await client.filter_flow_run_input(run.id, "", 200, set())] == [
                job_orders.KEY
            ]
            assert len(await client.filter_flow_run_input(other.id, "code-", 200, set())) > 5
            with pytest.raises(GridbenchError, match="this lane job's code did not come"):
                await asyncio.to_thread(download_code, run.id, sent.id)


async def test_packages_that_can_not_be_installed_end_the_lane_with_a_sentence(
    prefect, sent, store, tmp_path
):
    repeats, command = repeats_of(sent, tmp_path, packages="requirements.txt")
    with prefect.settings():
        async with prefect.client() as client:
            run = await job(client, store, sent, repeats, command=command)
            run = await client.read_flow_run(run.id)
            state = await asyncio.to_thread(run_flow, lane, run, run.parameters, None, "state")
            assert (state.name, await records_of(client, run)) == ("Unfit", [])
            assert "packages='requirements.txt' is not a file in the code folder" in state.message
