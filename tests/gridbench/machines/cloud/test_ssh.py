from tests.emulators.boxes import boxes


def test_a_box_is_reported_as_fit_or_with_its_faults(run, base_image):
    with boxes() as [box]:
        words = ("--key", str(box.key), "--host-key", str(box.host["host_key"]))
        code, text = run(f"root@{box.address}", *words, "--image", base_image)
        assert code == 0 and f"image {base_image} is there" in text and "it is fit to measure on" in text
        code, text = run(f"root@{box.address}", *words, "--gpus", "1")
        assert code == 1 and "fix  nvidia-smi finds no GPU" in text
        code, text = run(f"root@{box.address}", *words, "--command", "nodocker")
        assert code == 1 and "fix  nodocker is not installed" in text
        code, text = run(f"root@{box.address}", "--key", str(box.key))
        assert code == 2 and "no key is pinned for it" in text
