"""Words of headers, in small letters, by what they say of a column."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SIZES = _words(
    "n m k size pixels batch width height length seq_len sequence_length hidden samples images items tokens "
    "examples elements bytes resolution requests concurrency concurrent_client_requests concurrent_requests "
    "client_batch global_batch local_batch"
)
TIMES = _words("time times latency latencies duration runtime elapsed walltime timing")
RATES = _words("throughput bandwidth speed performance fps qps rps tps iops")
SPREADS = _words(
    "std stdev stddev sd err error stderr ci iqr deviation variance ± σ rsd cv ratiosd outliers jitter "
    "confidence tolerance allocated gen0 gen1 gen2"
)
RATIOS = _words("speedup speedups acceleration relative ratio faster slower slowdown normalized relspeed")
CHANGES = _words(
    "change delta diff difference improvement gain overhead reduction increase decrease saving savings saved "
    "regression δ ∆"
)
SHARES = _words("utilization utilisation util mfu hfu usage occupancy roofline peak")
DEVICES = _words(
    "gpus devices ranks processes procs workers threads cores cpus vcpus machines hosts instances "
    "accelerators tpus cards chips"
)
SINGULAR = _words("gpu device node machine thread core process worker rank cpu")
STATISTICS = {
    **dict.fromkeys(("min", "minimum", "best", "fastest"), "min"),
    **dict.fromkeys(("max", "maximum", "worst", "slowest"), "max"),
    **dict.fromkeys(("mean", "avg", "average"), "mean"),
    **dict.fromkeys(("median", "p50"), "p50"),
}
FILLERS = _words("in per of the a to and with for vs over on at from than by")
