import pytest

from tests.docs.shown import DOCS, block_of
from tests.emulators.lambda_cloud.control import Control
from tests.emulators.lambda_cloud.quick import nothing_left
from tests.emulators.lambda_cloud.server import lambda_cloud
from tests.emulators.lambda_cloud.ssh_boxes import SshBoxes
from tests.exit_codes import assert_measured

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def cloud():
    control = Control(capacity={("gpu_1x_a10", "us-east-1"): 4})
    with lambda_cloud(control, SshBoxes()) as cloud:
        yield cloud
        assert nothing_left(cloud)


def test_a_box_is_rented_measured_on_and_returned(shell, cloud, bench_image):
    shell.environment |= {"LAMBDA_API_URL": cloud.url}
    readme = block_of(DOCS.parent / "README.md", "export LAMBDA_API_KEY")
    page = block_of(DOCS / "lambda.md", "gridbench run loadtest --on lambda-1x-a10 --budget-usd 5 --dry-run")
    plan, run = page[:2]
    assert [run] == readme[1:], "the README shows the same"
    setting = readme[0].replace("secret_…", cloud.control.key)
    image = f"export GRIDBENCH_IMAGE_CUDA12={bench_image}"
    code, told = shell(f"{setting}\n{image}\n{plan}")
    assert code == 0 and "USD" in told, told
    assert nothing_left(cloud), "a plan rents nothing"
    code, told = shell(f"{setting}\n{image}\n{run}", timeout=900)
    assert_measured(code, told)
    assert "report: " in told, told
    code, told = shell(f"{setting}\ngridbench lambda rented")
    assert code == 0 and "no machine of Gridbench runs at Lambda Cloud" in told, told
