"""A watched case on a machine whose speed is in a file."""

from pathlib import Path

WATCHED = Path(__file__).parents[1] / "watched.py"
SPEEDS = {"matmul": 0.010, "nap": 0.005}
MACHINE = """
title: A machine whose speed is known
pool: local
box: local
device: cpu
price: {{usd_per_hour: 0.10, purchase: assumption, source: of a test, date: 2026-11-21}}
command: [{python}, {watched}, {speeds}]
"""
SUITE = """
title = "Two cases that are watched"
repeats = 2
minutes = 0.1
[[cases]]
workload = "matmul"
size = { n = 500 }
[[cases]]
workload = "nap"
size = { ms = 5 }
"""
