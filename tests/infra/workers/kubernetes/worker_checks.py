"""The namespace and the node pool of the tests of the kubernetes-jobs worker."""

NAMESPACE = "gridbench"


ACCELERATOR = {"node_labels": {"accelerator": "cloud.google.com/gke-accelerator"}, "accelerator": "nvidia-l4"}
