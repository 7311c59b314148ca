"""Unmodified scripts of many kinds: each is seen, measured and stopped."""

from tests.workloads.harness.script.scripts import measured


def test_a_plain_loop(box_lock):
    record = measured("--size=batch=16", "--", "plain.py", "--batch", "{batch}")
    run = record.script
    assert (record.case.workload, record.case.params, record.case.precision) == (
        "plain",
        {"batch": 16},
        "own",
    )
    assert (run.counted, run.optimizers, run.samples, run.tokens) == ("optimizer", ("Adam",), 16, None)
    assert (run.accumulation, run.ended, run.command) == (1.0, "stopped", ("plain.py", "--batch", "16"))
    assert (record.work.units, record.work.unit) == (16, "samples")
    assert record.wall.median_s > 0 and run.first_step_s > 0
    assert len(run.losses) == 20 and 2 < run.losses[0] < 3
    assert sum(record.phases_s.values()) + record.unattributed_s == record.wall_s
