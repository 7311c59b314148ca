import pytest

from workloads.harness import registry
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import all_workloads, find

FILE = '''"""Does nothing, in one line.

And more."""
from workloads.harness.registry import workload

@workload(n=(1, 2), m=(3,), tiny={"n": 1, "m": 3})
def nothing_much(env, n, m):
    ...
'''


@pytest.fixture
def folder(tmp_path, use_workloads):
    use_workloads(tmp_path)
    return tmp_path


def test_our_own_are_found_in_alphabetical_order():
    assert {"matmul", "image_pipeline", "gaussian_blur", "edge_detection"} <= all_workloads().keys()
    assert list(all_workloads()) == sorted(all_workloads())


def test_a_folder_of_the_users_is_found_too(folder):
    (folder / "mine.py").write_text(FILE)
    (folder / "_not.py").write_text("raise RuntimeError('must not be imported')")
    found = find("nothing_much")
    assert found.summary == "Does nothing, in one line."
    assert found.sizes == {"n": (1, 2), "m": (3,)}
    assert found.layouts == ("contiguous",)
    assert found.case({"m": 3, "n": 1}).id == "nothing_much/n=1,m=3/fp32"
    assert find("nothing_much") is found  # looking again does not import again


def test_files_are_looked_for_once_a_folder(folder, monkeypatch):
    (folder / "mine.py").write_text(FILE)
    find("nothing_much")
    monkeypatch.setattr(registry, "all_workloads", pytest.fail)
    assert find("nothing_much") and find("matmul")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def broken(:", r"mine.py can't be imported: SyntaxError: .*line 1"),
        ("import a_module_that_is_not_there", r"mine.py can't be imported: ModuleNotFoundError: .*a_module"),
        ("1 / 0", r"mine.py can't be imported: ZeroDivisionError: division by zero"),
        ("from workloads.harness.registry import workload\nworkload(n=(1,))", r"mine.py .*TypeError.*tiny"),
    ],
)
def test_a_broken_file_is_named_each_time(folder, text, words):
    (folder / "mine.py").write_text(text)
    for _ in range(2):  # a failed import must not pass for a done one
        with pytest.raises(WorkloadsError, match=words) as caught:
            all_workloads()
        assert "\n" not in str(caught.value)


def test_a_path_that_is_not_a_folder_is_refused(folder, monkeypatch):
    monkeypatch.setenv("GRIDBENCH_WORKLOADS", str(folder / "nowhere"))
    with pytest.raises(WorkloadsError, match=r"GRIDBENCH_WORKLOADS=.*nowhere is not a folder"):
        all_workloads()


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(WorkloadsError, match="workload 'matmal' is unknown; did you mean matmul"):
        find("matmal")
    with pytest.raises(WorkloadsError, match=r"workload 'zzzz' is unknown; .*edge_detection, .*matmul"):
        find("zzzz")


@pytest.mark.parametrize(
    ("size", "precision", "words"),
    [
        ({"n": 64}, "fp64", "precision 'fp64' is unknown; choose from fp32, tf32, fp16, bf16"),
        ({"m": 64}, "fp32", "workload matmul has no size parameter 'm'; it takes n"),
        ({}, "fp32", "workload matmul needs the size parameter 'n'"),
        ({"n": 0}, "fp32", "size n=0 must be above 0"),
        ({"n": "many"}, "fp32", "size n=many must be a whole number above 0"),
    ],
)
def test_a_wrong_case_is_reported(size, precision, words):
    with pytest.raises(WorkloadsError, match=words):
        find("matmul").case(size, precision)


def test_a_grid_is_every_combination():
    cases = find("image_pipeline").grid({"pixels": (32, 64), "batch": (1, 2)}, "bf16")
    assert [case.params for case in cases] == [
        {"pixels": pixels, "batch": batch} for pixels in (32, 64) for batch in (1, 2)
    ]


class TestOptionalSizes:
    """An unset optional size is not in the case's name, which history and comparisons use."""

    def test_a_case_is_called_the_same_with_its_default_and_without(self):
        ddpm = find("ddpm")
        plain = ddpm.case({"batch": 8})
        assert plain == ddpm.case({"batch": 8, "channels": 128})
        assert plain.id == "ddpm/batch=8/fp32"
        assert ddpm.case({"channels": 76, "batch": 8}).id == "ddpm/batch=8,channels=76/fp32"

    def test_leaving_an_optional_size_out_can_mean_a_separate_way(self):
        size = {"images": 64, "batch": 8, "processes": 2}
        assert find("ddpm_job").case(size).id == "ddpm_job/images=64,batch=8,processes=2/fp32"
        loaded = find("ddpm_job").case(size | {"workers": 0}).id
        assert loaded == "ddpm_job/images=64,batch=8,processes=2,workers=0/fp32"

    def test_required_sizes_must_be_given_and_optional_sizes_be_valid(self):
        with pytest.raises(WorkloadsError, match="workload ddpm needs the size parameter 'batch'"):
            find("ddpm").case({"channels": 76})
        with pytest.raises(WorkloadsError, match="size channels=0 must be above 0"):
            find("ddpm").case({"batch": 8, "channels": 0})

    def test_formulas_know_the_default(self):
        for name in ("ddpm", "ddpm_weak", "ddpm_strong", "ddpm_job"):
            tiny, declared = find(name).tiny, find(name)
            assert declared.flops(**tiny) == declared.flops(**tiny, channels=128)
            assert declared.elements(**tiny) == declared.elements(**tiny, channels=128)
            assert declared.flops(**tiny, channels=256) > 3 * declared.flops(**tiny)
