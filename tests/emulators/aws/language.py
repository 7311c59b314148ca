"""Refuse templates that CloudFormation refuses before it makes a change set, and that moto 5.2.5 accepts.

Transforms are refused although AWS knows some: their documentation is wrong ([thread]
aws-cloudformation/cfn-language-discussion #162, cloudformation-coverage-roadmap #2150: `&{Id}` of Fn::ForEach
is not resolved in values), and the project sends none.

[doc] docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html: sizes and numbers;
template-anatomy.html: the sections. [thread] cfn-language-discussion #162: the words about unresolved names.
"""

import re
from collections.abc import Iterator
from typing import Any

BODY_BYTES = 51_200  # [doc] also botocore's CreateChangeSet, TemplateBody
MOST = {"Resources": 500, "Parameters": 200, "Outputs": 200, "Mappings": 200}  # [doc]
SECTIONS = {
    *("AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Rules", "Mappings"),
    *("Conditions", "Transform", "Resources", "Outputs"),
}
PSEUDO = re.compile(r"AWS::(AccountId|NoValue|NotificationARNs|Partition|Region|StackId|StackName|URLSuffix)")
GAP = re.compile(r"\$\{([^!}][^}]*)\}")  # of Fn::Sub; ${!Name} stays as it is
TOO_LARGE = (
    "1 validation error detected: Value at 'templateBody' failed to satisfy constraint: "
    "Member must have length less than or equal to 51200"
)


class TemplateError(ValueError):
    """A refusal of CloudFormation."""


def check_size(body: str) -> None:
    if len(body.encode()) > BODY_BYTES:
        raise TemplateError(TOO_LARGE)


def check_address(url: str, region: str) -> None:
    """[doc] CreateChangeSet, TemplateURL: a file in a bucket, by https."""
    if not re.fullmatch(rf"https://[a-z0-9.-]+\.s3\.{region}\.amazonaws\.com(\.cn)?/\S+", url):
        raise TemplateError("TemplateURL must be a supported URL.")


def check(template: dict[str, Any], given: dict[str, Any]) -> None:
    if template.get("Transform") or any(key.startswith("Fn::ForEach") for key in keys(template)):
        raise TemplateError("the emulator has no transforms and no loops: send a plain template")
    if strange := template.keys() - SECTIONS:
        raise TemplateError(f"Invalid template property or properties [{', '.join(sorted(strange))}]")
    for section, most in MOST.items():
        if (count := len(template.get(section, {}))) > most:
            raise TemplateError(
                f"Template format error: Number of {section.lower()}, {count}, is greater than {most}"
            )
    for section in ("Resources", "Outputs"):
        check_names(template, section)
    check_values(template.get("Parameters", {}), given)


def keys(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from node
        for entry in node.values():
            yield from keys(entry)
    elif isinstance(node, list):
        for entry in node:
            yield from keys(entry)


def check_names(template: dict[str, Any], section: str) -> None:
    resources, conditions = template.get("Resources", {}).keys(), template.get("Conditions", {}).keys()
    names, used_conditions = set(), set()
    for entry in template.get(section, {}).values():
        names |= {name for name in references(entry) if not PSEUDO.fullmatch(name)}
        names |= set(as_list(entry.get("DependsOn", [])))
        used_conditions |= {*conditions_in(entry), *as_list(entry.get("Condition", []))}
    if missing := names - resources - template.get("Parameters", {}).keys():
        raise TemplateError(
            f"Template format error: Unresolved resource dependencies [{', '.join(sorted(missing))}] "
            f"in the {section} block of the template"
        )
    if missing := used_conditions - conditions:
        raise TemplateError(f"Template format error: Unresolved condition dependency {min(missing)}")


def as_list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def references(node: Any) -> Iterator[str]:
    """Return the names that Ref, Fn::GetAtt and Fn::Sub below the node use."""
    if isinstance(node, list):
        for entry in node:
            yield from references(entry)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "Ref":
                yield str(value)
            elif key == "Fn::GetAtt":
                yield value[0] if isinstance(value, list) else value.partition(".")[0]
            elif key == "Fn::Sub":
                yield from gaps(value)
            if key != "Ref":
                yield from references(value)


def gaps(value: Any) -> Iterator[str]:
    text, own = (value, {}) if isinstance(value, str) else (value[0], value[1])
    names = {gap.partition(".")[0] for gap in GAP.findall(text)}
    yield from names - own.keys()


def conditions_in(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for entry in node:
            yield from conditions_in(entry)
    elif isinstance(node, dict):
        if "Fn::If" in node:
            yield node["Fn::If"][0]
        for value in node.values():
            yield from conditions_in(value)


def check_values(slots: dict[str, Any], given: dict[str, Any]) -> None:
    if extra := given.keys() - slots.keys():
        raise TemplateError(f"Parameters: [{', '.join(sorted(extra))}] do not exist in the template")
    if missing := {name for name, slot in slots.items() if "Default" not in slot} - given.keys():
        raise TemplateError(f"Parameters: [{', '.join(sorted(missing))}] must have values")
    for name, slot in slots.items():
        value = str(given.get(name, slot.get("Default")))
        if "AllowedPattern" in slot and not re.fullmatch(slot["AllowedPattern"], value):
            raise TemplateError(f"Parameter {name} failed to satisfy constraint: {slot['AllowedPattern']}")
