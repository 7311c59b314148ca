"""Training a graph convolutional network on a citation graph of Cora's shape, the whole graph at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Job, JobResult, Prepared
from workloads.harness.registry import workload
from workloads.harness.training.fitting import Recipe, fresh, numbers
from workloads.harness.training.layers import parameter_bytes, parameter_count
from workloads.harness.training.training import Learner, training_step
from workloads.nets.citations import Task, flops, gcn_recipe, gcn_task, graph_bytes

if TYPE_CHECKING:
    import torch

VALIDATE_EVERY = 20  # epochs


@workload(has_model=True, hidden=(16, 64, 256), tiny={"hidden": 4})
def gcn(env: Env, hidden: int) -> Prepared:
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
    return replace(step, flops=training, bytes=step.bytes + graph_bytes(task))


@workload(has_model=True, kind="job", of="gcn", hidden=(16,), epochs=(200,), tiny={"hidden": 4, "epochs": 21})
def gcn_job(env: Env, hidden: int, epochs: int) -> Job:
    """Return the whole training, with a validation after every 20 steps and a test."""
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
    step_bytes = task.weights.nbytes + task.labels.nbytes + graph_bytes(task)
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
    import torch

    model.eval()
    with torch.inference_mode(), env.autocast():
        right = model(task.weights)[papers].argmax(1) == task.labels[papers]
    model.train()
    return right.double().mean()  # type: ignore[no-any-return]


def _target(hidden: int, epochs: int) -> float | None:
    return 0.75 if hidden >= 16 and epochs >= 200 else None
