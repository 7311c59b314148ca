import pytest

from tasks.planning.hardware import load_gpus
from tests.gpu_proof.bench import Bench, Card
from tests.gpu_proof.cards import CARDS, can, peaks_of
from tests.gpu_proof.stages.expected import SHARES, rows_of
from tests.gpu_proof.stages.verdicts import MEASURED
from tests.gpu_proof.table import FAIL, OK, SHOWN
from workloads.harness.records.record import Verdict

SECONDS = 2e-3


def record(workload="matmul", size=(("n", 8192),), precision="bf16", wall=1.0, **parts):
    timing = {"median_s": SECONDS, "whole": False}
    return {
        "case": {"workload": workload, "size": size, "precision": precision},
        "wall": timing | {"median_s": SECONDS * wall},
        "device_time": timing,
        "check": {"error": 1e-3, "bound": 8e-3, "checked_elements": 1},
        "work": {"flops": 800e12 * SECONDS, "bytes": 4.3e12 * SECONDS, "launches": 2, "attention": ["cudnn"]},
        "layout": "contiguous+cudnn",
        "layout_trials_s": {"contiguous+cudnn": 1e-3, "contiguous+flash": 2e-3},
        "transfer": {"h2d_pageable_s": 2.0, "h2d_pinned_s": 1.0},
        "profile": None,
    } | parts


def judged(record, card="NVIDIA H200", clocks=None, capability=(9, 0)):
    bench = Bench(None, "cuda", 0, card=Card(card, 1, capability, 0), clocks=clocks or {})
    case = record["case"]
    size = ",".join(f"{name}={value}" for name, value in case["size"])
    step = f"cases {case['workload']} {size} {case['precision']}"
    return {row.name.removeprefix(f"{step}: "): row.state for row in rows_of(step, record, bench)}


def test_a_record_as_it_should_be_holds():
    clocks = {"matmul8192": {"do_bench": SECONDS * 1.01}}
    assert judged(record(), clocks=clocks) == {
        "error over its bound": OK, "wall over device": OK, "TFLOP/s": OK, "rate over do_bench's in one process": OK,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"wall": 1.2}, "wall over device"),
        ({"check": {"error": 7e-3, "bound": 8e-3, "checked_elements": 1}}, "error over its bound"),
        ({"work": {"flops": 1100e12 * SECONDS, "bytes": 0, "launches": 2}}, "TFLOP/s"),
        ({"work": {"flops": 300e12 * SECONDS, "bytes": 0, "launches": 2}}, "TFLOP/s"),
        ({"precision": "fp32"}, "TFLOP/s"),
        ({"profile": {"busy_s": 1.0, "kernels": 30, "steps": 3}}, "the profile's kernels over launches"),
    ],
)
def test_an_impossible_record_fails(parts, name):
    assert judged(record(**parts))[name] == FAIL


def test_a_rate_that_differs_from_the_other_clocks_fails():
    assert (
        judged(record(), clocks={"matmul8192": {"do_bench": 0.9 * SECONDS}})[
            "rate over do_bench's in one process"
        ]
        == FAIL
    )


@pytest.mark.parametrize(
    ("slowest_s", "alone", "states"), [(2.1e-3, 0.98, [OK, OK]), (2.4e-3, 0.7, [FAIL, FAIL])]
)
def test_cards_at_once_are_compared_with_each_other_and_with_themselves(slowest_s, alone, states):
    ranks = [
        {"device": f"cuda:{n}", "mean_s": s, "alone_s": alone * s, "probes": {"gpu_power_w": 690.0}}
        for n, s in enumerate((2e-3, slowest_s))
    ]
    found = judged(record("matmul_weak", (("n", 8192), ("processes", 2)), group={"ranks": ranks}))
    names = ("slowest card over the fastest", "a card's rate in company over its own alone")
    assert [found[name] for name in names] == states and found["power and heat"] == SHOWN


@pytest.mark.parametrize(
    ("workload", "size", "name"),
    [
        ("memory_bandwidth", (("mib", 1024),), "GB/s"),
        ("kernel_launch", (("kernels", 1000),), "seconds a launch"),
        ("transfer_bandwidth", (("mib", 256),), "pageable over pinned"),
    ],
)
def test_each_ceiling_of_a_roofline_is_judged(workload, size, name):
    parts = {"workload": workload, "size": size, "precision": "fp32"}
    assert judged(record(**parts))[name] == OK
    slow = {"work": {"flops": 0, "bytes": 1e12 * SECONDS, "launches": 2}, "wall": 20.0,
            "transfer": {"h2d_pageable_s": 1.0, "h2d_pinned_s": 2.0}}  # fmt: skip
    assert judged(record(**parts, **slow))[name] == FAIL


def of(workload, share, precision="bf16", mode="eager", size=(("batch", 1),)):
    """Return the record of a step with this share of an H200's peak, and of its bandwidth."""
    work = {
        "flops": share * 989e12 * SECONDS,
        "bytes": share * 4.8e12 * SECONDS,
        "launches": 2,
        "attention": ["cudnn"],
    }
    made = record(workload, size, precision, work=work)
    return made | {"case": made["case"] | {"mode": mode}}


@pytest.mark.parametrize("workload", SHARES)
def test_a_large_step_is_compared_with_the_peak(workload):
    low, high = SHARES[workload]
    assert judged(of(workload, (low + high) / 2))["share of the peak"] == OK
    assert judged(of(workload, low / 2))["share of the peak"] == FAIL
    assert judged(of(workload, 1.05 * high))["share of the peak"] == FAIL


