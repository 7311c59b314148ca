"""Names of files, folders and variables that hold secrets."""

import re
from collections.abc import Iterable
from fnmatch import translate

NAMES = (
    *(".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.ppk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("credentials", "credentials.json", "credentials.toml", ".git-credentials", ".netrc", ".pypirc"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig", ".dockercfg", ".vault-token"),
    *(
        ".pgpass",
        ".my.cnf",
        ".mylogin.cnf",
        ".s3cfg",
        ".boto",
        ".htpasswd",
        "application_default_credentials.json",
    ),
    *(
        "secrets.yaml",
        "secrets.yml",
        "secrets.json",
        "secrets.toml",
        "*.tfstate",
        "*.tfstate.backup",
        "*.tfvars",
    ),
    *(".*_history",),  # of shells and of clients of databases
)
PATHS = (".kube/config", ".docker/config.json", ".aws/config")
FOLDERS = frozenset({".aws", ".azure", ".docker", ".gnupg", ".kube", ".ssh"})
HARMLESS = ("*.pub", "*.py", "*.md", ".env.example", ".env.sample", ".env.template", ".env.dist")

# By custom: HF_TOKEN, DB_PASSWORD, WANDB_API_KEY, PGPASSWORD.
VARIABLE = re.compile(
    r"((^|_)(TOKEN|SECRET|PASSPHRASE|(API|ACCESS|SECRET|PRIVATE|AUTH)_?KEY|AUTH_STRING)|PASSWORD|PASSWD)$",
    re.IGNORECASE,
)


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


_NAMED, _HARMLESS = _any_of(NAMES), _any_of(HARMLESS)


def is_secret_name(name: str) -> bool:
    lower = name.lower()
    last = lower.rpartition("/")[2]
    is_named = _NAMED.match(last) or f"/{lower}".endswith(tuple(f"/{path}" for path in PATHS))
    return bool(is_named) and not _HARMLESS.match(last)


def is_secret_folder(name: str) -> bool:
    return name in FOLDERS


def is_secret_variable(name: str) -> bool:
    return bool(VARIABLE.search(name))
