"""Inputs of a lane's flow run by `bench`: its code in two pieces, and its order."""

import base64

from tasks.delivery.job_orders import send_order
from tasks.travel.sending import CODE_TRANSFER, CodeTransfer, name_of, piece_name
from tests.infra.workers.ssh.proxy.lane_flow import CODE, CONTENT, REPEATS


async def send(client, flow_run_id):
    for place, part in enumerate((CONTENT[:9], CONTENT[9:])):
        piece = base64.b64encode(part).decode()
        await client.create_flow_run_input(flow_run_id, piece_name(CODE, place), piece)
    way = CODE_TRANSFER.dump_json(CodeTransfer(CODE, len(CONTENT), 2)).decode()
    await client.create_flow_run_input(flow_run_id, name_of(CODE), way)
    await send_order(client, flow_run_id, REPEATS)
