from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.variables import Variable
from prefect_aws import AwsCredentials, S3Bucket

from workloads.harness.records.record import Verdict

# Of each hardware file: its instance type and purchase; its queue has its name.
CLOUDS = {"cloud-c5": ("c5.2xlarge", "on-demand"), "cloud-m5-spot": ("m5.2xlarge", "spot")}
MEASURED = {Verdict.OK, Verdict.NOISY, Verdict.IMPRECISE, Verdict.UNSTEADY}  # this machine is not quiet


async def save(bench, aws, image):
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    credentials = AwsCredentials(**keys, aws_client_parameters={"endpoint_url": aws.url})
    auth = bench.stack.environment["PREFECT_API_AUTH_STRING"]
    with temporary_settings({PREFECT_API_URL: bench.stack.api_url, PREFECT_API_AUTH_STRING: auth}):
        await S3Bucket(bucket_name="kept", credentials=credentials).save("gridbench", overwrite=True)
        await Variable.aset("gridbench_image_cpu", image, overwrite=True)
