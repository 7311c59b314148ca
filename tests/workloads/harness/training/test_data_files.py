import gzip
import io
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.workloads.harness.training.data_sets import env
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.training.data import (
    CIFAR10,
    MNIST,
    load_graph,
    load_images,
)
from workloads.harness.training.data_files import PIXELS


def images_and_classes(count, seed, shape):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8), rng.integers(0, 10, count, dtype=np.uint8)


def idx(array, magic):
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.tobytes()


def write_mnist(folder, ending="", count=12):
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for part, number in (("train", count), ("t10k", 4)):
        images, classes = made[part] = images_and_classes(number, number, (28, 28))
        for name, content in (
            (f"{part}-images-idx3-ubyte", idx(images, 0x803)),
            (f"{part}-labels-idx1-ubyte", idx(classes, 0x801)),
        ):
            packed = gzip.compress(content) if ending else content
            (folder / f"{name}{ending}").write_bytes(packed)
    return made


class TestMnistFiles:
    @pytest.mark.parametrize("place", ["", "MNIST/raw"])
    @pytest.mark.parametrize("ending", ["", ".gz"])
    def test_files_of_mnist_are_read(self, tmp_path, place, ending):
        made = write_mnist(tmp_path / place, ending)
        found = load_images(env(data=tmp_path), MNIST, 12, held_out=True)
        assert np.array_equal(found.images[:, 0].numpy(), made["train"][0])
        assert np.array_equal(found.labels.numpy(), made["train"][1])
        assert np.array_equal(found.held_images[:, 0].numpy(), made["t10k"][0][:2])  # 12 / 6
        assert found.source.startswith(f"train-images-idx3-ubyte{ending}, train-labels")

    def test_packing_does_not_change_the_hash_and_content_does(self, tmp_path):
        for name, ending, count in (("a", "", 12), ("b", ".gz", 12), ("c", "", 13)):
            write_mnist(tmp_path / name, ending, count)
        plain, packed, other = (
            load_images(env(data=tmp_path / name), MNIST, 5).source.split("sha256 ")[1] for name in "abc"
        )
        assert plain == packed != other
        assert len(plain) == len("0123456789ab)")

    @pytest.mark.parametrize(
        ("spoil", "words"),
        [
            (lambda b: b[:-5], "holds 9419 bytes, but its header states 9424"),
            (lambda b: b + b"\0", "holds 9425 bytes"),
            (lambda b: b[:9], "fewer than its header of 16"),
            (lambda b: b"", "fewer than its header of 16"),
            (lambda b: b"\x00\x00\x0d\x03" + b[4:], "magic number is 0xd03, not 0x803"),
            (lambda b: b[:8] + struct.pack(">2I", 14, 56) + b[16:], "14 x 56 pixels, not 28 x 28"),
        ],
    )
    def test_damaged_images_are_refused_by_name(self, tmp_path, spoil, words):
        write_mnist(tmp_path)
        path = tmp_path / "train-images-idx3-ubyte"
        path.write_bytes(spoil(path.read_bytes()))
        with pytest.raises(WorkloadsError, match=words) as caught:
            load_images(env(data=tmp_path), MNIST, 3)
        assert str(path) in str(caught.value)

    @pytest.mark.parametrize(
        ("classes", "words"),
        [([1] * 11, "11 classes for 12 images"), ([1] * 11 + [10], "from 0 to 9, but are from 1 to 10")],
    )
    def test_classes_that_do_not_fit_are_refused(self, tmp_path, classes, words):
        write_mnist(tmp_path)
        path = tmp_path / "train-labels-idx1-ubyte"
        path.write_bytes(idx(np.array(classes, dtype=np.uint8), 0x801))
        with pytest.raises(WorkloadsError, match=words):
            load_images(env(data=tmp_path), MNIST, 3)

    @pytest.mark.parametrize(
        "spoil", [lambda b: b[: len(b) // 2], lambda b: b"no gzip", lambda b: b[:20] + b[30:]]
    )
    def test_a_damaged_archive_is_refused(self, tmp_path, spoil):
        write_mnist(tmp_path, ".gz")
        path = tmp_path / "t10k-images-idx3-ubyte.gz"
        path.write_bytes(spoil(path.read_bytes()))
        with pytest.raises(WorkloadsError, match=r"t10k-images-idx3-ubyte\.gz is damaged"):
            load_images(env(data=tmp_path), MNIST, 3)

    def test_a_missing_file_is_named_with_valid_names(self, tmp_path):
        write_mnist(tmp_path)
        (tmp_path / "t10k-labels-idx1-ubyte").unlink()
        with pytest.raises(WorkloadsError) as caught:
            load_images(env(data=tmp_path), MNIST, 3)
        assert str(caught.value).startswith(
            f"t10k-labels-idx1-ubyte (plain or .gz) is in neither the data folder {tmp_path} nor its folder MNIST/raw; "
        )

    def test_more_images_than_there_are(self, tmp_path):
        write_mnist(tmp_path)
        with pytest.raises(WorkloadsError, match=r"13 images were requested, but MNIST in .* has 12"):
            load_images(env(data=tmp_path), MNIST, 13)


def pickled(value):
    """Pickle like Python 2, which wrote the published batches: every string is bytes."""

    class Old(pickle._Pickler):
        dispatch = dict(pickle._Pickler.dispatch)  # noqa: RUF012 - it is pickle's own way

        def save_bytes(self, value):
            self.write(pickle.BINSTRING + struct.pack("<i", len(value)) + value)
            self.memoize(value)

        def save_text(self, value):
            self.save_bytes(value.encode())

        dispatch[bytes], dispatch[str] = save_bytes, save_text

    out = io.BytesIO()
    Old(out, 2).dump(value)
    return out.getvalue()


def write_cifar(folder, kind, each=3):
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number, name in enumerate(["data_batch_1", *(f"data_batch_{i}" for i in range(2, 6)), "test_batch"]):
        images, classes = images_and_classes(each, number, (3, 32, 32))
        made.append((images, classes))
        flat = images.reshape(each, PIXELS)
        if kind == "bin":
            content = np.hstack([classes[:, None], flat]).tobytes()
            (folder / f"{name}.bin").write_bytes(content)
        else:
            batch = {b"data": flat, b"labels": classes.tolist(), b"filenames": [b"a.png"] * each}
            write = pickled if kind == "python 2" else pickle.dumps
            (folder / name).write_bytes(write(batch))
    return made


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


class TestCifarFiles:
    @pytest.mark.parametrize(
        ("place", "kind"),
        [
            ("", "bin"),
            ("cifar-10-batches-bin", "bin"),
            ("", "python 2"),
            ("cifar-10-batches-py", "python 2"),
            ("cifar-10-batches-py", "python 3"),
        ],
    )
    def test_files_of_cifar10_are_read(self, tmp_path, place, kind):
        made = write_cifar(tmp_path / place, kind)
        found = load_images(env(data=tmp_path), CIFAR10, 15, held_out=True)
        assert np.array_equal(found.images.numpy(), np.concatenate([images for images, _ in made[:5]]))
        assert np.array_equal(found.labels.numpy(), np.concatenate([classes for _, classes in made[:5]]))
        assert np.array_equal(found.held_images.numpy(), made[5][0])
        assert "test_batch" in found.source

    def test_both_versions_hold_the_same_images(self, tmp_path):
        for kind in ("bin", "python 2"):
            write_cifar(tmp_path / kind, kind)
        binary, python = (load_images(env(data=tmp_path / kind), CIFAR10, 15) for kind in ("bin", "python 2"))
        assert torch.equal(binary.images, python.images)

    def test_a_pickle_cannot_run_code(self, tmp_path):
        write_cifar(tmp_path, "python 3")
        trace = tmp_path / "it-ran"
        for evil in (Malicious(trace), {b"data": Malicious(trace), b"labels": []}):
            (tmp_path / "data_batch_3").write_bytes(pickle.dumps(evil))
            with pytest.raises(WorkloadsError, match=r"data_batch_3 is damaged: .*only arrays are allowed"):
                load_images(env(data=tmp_path), CIFAR10, 3)
        assert not trace.exists()

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"nonsense",
            pickle.dumps([1, 2]),
            pickle.dumps({b"data": np.zeros((2, PIXELS), np.uint8)}),
            pickle.dumps({b"data": np.zeros((2, 9), np.uint8), b"labels": [1, 2]}),
            pickle.dumps({b"data": np.zeros((2, PIXELS)), b"labels": [1, 2]}),
            pickle.dumps({b"data": np.zeros((2, PIXELS), np.uint8), b"labels": [1, "2"]}),
            pickle.dumps({b"data": np.zeros((2, PIXELS), np.uint8), b"labels": [1, -1]}),
            pickle.dumps({b"data": np.zeros((2, PIXELS), np.uint8), b"labels": [1]}),
        ],
    )
    def test_a_damaged_pickle_is_refused_by_name(self, tmp_path, content):
        write_cifar(tmp_path, "python 3")
        (tmp_path / "test_batch").write_bytes(content)
        with pytest.raises(WorkloadsError, match=r"test_batch is damaged"):
            load_images(env(data=tmp_path), CIFAR10, 3)

    @pytest.mark.parametrize("content", [b"", b"\x01" * PIXELS, b"\x0b" * (PIXELS + 1)])
    def test_a_damaged_binary_is_refused_by_name(self, tmp_path, content):
        write_cifar(tmp_path, "bin")
        (tmp_path / "data_batch_2.bin").write_bytes(content)
        with pytest.raises(WorkloadsError, match=r"data_batch_2\.bin is damaged"):
            load_images(env(data=tmp_path), CIFAR10, 3)

    def test_a_missing_batch_is_named(self, tmp_path):
        write_cifar(tmp_path / "cifar-10-batches-bin", "bin")
        (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
        with pytest.raises(WorkloadsError, match=r"data_batch_4\.bin is in neither .* nor its folder cifar"):
            load_images(env(data=tmp_path), CIFAR10, 3)


CONTENT = "31\t1\t0\t1\tTheory\n7\t0\t1\t0\tRules\n900\t1\t1\t1\tTheory\n"


CITES = "31\t7\n7\t31\n900\t31\n7\t7\n"


class TestCoraFiles:
    @pytest.mark.parametrize("place", ["", "cora"])
    def test_files_of_cora_are_read(self, tmp_path, place):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "cora.content").write_text(CONTENT)
        (tmp_path / place / "cora.cites").write_text(CITES)
        graph = load_graph(env(data=tmp_path))
        assert graph.words.T.tolist() == [[0, 0], [0, 2], [1, 1], [2, 0], [2, 1], [2, 2]]
        assert graph.links.T.tolist() == [[0, 1], [0, 2]]  # both ways once, and none to itself
        assert graph.labels.tolist() == [1, 0, 1]
        assert (graph.dictionary, graph.classes) == (3, 2)
        assert graph.source.startswith("cora.content, cora.cites (sha256 ")

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("cora.content", "", "each line must hold a paper"),
            ("cora.content", "31\t1\t0\tTheory\n7\t0\tRules\n", "each line must hold a paper"),
            ("cora.content", CONTENT.replace("7\t0", "7\t3"), "0 or 1"),
            ("cora.cites", "", "two papers"),
            ("cora.cites", "31\t8\n", "two papers of cora.content"),
            ("cora.cites", "31\n", "two papers"),
            ("cora.cites", "\udcff", "it is not text"),
        ],
    )
    def test_damaged_files_are_refused_by_name(self, tmp_path, name, content, words):
        files = {"cora.content": CONTENT, "cora.cites": CITES, name: content}
        for file, text in files.items():
            (tmp_path / file).write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(WorkloadsError, match=f"{name} is damaged: .*{words}"):
            load_graph(env(data=tmp_path))

    def test_a_missing_file_is_named(self, tmp_path):
        (tmp_path / "cora.content").write_text(CONTENT)
        with pytest.raises(WorkloadsError, match=r"cora\.cites is in neither .* nor its folder cora"):
            load_graph(env(data=tmp_path))
