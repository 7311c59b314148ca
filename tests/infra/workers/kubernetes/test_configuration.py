import json
import uuid
from pathlib import Path

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.server.schemas.actions import validate_base_job_template
from prefect.settings import PREFECT_API_KEY, PREFECT_API_SSL_CERT_FILE, PREFECT_HOME, temporary_settings
from prefect.utilities.schema_tools import validate

from infra.workers.base.job_configuration import JobRefused
from infra.workers.kubernetes.configuration import (
    KubernetesJobsConfiguration,
    KubernetesJobsVariables,
    default_template,
    job_name,
)
from infra.workers.kubernetes.fields import KubernetesJobFields
from infra.workers.kubernetes.pool import base_job_template, read_pool

POOLS = Path(__file__).parents[4] / "deployments/pools"
LABELS = {"accelerator": "gpu-model", "spot": "is-spot", "driver_version": "driver"}
L4 = {"image": "i", "gpus": 1, "accelerator": "nvidia-l4", "node_labels": LABELS}


async def configured(template=None, **values):
    return await KubernetesJobsConfiguration.from_template_and_values(
        template or default_template(), values, client=object()
    )


async def job_of(template=None, number=1, **values):
    asked = await configured(template, **values)
    run = FlowRun(id=uuid.UUID(int=7), flow_id=uuid.UUID(int=8), name="three repeats")
    asked.prepare_for_flow_run(run)
    return asked.job(job_name(run.id, number))


def parts(job):
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


def env_of(job):
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in parts(job)[1]["env"]}


class TestForm:
    def test_every_field_has_a_title_and_a_description(self):
        fields = KubernetesJobsVariables.model_json_schema()["properties"]
        assert all(fields[name].get("title") and fields[name].get("description") for name in fields)

    def test_form_and_configuration_have_the_same_fields(self):
        unread = {"job_watch_timeout_seconds", "pod_watch_timeout_seconds", "stream_output"}
        ours, theirs = KubernetesJobsVariables.model_fields, KubernetesJobsConfiguration.model_fields
        assert {*theirs} - {*ours} == unread | {"job_manifest"} and {*ours} <= {*theirs}
        assert default_template()["job_configuration"].keys() == {*ours, "job_manifest"}

    def test_the_words_are_those_of_the_other_workers(self):
        from infra.workers.batch import configuration as batch
        from infra.workers.ssh import configuration as ssh

        for others in (batch.BatchJobFields, ssh.SshJobFields):
            shared = KubernetesJobFields.model_fields.keys() & others.model_fields.keys()
            assert shared >= {"image", "gpus", "memory_mib", "shared_memory_mib", "timeout_s"}
            titles = {
                n: (KubernetesJobFields.model_fields[n].title, others.model_fields[n].title) for n in shared
            }
            assert all(mine == theirs for mine, theirs in titles.values()), titles


class TestPools:
    @pytest.mark.parametrize("path", sorted(POOLS.glob("*.yaml")), ids=lambda path: path.stem)
    async def test_a_server_takes_them_and_their_defaults_are_enough(self, path):
        pool = read_pool(path)
        template = base_job_template(pool)
        assert pool.type == "kubernetes-jobs"
        assert validate_base_job_template(json.loads(json.dumps(template))) == template
        filled = {n: f["default"] for n, f in template["variables"]["properties"].items() if "default" in f}
        stated = {name: value for name, value in filled.items() if value is not None}
        validate(stated, template["variables"], raise_on_error=True)
        asked = await configured(template, image="i")
        assert {name: getattr(asked, name) for name in pool.job_variables} == pool.job_variables

    def test_the_gke_pool_differs_only_in_node_labels(self):
        plain, gke = read_pool(POOLS / "kubernetes.yaml"), read_pool(POOLS / "gke.yaml")
        assert {n for n in gke.job_variables if gke.job_variables[n] != plain.job_variables.get(n)} == {
            "node_labels"
        }
        assert gke.job_variables.keys() == plain.job_variables.keys()

    def test_are_filled_in_further_for_one_cluster(self):
        template = base_job_template(read_pool(POOLS / "gke.yaml"), {"node_pool": "p", "image": "i"})
        properties = template["variables"]["properties"]
        assert (properties["node_pool"]["default"], properties["image"]["default"]) == ("p", "i")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("type: t\nimage: i", "odd.yaml has 'image': the fields are like, type and job_variables."),
            ("job_variables: {}", "odd.yaml has no type"),
            ("type: t\njob_variables: {gpu: 1}", "job_variables has 'gpu': choose one of accelerator,"),
        ],
    )
    def test_a_mistake_is_a_sentence(self, tmp_path, text, words):
        (tmp_path / "odd.yaml").write_text(text)
        with pytest.raises(ValueError) as caught:
            base_job_template(read_pool(tmp_path / "odd.yaml"))
        assert str(caught.value).startswith(words) and "\n" not in str(caught.value)


