"""The sent template against schemas of several makers.

cfn-lint has the providers' schemas and AWS's rules; troposphere has CloudFormation's older specification as
classes; botocore has the models of the called services.
"""

import json

import botocore.session
import pytest
from botocore.validate import ParamValidator
from cfnlint.api import lint
from cfnlint.config import ManualArgs
from troposphere.template_generator import TemplateGenerator

from infra.aws.template import body
from tests.emulators.aws.cloudformation import lowered
from tests.infra.aws.template_text import MACHINES, MANY, TEXT

GPUS = [machine for machine in MACHINES if machine.gpus]
BATCH = {
    "AWS::Batch::ComputeEnvironment": "CreateComputeEnvironment",
    "AWS::Batch::JobQueue": "CreateJobQueue",
}
OF_CLOUDFORMATION = {"ReplaceComputeEnvironment", "UpdatePolicy", "UpdateToLatestImageVersion"}


def mistakes_in(text):
    return [str(match) for match in lint(text, config=ManualArgs(regions=["us-east-1"]))]


def test_cfn_lint_has_nothing_to_say():
    assert mistakes_in(TEXT) == []
    assert mistakes_in(body("gridbench", MANY)) == []


def test_cfn_lint_sees_one_idle_parameter_where_all_types_have_gpus():
    (mistake,) = mistakes_in(body("gridbench", GPUS))  # its value is kept for when there are others again
    assert "MaxCpuVcpus" in mistake and "W2001" in mistake


def test_troposphere_has_nothing_to_say():
    assert len(TemplateGenerator(json.loads(TEXT)).resources) == len(json.loads(TEXT)["Resources"])


MISTAKES = {
    "value": ('"VolumeType":"gp3"', '"VolumeType":"gp33"'),
    "name": ('"MinvCpus":0', '"MinimumvCpus":0'),
    "attribute": ('"Fn::GetAtt":["Repository","Arn"]', '"Fn::GetAtt":["Repositori","Arn"]'),
    "type": ('"MaxTimeSeconds":600', '"MaxTimeSeconds":"soon"'),
    "missing": ('"Priority":1,', ""),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_cfn_lint_would_see_a_mistake(mistake):
    assert mistakes_in(TEXT.replace(*MISTAKES[mistake]))


@pytest.mark.parametrize("mistake", ["name", "type", "missing"])
def test_troposphere_would_see_a_mistake(mistake):
    with pytest.raises((AttributeError, TypeError, ValueError)):
        TemplateGenerator(json.loads(TEXT.replace(*MISTAKES[mistake]))).to_json()


def mistakes_for_batch(text):
    model = botocore.session.get_session().get_service_model("batch")
    for name, resource in json.loads(text)["Resources"].items():
        if resource["Type"] in BATCH:
            shape = model.operation_model(BATCH[resource["Type"]]).input_shape
            request = lowered(without_own(resolved(resource["Properties"])))
            report = ParamValidator().validate(request, shape)
            yield from [f"{name}: {report.generate_report()}"] if report.has_errors() else []
            yield from (f"{name}: {value}" for value in strange_words(request, shape))


def without_own(node):
    if isinstance(node, dict):
        return {key: without_own(value) for key, value in node.items() if key not in OF_CLOUDFORMATION}
    return [without_own(entry) for entry in node] if isinstance(node, list) else node


def resolved(node):
    if isinstance(node, dict):
        if set(node) & {"Ref", "Fn::GetAtt"}:
            return 1 if str(node.get("Ref", "")).startswith("Max") else "x"
        return {key: resolved(value) for key, value in node.items()}
    return [resolved(entry) for entry in node] if isinstance(node, list) else node


def strange_words(node, shape):
    """Return values outside their enumeration, which botocore's validator does not check."""
    if shape.type_name == "structure":
        for key in node.keys() & shape.members.keys():
            yield from strange_words(node[key], shape.members[key])
    elif shape.type_name == "list":
        for entry in node:
            yield from strange_words(entry, shape.member)
    elif getattr(shape, "enum", None) and node not in shape.enum:
        yield node


def test_batch_itself_would_take_it():
    assert list(mistakes_for_batch(TEXT)) == []


@pytest.mark.parametrize(
    "mistake",
    [*(MISTAKES[name] for name in ("name", "type")), ('"BEST_FIT_PROGRESSIVE"', '"BEST_OF_ALL"')],
)
def test_batch_would_not_take_a_mistake(mistake):
    assert list(mistakes_for_batch(TEXT.replace(*mistake)))
