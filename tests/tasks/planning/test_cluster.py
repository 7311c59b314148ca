import asyncio
import json
import sys
from pathlib import Path

import pytest
import yaml

from flows.bench import bench
from gridbench import main
from gridbench.run import command
from infra.workers.ssh.configuration import Host
from tasks import start as opening
from tasks.errors import GridbenchError
from tasks.planning import reprice
from tasks.planning.cluster import Cluster, copies, expand, load_cluster
from tasks.planning.hardware import Hardware, load_hardware
from tasks.planning.plan import plan_rows, read_plan
from tasks.planning.planner import make_plan
from tasks.planning.rent_terms import RentTerms
from tasks.planning.request import RunRequest

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "cluster.yaml"
PRICE = {"usd_per_hour": 2.0, "purchase": "on-demand", "source": "a bill", "date": "2026-11-20"}
SHAPE = {
    "name": "my-box",
    "title": "A box",
    "pool": "ssh",
    "device": "cpu",
    "box": "one-computer",
    "price": PRICE,
    "job_variables": {"image": "an-image", "hosts": [{"address": "example.org"}]},
}
RENTED = SHAPE | {
    "rent": RentTerms(provider="lambda", instances=("gpu_1x_a10",)),
    "job_variables": {"image": "i"},
}
BOXES = [{"name": "a", "address": "10.0.0.1"}, {"name": "b-2", "address": "10.0.0.2"}]
CLUSTER = {"hardware": "my-box", "key": "~/.ssh/all", "boxes": BOXES}


@pytest.fixture(autouse=True)
def hardware(monkeypatch):
    files = {"my-box": SHAPE, "rented": RENTED | {"name": "rented"}}
    files["gone"] = SHAPE | {"name": "gone", "unsupported": "it was sold"}

    def load(name):
        return Hardware.model_validate(files[name]) if name in files else load_hardware(name)

    for module in ("cluster", "machines", "reprice"):
        monkeypatch.setattr(f"tasks.planning.{module}.load_hardware", load)
    return files


def written(tmp_path, content):
    path = tmp_path / "boxes.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def boxes_with(**changes):
    return CLUSTER | {"boxes": [BOXES[0], BOXES[1] | changes]}


def planned(content=CLUSTER, **arguments):
    return make_plan(
        RunRequest(
            suite="quick", hardware=[], cluster=Cluster.model_validate(content), repeats=2, **arguments
        )
    )


class TestFile:
    def test_the_example_is_sound_and_its_hardware_there(self):
        found = load_cluster(EXAMPLE)
        first, _, lab = expand(found)
        assert first.shape == found.hardware and lab.job_variables["hosts"][0]["port"] == 2222

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (CLUSTER | {"boxes": BOXES[:1]}, "boxes has 1: a comparison needs 2 or more"),
            (CLUSTER | {"boxes": []}, "boxes has 0: a comparison needs 2 or more"),
            (boxes_with(name="a"), "boxes has 'a' twice: each box needs its own name"),
            (boxes_with(address="10.0.0.1"), "boxes a and b-2 are the same: both are at 10.0.0.1, port 22"),
            (boxes_with(address="10.0.0.1", port=22), "boxes a and b-2 are the same"),
            (boxes_with(name="B"), "boxes.1: name is 'B': it has lower-case letters, digits and dashes"),
            (boxes_with(name="b.2"), "name is 'b.2'"),
            (boxes_with(name="b/2"), "name is 'b/2'"),
            (boxes_with(name="-b"), "name is '-b'"),
            (boxes_with(name="b\n"), "name is 'b\\n'"),
            (boxes_with(name=""), "name is ''"),
            (boxes_with(name=2), "boxes.1.name is 2: must be a valid string"),
            (boxes_with(address="me@10.0.0.2"), "address is 'me@10.0.0.2': it is a name or an IP address"),
            (boxes_with(address="10.0.0.2:22"), "user and port have their own keys"),
            (boxes_with(port=0), "boxes.1.port is 0"),
            (boxes_with(user="a b"), "boxes.1.user is 'a b'"),
            (boxes_with(host_key="x"), "boxes.1.host_key is 'x'"),
            (boxes_with(colour="red"), "the key 'boxes.1.colour' is unknown"),
            (CLUSTER | {"baseline": "c"}, "baseline 'c' is not among its boxes; there are a, b-2"),
            ({"hardware": "my-box"}, "the key 'boxes' is missing"),
            (["a list"], "holds list"),
        ],
    )
    def test_a_mistake_is_one_sentence_that_names_the_file(self, tmp_path, content, words):
        with pytest.raises(GridbenchError) as caught:
            load_cluster(written(tmp_path, content))
        assert words in str(caught.value) and "boxes.yaml" in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_one_address_can_have_several_ports(self, tmp_path):
        content = boxes_with(address="10.0.0.1", port=2222)
        assert [box.endpoint for box in load_cluster(written(tmp_path, content)).boxes] == [
            ("10.0.0.1", 22, ()),
            ("10.0.0.1", 2222, ()),
        ]

    def test_one_address_can_be_behind_several_bastions(self, tmp_path):
        content = boxes_with(address="10.0.0.1", jump=[{"address": "bastion", "user": "me"}])
        one, two = expand(load_cluster(written(tmp_path, content)))
        (host,) = two.job_variables["hosts"]
        assert host["jump"] == [{"address": "bastion", "user": "me"}]
        assert str(Host.model_validate(host)) == "ubuntu@10.0.0.1:22 via me@bastion:22"
        assert "jump" not in one.job_variables["hosts"][0]

    def test_a_missing_cluster_file_is_an_error(self, tmp_path):
        with pytest.raises(GridbenchError, match=r"no\.yaml can't be read"):
            load_cluster(tmp_path / "no.yaml")


