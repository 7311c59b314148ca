"""How often a run polls the Prefect API.

Prefect Cloud limits requests, and logs with events, per account and minute
(https://docs.prefect.io/v3/concepts/rate-limits). At the pace of the smallest plan, a bench with ten rented
lanes and three workers makes less than 300 of each a minute.
"""

from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlparse

from prefect.settings import get_current_settings
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

CLOUD = ("api.prefect.cloud", "app.prefect.cloud")


class ApiPlan(StrEnum):
    """An own server, or Prefect Cloud by a plan."""

    OWN = "own"
    HOBBY = "hobby"
    STARTER = "starter"
    TEAM = "team"
    PRO = "pro"
    ENTERPRISE = "enterprise"


class Pace(NamedTuple):
    """The rates of a run.

    Attributes:
        poll_s: of lanes by `bench`.
        deliver_s: between a lane's uploads; 0 sends each record at once.
        rental_s: between checks of a rental; None for its own.
        open_cells: task runs open at once.
        cells_per_minute: task runs, with three events each; None for no limit.
        cells_at_first: further ones at the start.
    """

    poll_s: float = 2.0
    deliver_s: float = 0.0
    rental_s: float | None = None
    open_cells: int = 200
    cells_per_minute: float | None = None
    cells_at_first: int = 15


SLOW = Pace(poll_s=15.0, deliver_s=30.0, rental_s=20.0, open_cells=50, cells_per_minute=20.0)
PACES = {
    ApiPlan.OWN: Pace(),
    ApiPlan.HOBBY: SLOW,
    ApiPlan.STARTER: SLOW._replace(cells_per_minute=40.0),
    ApiPlan.TEAM: Pace(poll_s=10.0, deliver_s=15.0, rental_s=10.0, cells_per_minute=200.0),
    ApiPlan.PRO: Pace(poll_s=5.0, deliver_s=5.0, rental_s=10.0, cells_per_minute=1000.0),
    ApiPlan.ENTERPRISE: Pace(poll_s=5.0, deliver_s=5.0, rental_s=10.0, cells_per_minute=1000.0),
}


class PaceSettings(BaseSettings):
    """The plan, from `GRIDBENCH_PREFECT_PLAN`."""

    model_config = SettingsConfigDict(env_prefix="GRIDBENCH_")

    prefect_plan: ApiPlan | None = Field(
        default=None,
        description="Prefect Cloud's plan; where empty, the smallest there, and own for other servers.",
    )


def pace_here() -> Pace:
    plan = PaceSettings().prefect_plan
    if plan is None:
        host = urlparse(get_current_settings().api.url or "").hostname
        plan = ApiPlan.HOBBY if host in CLOUD else ApiPlan.OWN
    return PACES[plan]