@pytest.mark.parametrize("workload", ["gpt2_ddp", "gpt2_fsdp"])
def test_a_group_is_compared_with_the_peaks_of_all_its_gpus(workload):
    size = (("batch", 16), ("processes", 8))
    assert judged(of(workload, 8 * 0.3, size=size))["share of the peak"] == OK
    assert judged(of(workload, 0.3, size=size))["share of the peak"] == FAIL


def test_the_roof_is_compared_with_the_peak_and_a_square_product():
    size = (("side", 16384),)
    square_s = 2 * 8192**3 / 700e12
    clocks = {"matmul8192": {"do_bench": square_s}}
    reached = judged(of("roof", 0.75, size=size), clocks=clocks)
    assert reached["share of the peak"] == OK and reached["rate over a square product's"] == OK
    missed = judged(of("roof", 0.6, size=size), clocks=clocks)
    assert missed["share of the peak"] == FAIL and missed["rate over a square product's"] == FAIL
    assert judged(of("roof", 1.3, "fp8", size=size))["share of the peak"] == OK
    slow = of("roof", 0.4 * 121 / 989 * 2, "fp8", size=size)
    assert judged(slow, card="NVIDIA L4")["share of the peak"] == OK  # its power limit holds it back
    assert judged(of("roof", 0.75, size=size), card="NVIDIA Z9000")["TFLOP/s"] == SHOWN


def exchanged(gb_per_s, kib=1_048_576, card="NVIDIA H200"):
    work = {"flops": 0, "bytes": 0, "launches": 1, "units": gb_per_s * 1e9 * SECONDS}
    size = (("kib", kib), ("processes", 8))
    return judged(record("all_reduce", size, "fp32", work=work), card=card)["bus GB/s"]


def test_an_exchange_is_compared_with_the_known_rate_of_nvlink():
    assert (exchanged(475), exchanged(120), exchanged(600)) == (OK, FAIL, FAIL)
    assert exchanged(208, card="NVIDIA A100-SXM4-80GB") == OK
    assert {exchanged(3, kib=1), exchanged(20, card="NVIDIA L4")} == {SHOWN}  # latency; PCIe


def test_fp8_is_compared_with_twice_the_peak_and_a_skinny_product_with_no_peak():
    assert judged(of("gemm", 1.3, "fp8"))["share of the peak"] == OK
    assert judged(of("gemm", 0.01, size=(("m", 1),)))["TFLOP/s"] == SHOWN


def test_decoding_in_a_graph_is_compared_with_the_bandwidth():
    assert judged(of("llm_decode", 0.8, mode="graph"))["share of the bandwidth"] == OK
    assert judged(of("llm_decode", 0.3, mode="graph"))["share of the bandwidth"] == FAIL
    assert judged(of("llm_decode", 0.3))["GB/s"] == SHOWN


def test_a_compiled_graph_has_to_reach_more_than_one_of_eager_kernels():
    reached = {mode: judged(of("llm_decode", 0.41, mode=mode)) for mode in ("graph", "compiled-graph")}
    assert [rows["share of the bandwidth"] for rows in reached.values()] == [OK, FAIL]
    assert judged(of("llm_decode", 0.7, mode="compiled-graph"))["share of the bandwidth"] == OK


NAMED, TRIED, RATIO = (f"{text}" for text in (
    "attention's kernel is named", "attention's kernels are tried", "cuDNN's speed over FlashAttention's"))  # fmt: skip


def test_attention_names_its_kernel_and_has_tried_both_from_hopper_on():
    full = of("attention_train", 0.5)
    rows = judged(full)
    assert (rows[NAMED], rows[TRIED], rows[RATIO]) == (OK, OK, SHOWN)
    untried = judged(full | {"layout": "contiguous", "layout_trials_s": {}})
    assert untried[TRIED] == FAIL and RATIO not in untried
    assert judged(full | {"work": full["work"] | {"attention": []}})[NAMED] == FAIL
    assert not {TRIED, RATIO} & judged(full, "NVIDIA L4", capability=(8, 9)).keys()
    assert TRIED not in judged(of("attention", 0.5, "fp32"))
    assert NAMED not in judged(of("gemm", 0.5))


def test_of_an_unknown_card_rates_are_shown():
    assert judged(record(), card="NVIDIA Z9000")["TFLOP/s"] == SHOWN


@pytest.mark.parametrize("name", CARDS)
def test_peaks_are_those_of_the_catalogue(name):
    known, ours = load_gpus()[CARDS[name].key], CARDS[name]
    assert (ours.tflops, ours.gb_per_s, ours.reach) == (known.tflops, known.gb_per_s, known.reach)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H200", "h200-sxm"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA GH200 480GB", "gh200"), ("NVIDIA A10G", "a10g"), ("NVIDIA A10", "a10"), ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"), ("NVIDIA A100-SXM4-80GB", "a100-80-sxm"), ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2"), ("NVIDIA B200", "b200-sxm"), ("NVIDIA GB200", "gb200"),
        ("NVIDIA H20", "h20"), ("NVIDIA A100 80GB PCIe", None), ("NVIDIA RTX A1000", None),
        ("NVIDIA H100 NVL", None),
    ],
)  # fmt: skip
def test_a_card_is_known_by_its_drivers_name(name, key):
    peaks = peaks_of(name)
    assert (peaks and peaks.key) == key


def test_the_measured_verdicts_of_a_proof_are_verdicts_of_a_record():
    assert MEASURED.issubset({verdict.value for verdict in Verdict})
    assert not MEASURED & {"wrong", "crashed", "unsupported", "out_of_memory", "impossible", "timeout"}


def test_older_cards_lack_precisions():
    assert not can((7, 5), "bf16") and not can((7, 5), "tf32") and can((7, 5), "fp16") and can((8, 0), "bf16")
