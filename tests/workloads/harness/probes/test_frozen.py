import pytest

from workloads.harness.probes import frozen

VERSIONS = {"python": "3.11.2", "torch": "2.13.0"}


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "workloads"
    (folder / "harness").mkdir(parents=True)
    (folder / "matmul.py").write_text("a @ b\n")
    (folder / "harness" / "clock.py").write_text("tick\n")
    return folder


def test_a_checkout_has_no_reference_id(code):
    assert frozen.reference_id() is None
    assert frozen.reference_id(code) is None


def test_a_marked_reference_has_the_id_of_its_content(code):
    (code / frozen.MARK).write_text('{"id": "whatever it says"}')
    assert frozen.reference_id(code) == frozen.content_id(code, frozen.versions())
    assert len(frozen.reference_id(code)) == 12


def test_neither_the_mark_nor_bytecode_nor_the_place_counts(code, tmp_path):
    before = frozen.content_id(code, VERSIONS)
    (code / frozen.MARK).write_text("{}")
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "matmul.cpython-311.pyc").write_bytes(b"\0")
    assert frozen.content_id(code.rename(tmp_path / "elsewhere"), VERSIONS) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda code: (code / "matmul.py").write_text("b @ a\n"),
        lambda code: (code / "matmul.py").rename(code / "product.py"),
        lambda code: (code / "harness" / "clock.py").unlink(),
        lambda code: (code / "harness" / "more.py").touch(),
    ],
    ids=["content", "name", "one less", "one more"],
)
def test_every_file_changes_the_content_id(code, change):
    before = frozen.content_id(code, VERSIONS)
    change(code)
    assert frozen.content_id(code, VERSIONS) != before


def test_every_version_changes_the_content_id(code):
    others = [VERSIONS | {"torch": "2.13.1"}, VERSIONS | {"python": "3.11.3"}, VERSIONS | {"numpy": "2.4"}]
    assert len({frozen.content_id(code, found) for found in [VERSIONS, *others]}) == 4


def test_versions_of_a_reference_are_those_of_the_measuring_packages():
    found = frozen.versions()
    assert {"python", "torch", "numpy", "psutil", "nvidia-ml-py"} == found.keys()
    assert found["torch"].startswith("2.") and all(found.values())
