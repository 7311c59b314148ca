# Nothing is trained; the model is saved between calls, in a call, and after a call that failed.
import copy
import io
import warnings

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(8)])
        self.saved = []

    def forward(self, x):
        if x.isnan().any():
            raise ValueError("no number")
        self.saved = []
        buffer = io.BytesIO()
        torch.save(self, buffer)
        self.saved.append(buffer.getvalue())
        warnings.warn(f"called with {tuple(x.shape)}", stacklevel=2)
        return self.parts(x)


torch.manual_seed(0)
net = Net().eval()
with torch.inference_mode():
    for i in range(12):
        try:
            net(torch.full((i + 1, 4), float("nan" if i % 3 == 2 else i)))
        except ValueError as error:
            print(error)
        torch.save(copy.deepcopy(net), f"net-{i}.pt")
traced = torch.fx.symbolic_trace(net.parts)
print(traced.code)
scripted = torch.jit.script(net.parts)
print(scripted(torch.ones(1, 4)), torch.jit.trace(net.parts, torch.ones(1, 4)).code)
