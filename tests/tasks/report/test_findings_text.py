"""Offers, break-evens and bills in `comparison.txt`."""

from tasks.findings.bills import LaneJob
from tasks.findings.compare import compare
from tasks.report.text.comparison import full_text
from tasks.report.text.findings import bills_box, findings, offers_box
from tests.tasks.examples.records import machine, repeats
from workloads.harness.records.case import Case

STEADY = (0.999, 1.0, 1.001)


def compared(spread=STEADY, jobs=()):
    """A GPU of twice the price whose time does not grow, against a CPU whose time does; it starts in 5 s more."""
    slow = {"process_start": 0.1, "import": 2.0, "context": 5.0, "build": 0.3, "first_call": 0.8}
    records = []
    for n in (200, 500, 2000):
        case = Case.of("matmul", {"n": n})
        records += repeats([n * 1e-3 * s for s in spread], case, "cpu")
        gpu = repeats([0.4 * s for s in spread], case, "gpu")
        records += [type(r)(**{f: getattr(r, f) for f in r.__slots__} | phases(slow)) for r in gpu]
    machines = (machine("cpu", 1.0), machine("gpu", 2.0, spot_usd_per_hour=0.5))
    return records, compare(records, machines, "cpu", jobs=jobs)


def phases(found):
    return {"phases_s": found, "wall_s": sum(found.values()), "unattributed_s": 0.0}


def test_the_text_tells_where_it_pays_by_size_price_and_calls():
    records, comparison = compared()
    text = full_text(records, comparison)
    assert text.isascii()
    assert "* matmul fp32: gpu is faster than cpu from n between 200 and 500\n" in text
    assert "* matmul fp32: gpu is cheaper than cpu from n between 500 and 2000\n" in text
    (line,) = (line for line in text.splitlines() if line.startswith("* matmul/n=2000/fp32: gpu is cheaper"))
    assert "while it costs less than 4.99 x cpu per hour, and dearer above 5.01 x" in line
    assert line.endswith("its longer start has paid after about 1.1 calls")
    assert not any(line.startswith("* matmul/n=200/fp32: gpu is cheaper") for line in text.splitlines())


def test_offers_say_what_is_worth_it():
    _, comparison = compared()
    rows = offers_box([offer for offer in comparison.offers if offer.case is None]).splitlines()
    assert [row.split("|")[1:3] + row.split("|")[-2:-1] for row in rows if "pu" in row] == [
        [" gpu     ", " spot   ", " yes               "],
        [" gpu     ", " listed ", " yes               "],
        [" cpu     ", " listed ", " no, gpu is better "],
    ]


def test_bills_name_their_largest_parts_and_what_they_lack():
    _, alone = compared()
    assert "* cpu: from the records alone: boot, image pull and idle time are not in it" in bills_box(
        alone.bills
    )
    _, whole = compared(jobs=[LaneJob("cpu", 600.0, 1000.0), LaneJob("gpu", 60.0, 100.0)])
    box = bills_box(whole.bills)
    assert "queue, boot and pull 3" in box and "records alone" not in box


def test_one_repeat_of_one_machine_leaves_only_its_bill():
    records = repeats([1.0], Case.of("matmul", {"n": 100}), "cpu")
    (part,) = findings(compare(records, [machine("cpu", None)], "cpu"))
    assert part.startswith("What the run was billed for:")
