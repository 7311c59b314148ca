from tasks.results.confounds import confounds
from tests.tasks.examples.records import A10G, record


def side(device="cuda", **changes):
    return [
        record(1.0, device=device, environment={k: v for k, v in (A10G | changes).items() if v is not None})
    ]


def test_the_same_stack_is_not_confounded():
    assert confounds(side(), side()) == ()


def test_a_build_of_torch_is_no_difference():
    assert confounds(side("cpu", torch="2.13.0+cpu", cuda="13.0"), side()) == ()


def test_each_difference_of_the_stack_is_named():
    other = side(torch="2.12.1+cu126", cuda="12.6", nvidia_driver="550.2", cudnn=91002, python="3.12.1")
    assert confounds(side(cudnn=90701), other) == (
        "torch: 2.13.0 against 2.12.1",
        "Python: 3.11.7 against 3.12.1",
        "CUDA: 12.8 against 12.6",
        "cuDNN: 90701 against 91002",
        "driver: 570.1 against 550.2",
    )


def test_the_host_counts_between_accelerators_only():
    other = {"cpu_model": "Other CPU", "logical_cpus": 96, "memory_total_bytes": 64 * 2**30}
    assert confounds(side(), side(**other)) == (
        "CPU: Example CPU against Other CPU",
        "logical CPUs: 8 against 96",
        "memory: 32 GiB against 64 GiB",
    )
    assert confounds(side("cpu"), side(**other)) == ()
    assert confounds(side(), side(memory_total_bytes=32.2 * 2**30)) == ()


def test_repeats_of_two_stacks_are_both_named():
    both = side() + side(torch="2.12.1")
    assert confounds(both, side()) == ("torch: 2.12.1 and 2.13.0 against 2.13.0",)


def test_an_absent_or_odd_fingerprint_says_nothing():
    empty = [record(1.0, device="cuda", environment={"memory_total_bytes": "much"})]
    assert confounds(empty, side()) == confounds([], side()) == ()


def test_an_emptied_cache_is_a_confound_and_a_smaller_one_is_not():
    from workloads.harness.records.record import Cache

    emptied, warm, large = (record(1.0, cache=Cache(state, 1, 2)) for state in ("cold", "warm", "n/a"))
    assert confounds([emptied], [warm]) == ("cache before each step: emptied against as it was",)
    assert confounds([large], [warm]) == confounds([emptied], [record(1.0)]) == ()


def test_a_soak_is_a_confound_because_a_burst_is_faster():
    from dataclasses import replace

    soaked, burst = record(1.0), record(1.0)
    soaked = replace(soaked, wall=replace(soaked.wall, burst_s=0.8))
    assert confounds([soaked], [burst]) == ("soak before the samples: yes against none",)
    assert confounds([soaked], [soaked]) == confounds([soaked], [record(1.0, wall=None)]) == ()
