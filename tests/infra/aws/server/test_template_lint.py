"""cfn-lint finds nothing in the template, and would find a mistake."""

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from tests.infra.aws.template_text import TEXT


def mistakes_in(text):
    return [str(match) for match in lint(text, config=ManualArgs(regions=["us-east-1"]))]


def test_cfn_lint_has_nothing_to_say():
    assert mistakes_in(TEXT) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("VolumeType: gp3", "VolumeType: gp33"),
        ("MinvCpus: 0", "MinimumvCpus: 0"),
        ("!GetAtt Repository.Arn", "!GetAtt Repositori.Arn"),
        ("MaxTimeSeconds: 600", "MaxTimeSeconds: soon"),
    ],
)
def test_cfn_lint_would_see_a_mistake(right, wrong):
    assert mistakes_in(TEXT.replace(right, wrong))
