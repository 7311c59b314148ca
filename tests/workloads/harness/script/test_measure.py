"""What a script's record says beside its times."""

from workloads.harness.probes.memory import resident_bytes
from workloads.harness.records.record import Memory
from workloads.harness.script.measure import _left_bytes

GIB = 2**30


def test_what_was_left_at_the_peak_is_less_than_what_is_left_now():
    now = _left_bytes(Memory(peak_rss_bytes=resident_bytes()))
    assert 0 <= _left_bytes(Memory(peak_rss_bytes=resident_bytes() + GIB)) <= max(now - GIB / 2, 0)
