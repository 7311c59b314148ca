import pytest

from tests.workloads.harness.training.test_tf32 import ROOM, on_a_gpu, share_of_bound

assert on_a_gpu  # a fixture that applies here, too


@pytest.mark.parametrize("rounding", ["nearest", "cut"])
def test_a_right_step_of_a_residual_network_passes(rounding):
    assert share_of_bound("resnet_train", rounding, batch=8) < ROOM