class TestNonsense:
    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({}, "image is not set: name the image that has the flow's packages."),
            ({"image": ""}, "image is '': string should have at least 1 character"),
            ({"image": "i", "gpus": -1}, "gpus is -1: input should be greater than or equal to 0."),
            ({"image": "i", "gpus": "all"}, "gpus is 'all': input should be a valid integer"),
            ({"image": "i", "vcpus": 0}, "vcpus is 0: input should be greater than or equal to 0.001."),
            ({"image": "i", "vcpus": float("nan")}, "vcpus is nan: input should be"),
            ({"image": "i", "memory_mib": "12Gx"}, "memory_mib is '12Gx': input should be a valid integer"),
            (
                {"image": "i", "memory_mib": 512, "shared_memory_mib": 512},
                "shared_memory_mib is 512: it is part of memory_mib, ",
            ),
            ({"image": "i", "timeout_s": 9}, "timeout_s is 9: input should be greater than or equal to 10."),
            (
                {"image": "i", "timeout_s": 14_400_000},
                "timeout_s is 14400000: input should be less than or equal to 1209600.",
            ),
            ({"image": "i", "schedule_within_s": 0}, "schedule_within_s is 0: input should be greater"),
            ({"image": "i", "ttl_s": 5}, "ttl_s is 5: input should be greater than or equal to 60."),
            (
                {"image": "i", "run_as_user": 0},
                "run_as_user is 0: input should be greater than or equal to 1.",
            ),
            ({"image": "i", "namespace": "No Where"}, "namespace is 'No Where': string should match pattern"),
            ({"image": "i", "service_account": "a/b"}, "service_account is 'a/b': string should match"),
            (
                {"image": "i", "image_pull_secrets": ["A b"]},
                "image_pull_secrets.0: string should match",
            ),
            ({"image": "i", "image_pull_policy": "Often"}, "image_pull_policy is 'Often': input should be"),
            ({"image": "i", "prefect_api_key_secret": "x"}, "prefect_api_key_secret: string should match"),
            (
                {"image": "i", "env": {"AWS_SECRET_ACCESS_KEY": "x"}},
                "env sets AWS_SECRET_ACCESS_KEY:",
            ),
            ({"image": "i", "node_selector": {"ä": "1"}}, "node_selector.ä.[key] is 'ä': string should"),
            (
                {"image": "i", "tolerations": [{"key": "k", "effect": "Never"}]},
                "tolerations.0.effect is 'Never': input should be",
            ),
            (
                {"image": "i", "tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
                "tolerations.0: value 'v' with operator Exists: ",
            ),
            ({"image": "i", "tolerations": [{}]}, "tolerations.0: key is not set with operator Equal: "),
            (L4 | {"gpus": 0}, "gpus is 0 but accelerator is nvidia-l4: set gpus"),
            (L4 | {"spot": True, "grace_s": 30}, "grace_s is 30: "),
            (
                L4 | {"driver_version": "535"},
                "driver_version is '535': input should be 'DEFAULT' or 'LATEST'.",
            ),
            (L4 | {"node_labels": {}}, "accelerator is nvidia-l4 but node_labels "),
            (L4 | {"node_pool": "p"}, "node_pool is p but node_labels "),
            (L4 | {"node_labels": {"colour": "x"}}, "node_labels.colour.[key] is 'colour': input should be"),
            (
                L4 | {"node_selector": {"gpu-model": "nvidia-l4"}},
                "node_selector has gpu-model: accelerator ",
            ),
            ({"image": "i", "env": {"A B": "1"}}, "env sets 'A B': "),
            (
                {"image": "i", "env": {"PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule"}},
                "env sets PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR to reschedule: it must be crash",
            ),
        ],
    )
    async def test_is_refused_in_a_sentence(self, values, said):
        with pytest.raises(JobRefused) as refusal:
            await configured(**values)
        assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)

    async def test_a_template_that_repeats_jobs_is_refused(self):
        template = default_template()
        template["job_configuration"]["job_manifest"]["spec"]["backoffLimit"] = 6
        with pytest.raises(JobRefused, match="job_manifest sets backoffLimit to 6: it must be 0"):
            await configured(template, image="i")

    @pytest.mark.parametrize(
        ("of", "name", "value"),
        [
            ("job", "parallelism", 2),
            ("job", "completions", 2),
            ("pod", "parallelism", 2),
            ("job", "completionMode", "Indexed"),
            ("job", "suspend", True),
            ("pod", "restartPolicy", "OnFailure"),
            ("job", "podFailurePolicy", {"rules": [{"action": "Ignore"}]}),
            ("job", "managedBy", "example.com/queue"),
        ],
    )
    async def test_a_template_that_measures_a_lane_twice_or_never_is_refused(self, of, name, value):
        template = default_template()
        spec = template["job_configuration"]["job_manifest"]["spec"]
        (spec if of == "job" else spec["template"]["spec"])[name] = value
        with pytest.raises(JobRefused, match=f"^job_manifest sets {name}|/{name} must have value"):
            await configured(template, image="i")

    async def test_a_template_that_states_defaults_is_accepted(self):
        template = default_template()
        template["job_configuration"]["job_manifest"]["spec"] |= {
            "parallelism": 1,
            "completions": 1,
            "suspend": False,
        }
        assert parts(await job_of(template, image="i"))[0]["restartPolicy"] == "Never"


