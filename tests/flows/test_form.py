import pytest
from prefect.utilities.schema_tools.validation import validate

from flows.bench import bench
from flows.command import bench as command
from flows.nightly import nightly
from flows.script import bench as script


def schema_of(flow):
    return flow.parameters.model_dump_for_openapi()


@pytest.mark.parametrize("flow", [bench, nightly], ids=lambda flow: flow.name)
def test_an_untouched_form_is_valid(flow):
    schema = schema_of(flow)
    sent = {name: field["default"] for name, field in schema["properties"].items()}
    assert validate(sent, schema, preprocess=True, raise_on_error=False) == []
    assert flow.validate_parameters(sent).keys() >= sent.keys()


def test_the_form_of_a_script_needs_its_command_and_folder_alone():
    schema = schema_of(script)
    assert schema["required"] == ["command", "folder"]
    fields = schema["properties"].items()
    sent = {name: field["default"] for name, field in fields if "default" in field}
    sent |= {"command": "train.py --batch {batch}", "folder": "/home/me/project", "sizes": "batch=16,32"}
    assert validate(sent, schema, preprocess=True, raise_on_error=False) == []
    assert script.validate_parameters(sent).keys() >= sent.keys() and sent["hardware"] == ["local-cpu"]
    for name, field in fields:
        assert field["description"] and field["title"] != name, name


def test_the_form_of_a_command_needs_its_folder_alone():
    schema = schema_of(command)
    assert schema["required"] == ["folder"]
    fields = schema["properties"].items()
    sent = {name: field["default"] for name, field in fields if "default" in field}
    sent |= {"command": "./run {cells}", "folder": "/home/me", "metrics": ["cells/s: rate (.*)"]}
    assert validate(sent, schema, preprocess=True, raise_on_error=False) == []
    assert command.validate_parameters(sent).keys() >= sent.keys()
    for name, field in fields:
        assert field["description"] and field["title"] != name, name


async def test_a_mistake_in_the_form_of_a_command_is_a_sentence(tmp_path):
    state = await command.fn(str(tmp_path), "true", ["speed: (.*)"], results=str(tmp_path))
    assert state.is_failed() and state.message.startswith(
        "metric speed: say whether higher or lower is better"
    )
    state = await command.fn(str(tmp_path), "true", variables=["API_KEY=1"], results=str(tmp_path))
    assert "looks like a secret" in state.message


async def test_the_form_of_a_script_asks_for_a_shortlist(tmp_path, monkeypatch):
    async def measured(request):
        return request

    monkeypatch.setattr("flows.bench.measured", measured)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    machines, results = ["local-cpu-1", "local-cpu"], str(tmp_path / "results")
    request = await script.fn(
        "train.py", str(tmp_path / "code"), machines, offers=True, budget_usd=2, results=results
    )
    assert request.shortlist and (request.budget_usd, request.hardware) == (2, tuple(machines))


async def test_a_mistake_in_the_form_of_a_script_is_a_sentence(tmp_path):
    state = await script.fn("train.py", str(tmp_path), sizes="batch", results=str(tmp_path))
    assert state.is_failed() and state.message.startswith(
        "size 'batch' is not of the form name=number,number"
    )
    state = await script.fn("train.py", str(tmp_path), results=str(tmp_path))
    assert state.message == f"run names the file 'train.py', which is missing in {tmp_path}"


def test_a_value_that_the_form_does_not_offer_is_refused():
    assert validate({"suite": "nope"}, schema_of(bench), raise_on_error=False)


def test_fields_have_titles_and_descriptions_and_those_of_flows_are_hidden():
    fields = schema_of(bench)["properties"]
    assert list(fields)[:4] == ["suite", "hardware", "baseline", "repeats"]
    assert not {"request", "night"} & fields.keys() and fields["baseline"]["type"] == "string"
    for name, field in fields.items():
        assert field["description"] and field["title"] != name, name


def test_a_request_is_taken_though_the_form_hides_it():
    taken = bench.validate_parameters({"request": {"suite": "quick", "hardware": ["local-cpu"], "seed": 3}})
    assert (taken["request"].seed, taken["request"].hardware) == (3, ("local-cpu",))


@pytest.mark.parametrize(
    "flow", [bench, nightly, script, command], ids=["bench", "nightly", "script", "command"]
)
def test_every_number_of_a_form_has_bounds(flow):
    """Prefect stores a number of more than 64 bits, and then cannot list its flow run."""
    numbers = {
        n: f for n, f in schema_of(flow)["properties"].items() if f.get("type") in ("integer", "number")
    }
    assert {"repeats", "budget_usd"} <= numbers.keys()
    for name, field in numbers.items():
        assert 0 <= field["minimum"] < field["maximum"] <= 10**15, name
        assert validate({name: 10**20}, schema_of(flow), ignore_required=True), name
