from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.findings.ranking import Rankings
from tests.tasks.examples.records import IMAGES, MATMUL, machine, record, repeats
from workloads.harness.records.case import Case
from workloads.harness.records.record import Transfer

TIGHT, WIDE = (0.999, 1.0, 1.001), (0.5, 1.0, 2.0)
BF16 = Case.of("matmul", {"n": 5000}, "bf16")


def said(*groups, baseline="cpu", machines=None):
    records = [r for group in groups for r in group]
    names = dict.fromkeys(r.hardware for r in records)
    found = compare(records, machines or [machine(name) for name in names], baseline)
    return found.observations


def cell(seconds, case=MATMUL, hardware="cpu", spread=TIGHT, **changes):
    return repeats([seconds * s for s in spread], case, hardware, **changes)


def matmul(n):
    return Case.of("matmul", {"n": n})


def starting(words, sentences):
    return [sentence for sentence in sentences if sentence.startswith(words)]


@pytest.mark.parametrize(("spread", "count"), [(TIGHT, 1), (WIDE, 0), ((1.0,), 0)])
def test_scale_matters_where_the_intervals_are_apart(spread, count):
    cells = [cell(n * 1e-3, matmul(n), spread=spread) for n in (100, 400, 800)]
    cells += [cell(0.4, matmul(n), "gpu", spread) for n in (100, 400, 800)]
    found = starting("Scale matters", said(*cells))
    assert len(found) == count
    if found:
        assert "gpu over cpu on matmul fp32 goes from 0.250" in found[0]
        assert " at n=100 to 2.00" in found[0] and found[0].endswith("at n=800.")


def test_of_many_rows_the_one_that_changes_most_is_named():
    def case(pixels, batch):
        return Case.of("image_pipeline", {"pixels": pixels, "batch": batch})

    cells = [cell(p * b * 1e-4, case(p, b)) for p in (64, 128) for b in (1, 8)]
    cells += [cell(p * 1e-4 * (2 if b == 1 else 1), case(p, b), "gpu") for p in (64, 128) for b in (1, 8)]
    (found,) = starting("Scale matters", said(*cells))
    assert "at batch=1 to" in found and "pixels=" in found


SLOW_BUS = Transfer(h2d_pageable_s=3.0, d2h_pageable_s=1.0)


def test_transfers_that_reverse_a_verdict_are_reported_with_their_time():
    found = said(cell(2.0), cell(1.0, hardware="gpu", transfer=SLOW_BUS))
    (turned,) = starting("Transfers reverse", found)
    assert "gpu is faster than cpu with the data in place and slower end to end on matmul n=5000." in turned
    (share,) = starting("Transfers take", found)
    assert share.startswith("Transfers take up to 80.0") and share.endswith("on gpu, at matmul n=5000 fp32.")


def test_transfers_that_are_small_or_not_sure_are_not_worth_a_sentence():
    small = Transfer(h2d_pageable_s=0.05, d2h_pageable_s=0.05)
    assert starting("Transfers", said(cell(2.0), cell(1.0, hardware="gpu", transfer=small))) == []
    one = said([record(2.0, hardware="cpu")], [record(1.0, hardware="gpu", transfer=SLOW_BUS)])
    assert starting("Transfers", one) == []


def phases(context, seconds=1.0):
    found = {
        "process_start": 0.1,
        "import": 2.0,
        "context": context,
        "build": 0.3,
        "first_call": 30 * seconds,
    }
    return {"phases_s": found, "wall_s": sum(found.values()), "unattributed_s": 0.0}


def test_cold_starts_are_reported_with_their_parts_and_payback():
    noisy = [
        replace(r, phases_s=r.phases_s | {"import": 2.0 + 0.01 * r.repeat}, wall_s=r.wall_s + 0.01 * r.repeat)
        for r in (*cell(2.0), *cell(1.0, hardware="gpu", **phases(5.0)))
    ]
    cpu, gpu = starting("Cold start", said(noisy))
    assert cpu.startswith("Cold start: a process on cpu needs 2.1") and "import takes 95 % of that." in cpu
    assert "context takes 70 % of that; that is 3.3" in gpu
    # 37.4 s until the first result against 6.4 s, and a step of 1 s against one of 2 s
    assert "as long as on cpu;" in gpu and gpu.endswith("after about 31 calls.")


