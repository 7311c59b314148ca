"""Training a graph convolutional network on a citation graph of Cora's shape, the whole graph at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workloads.harness.prepared import Env, Job, JobResult, Prepared
from workloads.harness.registry import workload
from workloads.harness.training.data import Graph, load_graph
from workloads.harness.training.fitting import Recipe, fresh, numbers
from workloads.harness.training.layers import parameter_bytes, parameter_count
from workloads.harness.training.optimizers import fused
from workloads.harness.training.training import Learner, training_step

if TYPE_CHECKING:
    import torch

TEST, VALIDATION = 1000, 500  # papers; the others are trained on, 1208 of Cora's
VALIDATE_EVERY = 20  # epochs


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
    """The graph, its matrix, and a split of its papers that follows from the seed."""
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
    """The network of pytorch/examples (gcn), 23,040 weights at 16, and how it learns: Adam with L2."""
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
    """FLOPs of a forward pass, of a training step, and of that the dense part, which torch's counter knows.

    A sparse product takes two operations for each entry and column; backward takes one such product for each
    gradient that is wanted: that of the words' weights, of both products with the links, and of both factors
    of the dense product.
    """
    classes, papers = task.graph.classes, len(task.labels)
    words = 2.0 * len(task.weights) * hidden
    links = 2.0 * task.links.values().numel() * (hidden + classes)
    dense = 2.0 * papers * hidden * classes
    return words + links + dense, 2 * words + 2 * links + 3 * dense, 3 * dense


@workload(hidden=(16, 64, 256), tiny={"hidden": 4})
def gcn(env: Env, hidden: int) -> Prepared:
    """One step on the whole graph."""
    task = gcn_task(env)
    how, (_, training, dense) = gcn_recipe(task, hidden), flops(task, hidden)
    step = training_step(
        env,
        env.model(how.build),
        how.loss,
        (task.weights, task.labels),
        how.optimizer,
        unit="papers",
        units=len(task.labels),
        flops=dense,
        data=task.graph.source,
    )
    return replace(step, flops=training, bytes=step.bytes + _graph_bytes(task))


@workload(kind="job", of="gcn", hidden=(16,), epochs=(200,), tiny={"hidden": 4, "epochs": 21})
def gcn_job(env: Env, hidden: int, epochs: int) -> Job:
    """The whole training: `epochs` steps with a validation after every 20 of them, then the test."""
    import torch

    task = gcn_task(env)
    how, (forward, training, dense) = gcn_recipe(task, hidden), flops(task, hidden)
    seed = int(torch.randint(2**62, (1,), generator=env.generator))

    def run() -> JobResult:
        _, learner = fresh(env, how, seed)
        losses, validated = [], []
        for epoch in range(1, epochs + 1):
            losses.append(_learn(learner, how, task))
            if epoch % VALIDATE_EVERY == 0:
                validated.append(_accuracy(env, learner.model, task, task.validation))
        reached = float(_accuracy(env, learner.model, task, task.test))
        return JobResult(numbers(losses), "test accuracy", reached, _target(hidden, epochs))

    def warm_up() -> None:
        _, learner = fresh(env, how, seed)
        _learn(learner, how, task)
        float(_accuracy(env, learner.model, task, task.test))

    model = fresh(env, how, seed)[1].model
    tests = epochs // VALIDATE_EVERY + 1
    step_bytes = task.weights.nbytes + task.labels.nbytes + _graph_bytes(task)
    return Job(
        run=run,
        warm_up=warm_up,
        units=epochs * len(task.labels),
        unit="papers",
        flops=epochs * training + tests * forward,
        bytes=(epochs + tests) * step_bytes + epochs * 2 * parameter_bytes(model),
        matmul_flops=epochs * dense + tests * dense / 3,
        parameters=parameter_count(model),
        data=task.graph.source,
    )


def _learn(learner: Learner, how: Recipe, task: Task) -> torch.Tensor:
    return learner.learn(lambda: how.loss(learner.model, task.weights, task.labels))


def _accuracy(env: Env, model: torch.nn.Module, task: Task, papers: torch.Tensor) -> torch.Tensor:
    """Return the share of `papers` that the model classifies rightly; it stays on the device."""
    import torch

    model.eval()
    with torch.inference_mode(), env.autocast():
        right = model(task.weights)[papers].argmax(1) == task.labels[papers]
    model.train()
    return right.double().mean()  # type: ignore[no-any-return]


def _graph_bytes(task: Task) -> int:
    """Add up the bytes of the words' coordinates, and of the links' coordinates and values."""
    return task.entries.nbytes + task.links.indices().nbytes + task.links.values().nbytes


def _target(hidden: int, epochs: int) -> float | None:
    """The accuracy that a sound training reaches; None where it is too short or too narrow to say."""
    return 0.75 if hidden >= 16 and epochs >= 200 else None
