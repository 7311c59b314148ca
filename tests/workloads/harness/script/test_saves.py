import io
import sys

import pytest
import torch

from tests.workloads.harness.script.listener import Listener
from workloads.harness.script.saves import saves_in_a_loop

LOOP = "for step in range(9):\n    train()\n"


@pytest.mark.parametrize(
    ("source", "saves"),
    [
        (f"{LOOP}    torch.save(net, 'last.pt')", True),
        (f"def keep():\n    torch.save(net, 'a')\n{LOOP}    if step % 3 == 0:\n        keep()", True),
        ("class T:\n def keep(self): torch.save(1, 'a')\n def fit(self):\n  while True: self.keep()", True),
        (f"def b(): torch.save(1, 'a')\ndef a(): b()\n{LOOP}    a()", True),
        (f"{LOOP}torch.save(net, 'last.pt')", False),
        (f"{LOOP}    figure.save('a.png')", False),
        (f"def keep():\n    torch.save(net, 'a')\n{LOOP}keep()", False),
    ],
)
def test_saves_in_a_loop_are_found_in_the_text(source, saves):
    assert saves_in_a_loop(source) is saves


def test_a_save_that_never_came_is_named_until_one_comes(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(f"{LOOP}    torch.save(net, 'last.pt')")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    for target in (io.BytesIO(), tmp_path / "last.pt"):
        watched = Listener().install()
        try:
            torch.save({}, target)  # before the first step, such as that of the model as it begins
            watched.observed.stepped()
            assert watched.hooks.unseen_saves()
            torch.save({}, target)
            assert watched.hooks.unseen_saves() == ()
        finally:
            watched.remove()
