# An error in an error in a data set ends the script.
import torch
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        try:
            if index == 40:
                raise OSError("picture 40 can't be read")
        except OSError as error:
            raise KeyError("picture 40") from error
        return torch.full((4,), float(index))


net = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters())
for batch in DataLoader(Data(), batch_size=8):
    optimizer.zero_grad()
    net(batch).square().mean().backward()
    optimizer.step()
    print("step", flush=True)
