from dataclasses import replace

from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat import series

MNIST = Repeat("a-run", "a-box", Case.of("mnist", {"batch": 64}))
TRIALS_S = {"contiguous": 1.0, "channels_last": 0.9}


def ended(layout, trials_s, **changes):
    made = replace(MNIST, **changes).failed(Verdict.NOISY, "")
    return replace(made, layout=layout, layout_trials_s=trials_s)


def test_the_first_choice_of_the_cell_holds():
    records = [
        ended("contiguous", TRIALS_S, case=Case.of("mnist", {"batch": 16})),
        ended("contiguous", TRIALS_S, hardware="other"),
        ended("contiguous", {}),  # it crashed before it had tried
        ended("channels_last", TRIALS_S),
        ended("contiguous", TRIALS_S),
    ]
    assert series.layout_of(MNIST, records) == "channels_last"
    assert series.layout_of(MNIST, records[:3]) is None
    assert series.layout_of(replace(MNIST, layout="contiguous"), records) == "contiguous"


def test_a_layout_reaches_our_own_process_and_no_other_version():
    chosen = replace(MNIST, layout="channels_last")
    assert Repeat.from_json(chosen.to_json()) == chosen
    assert not [word for word in chosen.options() if "layout" in word]


def test_the_process_that_measures_is_given_it(monkeypatch, box_lock):
    given = []
    monkeypatch.setattr(series, "_too_large_here", lambda repeat: None)
    monkeypatch.setattr(series, "run_repeat", lambda repeat, *_, start: given.append(repeat.layout))
    for records in ([], [ended("channels_last", TRIALS_S)]):
        series.measure_or_skip(MNIST, records, lambda text: None)
    assert given == [None, "channels_last"]
