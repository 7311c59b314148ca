WITHIN_S = 600  # for a real cluster to pull the image


async def running(pool, place, **variables):
    run_id = await pool.start("long", script="echo on; sleep 600", grace_s=1, **variables)
    run = await pool.until(run_id, lambda run: run.infrastructure_pid, WITHIN_S)
    job = run.infrastructure_pid.partition(":")[2]
    return run_id, job, await place.running_pod(job)
