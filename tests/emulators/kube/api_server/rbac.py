"""Authentication and Roles: the manifests in the store decide."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.emulators.kube.api_server.objects import KINDS, Kind, Obj, Refused
from tests.emulators.kube.api_server.store import Store

ADMIN_TOKEN = "admin-of-the-stand-in"
MASTERS = "system:masters"


class User(NamedTuple):
    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("kubernetes-admin", (MASTERS, "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Asked(NamedTuple):
    verb: str
    kind: Kind
    subresource: str
    namespace: str
    name: str

    @property
    def resource(self) -> str:
        return self.kind.plural + (f"/{self.subresource}" if self.subresource else "")


def service_account(namespace: str, name: str) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


class Tokens:
    """Bearer tokens and their users.

    `issuer` is a folder in which a cloud's login notes its tokens: a file named like the token, with the
    user's namespace, name and the Unix time of expiry. [doc]
    kubernetes.io/docs/reference/access-authn-authz/authentication: an expired token is answered with 401.
    [thread] kubernetes/client-go #1381: a watch checks it when it is opened, and never again.
    """

    def __init__(self) -> None:
        self.users = {ADMIN_TOKEN: ADMIN}
        self.issuer: Path | None = None

    def issue(self, user: User) -> str:
        token = secrets.token_urlsafe(24)
        self.users[token] = user
        return token

    def revoke(self, token: str) -> None:
        """Answer the token with 401 from now on."""
        self.users.pop(token, None)

    def user(self, header: str | None) -> User:
        """Return the user of the Authorization header; 401 if unknown, anonymous without one."""
        if not header:
            return ANONYMOUS
        scheme, _, token = header.partition(" ")
        user = self.users.get(token) or self.issued(token)
        if scheme.lower() != "bearer" or user is None:
            raise Refused(401, "Unauthorized", "Unauthorized")
        return user

    def issued(self, token: str) -> User | None:
        if self.issuer is None or "/" in token or not (note := self.issuer / token).is_file():
            return None
        namespace, name, expires = note.read_text().split()
        return service_account(namespace, name) if time.time() < float(expires) else None


def authorize(store: Store, user: User, asked: Asked) -> None:
    """Raise 403 with the server's text unless a binding gives the right."""
    if may(store, user, asked):
        return
    name, kind = asked.name, asked.kind
    what = kind.full + (f' "{name}"' if name else "")
    scope = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    text = f'User "{user.name}" cannot {asked.verb} resource "{asked.resource}" in API group "{kind.group}"'
    details = {"kind": kind.plural} | ({"group": kind.group} if kind.group else {})
    details |= {"name": name} if name else {}
    raise Refused(403, "Forbidden", f"{what} is forbidden: {text} {scope}", **details)


def may(store: Store, user: User, asked: Asked) -> bool:
    if MASTERS in user.groups:
        return True
    return any(allows(rule, asked) for rule in rules_of(store, user, asked.namespace))


def allows(rule: Obj, asked: Asked) -> bool:
    def covers(field: str, value: str) -> bool:
        return bool({value, "*"} & set(rule.get(field) or []))

    named = rule.get("resourceNames")
    return (
        covers("verbs", asked.verb)
        and covers("apiGroups", asked.kind.group)
        and covers("resources", asked.resource)
        and (not named or asked.name in named)
    )


def rules_of(store: Store, user: User, namespace: str) -> Iterator[Obj]:
    bindings = store.all("rolebindings", namespace) if namespace else []
    for binding in [*bindings, *store.all("clusterrolebindings")]:
        if any(is_subject(subject, user, binding) for subject in binding.get("subjects") or []):
            ref = binding["roleRef"]
            plural = "roles" if ref["kind"] == "Role" else "clusterroles"
            where = binding["metadata"].get("namespace", "") if KINDS[plural].namespaced else ""
            role = store.find(plural, (where, ref["name"])) or {}
            yield from role.get("rules") or []


def is_subject(subject: Obj, user: User, binding: Obj) -> bool:
    if subject["kind"] == "ServiceAccount":
        namespace = subject.get("namespace") or binding["metadata"].get("namespace", "")
        return user.name == f"system:serviceaccount:{namespace}:{subject['name']}"
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    return bool(subject["name"] == user.name)
