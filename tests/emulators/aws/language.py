"""The transform AWS::LanguageExtensions, as far as templates here use it: moto 5.2.5 takes the line and does nothing.

[doc] docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-foreach.html:
`${Id}` becomes the value, `&{Id}` the value without what is not a letter or digit; loops may be nested; a
collection may be a parameter. intrinsic-function-reference-findinmap-enhancements.html: DefaultValue, and other
functions as keys. transform-aws-languageextensions.html: functions as the logical id of Ref and Fn::GetAtt.
"""

import re
from typing import Any

TRANSFORM = "AWS::LanguageExtensions"
FOR_EACH = "Fn::ForEach::"
EXPANDED_SECTIONS = ("Conditions", "Resources", "Outputs")
MISSING = object()


class TemplateError(ValueError):
    """What CloudFormation refuses."""


def is_wanted(template: dict[str, Any]) -> bool:
    transforms = template.get("Transform") or []
    return TRANSFORM in ([transforms] if isinstance(transforms, str) else transforms)


def process(template: dict[str, Any], parameters: dict[str, Any]) -> None:
    """Applies the transform to the template itself, where it is asked for."""
    if not is_wanted(template):
        return
    values = {
        name: entry.get("Default") for name, entry in template.get("Parameters", {}).items()
    } | parameters
    mappings = template.get("Mappings", {})
    for section in EXPANDED_SECTIONS:
        if section in template:
            template[section] = resolve(expand(template[section], values), values, mappings)


def expand(node: Any, values: dict[str, Any]) -> Any:
    """The node with its loops written out."""
    if isinstance(node, list):
        return [expand(entry, values) for entry in node]
    if not isinstance(node, dict):
        return node
    written: dict[str, Any] = {}
    for key, value in node.items():
        if key.startswith(FOR_EACH):
            add_once(written, loop(key, value, values))
        else:
            written[key] = expand(value, values)
    return written


def add_once(written: dict[str, Any], more: dict[str, Any]) -> None:
    if double := written.keys() & more.keys():
        raise TemplateError(f"Fn::ForEach: {', '.join(sorted(double))} comes out twice")
    written |= more


def loop(key: str, arguments: Any, values: dict[str, Any]) -> dict[str, Any]:
    if not (isinstance(arguments, list) and len(arguments) == 3 and isinstance(arguments[2], dict)):
        raise TemplateError(f"{key}: an identifier, a collection and a map are wanted")
    identifier, collection, body = arguments
    written: dict[str, Any] = {}
    for value in members(key, collection, values):
        add_once(written, expand(replace(body, identifier, value), values))
    return written


def members(key: str, collection: Any, values: dict[str, Any]) -> list[str]:
    """The collection's members: a list, or a parameter that is one."""
    if isinstance(collection, dict) and "Ref" in collection:
        if collection["Ref"] not in values:
            raise TemplateError(f"{key}: no parameter {collection['Ref']}")
        collection = values[collection["Ref"]]
    if isinstance(collection, str):
        collection = [member.strip() for member in collection.split(",")]
    if not isinstance(collection, list):
        raise TemplateError(f"{key}: the collection must be a list or a parameter of type CommaDelimitedList")
    return [member for entry in collection for member in nested(key, entry, values)]


def nested(key: str, entry: Any, values: dict[str, Any]) -> list[str]:
    return members(key, entry, values) if isinstance(entry, dict) else [str(entry)]


def replace(node: Any, identifier: str, value: str) -> Any:
    """Every ${identifier} and &{identifier} below the node, in keys too, and every Ref to the identifier."""
    if node == {"Ref": identifier}:
        return value
    if isinstance(node, dict):
        return {
            replace(key, identifier, value): replace(entry, identifier, value) for key, entry in node.items()
        }
    if isinstance(node, list):
        return [replace(entry, identifier, value) for entry in node]
    if isinstance(node, str):
        bare = re.sub("[^A-Za-z0-9]", "", value)
        return node.replace(f"${{{identifier}}}", value).replace(f"&{{{identifier}}}", bare)
    return node


def resolve(node: Any, values: dict[str, Any], mappings: dict[str, Any]) -> Any:
    """Computed logical ids and look-ups with a default become plain ones."""
    if isinstance(node, list):
        return [resolve(entry, values, mappings) for entry in node]
    if not isinstance(node, dict):
        return node
    node = {key: resolve(entry, values, mappings) for key, entry in node.items()}
    if isinstance(node.get("Ref"), dict):
        return {"Ref": constant(node["Ref"], values)}
    if isinstance(target := node.get("Fn::GetAtt"), list) and isinstance(target[0], dict):
        return {"Fn::GetAtt": [constant(target[0], values), *target[1:]]}
    if isinstance(look_up := node.get("Fn::FindInMap"), list) and len(look_up) == 4:
        return found_in_map(look_up, values, mappings)
    return node


def found_in_map(look_up: list[Any], values: dict[str, Any], mappings: dict[str, Any]) -> Any:
    found: Any = mappings
    for key in look_up[:3]:
        found = found.get(constant(key, values), MISSING) if isinstance(found, dict) else MISSING
    return look_up[3]["DefaultValue"] if found is MISSING else found


def constant(node: Any, values: dict[str, Any]) -> str:
    """A string that is known before any resource exists."""
    if isinstance(node, str):
        return node
    if isinstance(node, dict) and isinstance(node.get("Ref"), str) and node["Ref"] in values:
        return str(values[node["Ref"]])
    if isinstance(node, dict) and isinstance(node.get("Fn::Sub"), str):
        return re.sub(r"\$\{(\w+)\}", lambda name: constant({"Ref": name.group(1)}, values), node["Fn::Sub"])
    if isinstance(node, dict) and "Fn::Join" in node:
        separator, parts = node["Fn::Join"]
        return separator.join(constant(part, values) for part in parts)
    raise TemplateError(f"AWS::LanguageExtensions: {node} is not known before resources exist")
