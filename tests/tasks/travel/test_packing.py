import io
import os
import tarfile
import zlib
from dataclasses import replace

import pytest

from tasks.errors import GridbenchError
from tasks.travel import packing
from tasks.travel.packing import pack, unpack
from tasks.travel.tree import TreeFile, id_of, take

NOBODY = f"sha256:{'0' * 64}"


def archive(*entries, whole=True):
    """Return a packed archive of entries: name, and content or a TarInfo's other fields."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, dict):
                for field, value in content.items():
                    setattr(info, field, value)
                file.addfile(info)
            else:
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
    packed = zlib.compress(buffer.getvalue())
    return packed if whole else packed[:-9]


def test_a_packed_tree_is_unpacked_unchanged(code, tmp_path):
    (code / "near").symlink_to("lib/net.py")
    (code / "ünïcode name.txt").write_text("ä" * 200)
    tree = take(code)
    unpack(pack(tree), tree.id, tmp_path / "there")
    there = take(tmp_path / "there")
    assert there.id == tree.id and there.files == tree.files
    assert os.access(tmp_path / "there/lib/run.sh", os.X_OK)
    assert (tmp_path / "there/near").read_text() == "WIDTH = 8\n"


def test_the_same_files_make_the_same_bytes(code, tmp_path):
    tree = take(code)
    unpack(pack(tree), tree.id, tmp_path / "there")
    os.utime(tmp_path / "there/train.py", (1, 1))
    assert pack(take(tmp_path / "there")) == pack(tree)


def test_secrets_and_changing_files_are_not_packed(code):
    tree = take(code)
    (code / "train.py").write_text("another")
    with pytest.raises(GridbenchError, match=r"train.py in .* has changed meanwhile"):
        pack(tree)
    (code / ".env").write_text("TOKEN=1")
    with pytest.raises(GridbenchError, match="looks like a secret"):
        pack(take(code))


def test_another_tree_under_the_same_id_is_refused(code, tmp_path):
    tree = take(code)
    (code / "train.py").write_text("import os; os.abort()\n")
    with pytest.raises(GridbenchError, match=f"the code that came is not {tree.id}"):
        unpack(pack(take(code)), tree.id, tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([("../out", b"x")], "would leave its folder"),
        ([("/etc/out", b"x")], "would leave its folder"),
        ([("a/../../out", b"x")], "would leave its folder"),
        ([("a//b", b"x")], "would leave its folder"),
        ([("out", {"type": tarfile.SYMTYPE, "linkname": "../.."})], "leaves its folder"),
        ([("out", {"type": tarfile.SYMTYPE, "linkname": "/etc"})], "leaves its folder"),
        ([("a", {"type": tarfile.SYMTYPE, "linkname": "b"}), ("a/x", b"x")], "below a file or a link"),
        ([("a", b"x"), ("hard", {"type": tarfile.LNKTYPE, "linkname": "a"})], "neither plain file nor link"),
        ([("null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})], "neither plain file nor link"),
        ([("pipe", {"type": tarfile.FIFOTYPE})], "neither plain file nor link"),
        ([("a", b"x"), ("a", b"y")], "twice, or too much"),
    ],
)
def test_hostile_archives_write_nothing(tmp_path, entries, words):
    with pytest.raises(GridbenchError, match=words):
        unpack(archive(*entries), NOBODY, tmp_path / "there")
    assert list(tmp_path.iterdir()) == []


def test_damaged_ones_and_bombs_write_nothing(tmp_path, monkeypatch):
    for packed in (b"no archive", archive(("a", b"x"), whole=False), archive(("a", b"x")) + b"more"):
        with pytest.raises(GridbenchError, match="came damaged"):
            unpack(packed, NOBODY, tmp_path / "there")
    with pytest.raises(GridbenchError, match="is not an archive"):
        unpack(zlib.compress(b"no tar" * 200), NOBODY, tmp_path / "there")
    monkeypatch.setattr(packing, "MOST_BYTES", 1000)
    monkeypatch.setattr(packing, "SPARE_BYTES", 0)
    with pytest.raises(GridbenchError, match="came damaged or is above"):
        unpack(archive(("a", bytes(10**6))), NOBODY, tmp_path / "there")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_holes_is_not_filled(tmp_path):
    holes = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "b"}
    info = tarfile.TarInfo("a")
    info.pax_headers, info.size = {**holes, "GNU.sparse.realsize": str(1 << 60)}, 512
    content = info.tobuf(tarfile.PAX_FORMAT) + b"1\n0\n1\n".ljust(512, b"\0")
    with pytest.raises(GridbenchError, match="'b', which is neither plain file nor link"):
        unpack(zlib.compress(content + bytes(1024)), NOBODY, tmp_path / "there")


def test_headers_without_end_are_no_archive(tmp_path):
    header = tarfile.TarInfo("a").create_pax_global_header({"comment": "x"})
    with pytest.raises(GridbenchError, match="is not an archive"):
        unpack(zlib.compress(header * 2000), NOBODY, tmp_path / "there")


def test_no_id_is_no_path(tmp_path):
    for name in ("sha256:../../x", "md5:1", ""):
        with pytest.raises(GridbenchError, match="is not a code id"):
            unpack(archive(("a", b"x")), name, tmp_path / "there")


def test_the_id_tells_a_link_from_a_file_with_its_words():
    file = TreeFile("a", False, 1, "digest")
    assert id_of([file]) != id_of([replace(file, link="digest", digest="")])
