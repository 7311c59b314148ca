import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("box_lock")


def run(*words):
    command = [sys.executable, "-m", "workloads", "run", *words, "--brief", "--threads", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("llm_decode", "millions=0,batch=1,context=16"),
        pytest.param("gpt2_train", "millions=0,batch=2,length=16", marks=pytest.mark.chaos),
    ],
)
def test_a_compiled_step_is_right_and_its_compiling_is_a_phase(name, size):
    eager, compiled = (run(name, "--size", size, "--mode", mode) for mode in ("eager", "compiled"))
    for record in (eager, compiled):
        assert record["verdict"] not in ("wrong", "crashed", "unsupported"), record["reasons"]
        assert record["check"]["error"] < record["check"]["bound"]
    assert compiled["case"]["mode"] == "compiled" and eager["case"]["mode"] == "eager"
    assert "compile" not in eager["phases_s"]
    assert compiled["phases_s"]["compile"] > compiled["phases_s"]["first_call"]
    assert compiled["work"]["counted_flops"] == eager["work"]["counted_flops"] > 0
    assert compiled["work"]["launches"] == pytest.approx(eager["work"]["launches"], rel=0.1)


def test_two_processes_exchange_their_values():
    record = run("all_reduce", "--size", "kib=64,processes=2")
    assert record["verdict"] not in ("wrong", "crashed", "unsupported"), record["reasons"]
    assert (record["work"]["unit"], record["work"]["units"]) == ("bus bytes", 64 * 1024)
    assert (record["group"]["backend"], len(record["group"]["ranks"])) == ("gloo", 2)
    assert record["check"]["error"] == 0
