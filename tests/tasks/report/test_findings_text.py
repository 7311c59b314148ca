"""The text of `comparison.txt`.

`WRITE_GOLDEN=1 pytest tests/tasks/report/test_findings_text.py` writes `golden/comparison.txt`.
"""

from pathlib import Path

from tasks.findings.bills import Bills
from tasks.findings.compare import compare
from tasks.findings.offers import Offers
from tasks.report.grid import grid_of
from tasks.report.text.comparison import finding_text, findings, full_text
from tasks.results.finding import LaneJob
from tests.golden import assert_golden
from tests.tasks.examples import five_cases
from tests.tasks.examples.records import failed, machine, repeats
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict

STEADY = (0.999, 1.0, 1.001)


def compared(spread=STEADY, jobs=()):
    """Compare a constant GPU at twice the price, which starts 5 s later, with a CPU whose time grows."""
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
    text = full_text(records, grid_of(records, comparison))
    assert text.isascii()
    lines = text.splitlines()
    assert any("matmul fp32: gpu is faster than cpu from n between 200 and 500 " in line for line in lines)
    assert any("matmul fp32: gpu is cheaper than cpu from n between 500 and 2000 " in line for line in lines)
    start = lines.index("Break-even by price and by calls:")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[start + 4 :]]
    assert ["matmul/n=2000/fp32", "gpu", "4.86x", "5.14x", "about 1.1"] in rows
    assert not any(row and row[0] == "matmul/n=200/fp32" for row in rows[: rows.index([])])


def test_offers_are_listed_with_their_standing():
    _, comparison = compared()
    lines = finding_text(comparison.finding(Offers)).splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "one pass" in line]
    assert [(row[0], row[2], row[-1]) for row in rows[-3:]] == [
        ("gpu", "spot", "on the Pareto front"),
        ("gpu", "listed", "on the Pareto front"),
        ("cpu", "listed", "beaten by gpu"),
    ]


def test_bills_list_their_largest_parts_and_missing_parts():
    _, alone = compared()
    text = finding_text(alone.finding(Bills))
    assert "* All machines: from the records alone" in text
    _, whole = compared(jobs=[LaneJob("cpu", 600.0, 1000.0), LaneJob("gpu", 60.0, 100.0)])
    box = finding_text(whole.finding(Bills))
    assert "queue, boot and pull 3" in box and "records alone" not in box


def test_one_repeat_of_one_machine_leaves_only_its_start_and_its_bill():
    records = repeats([1.0], Case.of("matmul", {"n": 100}), "cpu")
    said, bill = findings(compare(records, [machine("cpu", None)], "cpu"))
    assert "Cold start" in said and ", seen once," in said and bill.startswith(f"{Bills.title}:")


def test_a_sign_that_ascii_lacks_is_spelt():
    records = [failed(Verdict.NOISY, "it is known to ±3.0%", Case.of("matmul", {"n": 200}), "cpu")]
    text = full_text(records, grid_of(records, compare(records, (machine("cpu", 1.0),), "cpu")))
    assert "it is known to +/-3.0%" in text and text.isascii()


def test_the_text_of_a_run_is_as_in_the_golden_file():
    records, comparison = five_cases.run()
    text = full_text(records, grid_of(records, comparison))
    path = Path(__file__).with_name("golden") / "comparison.txt"
    assert_golden(text, path)
