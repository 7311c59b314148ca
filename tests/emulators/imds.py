"""EC2's instance metadata service, version 2, with answers that a test sets.

The real one is at 169.254.169.254. Clients that follow AWS_EC2_METADATA_SERVICE_ENDPOINT, such as the AWS
SDKs, find this one. Source:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
TTL = "x-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "x-aws-ec2-metadata-token"
LONGEST_TTL_S = 21600
ROOT = "/latest/meta-data/"


def answers_of(
    instance_type: str = "c5.2xlarge",
    instance_id: str = "i-0123456789abcdef0",
    zone: str = "us-east-1a",
    life_cycle: str = "on-demand",
) -> dict[str, str]:
    return {
        "instance-type": instance_type,
        "instance-id": instance_id,
        "instance-life-cycle": life_cycle,
        "placement/availability-zone": zone,
        "placement/region": zone.rstrip("abcdef"),
    }


@dataclass
class Metadata:
    url: str = ""
    answers: dict[str, str] = field(default_factory=answers_of)
    asked: list[str] = field(default_factory=list)
    tokens: dict[str, float] = field(default_factory=dict)  # token → when it ends, on the monotonic clock


class Handler(BaseHTTPRequestHandler):
    metadata: Metadata
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Answer with a session token, or 400 without a valid lifetime."""
        lifetime = self.headers.get(TTL, "")
        if self.path != "/latest/api/token":
            return self.answer(404)
        if (
            not lifetime.isdigit()
            or not 1 <= int(lifetime) <= LONGEST_TTL_S
            or self.headers.get("X-Forwarded-For")
        ):
            return self.answer(400)
        token = secrets.token_urlsafe(40)
        self.metadata.tokens[token] = time.monotonic() + int(lifetime)
        return self.answer(200, token, {TTL: lifetime})

    def do_GET(self) -> None:
        """Answer only with a valid token: the launch template sets HttpTokens required."""
        self.metadata.asked.append(self.path)
        if self.metadata.tokens.get(self.headers.get(TOKEN, ""), 0) <= time.monotonic():
            return self.answer(401)
        value = (
            self.metadata.answers.get(self.path.removeprefix(ROOT)) if self.path.startswith(ROOT) else None
        )
        return self.answer(404) if value is None else self.answer(200, value)

    def answer(self, status: int, text: str = "", headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "text/plain",
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments) -> None: ...


@contextlib.contextmanager
def metadata_server(**answers: str) -> Iterator[Metadata]:
    """Serve on 127.0.0.1, which containers on the host's network reach."""
    metadata = Metadata(answers=answers_of(**answers))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"metadata": metadata}))
    metadata.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield metadata
    finally:
        server.shutdown()
        server.server_close()