class TestExpansion:
    def test_a_machine_for_each_box_with_that_box_alone(self):
        one, two = expand(Cluster.model_validate(boxes_with(user="me", key="block:k", port=2200)))
        assert (one.name, two.name) == ("my-box.a", "my-box.b-2")
        assert {one.shape, two.shape} == {"my-box"} and (one.title, one.box) == ("A box, box a", None)
        assert one.price == two.price and one.price.usd_per_hour == 2.0
        assert one.job_variables == {
            "image": "an-image",
            "hosts": [{"address": "10.0.0.1", "key": "~/.ssh/all"}],
        }
        (host,) = two.job_variables["hosts"]
        assert host == {"address": "10.0.0.2", "user": "me", "port": 2200, "key": "block:k"}
        assert str(Host.model_validate(host)) == "me@10.0.0.2:2200"

    def test_a_rented_shape_whose_boxes_are_there_is_not_rented(self):
        for box in expand(Cluster.model_validate(CLUSTER | {"hardware": "rented"})):
            assert box.rent is None and Hardware.model_validate(box.model_dump()) == box

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("laptop", "cluster: hardware 'laptop' is unknown"),
            ("local-cpu", "cluster: hardware local-cpu is measured by pool 'local'; boxes with addresses"),
        ],
    )
    def test_hardware_that_has_no_such_boxes_is_refused(self, name, words):
        with pytest.raises(GridbenchError, match=words):
            expand(Cluster.model_validate(CLUSTER | {"hardware": name}))

    def test_copies_of_a_rented_machine_are_rented_each(self, hardware):
        machine = Hardware.model_validate(hardware["rented"])
        assert copies(machine, 1) == [machine]
        found = copies(machine, 3)
        assert [box.name for box in found] == ["rented.1", "rented.2", "rented.3"]
        assert all(box.rent == machine.rent and box.shape == "rented" for box in found)


