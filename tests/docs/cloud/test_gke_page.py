import pytest

from tests.docs.shown import DOCS, block_of
from tests.emulators.own_server import AUTH
from tests.exit_codes import assert_measured

pytestmark = pytest.mark.timeout(1800)


def test_three_commands_make_a_report_and_leave_nothing(
    google, shell, cluster, prefect_server, bench_image, tmp_path
):
    settings = f"PREFECT_API_URL={prefect_server.url} PREFECT_API_AUTH_STRING={AUTH}"
    assert shell(f"prefect config set {settings}")[0] == 0
    up, run, down = block_of(DOCS / "gke.md", "gridbench up gke")
    up += f" --kubeconfig {tmp_path / 'kubeconfig'} --image cuda12={bench_image}"
    code, told = shell(up)
    assert code == 0, told
    assert AUTH not in told and "very-secret" not in (tmp_path / "kubeconfig").read_text()
    assert prefect_server.names("deployments") == {"quick", "full", "script", "command", "local", "gke"}
    assert prefect_server.names("variables") == {"gridbench_image_cuda12"}
    code, told = shell(up)
    assert code == 0 and "cluster gridbench is complete: nothing to create" in told, told
    code, told = shell(run)
    assert_measured(code, told)
    assert "report: " in told and list((tmp_path / "results").glob("*/report.html"))
    assert not shell.processes(), "the workers ended with the run"
    code, told = shell(f"{down} --kubeconfig {tmp_path / 'kubeconfig'}")
    assert code == 0, told
    assert not google.clusters and not (tmp_path / "kubeconfig").exists()
    for kind in ("work_pools", "deployments", "variables"):
        assert prefect_server.names(kind) == set(), kind
