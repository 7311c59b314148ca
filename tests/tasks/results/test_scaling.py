import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.results.scaling import (
    band,
    device_ratio,
    devices,
    efficiency,
    scaled_serial_fraction,
    scaling,
    serial,
    serial_fraction,
)
from tasks.results.values import Estimate
from tests.tasks.examples.records import machine, record


def on_gpus(*names):
    return record(1.0, device="cuda", environment={"gpus": [{"name": name} for name in names]})


def test_the_published_example_of_efficiency_is_reproduced():
    """6.45 times on 8 GPUs is 80.6 %, good, with a serial fraction of 3.4 %: never above 29 times."""
    share = efficiency(Estimate(6.45), 8)
    assert share.value == pytest.approx(0.80625)
    assert band(share) == "good"
    assert serial_fraction(6.45, 8) == pytest.approx(0.0343, abs=5e-5)
    assert 1 / serial_fraction(6.45, 8) == pytest.approx(29.1, abs=0.1)


@pytest.mark.parametrize(
    ("share", "name"),
    [
        *((1.06, "above 100 %"), (1.05, "perfect"), (1.0, "perfect"), (0.99, "very good")),
        *((0.94, "very good"), (0.875, "very good"), (0.87, "good"), (0.75, "good")),
        *((0.74, "acceptable"), (0.5, "acceptable"), (0.49, "poor"), (0.0, "poor"), (-0.1, "poor")),
    ],
)
def test_an_efficiency_has_the_band_of_its_lower_bound(share, name):
    assert band(Estimate(share)) == name
    assert band(Estimate(share + 0.001, share, share + 0.002)) == name, "the lower bound counts"


def test_perfect_is_an_interval_that_reaches_all_of_it_and_holds_nothing_bad():
    assert band(Estimate(0.97, 0.93, 1.01)) == "perfect"
    assert band(Estimate(0.97, 0.95, 0.99)) == "very good"
    assert band(Estimate(0.90, 0.60, 1.20)) == "acceptable", "too wide to praise"


@pytest.mark.parametrize("count", [2, 3, 4, 8, 64])
def test_bands_hold_for_any_number_of_devices(count):
    named = {share: band(efficiency(Estimate(share * count), count)) for share in (0.9, 0.8, 0.6, 0.4)}
    assert list(named.values()) == ["very good", "good", "acceptable", "poor"]


@settings(deadline=None)
@given(n=st.integers(2, 1000), e=st.floats(0, 1))
def test_karp_and_flatt_invert_amdahl(n, e):
    speedup = 1 / (e + (1 - e) / n)
    assert serial_fraction(speedup, n) == pytest.approx(e, abs=1e-9)


@given(n=st.integers(2, 1000), s=st.floats(0, 1))
def test_weak_scaling_has_gustafsons_fraction(n, s):
    assert scaled_serial_fraction(n - s * (n - 1), n) == pytest.approx(s, abs=1e-9)
    assert serial("weak", n - s * (n - 1), n) == pytest.approx(s, abs=1e-9)
    assert serial("strong", 6.45, 8) == serial_fraction(6.45, 8)


def test_no_serial_fraction_of_one_device():
    assert serial_fraction(1.0, 1) is None
    assert scaled_serial_fraction(1.0, 1) is None


def test_devices_are_threads_or_accelerators():
    assert devices(record(1.0, threads=8), machine()) == 8
    assert devices(record(1.0, threads=None), None) is None
    assert devices(on_gpus("A100"), machine(devices=4)) == 1
    assert devices(on_gpus(), machine(devices=4)) == 4
    assert devices(on_gpus(), machine()) is None
    assert devices(record(1.0, device="cuda", environment={"gpus": "many"}), None) is None


def test_only_more_devices_of_one_model_scale():
    one, eight = record(1.0, threads=1), record(1.0, threads=8)
    assert device_ratio(eight, None, one, None) == 8
    assert device_ratio(one, None, eight, None) is None
    assert device_ratio(one, None, one, None) is None
    gpu, t4 = on_gpus("A100"), on_gpus("T4")
    assert device_ratio(on_gpus(*["A100"] * 8), None, gpu, None) == 8
    assert device_ratio(on_gpus(*["A100"] * 8), None, one, None) is None
    assert device_ratio(on_gpus(*["A100"] * 8), None, t4, None) is None
    assert device_ratio(on_gpus(), machine(devices=8), gpu, None) == 8
    assert device_ratio(gpu, machine(devices=8), gpu, machine(devices=1)) is None, "it used one of its eight"


def test_strong_and_weak_are_named():
    assert scaling(32, 32) == scaling(None, 32) == "strong"
    assert scaling(256, 32) == "weak"
