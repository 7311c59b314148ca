KEY = "LAMBDA_API_KEY"


def deployments(api):
    """Return each deployment's flow and name, with its pool and whether it is paused."""
    flows = {flow["id"]: flow["name"] for flow in api.post("/flows/filter", json={}).json()}
    found = api.post("/deployments/filter", json={}).json()
    return {f"{flows[of['flow_id']]}/{of['name']}": (of["work_pool_name"], of["paused"]) for of in found}
