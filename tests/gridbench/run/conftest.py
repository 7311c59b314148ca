import os

import pytest


@pytest.fixture
def environment():
    """Restore the environment after a session."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
