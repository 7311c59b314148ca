"""Correct moto's CloudFormation for the stack of infra/aws.

Differences of moto 5.2.5, with AWS's side by docs.aws.amazon.com/AWSCloudFormation/latest, [doc]:

- parameter defaults keep their type String (parsing.load_parameters); AWS types them like given values
  (UserGuide/parameters-section-structure.html)
- any template of any size is accepted; see language.py
- DescribeStacks returns a list parameter as Python writes it (APIReference/API_Parameter.html: a string)
- a change set ignores changed parameters, lists resources whose condition is false, and leaves no outputs
  (UserGuide/using-cfn-updating-stacks-changesets.html, conditions-section-structure.html)
- a resource type without an update is forgotten by an update, and then never deleted
- Batch: ServiceRole is required, queue time limits, tags and updates are dropped, deletes do nothing
  (TemplateReference/aws-resource-batch-computeenvironment.html, aws-resource-batch-jobqueue.html)
- networks: tags of gateways, route tables and endpoints, and deleting them; see network.py
- route tables and managed policies are never deleted; a log group's retention is never updated

Still like moto: unknown types (such as AWS::Budgets::Budget) are CREATE_COMPLETE without being made. Nothing
rolls back. IAM is not enforced. Change sets and stacks are made at once.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from moto.batch import models as batch
from moto.cloudformation import models, parsing, responses
from moto.cloudformation.exceptions import ValidationError
from moto.ec2.models import ec2_backends
from moto.ec2.models.route_tables import RouteTable
from moto.iam.models import ManagedPolicy, iam_backends
from moto.logs.models import LogGroup

from . import language, network, reasons
from .control import control


def backend_of(account: str, region: str) -> Any:
    return batch.batch_backends[account][region]


def lowered(value: Any) -> Any:
    """Return CloudFormation's names as the API's names, also inside lists of maps, which moto skips."""
    if isinstance(value, list):
        return [lowered(entry) for entry in value]
    if isinstance(value, dict):
        return {key[0].lower() + key[1:]: lowered(entry) for key, entry in value.items()}
    return value


def compute_resources(properties: dict[str, Any]) -> dict[str, Any] | None:
    """Return the resources as DescribeComputeEnvironments does; keys of Tags are kept."""
    wanted = properties.get("ComputeResources")
    if wanted is None:
        return None
    told = lowered(wanted)
    for name in ("minvCpus", "maxvCpus", "desiredvCpus"):
        if name in told:
            told[name] = int(told[name])
    return told | ({"tags": wanted["Tags"]} if "Tags" in wanted else {})


def create_environment(
    cls: type, name: str, json: dict[str, Any], account: str, region: str, **_: Any
) -> Any:
    properties = json["Properties"]
    return backend_of(account, region).create_compute_environment(
        compute_environment_name=name,
        _type=properties["Type"],
        state=properties.get("State", "ENABLED"),
        compute_resources=compute_resources(properties),
        service_role=properties.get("ServiceRole"),
        tags=properties.get("Tags"),
    )


def update_environment(
    cls: type, original_resource: Any, cloudformation_json: dict[str, Any], **_: Any
) -> Any:
    properties = cloudformation_json["Properties"]
    original_resource.compute_resources |= compute_resources(properties) or {}
    original_resource.state = properties.get("State", "ENABLED")
    control.notify()
    return original_resource


def delete_environment(cls: type, name: str, json: dict[str, Any], account: str, region: str) -> None:
    backend = backend_of(account, region)
    environment = backend.get_compute_environment(name)
    if any(environment in queue.environments for queue in backend._job_queues.values()):
        raise batch.ClientException(reasons.ENVIRONMENT_IN_USE)  # moto comes back when the queue is gone
    backend.delete_compute_environment(name)


def create_queue(cls: type, name: str, json: dict[str, Any], account: str, region: str, **_: Any) -> Any:
    properties = json["Properties"]
    queue = backend_of(account, region).create_job_queue(
        queue_name=name,
        priority=int(properties["Priority"]),
        state=properties.get("State", "ENABLED"),
        compute_env_order=lowered(properties["ComputeEnvironmentOrder"]),
        schedule_policy=properties.get("SchedulingPolicyArn"),
        tags=properties.get("Tags"),
    )
    queue.time_limits = lowered(properties.get("JobStateTimeLimitActions") or [])
    return queue


def update_queue(cls: type, original_resource: Any, cloudformation_json: dict[str, Any], **_: Any) -> Any:
    properties = cloudformation_json["Properties"]
    original_resource.state = properties.get("State", "ENABLED")
    original_resource.priority = int(properties["Priority"])
    original_resource.time_limits = lowered(properties.get("JobStateTimeLimitActions") or [])
    return original_resource


def delete_queue(cls: type, name: str, json: dict[str, Any], account: str, region: str) -> None:
    backend = backend_of(account, region)
    queue = backend.get_job_queue(name)
    for job in queue.jobs if queue else []:
        job.terminate("The job queue was deleted")
    backend.delete_job_queue(name)


def create_definition(cls: type, name: str, json: dict[str, Any], account: str, region: str, **_: Any) -> Any:
    properties = json["Properties"]
    container = lowered(properties["ContainerProperties"])
    options = properties["ContainerProperties"].get("LogConfiguration", {}).get("Options")
    if options:
        container["logConfiguration"]["options"] = options
    return backend_of(account, region).register_job_definition(
        def_name=name,
        parameters=properties.get("Parameters") or {},
        _type=properties.get("Type", "container"),
        tags=properties.get("Tags"),
        retry_strategy=lowered(properties.get("RetryStrategy")),
        container_properties=container,
        node_properties=None,
        eks_properties=None,
        timeout={key: int(value) for key, value in lowered(properties.get("Timeout") or {}).items()},
        platform_capabilities=properties.get("PlatformCapabilities"),
        propagate_tags=properties.get("PropagateTags"),
    )


def delete_route_table(cls: type, name: str, json: dict[str, Any], account: str, region: str) -> None:
    backend = ec2_backends[account][region]
    table = backend.route_tables.get(name)
    for association in list(table.associations) if table else []:
        backend.disassociate_route_table(association)
    backend.delete_route_table(name)


def delete_policy(cls: type, name: str, json: dict[str, Any], account: str, region: str) -> None:
    iam_backends[account]["aws"].delete_policy(name)


def update_log_group(cls: type, original_resource: Any, cloudformation_json: dict[str, Any], **_: Any) -> Any:
    days = cloudformation_json["Properties"].get("RetentionInDays")
    original_resource.retention_in_days = int(days) if days else None
    return original_resource


def load_parameters(original: Callable) -> Callable:
    @wraps(original)
    def mended(self: Any) -> None:
        slots = self._template.get("Parameters", {})
        defaults = {name: as_text(slot["Default"]) for name, slot in slots.items() if "Default" in slot}
        self.input_parameters = defaults | {
            name: as_text(value) for name, value in self.input_parameters.items()
        }
        original(self)

    return mended


def as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def create_change_set(original: Callable) -> Callable:
    """Refuse invalid templates, sizes and addresses, all of which moto accepts."""

    @wraps(original)
    def mended(self: Any) -> Any:
        body, url = self._get_param("TemplateBody"), self._get_param("TemplateURL")
        try:
            if url:
                language.check_address(url, self.region)
                body = self._get_stack_from_s3_url(url)
            else:
                language.check_size(body)
            rows = self._get_param("Parameters", [])
            given = {row["ParameterKey"]: row.get("ParameterValue", "") for row in rows}
            language.check(models.Stack.parse_template(body), given)
        except language.TemplateError as error:
            raise ValidationError(message=str(error)) from None
        return original(self)

    return mended


def change_set_diff(original: Callable) -> Callable:
    """Return the changes for the new parameters, without resources whose condition is false."""

    @wraps(original)
    def mended(self: Any) -> list[Any]:
        view = parsing.ResourceMap(
            "", self.stack_name, self.parameters, {}, account_id=self.stack.account_id,
            region_name=self.stack.region_name, template=self.template_dict, cross_stack_resources={},
        )  # fmt: skip
        view.load_mapping()
        view.load_parameters()
        view.load_conditions()
        old = self.stack.resource_map
        names = old.build_resource_diff(self.template_dict, self.parameters)
        changes = []
        for action, logical_ids in names.items():
            source = old._resource_json_map if action == "Remove" else self.template_dict["Resources"]
            for name in logical_ids:
                condition = source[name].get("Condition")
                if action == "Remove" or not condition or view.lazy_condition_map[condition]:
                    changes.append(models.Change(action, name, source[name]["Type"]))
        return changes

    return mended


def after_change_set(original: Callable) -> Callable:
    @wraps(original)
    def mended(self: Any) -> None:
        original(self)
        self.stack.template_dict, self.stack.parameters = self.template_dict, self.parameters
        self.stack.description = self.template_dict.get("Description")
        self.stack.output_map = self.stack._create_output_map()

    return mended


def told_parameters(original: property) -> property:
    """Return list parameters as given, with commas; moto returns Python's repr."""

    def mended(self: Any) -> list[dict[str, str]]:
        return [row | {"ParameterValue": as_text(row["ParameterValue"])} for row in original.fget(self)]

    return property(mended)


