import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from workloads.harness.engine import cache, measure
from workloads.harness.engine.cache import TIMES, cache_of, flushed, last_level_bytes, single_steps, state
from workloads.harness.engine.device import UnsupportedError, open_device
from workloads.harness.engine.sampling.rules import Rules, block_size
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import detail
from workloads.harness.registry import find
from workloads.harness.repeat.runs import arguments

MIB = 2**20
RECORD = Record("a-run", "a-box", Case.of("matmul", {"n": 512}), 1, Verdict.OK)


def tree(root, cpus):
    """Write a fake /sys: for each CPU its caches as (level, type, size, CPUs that share it)."""
    for cpu, caches in cpus.items():
        for place, facts in enumerate(caches):
            folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{place}"
            folder.mkdir(parents=True)
            for name, text in zip(("level", "type", "size", "shared_cpu_list"), facts, strict=True):
                (folder / name).write_text(f"{text}\n")
    return root


XEON = [(1, "Data", "48K", "0"), (1, "Instruction", "32K", "0"), (2, "Unified", "2048K", "0")]
L3 = (3, "Unified", "491520K", "0-1")


class TestSize:
    def test_the_last_level_and_not_the_largest_index(self, tmp_path):
        assert last_level_bytes(tree(tmp_path, {0: [L3, *XEON]}), [0]) == (480 * MIB, "")

    def test_cores_that_share_a_cache_count_it_once(self, tmp_path):
        assert last_level_bytes(tree(tmp_path, {0: [L3], 1: [L3]}), [0, 1]) == (480 * MIB, "")

    def test_caches_of_parts_of_a_processor_add_up_where_they_are_ours(self, tmp_path):
        parts = {cpu: [(3, "Unified", "32M", "0-7" if cpu < 8 else "8-15")] for cpu in range(16)}
        root = tree(tmp_path, parts)
        assert last_level_bytes(root, range(16)) == (64 * MIB, "")
        assert last_level_bytes(root, range(4)) == (32 * MIB, "")

    def test_without_a_third_level_the_second_is_the_last(self, tmp_path):
        assert last_level_bytes(tree(tmp_path, {0: XEON}), [0]) == (2 * MIB, "")

    def test_an_instruction_cache_holds_no_data(self, tmp_path):
        root = tree(tmp_path, {0: [(1, "Data", "32K", "0"), (2, "Instruction", "512K", "0")]})
        assert last_level_bytes(root, [0]) == (32 * 1024, "")

    @pytest.mark.parametrize("size", ["", "big", "K", "-4K", "0K", "9" * 40])
    def test_an_unreadable_cache_size_is_left_out(self, tmp_path, size):
        found, why = last_level_bytes(tree(tmp_path, {0: [(3, "Unified", size, "0")]}), [0])
        assert found is None
        assert why.endswith("cpu0/cache: no readable data cache")

    def test_a_machine_that_tells_nothing_gives_none_and_a_reason(self, tmp_path):
        found, why = last_level_bytes(tmp_path, [0])
        assert found is None
        assert "cpu0/cache" in why
        assert last_level_bytes(tmp_path, []) == (None, "this process has no CPU")


class TestState:
    def test_the_bar_is_four_times_the_cache(self):
        assert state(TIMES * 100 - 1, 100) == "warm"
        assert state(TIMES * 100, 100) == "n/a"
        assert state(10, 100, cold=True) == "cold"
        assert state(1e12, None) == "warm"

    @given(size=st.integers(1, 2**40), more=st.integers(0, 2**40), cache_bytes=st.integers(1, 2**34))
    def test_more_data_never_brings_the_cache_back(self, size, more, cache_bytes):
        if state(size, cache_bytes) == "n/a":
            assert state(size + more, cache_bytes) == "n/a"

    def test_the_record_of_a_cpu(self, monkeypatch):
        device = open_device("cpu", "fp32", 1)
        monkeypatch.setattr(cache, "last_level_bytes", lambda: (MIB, ""))
        found = cache_of(device, 3 * MIB, cold=False)
        assert (found.state, found.working_set_bytes, found.last_level_bytes) == ("warm", 3 * MIB, MIB)
        assert cache_of(device, 4 * MIB, cold=False).state == "n/a"

    def test_a_cold_cache_of_unknown_size_is_refused(self, monkeypatch):
        monkeypatch.setattr(cache, "last_level_bytes", lambda: (None, "nobody says"))
        with pytest.raises(UnsupportedError, match=r"--cold-cache .*nobody says"):
            cache_of(open_device("cpu", "fp32", 1), 1.0, cold=True)
        found = cache_of(open_device("cpu", "fp32", 1), 1.0, cold=False)
        assert (found.last_level_bytes, found.why) == (None, "nobody says")

    def test_a_gpu_states_its_own(self, monkeypatch):
        device = replace(open_device("cpu", "fp32", 1), name="cuda")
        properties = type("Properties", (), {"L2_cache_size": 50 * MIB})
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        assert cache_of(device, 100 * MIB, cold=False).last_level_bytes == 50 * MIB
        properties.L2_cache_size = 0
        assert cache_of(device, 100 * MIB, cold=False).why == "CUDA reports no L2 cache size"


