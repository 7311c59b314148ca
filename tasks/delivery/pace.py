"""How often a run asks the Prefect API, by what the API's plan allows.

Prefect Cloud limits requests, and logs with events, per account and minute, see
https://docs.prefect.io/v3/concepts/rate-limits; a server of one's own does not. Others in the account need
room, too: at the pace of the smallest plan, the intervals of a bench with ten rented lanes and three workers
add up to less than 300 a minute, requests and events together.
"""

from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlparse

from prefect.settings import get_current_settings
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

CLOUD = ("api.prefect.cloud", "app.prefect.cloud")


class ApiPlan(StrEnum):
    """The API that answers: a server of one's own, or Prefect Cloud by a plan."""

    OWN = "own"
    HOBBY = "hobby"
    STARTER = "starter"
    TEAM = "team"
    PRO = "pro"
    ENTERPRISE = "enterprise"


class Pace(NamedTuple):
    """The rates of a run.

    Attributes:
        poll_s: between two looks of `bench` at its lanes.
        deliver_s: between two uploads of a lane; 0 sends each record at once.
        rental_s: between two looks of a rental at its labels and its `bench`; None: its own pace.
        open_cells: task runs of cells that are open at the same time, over all lanes.
        cells_per_minute: task runs of cells that begin in a minute; each makes three events. None: no limit.
        cells_at_first: task runs that begin beyond that, at the start.
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
    """Return the pace for the Prefect API that this process uses."""
    plan = PaceSettings().prefect_plan
    if plan is None:
        host = urlparse(get_current_settings().api.url or "").hostname
        plan = ApiPlan.HOBBY if host in CLOUD else ApiPlan.OWN
    return PACES[plan]
