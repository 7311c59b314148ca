import json
import shlex
import sys
from pathlib import Path

import pytest

from gridbench import main
from tasks.planning.hardware import load_gpus

ROOT = Path(__file__).parents[2]
BLOG = ROOT / "docs" / "examples" / "aws-blog-table.csv"
AS_PUBLISHED = """
+-------------------------+---------------+---------------+----------------+
| Operation               | CPU Time (s)  | GPU Time (s)  | Speedup Factor |
+-------------------------+---------------+---------------+----------------+
| Matrix 1000x1000        | 0.02          | 0.88          | 0.02           |
| Matrix 5000x5000        | 0.50          | 0.01          | 50.00          |
| Matrix 8000x8000        | 1.46          | 0.04          | 36.50          |
| Matrix 10000x10000      | 2.45          | 0.09          | 27.22          |
| Image 2048x2048 (batch 1) | 0.29          | 0.16          | 1.81           |
| Image 2048x2048 (batch 2) | 0.54          | 0.04          | 13.50          |
| Image 4096x4096 (batch 1) | 0.29          | 0.16          | 1.81           |
| Image 4096x4096 (batch 2) | 2.14          | 0.21          | 10.19          |
| Gaussian Blur           | 0.09          | 0.04          | 2.25           |
+-------------------------+---------------+---------------+----------------+
| Total Job Time          | 10.13         | 3.03          | 3.34           |
+-------------------------+---------------+---------------+----------------+
"""


