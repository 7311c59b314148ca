import pytest
import torch
from torch.nn import functional as F

from tests.workloads.nets import env
from workloads.nets import citations
from workloads.nets.graph import GraphNet, normalised_links

pytestmark = pytest.mark.usefixtures("one_thread")


def small_graph():
    """Return five papers, four links, three words, and their dense matrices."""
    links = torch.tensor([[0, 0, 1, 3], [1, 2, 2, 4]])
    dense = torch.eye(5, dtype=torch.float64)
    dense[links[0], links[1]] = dense[links[1], links[0]] = 1
    scale = dense.sum(1).rsqrt().diag()
    entries = torch.tensor([[0, 0, 1, 2, 3, 4, 4], [0, 2, 1, 0, 1, 0, 2]])
    return links, scale @ dense @ scale, entries


class TestGraphNet:
    def test_links_are_normalised_by_both_degrees(self):
        links, dense, _ = small_graph()
        torch.testing.assert_close(normalised_links(links, 5).to_dense().double(), dense)

    def test_scores_and_gradients_are_those_of_dense_matrices(self):
        links, dense, entries = small_graph()
        net = GraphNet(normalised_links(links, 5).double(), entries, 3, 4, 2).double().eval()
        weights = torch.rand(7, dtype=torch.float64)
        papers = torch.zeros(5, 3, dtype=torch.float64).index_put((entries[0], entries[1]), weights)
        mine = net(weights)
        theirs = F.log_softmax(dense @ F.relu(dense @ papers @ net.first) @ net.second, 1)
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)  # the links are made in float32
        wanted = torch.autograd.grad(theirs[:, 0].sum(), [net.first, net.second])
        found = torch.autograd.grad(mine[:, 0].sum(), [net.first, net.second])
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)

    def test_flops_are_counted_entry_by_entry(self):
        task = citations.gcn_task(env())
        nonzeros = int((task.links.to_dense() != 0).sum())
        assert nonzeros == 2 * 5429 + 2708
        words, links, dense = len(task.weights) * 16, nonzeros * (16 + 7), 2708 * 16 * 7
        forward, training, counted = citations.flops(task, 16)
        assert forward == 2 * (words + links + dense)
        assert training == 2 * (2 * words + 2 * links + 3 * dense)
        assert counted == 2 * 3 * dense

    def test_papers_are_split_as_in_the_example(self):
        one, same, other = (citations.gcn_task(env(seed)) for seed in (1, 1, 2))
        assert [len(part) for part in (one.test, one.validation, one.train)] == [1000, 500, 1208]
        assert sorted(torch.cat([one.test, one.validation, one.train]).tolist()) == list(range(2708))
        assert torch.equal(one.test, same.test)
        assert not torch.equal(one.test, other.test)

    def test_a_papers_words_weigh_one_together(self):
        task = citations.gcn_task(env())
        sums = torch.zeros(2708).index_add(0, task.entries[0], task.weights)
        torch.testing.assert_close(sums, torch.ones(2708))
