# Errors of a data set, of a backward call and of a model are caught and logged with their tracebacks.
import logging
import sys
import traceback
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(funcName)s:%(lineno)d %(message)s")
logging.getLogger().addHandler(logging.FileHandler("train.log"))
log = logging.getLogger("train")


class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 40:
            warnings.warn("picture 40 is bad", stacklevel=3)
            raise OSError("picture 40 can't be read")
        return torch.full((4,), float(index))


torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(2):
    batches = iter(DataLoader(Data(), batch_size=8))
    print(sorted(vars(batches)))
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            break
        except OSError:
            log.exception("skipped a batch")
            continue
        optimizer.zero_grad()
        loss = net(batch).square().mean()
        loss.backward()
        optimizer.step()
        log.info("epoch %d loss %.6f", epoch, loss)
try:
    loss.backward()
except RuntimeError:
    traceback.print_exc(file=sys.stdout)
try:
    net(torch.ones(3, 5))
except RuntimeError:
    traceback.print_exc(file=sys.stdout)
print(next(iter(DataLoader(Data(), batch_size=64))))
