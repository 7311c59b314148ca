"""The environment as it was before a session."""

import os

import pytest


@pytest.fixture
def environment():
    """What a session sets is taken back."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
