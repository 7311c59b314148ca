"""What is measured: one file a workload. Needs torch, numpy and psutil, and importing it imports none of them."""