class TestFlush:
    def test_blocks_of_one_step_for_any_length_of_a_step(self):
        assert block_size(1e-6, 1e-5, Rules()) > 100
        assert block_size(1e-6, 1e-5, single_steps(Rules())) == 1

    @pytest.mark.parametrize(("name", "times"), [("cpu", 2), ("cuda", 4)])
    def test_several_times_its_size_is_read_and_nothing_written(self, name, times):
        """Dirty lines would be written back during the step."""
        done, operations = [], []

        class Watching(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                sizes = [a.numel() * a.itemsize for a in args if isinstance(a, torch.Tensor)]
                operations.append((func.overloadpacket.__name__, sizes, func._schema.is_mutable))
                return func(*args, **kwargs or {})

        device = replace(open_device("cpu", "fp32", 1), name=name)
        before = flushed(lambda steps, result: done.append((steps, result)), device, 4096)
        with Watching():
            before(1, None)
        assert done == [(1, None)]
        assert operations == [("sum", [times * 4096], False)]

    def test_a_cold_repeat_flushes_before_each_sample(self, cheats, monkeypatch):
        flushes = []
        monkeypatch.setattr(cache, "last_level_bytes", lambda: (MIB, ""))
        monkeypatch.setattr(
            measure,
            "flushed",
            lambda before, device, size: lambda steps, result: flushes.append((steps, size)),
        )
        from tests.workloads.conftest import SHORT
        from workloads.harness.engine.phases import Phases

        case = find("matmul").case({"n": 64})
        repeat = Repeat("a-run", "a-box", case, cold_cache=True)
        record = measure.measure(repeat, 1, Phases(), lambda text: None, SHORT)
        assert record.cache.state == "cold"
        assert record.wall.block == 1
        assert set(flushes) == {(1, MIB)}
        assert len(flushes) > record.wall.timed_steps  # each block of one step, and those of the warm-up

    def test_by_default_nothing_is_flushed_and_the_record_says_warm(self, engine, monkeypatch):
        monkeypatch.setattr(cache, "last_level_bytes", lambda: (MIB, ""))
        monkeypatch.setattr(measure, "flushed", lambda *a: pytest.fail("nobody asked for a cold cache"))
        record = engine("matmul", n=64)
        assert record.cache.state == "warm"
        assert record.cache.working_set_bytes == 3 * 64 * 64 * 4
        assert Record.from_json(record.to_json()).cache == record.cache

    @pytest.mark.parametrize(
        ("cache_bytes", "why", "words"),
        [
            (2 * MIB, "", "cache               warm: 3 MiB or more, in a cache of 2 MiB"),
            (None, "nobody says", "in a cache of unknown size (nobody says)"),
        ],
    )
    def test_the_cache_flush_is_described_in_words(self, monkeypatch, cache_bytes, why, words):
        monkeypatch.setattr(cache, "last_level_bytes", lambda: (cache_bytes, why))
        found = cache_of(open_device("cpu", "fp32", 1), 3 * MIB, cold=False)
        assert words in detail(replace(RECORD, cache=found))

    def test_records_from_before_there_was_the_field_are_read(self):
        found = cache_of(open_device("cpu", "fp32", 1), 3 * MIB, cold=False)
        raw = json.loads(replace(RECORD, cache=found).to_json())
        assert Record.from_json(json.dumps(raw)).cache == found
        del raw["cache"]
        assert Record.from_json(json.dumps(raw)).cache is None

    def test_the_switch_reaches_the_process_that_measures(self):
        case = find("matmul").case({"n": 64})
        for cold in (True, False):
            repeat = Repeat("r", "h", case, cold_cache=cold)
            assert ("--cold-cache" in repeat.options()) == cold
            assert Repeat.from_json(arguments(repeat)[1]) == repeat
