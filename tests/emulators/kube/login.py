"""A cloud's login as kubectl sees it: an exec plugin with expiring tokens.

[doc] kubernetes.io/docs/reference/access-authn-authz/authentication, client-go credential plugins: the plugin
prints an ExecCredential; without `expirationTimestamp` a token counts until it is answered with 401.
"""

from pathlib import Path
from typing import Any

VERSION = "client.authentication.k8s.io/v1beta1"
PLUGIN = """#!/bin/sh
cd {folder} || exit 1
if [ -f refusal ]; then cat refusal >&2; exit 1; fi
token=$(cat /proc/sys/kernel/random/uuid)
ends=$(($(date +%s%N) / 1000000 + $(cat lives_ms)))
echo "{namespace} {account} $((ends / 1000)).$((ends % 1000))" >"issued/$token"
echo run >>runs
expiry=
[ -f silent ] || expiry=", \\"expirationTimestamp\\": \\"$(date -u -d "@$((ends / 1000))" +%Y-%m-%dT%H:%M:%SZ)\\""
echo "{{\\"apiVersion\\": \\"{version}\\", \\"kind\\": \\"ExecCredential\\", \\"status\\": {{\\"token\\": \\"$token\\"$expiry}}}}"
"""


class Login:
    """The login's folder: its tokens, and the plugin's next answers."""

    def __init__(self, folder: Path, namespace: str, account: str) -> None:
        self.folder, self.issued = folder, folder / "issued"
        self.kubeconfig = folder / "kubeconfig"
        self.issued.mkdir(parents=True)
        script = PLUGIN.format(folder=folder, namespace=namespace, account=account, version=VERSION)
        (folder / "plugin").write_text(script)
        (folder / "plugin").chmod(0o755)

    def plugin(self) -> dict[str, Any]:
        return {"apiVersion": VERSION, "command": str(self.folder / "plugin"), "interactiveMode": "Never"}

    @property
    def runs(self) -> int:
        path = self.folder / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def tokens_live(self, lives_s: float, tells: bool = True) -> None:
        """Set the lifetime of new tokens, and whether the plugin states it."""
        (self.folder / "lives_ms").write_text(str(round(lives_s * 1000)))
        silent = self.folder / "silent"
        silent.unlink(missing_ok=True) if tells else silent.touch()

    def forget(self) -> None:
        """Revoke every token, whatever lifetime was stated."""
        for token in self.issued.iterdir():
            token.unlink()

    def refuse(self, reason: str) -> None:
        (self.folder / "refusal").write_text(reason)

    def allow(self) -> None:
        (self.folder / "refusal").unlink()
