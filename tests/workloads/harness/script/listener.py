"""A listener that counts each step of an optimizer as a step."""

import torch

from workloads.harness.script.hooks import Hooks
from workloads.harness.script.observations import Observations


class Listener:
    def __init__(self):
        self.observed, self.forwards, self.errors = Observations(), 0, []
        self.hooks = Hooks(self.observed, self)

    def optimizer_stepped(self, *_):
        self.observed.stepped()
        if self.observed.calls is None:
            self.hooks.stop_looking()

    def backward_begins(self):
        pass

    def batch_asked(self, loader_pass):
        pass

    def model_called(self):
        self.forwards += 1

    def called_again(self):
        self.forwards += 1
        return True

    def failed(self, error):
        self.errors.append(error)

    def install(self):
        self.hooks.install(torch)
        return self

    def remove(self):
        self.hooks.remove()
        assert not self.errors, self.errors
