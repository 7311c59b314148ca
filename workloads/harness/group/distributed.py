"""A rank of a group: measure a case together with the other ranks.

All ranks decide alike, because all see the slowest one's times.
"""

from __future__ import annotations

import inspect
import math
import os
import statistics
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from workloads.harness.engine.clock import Clock, Reading, Step
from workloads.harness.engine.correctness import WrongError
from workloads.harness.engine.device import Device
from workloads.harness.engine.member import Apart
from workloads.harness.engine.readings import Readings
from workloads.harness.group import ranks
from workloads.harness.group.ranks import Membership
from workloads.harness.prepared import Env
from workloads.harness.probes.cpu import own_cpu_s
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Memory, Timing

if TYPE_CHECKING:
    import torch

PULSE_S = 1.0  # largest age of a rank's count of exchanges
# Torch's own limit would blame the ranks that wait. The process that starts them names the late one, sooner.
PATIENCE = 2.0  # times the repeat's timeout
PAIRS = 10  # of blocks with and without exchange, at most
FEWEST_PAIRS = 3
ALONE_S = 1.0  # a period of the governor of an H100
# Readings of which each GPU has its own, and of which the worst taints all; a drift can be up or down.
OF_EACH_GPU = (
    *("power_throttled_share", "thermal_throttled_share", "throttled_share", "straggle_share"),
    *("gpu_foreign_share", "gpu_foreign_processes", "gpu_foreign_memory_bytes", "sm_clock_drift"),
)
_control: Any = None  # the harness's own group, on CPUs: its messages must not queue behind kernels


