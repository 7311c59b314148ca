import pytest

from workloads.harness.probes.gpu_bound import GpuShape, gpu_flops_bound

# Shape, highest SM clock, and the peaks of NVIDIA's data sheets in TFLOP/s.
CARDS = {
    "P100": ((6, 0), 56, 1480, {"fp32": 10.6, "fp16": 18.7}),
    "V100": ((7, 0), 80, 1530, {"fp32": 15.7, "fp16": 125}),
    "T4": ((7, 5), 40, 1590, {"fp32": 8.1, "fp16": 65}),
    "A100": ((8, 0), 108, 1410, {"fp32": 19.5, "tf32": 156, "bf16": 312}),
    "A10": ((8, 6), 72, 1695, {"fp32": 31.2, "tf32": 62.5, "bf16": 125}),
    "L4": ((8, 9), 58, 2040, {"fp32": 30.3, "tf32": 60, "fp16": 121}),
    "H200": ((9, 0), 132, 1980, {"fp32": 67, "tf32": 494.5, "bf16": 989}),
    "B200": ((10, 0), 148, 1965, {"fp32": 75, "tf32": 1125, "bf16": 2250}),
}


@pytest.mark.parametrize("name", CARDS)
def test_no_data_sheet_is_above_it_and_none_far_below(name):
    capability, multiprocessors, mhz, peaks = CARDS[name]
    for precision, tflops in peaks.items():
        bound = gpu_flops_bound(GpuShape(capability, multiprocessors), mhz, precision)
        assert 0.99 * tflops < bound / 1e12 < 1.2 * tflops, precision


@pytest.mark.parametrize(
    ("shape", "mhz"), [(None, 1980), (GpuShape((99, 0), 132), 1980), (GpuShape((9, 0), 132), None)]
)
def test_without_a_figure_there_is_no_bound(shape, mhz):
    assert gpu_flops_bound(shape, mhz, "fp32") is None