class TestJob:
    async def test_each_try_has_a_name_of_its_own(self):
        first, again, second = [await job_of(image="i", number=number) for number in (1, 1, 2)]
        assert first["metadata"]["name"] == f"prefect-{uuid.UUID(int=7)}-1" == again["metadata"]["name"]
        assert second["metadata"]["name"].endswith("-2") and "generateName" not in first["metadata"]
        assert len(job_name(uuid.uuid4(), 999)) <= 63  # it becomes a label of the pod

    async def test_a_manifest_has_no_fields_that_were_not_requested(self):
        job = await job_of(image="i")
        pod, container = parts(job)
        assert container["resources"]["limits"] == {"cpu": "1", "memory": "2048Mi"}
        assert not pod.keys() & {
            "nodeSelector",
            "tolerations",
            "affinity",
            "serviceAccountName",
            "priorityClassName",
        }
        assert "null" not in json.dumps(job)

    async def test_a_null_counts_as_not_requested(self):
        nothing = dict.fromkeys(("accelerator", "shared_memory_mib", "node_pool", "ephemeral_storage_mib"))
        assert await job_of(image="i", **nothing) == await job_of(image="i")

    async def test_nodes_are_chosen_by_the_pools_labels(self):
        asked = L4 | {"spot": True, "driver_version": "LATEST", "node_selector": {"disk": "ssd"}}
        pod, _ = parts(await job_of(**asked, tolerations=[{"key": "mine", "value": "v"}]))
        assert pod["nodeSelector"] == {
            "disk": "ssd", "gpu-model": "nvidia-l4", "driver": "latest", "is-spot": "true",
        }  # fmt: skip
        assert pod["tolerations"] == [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "is-spot", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "mine", "operator": "Equal", "value": "v"},
        ]
        assert "affinity" not in pod

    async def test_an_on_demand_job_never_runs_on_a_spot_node(self):
        pod, _ = parts(await job_of(**L4))
        rule = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert rule["nodeSelectorTerms"] == [
            {"matchExpressions": [{"key": "is-spot", "operator": "DoesNotExist"}]}
        ]

    @pytest.mark.parametrize(("vcpus", "said"), [(7, "7"), (0.5, "500m"), (2.25, "2250m"), (0.001, "1m")])
    async def test_cpus_are_said_in_kubernetes_words(self, vcpus, said):
        _, container = parts(await job_of(image="i", vcpus=vcpus))
        assert container["resources"]["limits"]["cpu"] == said == container["resources"]["requests"]["cpu"]

    async def test_the_deadline_covers_waiting_and_running(self):
        spec = (await job_of(image="i", timeout_s=100, schedule_within_s=20, ttl_s=60))["spec"]
        assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (120, 60)

    async def test_writable_folders_are_volumes_outside_the_image(self):
        pod, container = parts(await job_of(image="i", shared_memory_mib=64))
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts == {"shm": "/dev/shm", "tmp": "/tmp", "home": "/home/job"}
        assert pod["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Mi"}
        _, elsewhere = parts(await job_of(image="i", env={"HOME": "/tmp"}))
        assert [mount["mountPath"] for mount in elsewhere["volumeMounts"]] == ["/tmp"]
        pod, container = parts(await job_of(image="i", read_only_root=False))
        assert "volumes" not in pod and "readOnlyRootFilesystem" not in container["securityContext"]

    async def test_a_command_of_ones_own_is_split_into_words(self):
        _, container = parts(await job_of(image="i", command="sh -c 'exit 3'"))
        assert container["args"] == ["sh", "-c", "exit 3"]
        _, container = parts(await job_of(image="i"))
        assert container["args"] == ["python", "-m", "prefect.engine"]


