import pytest

from workloads.command.parser import parser
from workloads.harness.probes.device_here import device_here
from workloads.harness.records.errors import WorkloadsError


@pytest.fixture
def driver(tmp_path):
    (tmp_path / "nvidiactl").touch()
    return [tmp_path / "nvidiactl"]


@pytest.mark.parametrize(
    ("answer", "device"),
    [
        ("print(2, True)", "cuda"),
        ("print(0, False)", "cpu"),
        ("raise ImportError('torch')", "cpu"),
        ("print('odd')", "cpu"),
    ],
)
def test_a_gpu_is_used_if_torch_sees_a_gpu(driver, answer, device):
    assert device_here(driver, answer) == device


def test_without_a_driver_torch_is_not_asked(tmp_path):
    assert device_here([tmp_path / "none"], "raise SystemExit('asked')") == "cpu"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("import time; time.sleep(60)", "does not answer within 1 s"),
        ("import os; os.kill(os.getpid(), 11)", "by signal 11"),
    ],
)
def test_a_driver_that_hangs_or_crashes_is_one_sentence(driver, answer, words):
    with pytest.raises(WorkloadsError, match=words):
        device_here(driver, answer, limit_s=1)


@pytest.mark.parametrize(
    "words", [["run", "matmul", "--size=n=8"], ["suite", "quick"], ["roof"], ["script", "--", "a.py"]]
)
def test_no_command_assumes_a_device(words):
    assert parser("").parse_args(words).device is None


def test_gpus_that_torch_cannot_use_never_become_a_number_of_the_cpu(driver):
    with pytest.raises(WorkloadsError, match="there are 8 GPUs, but torch can't use them"):
        device_here(driver, "print(8, False)")


@pytest.mark.parametrize("count", [8, 0])  # 0 where NVML is not there to count them
def test_a_fabric_that_is_not_set_up_never_becomes_a_number_of_the_cpu(driver, count):
    why = "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"
    with pytest.raises(WorkloadsError, match="nvidia-fabricmanager"):
        device_here(driver, f"print({count}, False, {why!r})")


def test_the_question_itself_is_answered_by_this_torch(driver):
    import torch

    if not torch.cuda.is_available():
        assert device_here(driver) == "cpu"
