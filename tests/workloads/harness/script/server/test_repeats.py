import time
from dataclasses import replace

import pytest

from tests.workloads.harness.script.scripts import start, under_torchrun
from workloads.harness.records.files import read_records
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
from workloads.harness.repeat import copies, folder_contents
from workloads.harness.repeat.series import measure_repeats
from workloads.harness.script.command import own_case

STEP_S = 0.01
RESUMES = """
import os, sys, time, torch
torch.manual_seed(0); torch.set_num_threads(1)
place, last = sys.argv[1], int(sys.argv[2])
net = torch.nn.Linear(16, 4); optimizer = torch.optim.SGD(net.parameters(), lr=0.05); begin = 0
if os.path.exists(place):
    state = torch.load(place); net.load_state_dict(state["net"]); begin = state["step"]
target = torch.nn.Linear(16, 4)
for i in range(begin, last):
    x = torch.randn(32, 16)
    optimizer.zero_grad(); (net(x) - target(x).detach()).square().mean().backward(); optimizer.step()
    torch.save({"net": net.state_dict(), "step": i + 1}, place); time.sleep(0.01)
"""


def repeats(folder, *words, count=2, **options):
    """Measure a script several times, like a lane."""
    script = Script(("train.py", *words), folder=str(folder), **options)
    first = Repeat(
        "r", "here", own_case(script, {}), brief=True, timeout_s=100, script=script, any_device=True
    )
    records, said = [], []
    measure_repeats(
        [replace(first, repeat=number + 1) for number in range(count)], said.append, records.append
    )
    return records, said


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(RESUMES)
    return folder


def test_each_repeat_begins_as_the_first_one_and_nothing_is_left(folder, box_lock):
    records, _ = repeats(folder, "last.pt", "4000")
    assert [record.script.ended for record in records] == ["stopped"] * 2, [r.reasons for r in records]
    assert records[0].script.losses[:20] == records[1].script.losses[:20]
    assert all(STEP_S <= record.wall.median_s < 3 * STEP_S for record in records)
    assert [path.name for path in folder.iterdir()] == ["train.py"]
    files = records[0].script.files
    assert (files.place, files.written, files.names) == ("copy", 1, ("last.pt",))


def test_written_files_are_kept_for_each_repeat(folder, tmp_path, box_lock):
    records, _ = repeats(folder, "last.pt", "4000", keep=str(tmp_path / "kept"))
    kept = sorted(path.relative_to(tmp_path / "kept") for path in (tmp_path / "kept").rglob("*.pt"))
    assert [str(path) for path in kept] == [f"here/train/own/{number}/last.pt" for number in (1, 2)]
    assert records[1].script.files.kept == str(tmp_path / "kept/here/train/own/2")


def test_a_script_that_found_its_own_checkpoint_is_reported(folder, tmp_path, box_lock):
    records, _ = repeats(folder, str(tmp_path / "last.pt"), "15")
    assert [record.script.steps for record in records] == [15, 0]
    assert (records[1].script.ended, records[1].script.exit_code) == ("finished", 0)
    assert "an earlier repeat took 15 steps" in records[1].reasons[-1]
    assert not [reason for reason in records[0].reasons if "checkpoint" in reason]


def test_a_file_of_the_folder_itself_that_changes_is_named(folder, box_lock):
    (folder / "train.py").write_text(RESUMES.replace("sys.argv[1]", f"{str(folder)!r} + '/last.pt'"))
    (record,), _ = repeats(folder, "last.pt", "4000", count=1)
    assert record.script.files.changed == ("last.pt",)


@pytest.mark.parametrize(("every", "is_unseen"), [(10**6, True), (20, False)])
def test_a_checkpoint_that_never_came_is_left_out_of_the_job(every, is_unseen, folder, box_lock):
    text = RESUMES.replace("; time.sleep(0.01)", "\n    time.sleep(0.01)")
    (folder / "train.py").write_text(
        text.replace("    torch.save", f"    if i % {every} == {every - 1}: torch.save")
    )
    (record,), _ = repeats(folder, "last.pt", "4000", count=1, steps=4000)
    unseen = [part for part in record.script.job.left_out if "torch.save" in part]
    assert bool(unseen) is is_unseen and bool(record.script.files.written) is not is_unseen


