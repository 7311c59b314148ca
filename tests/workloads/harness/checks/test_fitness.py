import pytest
import torch

from workloads.harness.checks import fitness

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def test_without_a_driver_only_the_cpu_is_measured():
    well, text = fitness._gpu()
    assert well and "only the CPU" in text


def test_a_card_that_torch_cannot_use_is_reported_with_torchs_reason(real_driver):
    well, text = fitness._gpu()
    assert not well and "can't use the 1 GPUs" in text and "CUDA" in text


@pytest.mark.parametrize(("container", "sound"), [(None, False), ("docker", True)])
def test_a_card_that_the_driver_has_lost_is_reported(real_driver, monkeypatch, container, sound):
    """A container sees all cards of its host on the bus."""
    monkeypatch.setattr(fitness, "cards_on_bus", lambda: ["0000:3b:00.0", "0000:86:00.0"])
    monkeypatch.setattr(fitness.machine, "container", lambda root, environ: container)
    well, text = fitness._gpu()
    assert well == sound and "1 of the 2 NVIDIA GPUs on the PCI bus" in text


@pytest.mark.parametrize(("fault", "words"), [("init:hang", "it hangs"), ("init:segv", "signal 11")])
def test_a_driver_that_hangs_or_kills_its_caller_is_reported(real_driver, fault, words):
    real_driver(fault)
    well, text = fitness._gpu()
    assert not well and words in text and "return the machine" in text


def test_a_fabric_that_is_not_set_up_names_its_service(real_driver, monkeypatch):
    def not_ready():
        raise RuntimeError(
            "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"
        )

    monkeypatch.setattr(torch.cuda, "init", not_ready)
    well, text = fitness._gpu()
    assert not well and "nvidia-fabricmanager" in text


def test_the_speed_of_the_host_is_stated_in_absolute_terms(monkeypatch):
    """Hosts of one kind of card differed by a factor of 2."""
    monkeypatch.setattr(fitness, "LOOK_S", 0.0)
    speed = next(text for _, text in fitness._quiet() if "Python loop per second" in text)
    assert float(speed.split()[0]) > 0 and "million steps" in speed
    well, text = fitness._launches()
    assert well and float(text.split()[0]) > 0 and text.endswith("operations of torch per second on the CPU")
