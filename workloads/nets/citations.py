"""Training a graph network on a citation graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workloads.harness.prepared import Env
from workloads.harness.training.data import Graph, load_graph
from workloads.harness.training.fitting import Recipe
from workloads.harness.training.optimizers import fused

if TYPE_CHECKING:
    import torch

TEST, VALIDATION = 1000, 500  # papers; the others are trained on, 1208 of Cora's


@dataclass(frozen=True, slots=True)
class Task:
    """A graph as the network takes it, on the device.

    Attributes:
        entries: int64, [2, n]: paper and word; weights: float32, [n]: a paper's words weigh 1 together.
        links: the graph's matrix, sparse [papers, papers].
        train, validation, test: papers' numbers, disjoint.
    """

    graph: Graph
    entries: torch.Tensor
    weights: torch.Tensor
    links: torch.Tensor
    labels: torch.Tensor
    train: torch.Tensor
    validation: torch.Tensor
    test: torch.Tensor


def gcn_task(env: Env) -> Task:
    import torch

    from workloads.nets.graph import normalised_links

    graph = load_graph(env)
    papers = len(graph.labels)
    split = torch.randperm(papers, generator=env.generator)
    test, validation, train = split.tensor_split((TEST, TEST + VALIDATION))
    share = 1 / torch.bincount(graph.words[0], minlength=papers).float()
    return Task(
        graph,
        entries=env.place_exact(graph.words),
        weights=env.place_exact(share[graph.words[0]]),
        links=env.to_device(normalised_links(graph.links, papers)),
        labels=env.place_exact(graph.labels),
        train=env.place_exact(train),
        validation=env.place_exact(validation),
        test=env.place_exact(test),
    )


def gcn_recipe(task: Task, hidden: int) -> Recipe:
    """Return the network and recipe of pytorch/examples (gcn)."""
    import torch
    from torch.nn import functional as F

    from workloads.nets.graph import GraphNet

    def net() -> torch.nn.Module:
        return GraphNet(task.links, task.entries, task.graph.dictionary, hidden, task.graph.classes)

    def loss(model: Any, weights: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        train = task.train.to(labels.device)
        return F.nll_loss(model(weights)[train], labels[train])

    return Recipe(
        net,
        loss,
        lambda parameters: fused(torch.optim.Adam, parameters, lr=0.01, weight_decay=5e-4),
        lambda optimizer: torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0),
    )


def flops(task: Task, hidden: int) -> tuple[float, float, float]:
    """Return the FLOPs forward, of a training step, and of its dense part (torch's count).

    A sparse product takes two operations for each entry and column; backward takes one such product for each
    needed gradient.
    """
    classes, papers = task.graph.classes, len(task.labels)
    words = 2.0 * len(task.weights) * hidden
    links = 2.0 * task.links.values().numel() * (hidden + classes)
    dense = 2.0 * papers * hidden * classes
    return words + links + dense, 2 * words + 2 * links + 3 * dense, 3 * dense


def graph_bytes(task: Task) -> int:
    return task.entries.nbytes + task.links.indices().nbytes + task.links.values().nbytes
