import json
import sys

import pytest

from gridbench import main
from infra.workers.kubernetes.pool import read_pool


def printed(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["gridbench", "pool", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return ended.value.code or 0, capsys.readouterr()


def test_the_pool_command_prints_the_base_job_template(monkeypatch, capsys):
    code, output = printed(monkeypatch, capsys, "gke", "--set", "namespace=bench", "--set", "vcpus=2")
    template = json.loads(output.out)
    defaults = {name: schema.get("default") for name, schema in template["variables"]["properties"].items()}
    assert code == 0 and (defaults["namespace"], defaults["vcpus"]) == ("bench", 2)
    assert defaults["node_labels"]["accelerator"] == "cloud.google.com/gke-accelerator"
    assert template["job_configuration"]["job_manifest"]["spec"]["backoffLimit"] == 0


@pytest.mark.parametrize("pool", ["local", "rental"])
def test_the_form_of_a_process_pool_accepts_no_command(monkeypatch, capsys, pool):
    code, output = printed(monkeypatch, capsys, pool)
    template = json.loads(output.out)
    for part in (template["job_configuration"], template["variables"]["properties"]):
        assert not {"command", "env", "working_dir"} & part.keys() and "stream_output" in part
    assert code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "pool 'nowhere' is unknown: name one of gke, kubernetes, local, rental"),
        (["local", "--set", "command=id"], "--set is 'command=id': a run sets nothing of pool local"),
        (["gke", "--set", "namespace"], "--set is 'namespace': write NAME=VALUE"),
        (["gke", "--set", "namespace={"], "--set is 'namespace={': the value is not YAML"),
        (["gke", "--set", "namespace=" + "[" * 10_000], "the value is not YAML"),
        (["gke", "--set", "cpus=2"], "job_variables has 'cpus'"),
        (["gke", "--set", "vcpus=many"], "vcpus is 'many'"),
    ],
)
def test_a_mistake_is_one_sentence(monkeypatch, capsys, words, sentence):
    code, output = printed(monkeypatch, capsys, *words)
    assert (
        code == 2
        and sentence in " ".join((output.out + output.err).split())
        and "Traceback" not in output.err
    )


@pytest.mark.parametrize("content", ["a: " + "[" * 10_000, "a: [", "- a list", "\x00"])
def test_an_invalid_file_of_a_pool_is_one_sentence(tmp_path, content):
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(ValueError, match=r"mine\.yaml (can't be read|holds list)") as caught:
        read_pool(tmp_path / "mine.yaml")
    assert "\n" not in str(caught.value)
