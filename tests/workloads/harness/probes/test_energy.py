from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.harness.probes import energy, gpu

RANGE_UJ = 262_143_328_850


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "sys/class/powercap" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def zone(number, uj, name=None, range_uj=RANGE_UJ):
    folder = f"intel-rapl:{number}/"
    return {
        folder + "name": f"{name or f'package-{number}'}\n",
        folder + "energy_uj": f"{uj}\n",
        folder + "max_energy_range_uj": f"{range_uj}\n",
    }


def fixed(start, end, wall_s):
    card_end = gpu.GpuCounters(start.gpu.at_s + wall_s, end.gpu.totals, end.gpu.missing)
    moved = energy.EnergyCounters(start.at_s + wall_s, end.packages_uj, end.ranges_uj, card_end, end.missing)
    return energy.delta(start, moved)


class TestRapl:
    def test_packages_add_up_and_their_parts_and_copies_don_t(self, tmp_path):
        others = {
            **zone(2, 0, name="psys"),
            "intel-rapl:0:0/name": "core\n",
            "intel-rapl:0:0/energy_uj": "1\n",
            "intel-rapl-mmio:0/name": "package-0\n",
            "intel-rapl-mmio:0/energy_uj": "1\n",
        }
        start = energy.counters(root=write(tmp_path, {**zone(0, 5_000_000), **zone(1, 7_000_000), **others}))
        end = energy.counters(root=write(tmp_path, {**zone(0, 25_000_000), **zone(1, 17_000_000)}))
        values, missing = fixed(start, end, 1.0)
        assert values == {"cpu_energy_j": pytest.approx(30.0)}
        assert missing == {"gpu_energy_j": "no GPU was requested"}

    def test_wraps_at_its_range(self, tmp_path):
        start = energy.counters(root=write(tmp_path, zone(0, RANGE_UJ - 3_000_000)))
        end = energy.counters(root=write(tmp_path, zone(0, 4_000_000)))
        assert fixed(start, end, 1.0)[0]["cpu_energy_j"] == pytest.approx(7.0)

    @pytest.mark.parametrize(
        ("wall_s", "range_uj", "why"),
        [(300, RANGE_UJ, "wrapped twice"), (1, 0, "wrapped twice"), (0.01, RANGE_UJ, "too short")],
    )
    def test_a_window_that_can_t_be_read(self, tmp_path, wall_s, range_uj, why):
        start = energy.counters(root=write(tmp_path, zone(0, 0, range_uj=range_uj)))
        values, missing = fixed(start, start, wall_s)
        assert not values
        assert why in missing["cpu_energy_j"]

    def test_a_vm_without_rapl(self, tmp_path):
        start = energy.counters(root=tmp_path)
        assert "most VMs" in fixed(start, start, 10)[1]["cpu_energy_j"]

    @pytest.mark.parametrize(
        "broken", [{"intel-rapl:1/energy_uj": "soon\n"}, {"intel-rapl:1/max_energy_range_uj": ""}]
    )
    def test_one_odd_package_makes_the_whole_missing(self, tmp_path, broken):
        start = energy.counters(root=write(tmp_path, {**zone(0, 1), **zone(1, 1), **broken}))
        assert not start.packages_uj
        assert "not a number" in start.missing["cpu_energy_j"]

    def test_a_counter_for_root_only(self, tmp_path, monkeypatch):
        write(tmp_path, zone(0, 1))
        read = Path.read_text

        def refuse(path, *arguments, **options):
            if path.name == "energy_uj":
                raise PermissionError(13, "Permission denied")
            return read(path, *arguments, **options)

        monkeypatch.setattr(Path, "read_text", refuse)
        assert "only root" in energy.counters(root=tmp_path).missing["cpu_energy_j"]

    def test_a_package_that_vanishes(self, tmp_path):
        start = energy.counters(root=write(tmp_path / "a", zone(0, 1)))
        end = energy.counters(root=write(tmp_path / "b", {**zone(0, 1), **zone(1, 1)}))
        assert "changed" in fixed(start, end, 1)[1]["cpu_energy_j"]

    @given(st.integers(0, RANGE_UJ - 1), st.integers(0, RANGE_UJ - 1))
    def test_one_wrap_is_always_undone(self, start_uj, used_uj):
        none = gpu.NoGpu("none").counters()
        before = energy.EnergyCounters(0.0, {"p": start_uj}, {"p": RANGE_UJ}, none, {})
        after = energy.EnergyCounters(1.0, {"p": (start_uj + used_uj) % RANGE_UJ}, {"p": RANGE_UJ}, none, {})
        assert energy.delta(before, after)[0]["cpu_energy_j"] == pytest.approx(used_uj / 1e6)


def card(*joules):
    answers = iter(joules)
    return gpu.Gpu({"gpu_energy_j": lambda: next(answers)})


class TestGpu:
    def test_a_long_window(self, tmp_path):
        asked = card(1000.0, 1700.0)
        start, end = (energy.counters(asked, tmp_path) for _ in range(2))
        values, _ = fixed(start, end, 10.0)
        assert values["gpu_energy_j"] == pytest.approx(700)
        assert values["gpu_energy_error_j"] == pytest.approx(70 * 0.05)

    def test_a_short_window_is_null_and_no_estimate(self, tmp_path):
        asked = card(1000.0, 1700.0)
        start, end = (energy.counters(asked, tmp_path) for _ in range(2))
        values, missing = fixed(start, end, 0.9)
        assert not values
        assert "under 1" in missing["gpu_energy_j"]

    def test_a_counter_that_starts_again(self, tmp_path):
        asked = card(1000.0, 3.0)
        start, end = (energy.counters(asked, tmp_path) for _ in range(2))
        assert "backwards" in fixed(start, end, 10.0)[1]["gpu_energy_j"]

    def test_a_card_without_a_counter(self, tmp_path):
        start = energy.counters(gpu.NoGpu("before Volta"), tmp_path)
        assert fixed(start, start, 10.0)[1]["gpu_energy_j"] == "before Volta"


def test_this_machine_gives_a_number_or_a_reason():
    start = energy.counters()
    values, missing = fixed(start, energy.counters(), 1.0)
    assert ("cpu_energy_j" in values) != ("cpu_energy_j" in missing)
