import pytest

from tests.workloads.harness.script.scripts import SCRIPTS, measured
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat
from workloads.harness.script.command import own_case
from workloads.harness.script.observations import LOSSES

# Command, then: optimizers, backward calls, samples and tokens of a step, steps of an epoch.
KINDS = [
    ("convnet.py", ("Adadelta",), 1, 64, None, 10),
    ("nanogpt.py", ("AdamW",), 2, 8, 128, None),
    ("amp.py", ("SGD",), 4, 32, None, None),
    ("gan.py", ("RMSprop", "Adam"), 3, None, None, None),  # its models take different numbers of samples
    ("lbfgs.py", ("LBFGS",), 5, 64, None, None),  # its line search calls several times
    ("ema.py", ("SGD",), 1, 20, None, 20),
    ("trainer.py", ("Adam",), 1, 24, None, 40),
    ("compiled.py", ("Adam",), 1, 8, None, None),
    ("threaded.py", ("SGD",), 1, 4, None, None),
    ("bad.py swallows", ("SGD",), 1, 4, None, None),
    ("bad.py evaluates-first", ("SGD",), 1, 4, None, None),
]


@pytest.mark.parametrize(("words", "optimizers", "accumulation", "samples", "tokens", "epoch"), KINDS)
def test_a_training_is_seen_and_stopped(words, optimizers, accumulation, samples, tokens, epoch, box_lock):
    record = measured("--", *words.split())
    run = record.script
    assert (run.counted, run.ended, run.optimizers) == ("optimizer", "stopped", optimizers)
    assert (run.samples, run.tokens, run.epoch_steps) == (samples, tokens, epoch)
    assert run.accumulation == pytest.approx(accumulation, rel=0.3)
    work = ("tokens", tokens) if tokens else ("samples", samples) if samples else ("steps", 1)
    assert (record.work.unit, record.work.units) == work
    assert record.wall.median_s > 0 and 0 <= run.mean_low_s <= run.mean_s <= run.mean_high_s
    assert len(run.losses) == min(LOSSES, run.steps) and run.first_step_s < record.wall_s
    assert sum(run.shares.values()) == pytest.approx(1) and min(run.shares.values()) > 0


@pytest.mark.parametrize(("any_device", "device"), [(True, "cpu"), (False, "cuda")])
def test_the_device_is_the_scripts_unless_one_was_demanded(any_device, device, box_lock):
    script = Script(("plain.py", "--batch", "16"), folder=str(SCRIPTS))
    asked = Repeat(
        "r", "here", own_case(script, {}), device="cuda", brief=True, any_device=any_device, script=script
    )
    with whole_box(print) as lock:
        record = run_repeat(asked, lock, print)
    assert record.device == device and record.wall.median_s > 0
    assert (record.verdict is Verdict.UNSUPPORTED) is not any_device
    assert ("--device is cuda" in " ".join(record.reasons)) is not any_device


def test_a_plain_loop_and_its_sizes(box_lock):
    sizes = ("--size=batch=16", "--name=mine", "--epochs=2")
    record = measured(*sizes, "--", "plain.py", "--batch", "{batch}")
    run, case = record.script, record.case
    assert (case.workload, case.params, case.precision) == ("mine", {"batch": 16}, "own")
    assert (run.command, run.samples) == (("plain.py", "--batch", "16"), 16)
    assert (run.job.steps, run.job.epochs, run.job.measured) == (2 * 256, 2, False)
    assert run.job.low_s < run.job.seconds < run.job.high_s
    assert run.memory_left_bytes > 0
    assert sum(record.phases_s.values()) + record.unattributed_s == pytest.approx(record.wall_s)


def test_losses_are_those_before_scaling(box_lock):
    losses = measured("--", "amp.py").script.losses
    assert 1 < losses[0] < 4  # the scale begins with 65536


def test_a_model_that_is_only_called(box_lock):
    run = measured("--", "inference.py").script
    assert (run.counted, run.optimizers, run.accumulation, run.samples) == ("forward", (), None, 12)


def test_steps_that_a_script_marks(box_lock):
    record = measured("--", "marked.py")
    assert (record.script.counted, record.work.unit, record.script.ended) == ("mark", "steps", "stopped")


def test_a_module_with_subcommands_that_ends_by_itself(box_lock):
    record = measured("--", "-m", "subcommands", "train", "--steps", "6")
    run = record.script
    assert (record.case.workload, run.steps, run.ended, run.exit_code) == ("subcommands", 6, "finished", 0)
    assert run.job.measured and run.job.steps == 6
    assert record.wall is not None and record.reasons == (
        "the script ended after 6 steps, before its measurement was complete",
    )