def forked_from(*imports_s, number=1):
    """Return repeats of a cell, each forked from a process that imported torch in these seconds."""
    own = phases(1.0)["phases_s"] | {"process_start": 0.0, "import": 0.0}
    spent = phases(1.0) | {"phases_s": own, "wall_s": sum(own.values())}
    return [
        record(2.0, IMAGES, "cpu", repeat, inherited_s={"process_start": 0.1, "import": seconds}, **spent)
        for repeat, seconds in enumerate(imports_s, number)
    ]


def test_repeats_that_were_forked_from_one_process_show_one_start():
    alone, both = (
        starting("Cold start", said(cells)) for cells in (cell(2.0), [*cell(2.0), *forked_from(4.0)])
    )
    assert both == alone and len(alone) == 1
    (once,) = starting("Cold start", said(forked_from(2.0, 2.0, 2.0)))
    assert "a process on cpu needs ~3.1 s, seen once," in once
    (thrice,) = starting("Cold start", said(forked_from(1.9, 2.0, 2.1)))
    assert "needs 3.10 s (" in thrice and "once" not in thrice


def test_a_single_repeat_shows_a_start():
    first = record(2.0, hardware="cpu")
    (found,) = starting("Cold start", said([first, *forked_from(5.0, number=1)]))
    assert ", seen once," in found and "import takes 95 % of that" in found


def test_a_first_call_that_takes_hardly_longer_than_a_later_one_is_not_worth_a_sentence():
    found = starting("The first call", said(cell(2.0), cell(1.0, hardware="gpu", **phases(1.0))))
    assert len(found) == 1 and "of matmul n=5000 fp32 on gpu takes 30.0" in found[0]


def test_the_gain_of_another_precision_is_reported():
    found = said(cell(1.0), cell(0.25, BF16), cell(1.0, IMAGES))
    assert starting("On cpu", found)[0].startswith(
        "On cpu bf16 against fp32 is faster in 1 of 1, at most 4.00"
    ) and found[-1].endswith("as fast, at matmul n=5000.")
    assert starting("On cpu", said(cell(1.0), cell(0.9, BF16, spread=WIDE))) == []
    slower = starting("On cpu", said(cell(1.0), cell(2.0, BF16)))
    assert slower == ["On cpu bf16 against fp32 is slower in 1 of 1."]


def test_machines_are_ranked_with_ties():
    cells = [cell(1.0), cell(0.5, hardware="a"), cell(0.5005, hardware="b"), cell(0.1, hardware="c")]
    machines = [machine("cpu", 1.0), machine("a", 1.0), machine("b", 9.0), machine("c", 9.0)]
    found = compare([r for c in cells for r in c], machines, "cpu")
    assert [(r.case, r.by, r.places) for r in found.finding(Rankings).rankings] == [
        (case, *told)
        for case in (None, MATMUL)
        for told in (
            ("time", ((1, "c"), (2, "a"), (2, "b"), (4, "cpu"))),
            ("cost", ((1, "a"), (2, "c"), (3, "cpu"), (4, "b"))),
        )
    ]
    assert starting("Over the suite, by time", found.observations) == [
        "Over the suite, by time: 1. c, 2. a and b, 4. cpu; machines that share a rank are statistically indistinguishable."
    ]


def test_nothing_is_ranked_that_is_alone_and_nothing_told_of_a_tie_of_all():
    assert compare(cell(1.0), [machine("cpu")], "cpu").finding(Rankings).rankings == ()
    many = said(*(cell(1.0, hardware=name) for name in ("cpu", "a", "b")))
    assert starting("Over the suite", many) == []


def test_one_repeat_supports_no_sentence():
    records = [record(n * 1e-3, matmul(n), "cpu") for n in (100, 800)]
    records += [record(0.4, matmul(n), "gpu", transfer=SLOW_BUS) for n in (100, 800)]
    assert starting("Cold", said(records)) != []  # two processes of one machine have started the same way
    assert [s for s in said(records) if not s.startswith("Cold")] == []
