"""What the checks of published tables know about machines."""

import pytest

from gridbench.check import known_machines


@pytest.fixture(scope="session")
def known():
    return known_machines()
