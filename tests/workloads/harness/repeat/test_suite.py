import tomllib

import pytest

from workloads.harness import registry
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import find, workload
from workloads.harness.repeat import series
from workloads.harness.repeat.suite import FOLDER, load_suite, suite_names

GOOD = """
title = "T"
repeats = 2
[[cases]]
workload = "matmul"
size = { n = [64, 128] }
precision = ["fp32", "bf16"]
[[cases]]
workload = "image_pipeline"
size = { pixels = [32, 64], batch = [1, 2] }
"""


def case(text):
    return f"[[cases]]\n{text}\n"


MATMUL = 'workload = "matmul"\nsize = { n = 64 }'


@pytest.mark.parametrize("name", suite_names())
def test_the_shipped_suites_load(name):
    suite = load_suite(name)
    assert suite.name == name
    assert len(set(suite.cases)) == len(suite.cases) > 0
    assert suite.repeats >= 1
    raw = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    assert raw["title"]
    if "suites" not in raw:  # whose minutes follow from those of its parts
        assert suite.minutes == pytest.approx(raw["minutes"])  # also where every case has its own estimate


@pytest.mark.parametrize("name", suite_names())
def test_the_shipped_suites_have_a_tiny_self(name):
    suite, tiny = load_suite(name), load_suite(name).tiny()
    assert (tiny.repeats, tiny.brief) == (1, True)
    assert len(set(tiny.cases)) == len(tiny.cases) <= len(suite.cases)
    assert {c.workload for c in tiny.cases} == {c.workload for c in suite.cases}
    assert {(c.workload, c.params.get("processes"), c.precision) for c in suite.cases} == {
        (c.workload, c.params.get("processes"), c.precision) for c in tiny.cases
    }
    for case in tiny.cases:
        sizes = {name: value for name, value in case.size if name != "processes"}
        assert sizes.items() <= find(case.workload).tiny.items()


def test_all_combinations_each_once_in_the_files_order(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + case(MATMUL))
    suite = load_suite(str(path))
    assert (suite.name, suite.title, suite.repeats, suite.quick) == ("mine", "T", 2, False)
    assert [c.id for c in suite.cases] == [
        *("matmul/n=64/fp32", "matmul/n=128/fp32", "matmul/n=64/bf16", "matmul/n=128/bf16"),
        *("image_pipeline/pixels=32,batch=1/fp32", "image_pipeline/pixels=32,batch=2/fp32"),
        *("image_pipeline/pixels=64,batch=1/fp32", "image_pipeline/pixels=64,batch=2/fp32"),
    ]