def update_resource(original: Callable) -> Callable:
    @wraps(original)
    def mended(logical_id: str, resource_json: dict[str, Any], resources_map: Any, **options: Any) -> Any:
        updated = original(logical_id, resource_json, resources_map, **options)
        return resources_map._parsed_resources.get(logical_id) if updated is None else updated

    return mended


def install() -> None:
    if getattr(parsing, "mended", False):
        return
    parsing.mended = True
    network.install()
    for cls, create, update, delete in (
        (batch.ComputeEnvironment, create_environment, update_environment, delete_environment),
        (batch.JobQueue, create_queue, update_queue, delete_queue),
        (batch.JobDefinition, create_definition, None, None),
        (RouteTable, None, None, delete_route_table),
        (ManagedPolicy, None, None, delete_policy),
        (LogGroup, None, update_log_group, None),
    ):
        for verb, function in (("create_from", create), ("update_from", update), ("delete_from", delete)):
            if function:
                setattr(cls, f"{verb}_cloudformation_json", classmethod(function))
    resource_map = parsing.ResourceMap
    resource_map.load_parameters = load_parameters(resource_map.load_parameters)
    parsing.parse_and_update_resource = update_resource(parsing.parse_and_update_resource)
    models.Stack.parameter_list = told_parameters(models.Stack.parameter_list)
    answers = responses.CloudFormationResponse
    answers.create_change_set = create_change_set(answers.create_change_set)
    change_set = models.ChangeSet
    change_set.diff = change_set_diff(change_set.diff)
    change_set.apply = after_change_set(change_set.apply)
