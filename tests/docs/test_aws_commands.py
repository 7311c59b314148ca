import re
import shlex

import botocore.session
import pytest
from botocore import xform_name

from tests.docs.shown import DOCS, ROOT, filled

PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
OF_EVERY_COMMAND = {"query", "region", "profile", "output"}
SESSION = botocore.session.get_session()


def aws_commands(page):
    """Return the words of each `aws …` on a page, without `aws configure`."""
    found = re.findall(r"(?:^|`)(aws [a-z0-9-]+ [a-z-]+[^`\n#]*)", page.read_text(), re.MULTILINE)
    return [shlex.split(filled(text)) for text in found if not text.startswith("aws configure")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists_with_its_options(page):
    for _, service, operation, *rest in aws_commands(page):
        model = SESSION.get_service_model(service)
        operations = {xform_name(name, "-"): name for name in model.operation_names}
        if operation == "wait":
            continue
        assert operation in operations, f"{page.name}: aws {service} {operation}"
        shape = model.operation_model(operations[operation]).input_shape
        members = {xform_name(name, "-") for name in shape.members} if shape else set()
        shown = {word[2:] for word in rest if word.startswith("--")}
        assert shown <= members | OF_EVERY_COMMAND, f"{page.name}: aws {service} {operation}"


def test_the_aws_commands_of_the_page_are_found():
    assert len(aws_commands(DOCS / "aws.md")) >= 4