def test_an_absolute_path_into_the_folder_leads_into_the_copy(folder, box_lock):
    (record,), _ = repeats(folder, str(folder / "last.pt"), "4000", count=1)
    assert record.script.files.changed == () and record.script.files.names == ("last.pt",)
    assert record.script.command == ("train.py", str(folder / "last.pt"), "4000")
    assert [path.name for path in folder.iterdir()] == ["train.py"]


def test_a_script_outside_of_its_folder_is_refused_before_anything_starts(folder, box_lock):
    (folder.parent / "other").mkdir()
    for file in ("../project/train.py", str(folder / "train.py")):
        code, out, err = start("--brief", "--", file, "last.pt", "10", folder=folder.parent / "other")
        assert (code, out) == (2, "") and f"--folder {folder}" in err and err.count("\n") == 1


def test_a_child_with_a_session_of_its_own_does_not_get_past_the_guard(folder, box_lock, monkeypatch):
    monkeypatch.setattr(folder_contents, "LARGE_BYTES", 2000)
    for module in (folder_contents, copies):
        monkeypatch.setattr(module, "MOST_BYTES", 4000)
    (folder / "real.pt").write_bytes(b"x" * 10_000)
    (folder / "train.py").write_text(
        "import subprocess, os, time\n"
        "no = subprocess.DEVNULL\n"
        "end = f'kill -9 {os.getpid()}; echo > real.pt'\n"
        "subprocess.Popen(['sh', '-c', end], start_new_session=True, stdout=no, stderr=no)\n"
        "time.sleep(60)\n"
    )
    (record,), _ = repeats(folder, count=1)
    assert record.verdict in (Verdict.CRASHED, Verdict.UNSUPPORTED)
    time.sleep(0.5)
    assert (folder / "real.pt").read_bytes() == b"x" * 10_000


def test_kept_files_in_the_folder_are_not_in_the_next_copy(folder, box_lock):
    (folder / "train.py").write_text(RESUMES + "print(os.listdir('.'))\n")
    _, said = repeats(folder, "last.pt", "10", keep=str(folder / "kept"))
    listed = [line for line in said if line.startswith("[")]
    assert len({line for line in listed if "kept" in line}) == 0 and listed
    (record,), _ = repeats(folder, "last.pt", "10", count=1, keep=str(folder))
    assert record.verdict is Verdict.UNSUPPORTED and "keep" in record.reasons[0]


def test_a_checkpoint_that_is_too_large_to_copy_is_not_overwritten(folder, box_lock, monkeypatch):
    monkeypatch.setattr(folder_contents, "LARGE_BYTES", 2000)
    for module in (folder_contents, copies):
        monkeypatch.setattr(module, "MOST_BYTES", 4000)
    (folder / "real.pt").write_bytes(b"x" * 10_000)
    (folder / "train.py").write_text(RESUMES.replace("os.path.exists(place)", "False"))
    (record,), _ = repeats(folder, "real.pt", "4000", count=1)
    assert record.verdict is Verdict.UNSUPPORTED and f"opened {folder}/real.pt" in record.reasons[0]
    assert (folder / "real.pt").read_bytes() == b"x" * 10_000


def test_a_bare_measurement_leaves_the_folder_as_it_is_and_says_where_it_wrote(folder, box_lock):
    (folder / "last.pt").write_bytes(b"a real checkpoint")
    (folder / "train.py").write_text(
        RESUMES.replace("os.path.exists(place)", "False") + "raise ValueError(place)"
    )
    _, out, err = start("--brief", "--", "train.py", "last.pt", "10", folder=folder)
    assert (folder / "last.pt").read_bytes() == b"a real checkpoint"
    assert "1 file written in a copy of its folder (last.pt)" in err
    assert f'File "{folder}/train.py", line' in err and "gridbench-copy" not in err + out


def test_a_whole_run_writes_into_the_folder_itself(folder, tmp_path, box_lock):
    code, _, err = start(
        "--whole", "--brief", f"--out={tmp_path / 'w'}", "--", "train.py", "last.pt", "10", folder=folder
    )
    assert code == 0, err
    assert (folder / "last.pt").exists()
    (record,) = read_records(tmp_path / "w")
    assert record.script.files.place == "folder"


def test_ranks_of_torchrun_share_the_folder_itself(folder, box_lock):
    # One rank would read the file while another writes it.
    (folder / "train.py").write_text(RESUMES.replace("os.path.exists(place)", "False"))
    record = under_torchrun(f"--folder={folder}", "--", "train.py", "last.pt", "4000")
    assert record.script.files.place == "folder" and (folder / "last.pt").exists()
