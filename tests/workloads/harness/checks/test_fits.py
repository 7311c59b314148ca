import pytest

from workloads.harness.checks.fits import (
    CONTEXT_BYTES,
    PROCESS_BYTES,
    USABLE,
    Fit,
    Needs,
    Room,
    fit,
    grown_by,
    largest,
    sentence,
)
from workloads.harness.records.case import Case

GIB = 2**30


@pytest.mark.parametrize(
    ("tensors", "peak", "room", "answer"),
    [
        (10 * GIB, 11 * GIB, 16 * GIB, Fit.FITS),
        (13 * GIB, 14 * GIB, 16 * GIB, Fit.CLOSE),  # with its margin more than there is
        (17 * GIB, 18 * GIB, 16 * GIB, Fit.NO),
        (None, None, 16 * GIB, Fit.UNKNOWN),
    ],
)
def test_a_case_fits_by_the_upper_estimate_and_does_not_fit_by_its_tensors(tensors, peak, room, answer):
    assert fit(Needs("cuda", tensors, peak), Room("a-gpu", room)) is answer


def test_the_upper_estimate_counts_memory_besides_the_tensors():
    assert Needs("cpu", GIB, GIB).most_bytes == pytest.approx(2 * GIB + PROCESS_BYTES)
    assert Needs("cuda", GIB, GIB).most_bytes == pytest.approx(1.2 * GIB + CONTEXT_BYTES)


def test_a_gpu_gives_programs_less_than_its_nominal_memory():
    needs = Needs("cuda", 10 * GIB, 10 * GIB)
    assert fit(needs, Room("a", needs.most_bytes)) is Fit.CLOSE
    assert fit(needs, Room("a", needs.most_bytes / USABLE)) is Fit.FITS
    assert fit(Needs("cpu", 10 * GIB, 10 * GIB), Room("a", Needs("cpu", 0, 10 * GIB).most_bytes)) is Fit.FITS


def test_processes_of_one_host_share_its_memory():
    assert fit(Needs("cpu", GIB, GIB), Room("a-host", 16 * GIB, 4)) is Fit.FITS
    assert fit(Needs("cpu", 3 * GIB, 3 * GIB), Room("a-host", 16 * GIB, 8)) is Fit.NO


def linear(per_one, base=0):
    def predict(case):
        peak = base + per_one * case.size[0][1]
        return Needs("cuda", peak, peak)

    return predict


def test_the_largest_size_that_should_fit_is_found_below():
    predict, room = linear(GIB // 100), Room("a-gpu", 16 * GIB)
    case = Case.of("mnist", {"batch": 4096})
    best = largest(case, room, predict)
    assert fit(predict(Case.of("mnist", {"batch": best})), room) is Fit.FITS
    assert fit(predict(Case.of("mnist", {"batch": best + max(best // 8, 1)})), room) is not Fit.FITS


def test_no_size_can_fit_and_some_cases_have_none_to_shrink():
    room = Room("a-gpu", 16 * GIB)
    assert largest(Case.of("mnist", {"batch": 4096}), room, linear(1, 20 * GIB)) is None
    assert largest(Case.of("gcn", {"hidden": 64}), room, linear(GIB)) is None
    assert grown_by(Case.of("gcn", {"hidden": 64})) is None


def test_the_largest_size_is_a_multiple_that_the_workload_accepts():
    case = Case.of("ddpm_strong", {"batch": 128, "processes": 8})
    assert largest(case, Room("a-gpu", 16 * GIB), linear(GIB // 8)) % 8 == 0


def test_a_sentence_names_needed_and_available_memory_and_a_fitting_size():
    needs = Needs("cuda", 20 * 10**9, 20 * 10**9)
    text = sentence(needs, Room("aws-g4dn.xlarge", 16 * 10**9), "batch=96")
    assert text == (
        "the tensors alone need 20 GB (predicted), and aws-g4dn.xlarge has 16 GB; batch=96 should fit"
    )
    shared = sentence(needs, Room("local-cpu", 16 * 10**9, 2))
    assert shared == "the tensors of 2 processes alone need 40 GB (predicted), and local-cpu has 16 GB"
