"""How it is measured: cases, records, the engine, statistics and probes."""
