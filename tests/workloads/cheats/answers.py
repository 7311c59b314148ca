"""Workloads with false answers, inputs or results: every one must end without a time."""

import gc
import threading
import time
import weakref
from dataclasses import replace

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload

LEFT: list[int] = []  # results that were still held when `counts_its_results` began a step
HOLDERS: list[str] = []  # of the first of them
LET_GO_S = 0.5  # for threads of other tests


def product(env: Env, n: int, step=None, data=None, **changes) -> Prepared:
    """Return an honest product of n x n matrices; `step` replaces the step, `changes` the declaration."""
    a, b = data or (env.randn(n, n), env.randn(n, n))
    take = step or (lambda a, b: a @ b)
    honest = Prepared(
        step=lambda: take(a, b),
        inputs=(a, b),
        reference=lambda: a.double() @ b.double(),
        view=lambda c: c,
        units=1,
        unit="products",
        flops=2 * n**3,
        bytes=12 * n * n,
        matmul_flops=2 * n**3,
    )
    return replace(honest, **changes)


def cheat(build):
    return workload(n=(64,), tiny={"n": 64})(build)


def on_call(number, wrong):
    calls = iter(range(1, 10**9))
    return lambda a, b: wrong(a, b) if next(calls) >= number else a @ b


@cheat
def honest(env, n):
    return product(env, n)


@cheat
def hands_out_one_result(env, n):
    kept = []

    def step(a, b):
        kept[:] = kept or [a @ b]
        return kept[0]

    return product(env, n, step)


@cheat
def hands_out_copies_of_one_result(env, n):
    kept = []

    def step(a, b):
        kept[:] = kept or [a @ b]
        return kept[0].clone()

    return product(env, n, step)


@cheat
def computes_only_while_it_is_checked(env, n):
    """Right for the first calls, which precede the timing; an earlier result from then on."""
    a, b = env.randn(n, n), env.randn(n, n)
    return product(env, n, on_call(6, lambda a, b, c=a @ b: c), data=(a, b))


@cheat
def ignores_its_inputs(env, n):
    a, b = env.randn(n, n), env.randn(n, n)
    mine, yours = a.clone(), b.clone()
    return product(env, n, lambda *_: mine @ yours, data=(a, b))


@cheat
def ignores_one_input(env, n):
    a, b = env.randn(n, n), env.randn(n, n)
    mine = b.clone()
    return product(env, n, lambda a, b: a @ mine, data=(a, b))


@cheat
def declares_no_inputs(env, n):
    return product(env, n, inputs=())


@cheat
def turns_wrong(env, n):
    return product(env, n, on_call(8, lambda a, b: (a @ b) * 1.01))


@cheat
def turns_nan(env, n):
    return product(env, n, on_call(8, lambda a, b: (a @ b) * float("nan")))


@cheat
def returns_nan(env, n):
    return product(env, n, lambda a, b: (a @ b).fill_diagonal_(float("nan")))


@cheat
def returns_infinity(env, n):
    return product(env, n, lambda a, b: (a @ b).fill_diagonal_(float("inf")))


@cheat
def returns_zeros(env, n):
    return product(env, n, lambda a, b: a * 0)


@cheat
def returns_half(env, n):
    return product(env, n, lambda a, b: (a @ b)[: n // 2])


@cheat
def shows_nothing(env, n):
    return product(env, n, view=lambda c: c[:0], reference=lambda: env.randn(0, n).double())


@cheat
def computes_in_tf32(env, n):
    """Inputs rounded to TF32's 10 bits of mantissa, as tensor cores do."""

    def rounded(t):
        import torch

        return ((t.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    return product(env, n, lambda a, b: rounded(a) @ rounded(b))


@cheat
def computes_in_bf16(env, n):
    return product(env, n, lambda a, b: (a.bfloat16() @ b.bfloat16()).float())


@cheat
def skips_a_row(env, n):
    def step(a, b):
        c = a @ b
        c[n // 2] = 0
        return c

    return product(env, n, step)


@cheat
def works_behind_our_back(env, n):
    """Asynchronous on the CPU: returns memory that another thread still has to fill."""
    out = env.randn(n, n)

    def step(a, b):
        def work():
            time.sleep(0.02)
            out.copy_(a @ b)

        threading.Thread(target=work).start()
        return out

    return product(env, n, step)


@cheat
def spoils_its_inputs(env, n):
    return product(env, n, lambda a, b: a.copy_(a @ b / n))


@cheat
def gets_zeros(env, n):
    return product(env, n, data=(env.randn(n, n) * 0, env.randn(n, n)))


@cheat
def gets_ones(env, n):
    return product(env, n, data=(env.randn(n, n), env.randn(n, n) * 0 + 1))


@cheat
def gets_nan(env, n):
    return product(env, n, data=(env.randn(n, n), env.randn(n, n).fill_diagonal_(float("nan"))))


@workload(n=(256,), tiny={"n": 256})
def remembers_by_version(env, n):
    """The one reuse that no check of results detects: it recomputes whenever its inputs change."""
    kept = {}

    def step(a, b):
        version = (a._version, b._version)
        if version not in kept:
            kept.clear()
            kept[version] = a @ b
        return kept[version]

    return product(env, n, step)


@cheat
def counts_its_results(env, n):
    """Each result is the number of earlier ones that are still held, besides the product."""
    earlier = []

    def step(a, b):
        LEFT.append(still_held(earlier))
        result = a @ b
        earlier.append(weakref.ref(result))
        return result

    return product(env, n, step)


def still_held(results):
    """Return how many results are held, once other threads had time to release them.

    The engine's references stay meanwhile: it waits for the step. A cycle of frames holds a result until a
    collection, and none runs while another thread collects. A thread that looks at all threads' frames holds
    their variables.
    """
    ends_s = time.perf_counter() + LET_GO_S
    while held := [found for found in (result() for result in results) if found is not None]:
        if time.perf_counter() > ends_s:
            HOLDERS.extend(str(type(holder)) for holder in gc.get_referrers(held[0]) if holder is not held)
            break
        del held
        gc.unfreeze()  # the engine freezes all objects before its samples
        gc.collect()
        time.sleep(0.01)
    return len(held)
