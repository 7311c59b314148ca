import math

import pytest

from tests.workloads.harness.repeat.limited import MATMUL
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import duration, gigabytes
from workloads.harness.repeat.series import measure_or_skip, shuffled


class TestSkipping:
    def test_no_process_is_started(self, box_lock):
        huge = Repeat("r", "a-box", Case.of("matmul", {"n": 10**7}), timeout_s=60)
        record = measure_or_skip(huge, [], print, ("/no/such/program",))
        assert record.verdict is Verdict.SKIPPED
        assert record.reasons[0].startswith("needs at least 1.2 PB, but a-box has ")
        assert not box_lock.exists()
        late = Repeat("r", "a-box", Case.of("matmul", {"n": 10_000}), timeout_s=1e-3)
        assert (
            "at the peak of a-box, but the timeout is 0.001 s" in measure_or_skip(late, [], print).reasons[0]
        )

    def test_a_case_that_might_fit_is_tried(self, box_lock):
        with pytest.raises(FileNotFoundError):
            measure_or_skip(Repeat("r", "a-box", MATMUL), [], print, ("/no/such/program",))

    def test_a_profile_of_the_first_repeat(self):
        cases = [MATMUL, Case.of("matmul", {"n": 1})]
        asked = shuffled(cases, Repeat("r", "a-box", MATMUL), 3, profile=True)
        assert {(r.repeat, r.profile) for r in asked} == {(1, True), (2, False), (3, False)}
        assert not any(r.profile for r in shuffled(cases, Repeat("r", "a-box", MATMUL), 3))
        everywhere = shuffled(cases, Repeat("r", "a-box", MATMUL, profile=True), 3)
        assert all(r.profile for r in everywhere)


@pytest.mark.parametrize(
    ("value", "text"),
    [(17.7e9, "17.7 GB"), (9.9e12, "9.9 TB"), (2.5e6, "2.5 MB"), (4096, "4.1 kB"), (999.4e9, "999 GB")],
)
def test_bytes_are_written_as_gigabytes(value, text):
    assert gigabytes(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "0.5 s"),
        (60, "60 s"),
        (119.4, "119 s"),
        (900, "15 min"),
        (1400, "23.3 min"),
        (9000, "2.5 h"),
        (math.pi * 1e5, "87.3 h"),
    ],
)
def test_durations_are_written_in_words(seconds, text):
    assert duration(seconds) == text
