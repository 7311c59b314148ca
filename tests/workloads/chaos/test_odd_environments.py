import shlex
import shutil
import subprocess

import pytest

from tests.workloads.server.test_odd_machines import ROOT, TRIAL, in_shell
from workloads.harness.probes.cpu import cores
from workloads.harness.records.record import Record, Verdict

pytestmark = pytest.mark.flaky(reruns=2, reason="a neighbour's load changes what is measured")
GROUP = ("run", "all_reduce", "--size=kib=1,processes=2", "--brief", "--quick")
OF_SLURM = {"WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "2", "MASTER_ADDR": "node7", "MASTER_PORT": "29500"}


def measured(folder, words=TRIAL, before="", **variables):
    _, err = in_shell(f"{before} $WORKLOADS {shlex.join(words)} > out", folder, **variables)
    out = folder / "out"
    out.chmod(0o600)
    lines = out.read_text().splitlines()
    assert lines, err
    return Record.from_json(lines[-1])


@pytest.mark.parametrize("threads", ["", "4,3,2"])
def test_an_invalid_number_of_threads_means_all_cpus(box_lock, tmp_path, threads):
    record = measured(tmp_path, OMP_NUM_THREADS=threads)
    assert (record.verdict, record.threads) == (Verdict.OK, cores())


@pytest.mark.parametrize(
    "variables",
    [{"PYTHONSAFEPATH": "1"}, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, OF_SLURM],
    ids=lambda variables: next(iter(variables)),
)
def test_a_variable_of_another_program_changes_nothing(box_lock, tmp_path, variables):
    assert measured(tmp_path, **variables).verdict is Verdict.OK


def test_a_group_has_the_addresses_of_its_own_ranks(box_lock, tmp_path):
    record = measured(tmp_path, GROUP, **OF_SLURM)
    assert len(record.group.ranks) == 2 and record.wall


@pytest.mark.parametrize("before", ["umask 0777;", f"env -i PYTHONPATH={shlex.quote(str(ROOT))}"])
def test_a_shell_that_allows_or_knows_nothing_is_enough(box_lock, tmp_path, before):
    assert measured(tmp_path, before=before).verdict is Verdict.OK


def test_output_of_other_modules_is_not_among_the_records(box_lock, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('hello from a module')\n")
    record = measured(tmp_path, GROUP, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert len(record.group.ranks) == 2 and record.wall


def test_a_broken_extension_of_torch_is_named_with_torchs_remedy(box_lock, tmp_path):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nbroken = no_such_module:load\n")
    record = measured(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert record.verdict is Verdict.CRASHED
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD" in " ".join(record.reasons)


@pytest.mark.parametrize("system", ["/sys", "/proc"])
def test_a_machine_that_tells_nothing_of_itself_is_measured(box_lock, tmp_path, system):
    words = ["unshare", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("this user can't make a mount namespace")
    hide = f"mount -t tmpfs none {system} && exec $WORKLOADS {shlex.join(TRIAL)}"
    _, err = in_shell(f"unshare --mount sh -c {shlex.quote(hide)} > out", tmp_path)
    record = Record.from_json((tmp_path / "out").read_text())
    assert record.verdict is Verdict.OK, err
