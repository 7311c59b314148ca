import json
import warnings

import pytest

from tests.gpu_proof import keep
from tests.gpu_proof.keep import NEVER, PAGE, last, told, with_proof
from tests.gpu_proof.leave import harness_id

ROWS = [{"step": "clocks", "name": "a | b", "state": state, "text": "1 < 2"} for state in ("ok", "FAIL")]
PROOF = {
    "content_id": "0123456789ab",
    "date": "2026-11-23T17:00:00+00:00",
    "seconds": 400,
    "device": "cuda",
    "card": {
        "name": "NVIDIA H200",
        "count": 1,
        "driver": "580.95.05",
        "torch": "2.11.0+cu130",
        "capability": [9, 0],
    },
    "counts": {"ok": 1, "FAIL": 1, "not run": 0, "shown": 0},
    "clocks": {},
    "rows": ROWS,
}


def warning(proof, now):
    if proof is None:
        return "no proof on a GPU was kept: docs/gpu-proof.md says how to make one"
    if proof["content_id"] == now:
        return ""
    return f"workloads/ has changed since the proof on {proof['card']['name']} of {proof['date'][:10]}: make gpu-proof where there is a GPU"


def test_the_harness_is_that_of_the_last_proof():
    """A change only warns: most machines have no GPU."""
    if sentence := warning(last(), harness_id()):
        warnings.warn(sentence, stacklevel=1)


def test_a_change_since_the_last_proof_is_reported():
    assert warning(PROOF, PROOF["content_id"]) == ""
    assert warning(PROOF, harness_id()).startswith(
        "workloads/ has changed since the proof on NVIDIA H200 of 2026-11-23"
    )
    assert "no proof" in warning(None, harness_id())


def test_the_page_shows_the_last_kept_proof():
    assert PAGE.read_text() == with_proof(PAGE.read_text(), last())
    assert (NEVER in PAGE.read_text()) is (last() is None)


def test_a_proof_is_reported_with_its_card_and_what_failed():
    text = told(PROOF)
    for words in ("NVIDIA H200", "driver 580.95.05", "torch 2.11.0+cu130", "0123456789ab", "1 of 2 hold",
                  "| FAIL | a \\| b | 1 &lt; 2 |"):  # fmt: skip
        assert words in text
    assert "| ok |" not in text


def test_a_proof_is_kept_and_that_of_a_cpu_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(keep, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(keep, "PAGE", tmp_path / "page.md")
    keep.PAGE.write_text(f"# Proof\n{keep.BEGIN}\n{NEVER}\n{keep.END}\nafter\n")
    (tmp_path / "proof.json").write_text(json.dumps(PROOF | {"device": "cpu"}))
    with pytest.raises(SystemExit, match="only what ran on a GPU is kept"):
        keep.main(str(tmp_path))
    (tmp_path / "proof.json").write_text(json.dumps(PROOF))
    keep.main(str(tmp_path))
    page = keep.PAGE.read_text()
    assert NEVER not in page and "1 of 2 hold" in page and page.endswith("after\n")
    assert keep.last()["rows"] == ROWS
