import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workloads.command_line import ROOT, command
from tests.workloads.harness.repeat.box_holders import is_free
from workloads.harness.probes.cpu import cores
from workloads.harness.probes.sockets import MOST_BYTES
from workloads.harness.records.record import Record, Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)
GROUPS = Path(__file__).parents[1] / "groups"
TRIAL = ("run", "matmul", "--size=n=64", "--trial")
TWO_CPUS = pytest.mark.skipif(cores() < 2, reason="one CPU has no other to be bound to")


def in_shell(words, cwd, **variables):
    """Run words of a shell, in which $WORKLOADS is the command; return exit code and standard error."""
    command = f"{shlex.quote(sys.executable)} -m workloads"
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    found = subprocess.run(
        ["sh", "-c", words.replace("$WORKLOADS", command)],
        cwd=cwd,
        env=environ,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        timeout=120,
    )
    return found.returncode, found.stderr


@TWO_CPUS
@pytest.mark.parametrize(
    "variables",
    [
        {"OMP_PROC_BIND": "true"},
        pytest.param({"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores"}, marks=pytest.mark.chaos),
        pytest.param({"GOMP_CPU_AFFINITY": "0-1"}, marks=pytest.mark.chaos),
    ],
    ids=str,
)
def test_threads_that_openmp_binds_are_all_counted(monkeypatch, box_lock, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, out, err = command(*TRIAL)
    record = Record.from_json(out)
    assert (code, record.verdict, record.threads) == (0, Verdict.OK, cores()), err
    assert record.environment["affinity_cpus"] >= record.threads
    assert record.environment["variables"].items() >= variables.items()


@TWO_CPUS
@pytest.mark.chaos
def test_ranks_of_ours_are_not_all_bound_to_one_cpu(monkeypatch, box_lock):
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    _, out, err = command("run", "all_reduce", "--size=kib=1,processes=2", "--brief", "--quick")
    record = Record.from_json(out)
    assert len(record.group.ranks) == 2 and record.environment["affinity_cpus"] >= 2
    assert "OMP_PROC_BIND" not in record.environment["variables"]
    assert err.count("OMP_PROC_BIND=true is left out") == 1


class TestTimeout:
    def test_a_case_that_hangs_is_stopped_and_frees_the_box(self, cheats, box_lock):
        began = time.monotonic()
        code, out, _ = command("run", "hangs", "--size=n=64", "--timeout-s=6")
        record = Record.from_json(out)
        assert (code, record.verdict) == (1, Verdict.TIMEOUT)
        assert time.monotonic() - began < 60
        assert is_free(box_lock)

    @pytest.mark.chaos
    def test_a_hanging_group_is_stopped_and_frees_the_box(
        self, use_workloads, box_lock, tmp_path, monkeypatch
    ):
        use_workloads(GROUPS)
        monkeypatch.setenv("TEST_NOTE", str(tmp_path))
        code, out, _ = command("run", "one_sleeps", "--size=n=64,processes=2", "--timeout-s=15")
        assert (code, Record.from_json(out).verdict) == (1, Verdict.TIMEOUT)
        assert is_free(box_lock)

    @pytest.mark.chaos
    def test_hanging_ranks_of_torchrun_are_stopped_and_free_the_box(
        self, use_workloads, box_lock, tmp_path, monkeypatch
    ):
        use_workloads(GROUPS)
        monkeypatch.setenv("TEST_NOTE", str(tmp_path))
        words = ["run", "one_sleeps", "--size=n=64,processes=2", "--timeout-s=15"]
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        found = subprocess.run(
            [*launcher, "-m", "workloads", *words], cwd=ROOT, capture_output=True, text=True, timeout=110
        )
        assert Record.from_json(found.stdout).verdict is Verdict.TIMEOUT, found.stderr
        assert found.returncode and is_free(box_lock)

    def test_sigterm_ends_it_like_ctrl_c(self, cheats, tmp_path, box_lock):
        note = tmp_path / "note"
        process = subprocess.Popen(
            [sys.executable, "-m", "workloads", "run", "hangs", "--size=n=64"],
            cwd=ROOT,
            env=os.environ | {"TEST_NOTE": str(note)},
        )
        while not note.exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
        assert is_free(box_lock)


class TestStandardOutput:
    @pytest.mark.parametrize("to", ["> /dev/full", ">&-"])
    def test_a_record_that_it_refuses_is_kept_and_its_place_named(self, box_lock, tmp_path, to):
        code, err = in_shell(f"$WORKLOADS {shlex.join(TRIAL)} {to}", tmp_path)
        (kept,) = tmp_path.glob("gridbench-records-*.json")
        assert Record.from_json(kept.read_text()).verdict is Verdict.OK
        assert code == 1 and str(kept) in err and "Traceback" not in err

    def test_a_closed_standard_error_puts_no_progress_among_the_records(self, box_lock, tmp_path):
        code, _ = in_shell(f"$WORKLOADS {shlex.join(TRIAL)} 2>&- > out", tmp_path)
        assert code == 0
        assert Record.from_json((tmp_path / "out").read_text()).verdict is Verdict.OK

    def test_a_list_that_it_refuses_is_an_error(self, tmp_path):
        code, err = in_shell("$WORKLOADS list > /dev/full", tmp_path)
        assert code == 1 and err.startswith("error: standard output can't be written (No space left")


def test_python_without_docstrings_knows_every_summary(tmp_path, monkeypatch):
    listed = command("list")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    assert command("list") == listed


def test_a_user_without_home_and_name_measures(tmp_path):
    words = ["unshare", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("this user can't make a mount namespace")
    without = "env -u HOME -u USER -u LOGNAME -u GRIDBENCH_ROOF -u XDG_CACHE_HOME GRIDBENCH_BOX_LOCK="
    (tmp_path / "sources").write_text("passwd: files\n")  # systemd's has root, whatever the file says
    hide = "mount --bind /dev/null /etc/passwd && mount --bind sources /etc/nsswitch.conf"
    inner = f"{hide} && exec {without} $WORKLOADS {shlex.join(TRIAL)}"
    code, err = in_shell(f"unshare --mount sh -c {shlex.quote(inner)}", tmp_path, TMPDIR=str(tmp_path))
    assert (code, "Traceback" in err) == (0, False), err
    assert list(tmp_path.glob("gridbench-*")), "the lock and the cache are below the temporary folder"


def test_loaders_are_refused_if_the_temporary_folder_is_too_long_for_their_sockets(
    box_lock, tmp_path, monkeypatch
):
    folder = tmp_path / ("x" * MOST_BYTES)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    size = "--size=batch=16,workers=1"
    code, out, _ = command("run", "simple_cnn_train_loader", size, "--trial", "--timeout-s=60")
    record = Record.from_json(out)
    assert (code, record.verdict) == (1, Verdict.UNSUPPORTED)
    assert str(len(str(folder))) in record.reasons[0] and "TMPDIR" in record.reasons[0]


def test_a_script_in_a_folder_that_is_not_utf8(box_lock, tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/e\xff"))
    folder.mkdir()
    (folder / "train.py").write_text("print('done')\n")
    code, err = in_shell("$WORKLOADS script -- train.py > out", folder)
    assert Record.from_json((folder / "out").read_text()).script.ended == "finished", err
    assert code == 1 and "Traceback" not in err  # it has no step
