import pytest

from gridbench.run import box
from gridbench.run.box import hardware_of, read, with_boxes
from tasks.errors import GridbenchError
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest

FACTS = {"cpu": ["AMD EPYC 7R32"], "memory_kib": ["65536000"], "runtime": ["ok"]}
GPUS = {"gpu": ["580.1, NVIDIA A100-SXM4-40GB", "580.1, NVIDIA A100-SXM4-40GB"]}


@pytest.mark.parametrize(
    ("address", "host", "says"),
    [
        ("ssh://My_box", {"address": "My_box"}, {}),  # an alias of ~/.ssh/config
        ("ssh://me@10.0.0.5:2222", {"address": "10.0.0.5", "user": "me", "port": 2222}, {}),
        ("ssh://me@box/?usd=1.99", {"address": "box", "user": "me"}, {"usd": "1.99"}),
        (
            "ssh://[fe80::1]?python=/opt/conda/bin/python",
            {"address": "fe80::1"},
            {"python": "/opt/conda/bin/python"},
        ),
    ],
)
def test_an_address_gives_the_host_and_price_of_a_box(address, host, says):
    assert read(address) == (host, says)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ssh://", "write ssh://USER@HOST"),
        ("ssh://box:many", "write ssh://USER@HOST"),
        ("ssh://box/home", "write ssh://USER@HOST"),
        ("ssh://me:secret@box", "write ssh://USER@HOST"),
        ("ssh://box?eur=2", "'eur'"),
        ("ssh://box?usd=cheap", "usd=cheap"),
        ("ssh://box?usd=-1", "usd=-1"),
        ("ssh://box?usd=", "usd=;"),
    ],
)
def test_a_mistake_in_an_address_is_a_sentence(address, words):
    with pytest.raises(GridbenchError) as caught:
        read(address)
    assert words in str(caught.value) and "secret" not in str(caught.value)


def test_a_box_has_the_hardware_that_it_reports():
    host, says = read("ssh://me@box.example:2222?usd=1.99")
    found = hardware_of(host, FACTS | GPUS, says, {"hosts": [host]})
    assert (found.name, found.pool, found.device) == ("box.example-2222", "ssh", "cuda")
    assert (found.gpus, found.gpu, found.title) == (
        2,
        "a100-40-sxm",
        "2 x NVIDIA A100-SXM4-40GB at box.example",
    )
    assert found.memory_gb == pytest.approx(67.1, abs=0.1)
    assert found.price.usd_per_hour == 1.99 and "--on" in found.price.note
    assert found.job_variables == {"hosts": [host], "gpus": "all"}


def test_a_box_without_gpus_is_a_cpu_machine_of_unknown_price():
    found = hardware_of({"address": "box"}, FACTS, {}, {})
    assert (found.device, found.gpus, found.gpu, found.title) == ("cpu", 0, None, "AMD EPYC 7R32 at box")
    assert found.price.purchase == "assumption" and "unknown" in found.price.note


def test_an_unlisted_card_has_no_model():
    assert hardware_of({"address": "box"}, {"gpu": ["1, Some Card"]}, {}, {}).gpu is None


def test_a_run_has_the_box_beside_machines_with_files(monkeypatch):
    """The process that gets the plan does not ask the box again."""
    asked = []
    facts = hardware_of({"address": "box"}, FACTS, {"usd": "2"}, {"hosts": [{"address": "box"}]})
    monkeypatch.setattr(box, "ask", lambda address: asked.append(address) or facts)
    request = with_boxes(RunRequest(hardware=("local-cpu", "ssh://box?usd=2"), repeats=1))
    plan = make_plan(request)
    assert [machine.name for machine in plan.hardware] == ["local-cpu", "box"] and plan.hardware[1] == facts
    handed_over = request.model_copy(update={"plan": plan}).model_dump(mode="json", exclude_none=True)
    assert RunRequest.model_validate(handed_over).plan == plan and asked == ["ssh://box?usd=2"]


def test_a_request_without_an_address_is_left_as_it_is():
    request = RunRequest(hardware=("local-cpu",))
    assert with_boxes(request) is request