@pytest.fixture
def run(monkeypatch, capsys):
    """Run `gridbench check`; return exit code, output and error."""

    def check(*words):
        monkeypatch.setattr(sys, "argv", ["gridbench", "check", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code or 0, *capsys.readouterr()

    return check


@pytest.fixture(params=["csv", "as published"])
def blog(request, tmp_path):
    if request.param == "csv":
        return BLOG
    path = tmp_path / "post.md"
    path.write_text(f"# A post\n\n```\n{AS_PUBLISHED}```\n\n| Hardware | What |\n|---|---|\n| GPU | A10G |\n")
    return path


def test_the_known_errors_of_the_published_table_come_out(run, blog):
    code, text, _ = run(blog, "--json")
    (data,) = json.loads(text)["tables"]
    assert code == 1
    texts = {finding["rule"]: finding["text"] for finding in data["findings"]}
    assert [finding["rule"] for finding in data["findings"] if not finding["doubt"]] == ["copied row"]
    assert set(texts) == {
        "copied row",
        "time in no row",
        "one speedup of the whole among several",
        "cold first row",
        "time that falls as work grows",
        "digits that rounding doesn't leave",
    }
    assert texts["copied row"].startswith(
        "Image 2048x2048 (batch 1) and Image 4096x4096 (batch 1) have the same"
    )
    assert texts["time in no row"].startswith(
        "23 % of 10.13 in CPU Time (s) and 46 % of 3.03 in GPU Time (s) of Total Job Time are in no row"
    )
    assert (
        "3.34× by the total, 4.77× by the sum of its rows" in texts["one speedup of the whole among several"]
    )
    assert texts["cold first row"].startswith("Matrix 1000x1000, the first row, took 0.88")
    bounds = {row["row"]: (row["low"], row["high"]) for row in data["rows"]}
    assert bounds["Matrix 5000x5000"] == pytest.approx((33, 101), abs=0.05)
    assert bounds["Matrix 8000x8000"] == pytest.approx((32.3, 41.9), abs=0.05)
    assert bounds["Matrix 10000x10000"] == pytest.approx((25.7, 28.9), abs=0.05)
    overall = {way["way"]: way["value"] for way in data["overall"]}
    assert overall == {
        "by the total": pytest.approx(3.34, abs=0.005),
        "by the sum of its rows": pytest.approx(4.77, abs=0.005),
        "by the sum of its rows without the cold first row": pytest.approx(10.3, abs=0.05),
        "by geometric mean": pytest.approx(4.71, abs=0.005),
        "by geometric mean without the cold first row and copies": pytest.approx(11.6, abs=0.05),
    }


def test_the_cores_of_the_published_machine_are_known(run, tmp_path):
    path = tmp_path / "post.md"
    path.write_text("| Hardware | CPU | GPU |\n|---|---|---|\n| Instance | r5.4xlarge | g5.8xlarge |\n| CPU | 32 cores | 32 cores |\n")  # fmt: skip
    code, text, _ = run(path)
    assert code == 1 and "r5.4xlarge has 16 vCPUs, but the table states 32 cores" in " ".join(text.split())
    assert "g5.8xlarge" not in text.partition("1. ")[2]


def test_every_table_of_a_file_is_judged(run, tmp_path):
    path = tmp_path / "post.md"
    table = "| op | p50 (ms) | p99 (ms) |\n|---|---|---|\n| a | {} | 9.0 |\n\n"
    path.write_text(table.format("5.0") + "words\n\n" + table.format("50"))
    code, text, _ = run(path)
    assert code == 1
    assert "post.md, table 1: no errors" in text and "post.md, table 2: 1 error" in text


def test_the_page_of_check_shows_its_real_output(run, monkeypatch):
    page = (ROOT / "docs" / "published-tables.md").read_text()
    _, _, after = page.partition("$ gridbench check ")
    command, _, rest = after.partition("\n")
    shown, _, _ = rest.partition("\n```")
    monkeypatch.chdir(ROOT)
    code, text, _ = run(*shlex.split(command))
    assert code == 1 and text.rstrip("\n") == shown.rstrip("\n")


def test_a_table_without_mistakes_gives_0_and_lists_the_checks(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("op,cpu (s),gpu (s),speedup\na,1.000,0.100,10\nb,2.000,0.500,4\n")
    code, text, _ = run(path)
    assert code == 0
    assert text.startswith("t.csv: no errors") and "2 rows, 2 columns of times and rates" in text


@pytest.mark.parametrize("key", sorted(load_gpus()))
def test_every_gpu_that_has_peaks_can_be_compared(run, key):
    code, text, _ = run(BLOG, "--gpu", key)
    fastest = max(load_gpus()[key].tflops.values())
    assert code == 1 and ("above the peak" in text) is (1.05 * fastest < 22.76)  # 2 x 8000^3 FLOP in 0.045 s
    assert "the precision is not stated; compared with" in " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("no.csv", None, "no.csv: No such file or directory"),
        ("run", ..., "gridbench report run"),
        ("e.csv", b" \n", "e.csv is empty"),
        ("b.csv", b"\xff\xd8\xff", "b.csv is not UTF-8"),
        ("z.csv", b"op,t (s)\na,1\0\n", "z.csv is not text"),
        ("l.csv", b"x" * (2**20 + 1), "l.csv is larger than 1 MiB"),
        ("r.json", b"{}", "python -m workloads show"),
        ("results.parquet", b"PAR1", "python -m workloads show"),
        ("comparison.csv", b"hardware,case,verdict,compute_s\n", "gridbench report RUN"),
        ("t.csv", b"op,points\na,zero\n", "t.csv has no column of times, rates, speedups or prices among"),
    ],
)
def test_an_unreadable_file_is_reported_in_one_sentence_with_exit_code_2(run, tmp_path, name, content, words):
    path = tmp_path / name
    if content is ...:
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    code, text, error = run(path)
    assert code == 2 and not text and words in " ".join(error.split())


def test_a_gpu_without_peaks_is_never_guessed(run):
    code, _, error = run(BLOG, "--gpu", "a10-of-another-kind")
    assert code == 2 and "--gpu 'a10-of-another-kind'" in error and "p100-pcie" in error


def test_tables_that_are_not_judged_are_named(run, tmp_path):
    path = tmp_path / "post.md"
    path.write_text("| op | p50 (ms) | p99 (ms) |\n|--|--|--|\n| a | 5.0 | 9.0 |\n\nwords\n\n| Quant | Perplexity |\n|--|--|\n| Q4 | 6.21 |\n")  # fmt: skip
    code, text, _ = run(path)
    words = " ".join(text.split())
    assert code == 0 and "post.md, table 2: not judged: no column of times" in words
    assert "Compared: 1 of order of percentiles." in words
    path.write_text("| op | t (s) |\n|--|--|\n| a | 5.0 |\n")
    assert "nothing found" in run(path)[1] and "no errors" not in run(path)[1]


def test_a_csv_of_windows_is_read(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("op,cpu (s),gpu (µs)\na,1.00,500\n".encode("cp1252"))
    assert run(path)[0] == 0


def test_excel_in_utf_16_is_read(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("op\tcpu (s)\tgpu (µs)\na\t1.00\t500\n".encode("utf-16"))
    assert run(path)[0] == 0