class RankProcess:
    """This process as one rank of a group, with a clock that all ranks share."""

    def __init__(self, membership: Membership, device: Device, timeout_s: float) -> None:
        global _control
        import torch.distributed as dist

        self.rank, self.world = membership.rank, membership.world
        self.backend = "gloo" if device.is_host else "nccl"
        self._own_s: list[float] = []
        self._noted: Rank | None = None
        if os.path.exists("/sys/class/net/lo"):  # all are here: no name service, no firewall in between
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        patience = timedelta(seconds=PATIENCE * timeout_s)
        chosen = None if device.is_host else device.torch_device
        dist.init_process_group(self.backend, timeout=patience, device_id=chosen)
        _control = dist.new_group(backend="gloo", timeout=patience)
        self._own_clock = device.clock
        self.device = replace(device, clock=GroupClock(device.clock, self._own_s))
        self._pids: list[int] = self.gather(os.getpid())
        self._stop = threading.Event()
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    def gather(self, value: Any) -> list[Any]:
        return gathered(value)

    def mean(self, value: float) -> float:
        return statistics.fmean(self.gather(value))

    def slowest(self, seconds: float | None) -> float | None:
        found_s = slowest([math.inf if seconds is None else seconds])[0]
        return found_s if math.isfinite(found_s) else None

    def cpu_s(self) -> float:
        seconds = own_cpu_s()
        with suppress(ImportError):
            import psutil

            for pid in [*self._pids, os.getppid()]:
                if pid != os.getpid():
                    with suppress(psutil.Error):
                        seconds += _cpu_s(psutil.Process(pid), pid in self._pids)
        return seconds

    def note(self, timing: Timing, memory: Memory, probes: dict[str, float]) -> None:
        own_s = self._own_s[-(timing.timed_steps // timing.block) :]
        self._noted = Rank(
            self.rank,
            "cpu" if self.device.is_host else f"cuda:{self.rank}",
            statistics.median(own_s) / timing.block,
            memory.peak_rss_bytes,
            memory.device_allocated_bytes,
            memory.device_reserved_bytes,
            mean_s=math.fsum(own_s) / len(own_s) / timing.block,
            probes=probes,
        )

    def group(self, scaling: str, apart: Apart | None) -> Group:
        rows: list[Rank] = self.gather(self._noted)
        own_s = self.gather(apart.own_s) if apart else [row.median_s for row in rows]
        spread = max(own_s) / min(own_s) - 1
        return Group(self.backend, scaling, tuple(rows), apart.communication_share if apart else None, spread)

    def measure_apart(
        self, step: Step, unexchanged: Callable[[], AbstractContextManager[object]], block: int, cap_s: float
    ) -> Apart:
        clock = self.device.clock
        own_s: list[float] = []

        def pair() -> tuple[float, float]:
            whole_s = clock.time(step, block).wall_s
            with unexchanged():
                alone_s = clock.time(step, block).wall_s
            own_s.append(self._own_s[-1])
            return whole_s, alone_s

        pair()  # memory is laid out anew for it
        own_s.clear()
        ends_s, pairs = clock.now() + cap_s, [pair() for _ in range(FEWEST_PAIRS)]
        while len(pairs) < PAIRS and clock.now() < ends_s:
            pairs.append(pair())
        whole_s = statistics.median(whole for whole, _ in pairs)
        alone_s = statistics.median(alone for _, alone in pairs)
        return Apart(max(1.0 - alone_s / whole_s, 0.0), statistics.median(own_s))

    def measure_alone(self, step: Step, block: int) -> None:
        for turn in range(self.world):
            self.gather(None)
            if turn != self.rank:
                continue
            clock, own_s, steps = self._own_clock, 0.0, 0
            clock.time(step, block)
            while own_s < ALONE_S:
                own_s += clock.time(step, block).wall_s
                steps += block
                ranks.stepped()
            assert self._noted is not None
            self._noted = replace(self._noted, alone_s=own_s / steps)
        self.gather(None)

    def merge(self, readings: Readings) -> None:
        """Merge the ranks' GPU readings: the sum of energy, the worst of the rest."""
        readings_of_ranks = self.gather(
            (readings.environment.get("gpus", []), readings.energy_j, readings.probes, readings.missing)
        )
        if self.device.is_host:  # all have read the same machine
            return
        readings.environment["gpus"] = [gpu for gpus, *_ in readings_of_ranks for gpu in gpus]
        joules = [energy_j for _, energy_j, *_ in readings_of_ranks]
        readings.energy_j = None if None in joules else sum(joules)
        for name in (
            "gpu_energy_j",
            "gpu_energy_error_j",
        ):  # the counters step alike, so that errors can add up
            of_ranks = [probes[name] for *_, probes, _ in readings_of_ranks if name in probes]
            readings.probes.pop(name, None)
            if len(of_ranks) == len(readings_of_ranks):
                readings.probes[name] = sum(of_ranks)
        for rank, (*_, missing) in enumerate(readings_of_ranks):
            for name in missing.keys() & {*OF_EACH_GPU, "gpu_energy_j"}:
                readings.missing.setdefault(name, f"rank {rank}: {missing[name]}")
        for name in OF_EACH_GPU:
            if values := [probes[name] for *_, probes, _ in readings_of_ranks if name in probes]:
                readings.probes[name] = max(values, key=abs)

    def leave(self) -> None:
        self.gather(None)
        self._stop.set()
        ranks.ended()

    def _beat(self) -> None:
        import torch.distributed as dist

        pairs: tuple[Any, ...] = (dist.group.WORLD, _control)
        while not self._stop.wait(PULSE_S):
            with suppress(Exception):  # torch keeps the numbers for its own flight recorder
                ranks.exchanged(sum(group._get_sequence_number_for_group() for group in pairs))


class GroupClock:
    """A clock that gives all ranks the slowest one's times."""

    def __init__(self, inner: Clock, own_s: list[float]) -> None:
        self._inner, self._own_s = inner, own_s

    def now(self) -> float:
        import torch
        import torch.distributed as dist

        first_s = torch.tensor([self._inner.now()], dtype=torch.float64)
        dist.broadcast(first_s, 0, group=_control)
        return float(first_s)

    def time(self, step: Step, count: int) -> Reading:
        def counted() -> Any:
            result = step()
            if result is not None:  # by an empty step the timing itself is timed
                ranks.stepped()
            return result

        slowest([0.0])
        reading = self._inner.time(counted, count)
        self._own_s.append(reading.wall_s)
        wall_s, device_s, straggle_s = slowest([reading.wall_s, reading.device_s or 0.0, reading.straggle_s])
        return Reading(wall_s, None if reading.device_s is None else device_s, straggle_s, reading.result)

    def busy_s(self, step: Step, count: int, hold_s: float) -> float | None:
        """Return the slowest rank's seconds per step without its host's gaps; all begin at once."""
        slowest([0.0])
        own_s = self._inner.busy_s(step, count, hold_s)
        found_s = slowest([math.inf if own_s is None else own_s])[0]
        return found_s if math.isfinite(found_s) else None


def replicated(env: Env, model: torch.nn.Module) -> torch.nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    on_gpu = [env.device] if env.device.type == "cuda" else None
    options = inspect.signature(DistributedDataParallel).parameters
    sync: Any = {"forward_sync_buffers" if "forward_sync_buffers" in options else "broadcast_buffers": False}
    return DistributedDataParallel(model, device_ids=on_gpu, gradient_as_bucket_view=True, **sync)


def sharded_over_ranks(env: Env, model: torch.nn.Module, parts: Iterable[torch.nn.Module]) -> torch.nn.Module:
    """Leave this rank its share of a model's weights, on the device (FSDP); a part's are gathered when used."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(env.device.type, (env.world,))
    for part in (*parts, model):
        fully_shard(part, mesh=mesh)
    return model


def gathered(value: Any) -> list[Any]:
    import torch.distributed as dist

    of_ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, value, group=_control)
    return of_ranks


def slowest(values: list[float]) -> list[float]:
    """Return the largest of all ranks' values, for each; synchronise the ranks."""
    import torch
    import torch.distributed as dist

    largest = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=_control)
    return cast(list[float], largest.tolist())


def mean_over_ranks(values: torch.Tensor) -> torch.Tensor:
    """Return the mean of all ranks' tensors: float64, on the CPU."""
    import torch.distributed as dist

    sums = values.detach().cpu().double()
    dist.all_reduce(sums, group=_control)
    return sums / dist.get_world_size()


def check_exchange(model: torch.nn.Module) -> None:
    """Raise WrongError if a rank's gradients differ from the mean of all ranks, by one element of each."""
    import torch

    own = torch.stack([p.grad.reshape(-1)[0] for p in model.parameters() if p.grad is not None])
    mean = mean_over_ranks(own)
    if not torch.allclose(own.cpu().double(), mean, rtol=1e-3, atol=1e-12):
        raise WrongError("the ranks' gradients differ after a step: they were not synchronised")


def _cpu_s(process: Any, with_children: bool) -> float:
    import psutil

    seconds = 0.0
    for member in [process, *(process.children(recursive=True) if with_children else ())]:
        with suppress(psutil.Error):
            times = member.cpu_times()
            seconds += times.user + times.system
    return seconds