class TestEnvironment:
    async def test_a_lost_pod_crashes_its_run_and_never_repeats_it(self):
        env = env_of(await job_of(image="i", env={"A": "1", "B": None}))
        assert env["PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"] == "crash"
        assert env["A"] == "1" and "B" not in env and env["PREFECT__FLOW_RUN_ID"] == str(uuid.UUID(int=7))

    async def test_the_workers_own_settings_stay_with_it(self, tmp_path):
        files = {PREFECT_HOME: tmp_path, PREFECT_API_SSL_CERT_FILE: str(tmp_path / "ours.pem")}
        with temporary_settings(files):
            assert not {"PREFECT_HOME", "PREFECT_API_SSL_CERT_FILE"} & env_of(await job_of(image="i")).keys()
            assert env_of(await job_of(image="i", env={"PREFECT_HOME": "/x"}))["PREFECT_HOME"] == "/x"

    async def test_a_template_can_have_variables_of_its_own(self):
        template = default_template()
        own = [{"name": "A", "value": "theirs"}, {"name": "B", "value": "b"}]
        template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]["containers"][0]["env"] = (
            own
        )
        env = env_of(await job_of(template, image="i", env={"A": "ours"}))
        assert (env["A"], env["B"]) == ("ours", "b")

    async def test_a_secret_is_named_and_never_told(self):
        with temporary_settings({PREFECT_API_KEY: "pnu_secret"}):
            job = await job_of(image="i", prefect_api_key_secret="prefect/api-key")
            assert env_of(job)["PREFECT_API_KEY"] == {"secretKeyRef": {"name": "prefect", "key": "api-key"}}
            assert "pnu_secret" not in json.dumps(job)
            with pytest.raises(
                JobRefused, match=r"^prefect_api_key_secret is not set: PREFECT_API_KEY is never"
            ):
                await job_of(image="i")