def test_parameters_are_in_the_workloads_order_and_not_the_files(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(case('workload = "image_pipeline"\nsize = { batch = 1, pixels = 32 }'))
    assert load_suite(str(path)).cases[0].id == "image_pipeline/pixels=32,batch=1/fp32"


@pytest.mark.parametrize(
    ("head", "estimates_s", "minutes"),
    [
        ("", [15, 15, 15], 2.25),
        ("minutes = 3", [20, 20, 20], 3),
        ("minutes = 3.0\nrepeats = 9", [20 / 3] * 3, 3),
        ("repeats = 1", [15, 15, 15], 0.75),
    ],
)
def test_minutes_are_shared_out_evenly(tmp_path, head, estimates_s, minutes):
    path = tmp_path / "mine.toml"
    path.write_text(f"{head}\n" + case('workload = "matmul"\nsize = { n = [1, 2, 3] }'))
    suite = load_suite(str(path))
    assert [entry.estimate_s for entry in suite.entries] == pytest.approx(estimates_s)
    assert suite.minutes == pytest.approx(minutes)


def test_a_case_can_state_its_own_longer_estimate(tmp_path):
    """The others share the rest; the first statement about a case holds."""
    path = tmp_path / "mine.toml"
    slow = 'workload = "matmul"\nsize = { n = 8000 }\nestimate_s = 100'
    path.write_text(
        f"minutes = 4\nrepeats = 1\n{case(slow)}" + case('workload = "matmul"\nsize = { n = [1, 2, 8000] }')
    )
    suite = load_suite(str(path))
    assert [entry.estimate_s for entry in suite.entries] == [100, 70, 70]
    path.write_text(f"minutes = 1\nrepeats = 1\n{case(slow)}{case(MATMUL)}")
    with pytest.raises(WorkloadsError, match=r"minutes=1 is less than the sum of .* estimate_s and soak_s"):
        load_suite(str(path))


def test_minutes_of_a_suite_are_for_cases_that_two_cores_can_measure(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_found", dict(registry.all_workloads()))

    def several(env, n, processes): ...

    workload(tiny={"n": 1, "processes": 1}, n=(1,), processes=(1, 4), flops=lambda n, processes: n)(several)
    path = tmp_path / "mine.toml"
    sizes = "{ n = [1, 1000000000000000000], processes = [1, 2, 4] }"
    path.write_text("minutes = 2\nrepeats = 1\n" + case(f'workload = "several"\nsize = {sizes}'))
    suite = load_suite(str(path))
    assert [entry.estimate_s for entry in suite.entries] == [60] * 6
    assert suite.minutes == 2


def test_a_case_can_be_for_one_device_alone(tmp_path):
    only = 'workload = "matmul"\nsize = { n = [64, 8192] }\nprecision = ["bf16"]\ndevice = "cuda"'
    path = tmp_path / "mine.toml"
    path.write_text(
        "minutes = 2\nrepeats = 1\n" + case(only) + case(MATMUL + '\nprecision = ["fp32", "bf16"]')
    )
    suite = load_suite(str(path))
    assert [entry.device for entry in suite.entries] == ["cuda", "cuda", None]
    assert suite.minutes == 2 and suite.entries[-1].estimate_s == 120
    assert [c.id for c in suite.on({"cpu"}).cases] == ["matmul/n=64/fp32"]
    assert suite.on({"cuda"}) == suite.on({"cuda", "cpu"}) == suite
    assert len(suite.tiny().on({"cpu"}).cases) == 1
    path.write_text(case(only))
    with pytest.raises(WorkloadsError, match="suite mine has no cases for cpu"):
        load_suite(str(path)).on({"cpu"})
    path.write_text(case(only.replace("cuda", "gpu")))
    with pytest.raises(WorkloadsError, match="device is 'gpu'; choose from cpu, cuda"):
        load_suite(str(path))


def test_a_tiny_case_is_for_every_device_if_one_of_its_cases_is(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(case('workload = "matmul"\nsize = { n = 8192 }\ndevice = "cuda"') + case(MATMUL))
    tiny = load_suite(str(path)).tiny()
    assert [entry.device for entry in tiny.entries] == [None]


@pytest.mark.parametrize("name", ["full", "nightly"])
def test_suites_show_a_gpu_at_its_tensor_core_precisions(name):
    suite = load_suite(name)
    asked = {(c.workload, c.precision) for c in suite.on({"cuda"}).cases}
    for precision in ("fp32", "tf32", "fp16", "bf16"):
        sizes = {c.params["n"] for c in suite.cases if (c.workload, c.precision) == ("matmul", precision)}
        assert {8192, 16384} <= sizes, precision
    run = ("image_pipeline", "resnet_train", "resnet_infer", "transformer_train", "transformer_infer", "ddpm")
    small = ("mnist", "cifar10", "simple_cnn_train", "simple_cnn_infer") if name == "full" else ()
    for workload_name in (*run, *small):
        assert {(workload_name, p) for p in ("fp32", "tf32", "fp16", "bf16")} <= asked, workload_name
    on_cpu = {(c.workload, c.precision) for c in suite.on({"cpu"}).cases}
    assert not {workload_name for workload_name, p in on_cpu if p == "fp16"}


def test_tokens_are_decoded_as_people_run_them_and_a_cpu_is_asked_for_no_graph():
    suite = load_suite("llm")
    modes = {}
    for decode in (c for c in suite.cases if (c.workload, c.precision) == ("llm_decode", "bf16")):
        modes.setdefault(decode.size, set()).add(decode.mode)
    assert len(modes) == 6
    assert all({"graph", "compiled-graph"} <= measured for measured in modes.values())
    assert {c.workload for c in suite.cases if c.mode == "compiled-graph"} == {
        "llm_decode", "llm_prefill", "lora_step", "gpt2_train"
    }  # fmt: skip
    assert {c.mode for c in suite.on({"cpu"}).cases} == {"eager"}


@pytest.mark.parametrize(
    ("name", "cells", "minutes"), [("quick", 7, 1), ("nightly", 18, 15), ("full", 125, 544)]
)
def test_cases_for_gpus_cost_a_cpu_nothing(name, cells, minutes):
    """A new case for CPUs changes this on purpose."""
    suite = load_suite(name)
    assert len(suite.on({"cpu"}).cases) <= cells and suite.minutes <= minutes


def test_a_suite_can_be_made_of_others(tmp_path):
    (tmp_path / "a.toml").write_text("minutes = 1\nrepeats = 1\n" + case(MATMUL))
    (tmp_path / "b.toml").write_text("repeats = 1\n" + case('workload = "matmul"\nsize = { n = [64, 65] }'))
    (tmp_path / "all.toml").write_text(
        'repeats = 2\nsuites = ["a", "b"]\n' + case('workload = "matmul"\nsize = { n = 9 }')
    )
    suite = load_suite("all", tmp_path)
    assert [c.params["n"] for c in suite.cases] == [64, 65, 9]
    assert [entry.estimate_s for entry in suite.entries] == [
        60,
        15,
        15,
    ]  # of a repeat, whatever their number of repeats is
    assert suite.minutes == 3
    for text, words in {
        '["all"]': "suite c.toml: suites has 'all', which consists of suites itself",
        '["c"]': "suites has 'c', ",
        '["x"]': "suite 'x' is unknown; .* a, all, b, c",
        "[3]": "suite '3' is unknown",
        '"a"': "suites is 'a', expected list",
    }.items():
        (tmp_path / "c.toml").write_text(f"suites = {text}")
        with pytest.raises(WorkloadsError, match=words):
            load_suite("c", tmp_path)


def test_threads_stay_with_the_cases_that_need_them(tmp_path):
    two = case(MATMUL) + case('workload = "matmul"\nsize = { n = [65, 66] }\nthreads = 2')
    (tmp_path / "a.toml").write_text("threads = 1\n" + two)
    (tmp_path / "b.toml").write_text('suites = ["a"]\n' + case('workload = "matmul"\nsize = { n = 9 }'))
    suite = load_suite("a", tmp_path)
    assert [entry.threads for entry in suite.entries] == [1, 2, 2]
    assert [entry.threads for entry in load_suite("b", tmp_path).entries] == [1, 2, 2, None]
    assert [entry.threads for entry in suite.tiny().entries] == [1]


def test_the_minutes_of_a_suite_for_gpus_are_those_of_all_its_cases(tmp_path):
    huge = 'workload = "matmul"\nsize = { n = [20000, 30000, 40000] }\ndevice = "cuda"'
    (tmp_path / "a.toml").write_text("minutes = 9\nrepeats = 2\n" + case(huge + "\nestimate_s = 30"))
    assert load_suite("a", tmp_path).minutes == 3
    (tmp_path / "b.toml").write_text("minutes = 9\nrepeats = 2\n" + case(huge))
    assert [entry.estimate_s for entry in load_suite("b", tmp_path).entries] == [90, 90, 90]
    (tmp_path / "c.toml").write_text("minutes = 9\nrepeats = 2\n" + case(huge) + case(MATMUL))
    assert load_suite("c", tmp_path).minutes == 9  # of the one that a CPU measures


def test_a_case_can_request_a_soak_besides_its_estimate(tmp_path):
    soaked = 'workload = "matmul"\nsize = { n = [65, 66] }\nsoak_s = 60\nestimate_s = 20'
    (tmp_path / "a.toml").write_text("minutes = 8\nrepeats = 2\n" + case(soaked) + case(MATMUL))
    (tmp_path / "b.toml").write_text('suites = ["a"]\n' + case('workload = "matmul"\nsize = { n = 9 }'))
    suite = load_suite("a", tmp_path)
    assert [entry.soak_s for entry in suite.entries] == [60, 60, None]
    assert [entry.repeat_s for entry in suite.entries] == [80, 80, 80]  # what 4 min a pass leave the third
    assert suite.minutes == pytest.approx(8)
    assert [entry.soak_s for entry in load_suite("b", tmp_path).entries] == [60, 60, None, None]
    assert [entry.soak_s for entry in suite.tiny().entries] == [None]


def test_a_soak_reaches_the_repeats_of_its_case_alone(tmp_path, monkeypatch):
    (tmp_path / "a.toml").write_text(
        case(MATMUL + "\nsoak_s = 0.5") + case('workload = "gcn"\nsize = { hidden = 4 }')
    )
    made = []

    def keeps(repeat, ended, say, forks):
        made.append(repeat)
        return repeat.failed(Verdict.CRASHED, "not measured")

    monkeypatch.setattr(series, "measure_or_skip", keeps)
    case_of = load_suite("a", tmp_path).cases[0]
    for soak_s, others in ((None, None), (2.0, 2.0)):
        made.clear()
        base = Repeat("r", "here", case_of, soak_s=soak_s)
        series.measure_suite(load_suite("a", tmp_path), base, 2, lambda text: None, lambda record: None)
        assert {(r.case.workload, r.soak_s) for r in made} == {("matmul", soak_s or 0.5), ("gcn", others)}


def test_a_suite_file_has_settings_with_defaults(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("threads = 1\nprofile = true\nquick = true\ntimeout_s = 7\n" + case(MATMUL))
    suite = load_suite(str(path))
    assert (suite.threads, suite.profile, suite.quick, suite.timeout_s) == (1, True, True, 7)
    path.write_text(case(MATMUL))
    suite = load_suite(str(path))
    assert (suite.threads, suite.profile, suite.quick, suite.timeout_s) == (None, False, False, 600)
    assert suite.repeats == 3


MISTAKES = {
    "": "it has no cases; give at least one",
    "cases = []": "it has no cases",
    "repeats = 2\nrepeats = 3": r"can't be read: Cannot overwrite a value",
    "[[cases": r"can't be read: Expected '\]\]'",
    "a = 1\nb = oops": r"can't be read: Invalid value \(at line 2, column 5\)",
    f"repeats = {'9' * 5000}": r"can't be read: Exceeds the limit",
    "colour = 1": "the suite has the unknown key 'colour'; known are title, minutes, repeats,",
    "repeats = 0\n" + case(MATMUL): "repeats=0 must be above 0",
    "sessions = 4\n" + case(MATMUL): "sessions=4 must be from 1 to the number of repeats, 3",
    "timeout_s = -5\n" + case(MATMUL): "timeout_s=-5 must be above 0",
    "minutes = 0\n" + case(MATMUL): "minutes=0 must be above 0 and finite",
    "minutes = nan\n" + case(MATMUL): "minutes=nan must be above 0",
    "minutes = inf\n" + case(MATMUL): "minutes=inf must be above 0 and finite",
    "minutes = true\n" + case(MATMUL): "minutes is True, expected float",
    "threads = 0\n" + case(MATMUL): "threads=0 must be above 0",
    "profile = 1\n" + case(MATMUL): "profile is 1, expected bool",
    case(MATMUL + "\nestimate_s = 0"): "estimate_s=0 must be above 0",
    case(MATMUL + "\nsoak_s = 0"): "soak_s=0 must be above 0 and finite",
    case(MATMUL + "\nsoak_s = true"): "soak_s is True, expected float",
    "soak_s = 60\n" + case(MATMUL): "the suite has the unknown key 'soak_s'",
    "timeout_s = 60\n"
    + case(MATMUL + "\nsoak_s = 60"): "soak_s=60 of matmul/n=64/fp32 must be below timeout_s=60, at which",
    case(
        'workload = "gcn_job"\nsize = { hidden = 4, epochs = 1 }\nsoak_s = 60'
    ): "soak_s=60 of gcn_job/.* is not allowed: the case is a whole job",
    "repeats = true\n" + case(MATMUL): "repeats is True, expected int",
    'repeats = "3"\n' + case(MATMUL): "repeats is '3', expected int",
    "quick = 1\n" + case(MATMUL): "quick is 1, expected bool",
    "cases = 3": "cases is 3, expected list",
    'cases = ["matmul"]': r"a case is 'matmul', expected a table",
    "[cases]\nx = 1": "cases is .* expected list",
    case("size = { n = 64 }"): "a case lacks the key workload",
    case(MATMUL + "\nprecission = 1"): "a case has the unknown key 'precission'; did you mean precision?",
    "repeat = 3\n" + case(MATMUL): "the suite has the unknown key 'repeat'; did you mean repeats?",
    f"repeats = {10**19}\n" + case(MATMUL): f"repeats={10**19} must be at most 10000",
    "timeout_s = 1e300\n" + case(MATMUL): "timeout_s is 1e\\+300, expected int",
    "minutes = 1e300\n" + case(MATMUL): r"minutes=1e\+300 must be at most 20160",
    case(MATMUL + f"\nthreads = {10**30}"): f"threads={10**30} must be at most 10000",
    case(f'workload = "matmul"\nsize = {{ n = {10**20} }}'): r"size n=1e\+20 must be at most 1e18",
    case('workload = "matmull"\nsize = { n = 1 }'): "workload 'matmull' is unknown; did you mean matmul",
    case('workload = "zzz"\nsize = { n = 1 }'): "workload 'zzz' is unknown; .*matmul",
    case("workload = 5"): "workload is 5, expected str",
    case('workload = "matmul"\nsize = 5'): "size is 5, expected dict",
    case('workload = "matmul"'): "workload matmul needs the size parameter 'n'",
    case('workload = "matmul"\nsize = { n = 64, m = 1 }'): "matmul has no size parameter 'm'; it takes n",
    case('workload = "matmul"\nsize = { n = 0 }'): "size n=0 must be above 0",
    case('workload = "matmul"\nsize = { n = [64, -1] }'): "size n=-1 must be above 0",
    case('workload = "matmul"\nsize = { n = 1.5 }'): "size n=1.5 must be a whole number above 0",
    case('workload = "matmul"\nsize = { n = true }'): "size n=True must be a whole number above 0",
    case('workload = "matmul"\nsize = { n = [[1]] }'): r"size n=\[1\] must be a whole number above 0",
    case('workload = "matmul"\nsize = { n = [] }') + case(MATMUL): r"n is \[\], which makes no case",
    case(MATMUL + "\nprecision = []") + case(MATMUL): r"precision is \[\], which makes no case",
    case(MATMUL + '\nprecision = "fp32"'): "precision is 'fp32', expected list",
    case(
        MATMUL + '\nprecision = ["fp64"]'
    ): "precision 'fp64' is unknown; choose from fp32, tf32, fp16, bf16",
    case(MATMUL + "\nprecision = [32]"): "precision 32 is unknown; .* fp32",
    case(MATMUL + '\nprecision = [["fp32"]]'): r"precision \['fp32'\] is unknown",
}


@pytest.mark.parametrize(("text", "words"), MISTAKES.items(), ids=MISTAKES.values())
def test_a_mistake_is_reported_in_one_sentence(tmp_path, text, words):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(WorkloadsError, match=words) as caught:
        load_suite(str(path))
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_suite_names_the_nearest(tmp_path):
    (tmp_path / "nightly.toml").write_text(GOOD)
    with pytest.raises(WorkloadsError, match="suite 'nigthly' is unknown; did you mean nightly"):
        load_suite("nigthly", tmp_path)
    with pytest.raises(WorkloadsError, match=r"suite 'zzz' is unknown; .* nightly"):
        load_suite("zzz", tmp_path)
    with pytest.raises(WorkloadsError, match=r"none$"):
        load_suite("zzz", tmp_path / "nowhere")


def test_files_that_are_no_text_of_ours(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.toml").mkdir()
    for name in ("binary", "folder"):
        with pytest.raises(WorkloadsError, match=rf"{name}.toml can't be read: "):
            load_suite(name, tmp_path)
    with pytest.raises(WorkloadsError, match=r"binary.toml/x.toml can't be read: .*Not a directory"):
        load_suite(str(tmp_path / "binary.toml" / "x.toml"))


@pytest.mark.parametrize("bracket", ["[", "{b="])
def test_nested_brackets_are_one_sentence(tmp_path, bracket):
    (tmp_path / "deep.toml").write_text(f"a = {bracket * 10_000}")
    with pytest.raises(WorkloadsError, match=r"deep\.toml can't be read: its brackets are nested too deeply"):
        load_suite("deep", tmp_path)


MANY = f"size = {{ pixels = {list(range(16, 216))}, batch = {list(range(1, 201))} }}"


@pytest.mark.parametrize(
    "text",
    [
        case(f'workload = "image_pipeline"\n{MANY}'),
        "".join(
            case(f'workload = "matmul"\nsize = {{ n = {list(range(k, 60_000, 5))} }}') for k in (1, 2, 3)
        ),
    ],
)
def test_a_suite_of_too_many_cases_is_refused(tmp_path, text):
    (tmp_path / "many.toml").write_text(text)
    with pytest.raises(WorkloadsError, match=r"many\.toml.* 20000"):
        load_suite("many", tmp_path)


def test_a_file_of_a_windows_editor_is_read(tmp_path):
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    (tmp_path / "theirs.toml").write_text(GOOD)
    assert load_suite("mine", tmp_path).cases == load_suite("theirs", tmp_path).cases
