import json
from dataclasses import replace

from tasks.findings.offers import Offers
from tasks.report import artifacts
from tasks.report.artifacts import picture_urls, stage_tables
from tests.tasks.examples.reports import BASELINE, HOSTILE, comparison, nothing_ok, records

STAGES = ("bench-speedups", "bench-cost", "bench-refused")


def rows(found, key):
    return found[key][1]


def test_every_stage_has_its_table_and_json_can_carry_it():
    found = stage_tables(comparison(records()))
    assert {*found} == {*STAGES, "bench-bills", "bench-break-evens", "bench-price-break-evens"}
    assert all(isinstance(text, str) for _, table in found.values() for row in table for text in row.values())
    assert len(json.dumps(found)) < 512_000


def test_a_speedup_has_its_interval_and_the_baseline_is_named():
    table = rows(stage_tables(comparison(records())), "bench-speedups")
    row = next(row for row in table if row["cell"] == "gke-l4/matmul/n=5000/fp32")
    assert row["verdict"] == "faster" and "×" in row["speedup"] and "–" in row["speedup"]
    assert "confounded by" in row["note"] and row["repeats"] == "3 of 3"
    assert {r["verdict"] for r in table if r["cell"].startswith(BASELINE)} == {"baseline"}


def test_offers_are_on_the_pareto_front_or_name_the_better_offer():
    table = rows(stage_tables(comparison(records())), "bench-cost")
    assert table[0]["Work"] == "one pass through the suite"
    assert {row["Machine"] for row in table} == {BASELINE, "aws-g5.8xlarge"}, "gke-l4 has no price"
    assert any(row["Standing"] == "on the Pareto front" for row in table)
    verdicts = {row["Verdict"] for row in table if row["Cost efficiency"] != "–"}
    assert verdicts <= {"cheaper", "dearer", "undecided"}


def test_refused_numbers_have_their_reasons():
    table = rows(stage_tables(comparison(records())), "bench-refused")
    assert {row["verdict"] for row in table} == {"out of memory", "wrong"}
    assert any(HOSTILE in row["why"] for row in table)


def test_nothing_ok_leaves_only_the_refusals():
    assert {*stage_tables(nothing_ok()[1])} == {"bench-refused", "bench-bills"}


def test_a_long_table_artifact_is_cut_and_names_the_rest(monkeypatch):
    monkeypatch.setattr(artifacts, "MOST_ROWS", 5)
    description, table = stage_tables(comparison(records()))["bench-speedups"]
    assert len(table) == 5 and "20 more rows are in comparison.csv" in description


def test_a_spot_offer_is_marked_as_spot():
    made = comparison(records())
    machines = tuple(replace(machine, spot_usd_per_hour=0.5) for machine in made.machines)
    (offers,) = (finding for finding in made.findings if isinstance(finding, Offers))
    prices = {(machine.name, "spot"): machine.spot_usd_per_hour for machine in machines}
    spot = replace(offers, offers=(replace(offers.offers[0], purchase="spot"),), prices=prices)
    table = rows(stage_tables(replace(made, machines=machines, findings=(spot,))), "bench-cost")
    assert (table[0]["Price"], table[0]["Purchase"]) == ("0.50 USD/h", "spot")


def test_pictures_that_were_drawn_are_shown_unless_they_are_huge(tmp_path, monkeypatch):
    assert picture_urls(tmp_path) == {}
    (tmp_path / "time_by_size.png").write_bytes(b"drawn")
    (tmp_path / "speedup.png").write_bytes(b"large" * 10)
    monkeypatch.setattr(artifacts, "MOST_BYTES", 20)
    shown = picture_urls(tmp_path)
    ((key, (description, url)),) = shown.items()
    assert key == "bench-picture-time-by-size" and description
    assert url == "data:image/png;base64,ZHJhd24="
