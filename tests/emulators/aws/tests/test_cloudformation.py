import re

import pytest
from botocore.exceptions import ClientError

from tests.emulators.aws import language

QUEUE = {"Type": "AWS::Batch::JobQueue", "Properties": {"Priority": 1}}


def refused(template, given=()):
    with pytest.raises(language.TemplateError) as error:
        language.check({"Resources": {"Queue": QUEUE}} | template, dict(given))
    return str(error.value)


@pytest.mark.parametrize(
    "template",
    [
        {"Transform": "AWS::LanguageExtensions"},
        {"Resources": {"Fn::ForEach::Types": ["Type", ["a"], {"Queue${Type}": QUEUE}]}},
        {"Outputs": {"Fn::ForEach::Types": ["Type", ["a"], {"Queue${Type}": {"Value": "1"}}]}},
    ],
)
def test_templates_with_transforms_or_loops_are_refused(template):
    assert refused(template) == "the emulator has no transforms and no loops: send a plain template"


def depends(**more):
    return {"Resources": {"Queue": QUEUE | more}}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (
            depends(Properties={"Name": {"Ref": "Vpc&{Type}"}}),
            r"dependencies \[Vpc&{Type}\] in the Resources",
        ),
        (depends(Properties={"Name": {"Fn::GetAtt": ["Role", "Arn"]}}), r"\[Role\] in the Resources block"),
        (depends(Properties={"Name": {"Fn::Sub": "${Role.Arn}/x"}}), r"\[Role\]"),
        (depends(DependsOn="Route"), r"\[Route\]"),
        (depends(Condition="HasGpu"), "Unresolved condition dependency HasGpu"),
        ({"Outputs": {"Arn": {"Value": {"Ref": "Gone"}}}}, r"\[Gone\] in the Outputs block"),
        ({"Extra": {}}, r"Invalid template property or properties \[Extra\]"),
        ({"Outputs": {f"O{n}": {"Value": "1"} for n in range(201)}}, "Number of outputs, 201, is greater"),
        ({"Parameters": {"Zone": {"Type": "String"}}}, r"Parameters: \[Zone\] must have values"),
    ],
)
def test_a_template_with_an_unresolvable_reference_is_refused(template, words):
    assert re.search(words, refused(template))


def test_a_value_must_be_one_of_the_templates():
    slots = {"Zone": {"Type": "String", "AllowedPattern": "[a-z]+"}}
    assert "[Other] do not exist" in refused({"Parameters": slots}, {"Zone": "a", "Other": "b"})
    assert "failed to satisfy constraint" in refused({"Parameters": slots}, {"Zone": "1"})


def test_a_complete_template_is_accepted():
    conditions = {"Conditions": {"Small": {"Fn::Equals": [{"Ref": "Size"}, "s"]}}}
    names = {"Fn::Sub": ["${AWS::Region}-${Own}-${!Literal}", {"Own": {"Ref": "Size"}}]}
    resources = depends(Condition="Small", Properties={"Name": names, "Arn": {"Ref": "AWS::StackId"}})
    language.check({"Parameters": {"Size": {"Type": "String"}}} | conditions | resources, {"Size": "s"})


def test_a_template_in_a_request_has_its_limit(aws):
    body = "{" + " " * 51_200 + "}"
    with pytest.raises(ClientError, match="less than or equal to 51200"):
        create(aws, TemplateBody=body)
    with pytest.raises(ClientError, match="TemplateURL must be a supported URL"):
        create(aws, TemplateURL="http://127.0.0.1/template.json")
    assert aws.client("cloudformation").describe_stacks()["Stacks"] == []


def create(aws, **template):
    cfn = aws.client("cloudformation")
    return cfn.create_change_set(StackName="bench", ChangeSetName="a", ChangeSetType="CREATE", **template)
