import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.regressions.series_reader import series_of
from tests.tasks.examples.nights import a_night, by_case, one_sentence, read, run_name
from tests.tasks.examples.records import IMAGES, MATMUL


def test_a_night_that_was_cut_short_says_the_same_from_its_records(tmp_path):
    a_night(tmp_path / "whole", 0)
    store = a_night(tmp_path / "cut", 0, table=False)
    whole, _ = read(tmp_path / "whole")
    cut, odd = read(tmp_path / "cut")
    one_sentence(odd, f"run {run_name(0)} has no results.parquet", "its 4 records")
    assert series_of(cut) == series_of(whole)
    (store.folder / "results.parquet").write_bytes(b"PAR1 and then the power went")
    again, odd = read(tmp_path / "cut")
    one_sentence(odd, f"results.parquet of run {run_name(0)} can't be read", "its 4 records")
    assert series_of(again) == series_of(whole)


def test_a_record_that_was_cut_off_is_named_and_the_others_count(tmp_path):
    store = a_night(tmp_path, 0, table=False)
    path = next((store.folder / "records").rglob("matmul/**/0.json"))
    path.write_text(path.read_text()[:200])
    found, odd = by_case(tmp_path)
    assert len(odd) == 2 and "its 3 records" in odd[0] and str(path) in odd[1]
    (night,) = found[MATMUL.id].nights
    assert night.seconds == pytest.approx(1.02) and night.repeats == 1
    assert found[IMAGES.id].nights[0].repeats == 2


def test_a_plan_of_another_version_is_a_sentence_and_the_others_count(tmp_path):
    for number in range(3):
        a_night(tmp_path, number)
    path = tmp_path / run_name(1) / "plan.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    found, odd = by_case(tmp_path)
    one_sentence(odd, f"left out: {path} has schema 9, this version reads")
    assert [night.run for night in found[MATMUL.id].nights] == [run_name(0), run_name(2)]


def test_a_table_of_an_older_version_has_no_control_and_no_machine(tmp_path):
    path = a_night(tmp_path, 0).folder / "results.parquet"
    new = ["control_s", "control_verdict", "reference", "machine_id", "commit", "hostname"]
    pd.read_parquet(path).drop(columns=new).to_parquet(path, index=False)
    a_night(tmp_path, 1)
    found, odd = by_case(tmp_path)
    old, now = found[MATMUL.id].nights
    assert odd == [] and old.seconds == now.seconds and old.control_s is None
    assert (old.machine_id, old.reference, old.commit) == ("", "", "")
    assert found[MATMUL.id].changes == {}


def test_rows_of_another_run_are_left_out_and_copies_count_once(tmp_path):
    path = a_night(tmp_path, 0, cases=[MATMUL]).folder / "results.parquet"
    rows = pd.read_parquet(path)
    pd.concat([rows, rows.assign(compute_s=3.0, run="another"), rows]).to_parquet(path, index=False)
    found, odd = by_case(tmp_path)
    one_sentence(odd, "2 records", "belong to another run")
    (night,) = found[MATMUL.id].nights
    assert night.repeats == 2 and night.seconds == pytest.approx(math.sqrt(1.02))


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_an_invalid_time_never_counts(tmp_path, seconds):
    path = a_night(tmp_path, 0, cases=[MATMUL]).folder / "results.parquet"
    pd.read_parquet(path).assign(compute_s=seconds).to_parquet(path, index=False)
    (night,) = by_case(tmp_path)[0][MATMUL.id].nights
    assert (night.seconds, night.verdict, night.repeats) == (None, "impossible", 0)


def test_a_table_of_other_columns_is_read_from_its_records(tmp_path):
    path = a_night(tmp_path, 0).folder / "results.parquet"
    pd.DataFrame({"hardware": [1], "case": [2]}).to_parquet(path)
    found, odd = by_case(tmp_path)
    one_sentence(odd, "it has no column", "its 4 records")
    assert found[MATMUL.id].nights[0].ok


def test_a_number_that_was_damaged_in_the_table_is_read_from_its_record(tmp_path):
    path = a_night(tmp_path, 0, cases=[MATMUL]).folder / "results.parquet"
    well = series_of(read(tmp_path)[0])
    rows = pd.read_parquet(path)
    rows.to_parquet(path, index=False, write_page_checksum=True, compression=None, use_dictionary=False)
    content, number = path.read_bytes(), np.float64(rows["compute_s"][1]).tobytes()
    assert content.count(number) >= 1 and series_of(read(tmp_path)[0]) == well
    path.write_bytes(content.replace(number, np.float64(5.0).tobytes()))
    nights, odd = read(tmp_path)
    one_sentence(odd, "results.parquet", "can't be read", "its 2 records")
    assert series_of(nights) == well


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three nights, the second with and without its table, and their undamaged reading."""
    folder = tmp_path_factory.mktemp("three")
    for name in ("whole", "cut"):
        for number in range(3):
            a_night(folder / name, number, table=number != 1 or name == "whole")
    files = sorted(p for p in folder.glob(f"*/{run_name(1)}/**/*") if p.is_file())
    well = {name: series_of(read(folder / name)[0]) for name in ("whole", "cut")}
    return folder, files, well


def without_the_middle(found):
    middle = run_name(1)
    nights = {s.key: [night for night in s.nights if night.run != middle] for s in found}
    return {key: kept for key, kept in nights.items() if kept}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_to_one_file_raises_or_costs_another_night(three, data):
    folder, files, well = three
    path = data.draw(st.sampled_from(files))
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.none() | st.integers(1, 255))
    name = path.relative_to(folder).parts[0]
    damaged = content[:place]
    if byte is not None:
        damaged += bytes([content[place] ^ byte]) + content[place + 1 :]
    try:
        path.write_bytes(damaged)
        nights, odd = read(folder / name)
        found = series_of(nights)
    finally:
        path.write_bytes(content)
    assert without_the_middle(found) == without_the_middle(well[name])
    assert all("\n" not in sentence for sentence in odd)
    if byte is None and path.name == "results.parquet":  # then the records tell the same
        assert found == well[name]
