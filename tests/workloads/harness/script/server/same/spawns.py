# The model goes to processes that are spawned, and batches come from workers that stay.
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, TensorDataset


def work(rank, net, answers):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    for _ in range(3):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    answers.put((rank, sorted(vars(net)), net(torch.ones(1, 4)).item()))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    print(net(torch.ones(1, 4)))
    net.share_memory()
    answers = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(net, answers), nprocs=2)
    print(*sorted(answers.get() for _ in range(2)), sep="\n")
    loader = DataLoader(
        TensorDataset(torch.randn(32, 4)), batch_size=8, num_workers=2, persistent_workers=True
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        for (x,) in loader:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
        print(loss.item())
