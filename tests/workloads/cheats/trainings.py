"""False trainings and jobs: every one must end without a time."""

from dataclasses import replace

from workloads.harness.prepared import Job, JobResult, Prepared
from workloads.harness.registry import workload
from workloads.harness.training.training import Learner, inference_step, training_step


def cheat(build):
    return workload(n=(8,), tiny={"n": 8})(build)


def net(dropout=0.3):
    import torch

    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(32, 4)
    )


def loss(model, x, y):
    import torch

    return torch.nn.functional.cross_entropy(model(x), y)


def adam(parameters):
    import torch

    return torch.optim.Adam(parameters, 1e-2)


def batch(env, n):
    import torch

    x = torch.randn(n, 16, generator=env.generator)
    return env.place_exact(x), env.place_exact(torch.randint(4, (n,), generator=env.generator))


def honest_of(env, n, optimizer=adam, loss=loss) -> Prepared:
    return training_step(env, env.model(net), loss, batch(env, n), optimizer, unit="rows", units=n)


@cheat
def trains(env, n):
    return honest_of(env, n)


@cheat
def never_updates(env, n):
    import torch

    return honest_of(env, n, lambda parameters: torch.optim.SGD(parameters, 0.0))


@cheat
def learns_away_from_it(env, n):
    import torch

    return honest_of(env, n, lambda parameters: torch.optim.SGD(parameters, 0.1, maximize=True))


@cheat
def skips_backward(env, n):
    model, inputs = env.model(net), batch(env, n)
    honest = training_step(env, model, loss, inputs, adam, unit="rows", units=n)
    return replace(honest, step=lambda: loss(model, *inputs).detach())


@cheat
def skips_a_layer_in_backward(env, n):
    model, inputs = env.model(net), batch(env, n)
    honest = training_step(env, model, loss, inputs, adam, unit="rows", units=n)

    def step():
        value = honest.step()
        model[0].weight.grad.zero_()
        return value

    return replace(honest, step=step)


@cheat
def trains_on_a_copy(env, n):
    model, inputs = env.model(net), batch(env, n)
    kept = tuple(t.clone() for t in inputs)
    learner = Learner(env, model, adam)
    honest = training_step(env, model, loss, inputs, adam, unit="rows", units=n)
    return replace(honest, step=lambda: learner.learn(lambda: loss(model, *kept)), reset=learner.reset)


@cheat
def blows_up(env, n):
    import torch

    return honest_of(env, n, lambda parameters: torch.optim.SGD(parameters, 1e30))


@cheat
def infers_without_a_layer(env, n):
    model, inputs = env.model(net, env.dtype).eval(), batch(env, n)[0]
    return replace(inference_step(env, model, inputs, unit="rows"), step=lambda: model[3](model[0](inputs)))


def job(env, n, outcome):
    return Job(lambda: outcome, lambda: None, n, "rows", 1.0, 1.0, 0.0)


@cheat
def misses_its_target_job(env, n):
    return job(env, n, JobResult((2.3, 2.2), "accuracy", 0.11, 0.9))


@cheat
def loses_its_way_job(env, n):
    return job(env, n, JobResult((2.3, float("nan")), "accuracy", 0.95, 0.9))


@cheat
def does_nothing_job(env, n):
    return job(env, n, JobResult((), "accuracy", 0.95, 0.9))


@cheat
def reaches_its_target_job(env, n):
    return job(env, n, JobResult((2.3, 0.4), "loss", 0.4, 0.5, higher_is_better=False))
