"""The template, as text and with its names resolved."""

from cfnlint.decode import decode_str
from cfnlint.template import Template
from cfnlint.template.transforms._language_extensions import language_extension

from infra.aws import settings

TEXT = settings.TEMPLATE.read_text()


def source(text=TEXT):
    template, mistakes = decode_str(text)
    assert not mistakes
    return template


def expanded(text=TEXT):
    """The template with its loops written out, by cfn-lint and not by our emulator."""
    mistakes, found = language_extension(Template("template.yaml", source(text), ["us-east-1"]))
    assert not mistakes
    return found


TEMPLATE = expanded()


def of_type(kind):
    found = {name: r["Properties"] for name, r in TEMPLATE["Resources"].items() if r["Type"] == kind}
    assert found
    return found
