"""The gcloud commands for tasks that GKE's API does not cover."""

PROJECT_NUMBER = "$(gcloud projects describe {project} --format 'value(projectNumber)')"
DEFAULT_ACCOUNT = f"{PROJECT_NUMBER}-compute@developer.gserviceaccount.com"
EVENING = "0 20 * * *"  # UTC
NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")


def outward(project: str, zone: str, network: str) -> tuple[str, ...]:
    where = f"--project {project} --region {zone.rpartition('-')[0]}"
    nat = "gcloud compute routers nats create gridbench-nat --router gridbench-nat"
    return (
        f"gcloud compute routers create gridbench-nat --network {network or 'default'} {where}",
        f"{nat} --auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges {where}",
    )


def grants(project: str, account: str) -> tuple[str, ...]:
    """Return the commands that grant the nodes' account (empty: Compute Engine's default) its rights."""
    email = account or DEFAULT_ACCOUNT.format(project=project)
    member = f'--member "serviceAccount:{email}"'
    return tuple(
        f"gcloud projects add-iam-policy-binding {project} {member} --condition None --role {role}"
        for role in NODE_ROLES
    )


def pin(project: str, zone: str, cluster: str) -> str:
    return (
        f"gcloud container clusters update {cluster} --project {project} --zone {zone} "
        "--add-maintenance-exclusion-name gridbench "
        "--add-maintenance-exclusion-scope no_minor_or_node_upgrades "
        "--add-maintenance-exclusion-until-end-of-support"
    )


def evening(project: str, zone: str, cluster: str) -> tuple[str, ...]:
    """Return the commands for Google's scheduler to delete the cluster every evening."""
    name, region = f"{cluster}-down"[:30].rstrip("-"), zone.rpartition("-")[0]
    account = f"{name}@{project}.iam.gserviceaccount.com"
    uri = f"https://container.googleapis.com/v1/projects/{project}/locations/{zone}/clusters/{cluster}"
    return (
        f"gcloud services enable cloudscheduler.googleapis.com --project {project}",
        f"gcloud iam service-accounts create {name} --project {project}",
        f"gcloud projects add-iam-policy-binding {project} --member serviceAccount:{account} "
        "--condition None --role roles/container.clusterAdmin",
        f"gcloud scheduler jobs create http {name} --project {project} --location {region} "
        f'--schedule "{EVENING}" --time-zone Etc/UTC --http-method DELETE --uri {uri} '
        f"--oauth-service-account-email {account}",
    )
