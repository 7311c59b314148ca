import sys
from pathlib import Path

import pytest

from tasks.travel import cache, image_cache
from tasks.travel.code_download import unpack_code
from tasks.travel.image_cache import main
from tasks.travel.packing import pack
from tasks.travel.tree import hex_of, take


@pytest.fixture
def context(code, tmp_path, monkeypatch):
    tree = take(code)
    (tmp_path / f"{hex_of(tree.id)}.pack").write_bytes(pack(tree))
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / "opt"))
    return tree, tmp_path


def test_a_lane_of_the_image_has_the_code(context, monkeypatch):
    tree, folder = context
    assert main([str(folder), tree.id]) == 0
    monkeypatch.setenv("GRIDBENCH_KEPT", str(folder / "home"))
    monkeypatch.setattr(cache, "IMAGE_CACHE", folder / "opt")
    unpack_code(tree.id, folder / "there", lambda tree_id: pytest.fail("it was fetched"))
    assert take(folder / "there").id == tree.id


def test_packages_of_an_image_are_installed_over_its_python(context, monkeypatch):
    tree, folder = context
    asked = []
    monkeypatch.setattr(image_cache, "environment_for", lambda *given: asked.append((given[1], given[2])))
    assert main([str(folder), tree.id, "requirements.txt"]) == 0
    assert asked == [("requirements.txt", Path(sys.executable))]


def test_packages_that_can_not_be_installed_end_the_build_of_an_image(context, capsys):
    tree, folder = context
    assert main([str(folder), tree.id, "requirements.txt"]) == 1
    assert "packages='requirements.txt' is not a file in the code folder" in capsys.readouterr().err
