"""Every refusal of GKE, with its source.

[doc] Google's documentation or its client's API text, [thread] seen by others on GKE, [belief] not found in
writing: the smoke script of docs/gke.md records the real one.
"""

# [thread] entigolabs/entigo-infralib #1631, terraform-google-modules/terraform-google-kubernetes-engine #2633,
# rancher/gke-operator #1614: since 2026-08-21 the call is refused; [doc] google-cloud-container 2.67.0,
# ReleaseChannel.Channel.UNSPECIFIED: "Deprecated"; [belief] the words, which are quoted nowhere
NO_CHANNEL = "Creating clusters without a release channel is no longer supported. Enroll the cluster in a release channel."
# [thread] nkoson/gke-tutorial #8, terraform-google-modules/terraform-google-kubernetes-engine #682; [doc]
# google-cloud-container 2.67.0, ReleaseChannel: "auto-upgrade defaults to true and cannot be disabled"
UPGRADE_OFF = "Auto_upgrade cannot be false when release_channel {channel} is set."
# [doc] the rule: docs.cloud.google.com/kubernetes-engine/docs/concepts/release-channels, "Restricted to No upgrades
# scope"; [belief] the words
SCOPE_NEEDS_CHANNEL = "Maintenance exclusion scope {scope} requires a release channel."
# [doc] the rule: google-cloud-container 2.67.0, TimeWindow.end_time; [belief] the words
EXCLUSION_ENDLESS = "Maintenance exclusion {name} must have an end time after its start time."
# [thread] googlecloudrobotics/core #339 (2024), GoogleCloudPlatform/cloud-ops-sandbox #678, with status 400
NO_NETWORK = 'Project "{project}" has no network named "{network}".'
# [thread] the rule: hashicorp/terraform-provider-google #20448, #1559; [belief] the words
NO_RANGE = "Clusters in a shared network must name the secondary ranges of their pods and services."
# [thread] hashicorp/terraform-provider-google users since 2019, with status 400, "badRequest"; for an account that
# does not exist, too
NO_ACCOUNT = (
    'The user does not have access to service account "{account}". Ask a project owner to grant you the '
    "iam.serviceAccountUser role on the service account."
)
# [thread] compose-gke-cluster's notes on v0.4.0 and others, with status 400
NO_ACCELERATOR = 'Accelerator type "{accelerator}" does not exist in zone {zone}.'
# [thread] kubernetes/autoscaler and many others, with status 400 FAILED_PRECONDITION
BUSY = "Cluster is running incompatible operation {operation}."
# [thread] hashicorp/terraform-provider-google, with status 409
EXISTS = "Already exists: {name}."
# [thread] hashicorp/terraform-provider-google, with status 404
NOT_FOUND = "Not found: {name}."
# [belief] the product never sends such a cluster
NO_NODES = "Cluster.initial_node_count or node_pools must be set."
