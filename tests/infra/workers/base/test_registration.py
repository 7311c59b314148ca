import warnings

import pytest
from prefect.utilities.dispatch import get_registry_for_type
from prefect.workers.base import BaseWorker

from infra.workers.base.worker import FollowingWorker

KIND = "registered-once"


@pytest.fixture
def registry():
    known = get_registry_for_type(BaseWorker)
    yield known
    known.pop(KIND, None)


def copy_of(module):
    return type("Copy", (FollowingWorker,), {"type": KIND, "__module__": module})


@pytest.mark.parametrize("order", [("a.worker", "b.worker"), ("b.worker", "a.worker")])
def test_the_copy_whose_package_sorts_first_is_registered_without_a_warning(registry, order):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copies = {module: copy_of(module) for module in order}
    assert registry[KIND] is copies["a.worker"]


def test_another_worker_of_the_type_still_takes_its_place_as_prefect_has_it(registry):
    class Copy(FollowingWorker):
        type = KIND

    with pytest.warns(UserWarning, match="'Another' .* matches existing registered type 'Copy'"):

        class Another(FollowingWorker):
            type = KIND

    assert registry[KIND] is Another