class TestPlan:
    def test_keeps_the_boxes_and_survives_its_file(self):
        plan = planned()
        assert [machine.name for machine in plan.hardware] == ["my-box.a", "my-box.b-2"]
        assert plan.baseline == "my-box.a" and len(plan.cells) == 2 * len(plan.cases)
        assert {machine.shape for machine in plan.machines} == {"my-box"}
        assert {row["hardware"] for row in plan_rows(plan)} == {"my-box.a", "my-box.b-2"}
        assert read_plan(plan.model_dump_json(), "plan.json") == plan

    def test_lanes_run_side_by_side_and_both_cost(self):
        both, one = planned(), make_plan(RunRequest(suite="quick", hardware=["my-box"], repeats=2))
        assert both.estimate_s == one.estimate_s
        assert both.estimate_usd == pytest.approx(2 * one.estimate_usd)

    @pytest.mark.parametrize("baseline", ["b-2", "my-box.b-2"])
    def test_a_box_is_the_baseline(self, baseline):
        assert planned(baseline=baseline).baseline == "my-box.b-2"
        assert planned(CLUSTER | {"baseline": "b-2"}).baseline == "my-box.b-2"

    def test_rents_several_of_each_rented_machine(self):
        plan = make_plan(
            RunRequest(suite="quick", hardware=["local-cpu", "rented"], baseline="rented", boxes=2)
        )
        assert [machine.name for machine in plan.hardware] == ["local-cpu", "rented.1", "rented.2"]
        assert plan.baseline == "rented.1"
        assert (
            make_plan(RunRequest(suite="quick", hardware=["rented"], boxes=2, baseline="rented.2")).baseline
            == "rented.2"
        )

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (
                {"hardware": ["local-cpu"], "boxes": 2},
                "boxes=2 is the number of copies .* none of local-cpu is",
            ),
            ({"hardware": ["rented"], "boxes": 0}, "boxes=0 must be 1 or more"),
            ({"hardware": [], "boxes": 2, "cluster": CLUSTER}, "boxes=2 is for rented machines"),
            ({"hardware": [], "cluster": CLUSTER | {"hardware": "gone"}}, "gone.a is not supported: it was"),
            ({"hardware": [], "cluster": CLUSTER, "baseline": "c"}, "baseline 'c' is not among .*my-box.b-2"),
        ],
    )
    def test_a_mistake_is_one_sentence(self, arguments, words):
        if "cluster" in arguments:
            arguments = arguments | {"cluster": Cluster.model_validate(arguments["cluster"])}
        with pytest.raises(GridbenchError, match=words):
            make_plan(RunRequest(suite="quick", **arguments))

    def test_boxes_are_counted_at_the_new_price_of_their_hardware(self, hardware):
        plan = planned()
        hardware["my-box"] = SHAPE | {"price": PRICE | {"usd_per_hour": 3.0}}
        machines, told = reprice.at_new_prices(plan)
        assert [(machine.usd_per_hour, machine.shape) for machine in machines] == [(3.0, "my-box")] * 2
        assert told[0].startswith("my-box.a is counted at 3 USD/h")


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["gridbench", "run", "quick", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return ended.value.code, " ".join("".join(capsys.readouterr()).split())


class TestCommand:
    def test_a_dry_run_shows_every_box(self, monkeypatch, capsys, tmp_path):
        path = written(tmp_path, CLUSTER)
        code, said = run(monkeypatch, capsys, "--cluster", path, "--baseline", "b-2", "--dry-run")
        assert code == 0 and "my-box.a" in said and "baseline my-box.b-2" in said

    def test_a_dry_run_shows_every_rented_copy(self, monkeypatch, capsys):
        code, said = run(monkeypatch, capsys, "--on", "rented", "--boxes", 3, "--dry-run")
        assert code == 0 and all(f"rented.{number}" in said for number in (1, 2, 3))

    def test_hardware_and_a_cluster_exclude_each_other(self, monkeypatch, capsys, tmp_path):
        path = written(tmp_path, CLUSTER)
        code, said = run(monkeypatch, capsys, "--on", "local-cpu", "--cluster", path, "--dry-run")
        assert code == 2 and "--on" in said and "--cluster" in said

    def test_the_flow_gets_the_content_of_a_cluster_file(self, monkeypatch, capsys, tmp_path):
        given = {}
        monkeypatch.setattr(command, "check_reach", lambda hardware: None)
        monkeypatch.setattr(
            command,
            "_run",
            lambda request, *_: given.update(request.model_dump(mode="json", exclude_none=True)),
        )
        code, _ = run(monkeypatch, capsys, "--cluster", written(tmp_path, CLUSTER))
        assert code == 0 and json.loads(json.dumps(given))["cluster"] == CLUSTER
        assert (given["hardware"], given["boxes"]) == ([], 1)


class TestFlow:
    def opened(self, monkeypatch, tmp_path, **changes):
        class Enough(Exception):
            pass

        async def sent(store):
            raise Enough(store.plan)

        async def not_asked(hardware):  # test_variables.py asks a server
            pass

        monkeypatch.setattr(opening, "send", sent)
        monkeypatch.setattr(opening, "check_job_variables", not_asked)
        arguments = {"suite": "quick", "hardware": [], "repeats": 2, "results": str(tmp_path / "results")}
        try:
            return asyncio.run(bench.fn(**arguments, **changes)).message
        except Enough as caught:
            return caught.args[0]

    def test_a_clusters_content_becomes_the_plan(self, monkeypatch, tmp_path):
        plan = self.opened(monkeypatch, tmp_path, cluster=CLUSTER)
        assert [machine.name for machine in plan.hardware] == ["my-box.a", "my-box.b-2"]

    @pytest.mark.parametrize("content", [{}, {"hardware": "my-box", "boxes": BOXES[:1]}])
    def test_a_mistake_in_it_is_one_sentence(self, monkeypatch, tmp_path, content):
        assert self.opened(monkeypatch, tmp_path, cluster=content).startswith("cluster: ")
