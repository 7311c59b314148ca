import pytest

from tasks.errors import GridbenchError
from tasks.travel import tree as trees
from tasks.travel.tree import leads_out, take
from tests.tasks.travel.conftest import git

CODE = [".gitignore", "lib/net.py", "lib/run.sh", "train.py"]
HEAD = "PRIVATE KEY-----"  # apart from the rest, so that this file has no key
KEY = f"-----BEGIN OPENSSH {HEAD}\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n"


def names(folder):
    return [file.name for file in take(folder).files]


def test_without_git_files_outside_gitignore_and_caches_are_code(code):
    tree = take(code)
    assert [file.name for file in tree.files] == CODE and tree.dirty and tree.hindrance == ""
    assert tree.total_bytes == sum((code / name).stat().st_size for name in CODE)
    assert not (code / ".git").exists()


def test_with_git_tracked_and_new_files_are_code(repository):
    clean = take(repository)
    assert [file.name for file in clean.files] == CODE and not clean.dirty
    (repository / "new.py").write_text("")
    (repository / "lib" / "net.py").unlink()
    assert names(repository) == [".gitignore", "lib/run.sh", "new.py", "train.py"]
    assert take(repository).dirty


def test_a_folder_within_a_repository_is_a_tree_of_its_own(repository):
    assert names(repository / "lib") == ["net.py", "run.sh"]
    (repository / "elsewhere.py").write_text("")
    assert not take(repository / "lib").dirty


def test_submodules_and_repositories_within_belong_to_it(repository):
    inner = repository / "third"
    inner.mkdir()
    git(inner, "init", "--quiet")
    (inner / "part.py").write_text("")
    assert "third/part.py" in names(repository)
    git(inner, "add", "part.py")
    git(inner, "commit", "--quiet", "-m", "part")
    git(repository, "add", "third")
    assert "third/part.py" in names(repository)
    git(repository, "commit", "--quiet", "-m", "with a part")
    for path in (inner / "part.py", *sorted((inner / ".git").rglob("*"), reverse=True), inner / ".git"):
        path.rmdir() if path.is_dir() else path.unlink()
    assert names(repository) == CODE, "nobody has fetched that submodule"


def test_an_environment_is_not_code_under_any_name(code):
    (code / "env312" / "lib").mkdir(parents=True)
    (code / "env312" / "pyvenv.cfg").write_text("")
    (code / "env312" / "lib" / "site.py").write_text("")
    assert names(code) == CODE


def test_the_id_is_of_names_modes_and_contents_alone(code, tmp_path):
    first = take(code)
    (code / "data" / "big.bin").write_text("other data")
    (code / "train.py").touch()
    assert take(code).id == first.id and first.id.startswith("sha256:") and len(first.id) == 71
    (code / "lib").rename(tmp_path / "lib")
    (tmp_path / "lib").rename(code / "lib")
    ids = {first.id}
    (code / "lib" / "run.sh").chmod(0o644)
    ids.add(take(code).id)
    (code / "train.py").write_text("import lib.net \n")
    ids.add(take(code).id)
    (code / "train.py").rename(code / "main.py")
    ids.add(take(code).id)
    assert len(ids) == 4


DRAWN = "k3Jv9QzLx8TnWb2RfYp5HsDm7GcA4EuV"  # 32 letters and digits, as a generator draws them


@pytest.mark.parametrize(
    "name",
    [
        *(".env", "conf/.env.production", "server.pem", "id_rsa", "deploy/id_ed25519", "tls.key"),
        *(".aws/credentials", "kubeconfig", ".kube/config", "credentials.json"),
        *(
            ".pgpass",
            ".my.cnf",
            ".s3cfg",
            ".boto",
            ".htpasswd",
            ".dockercfg",
            ".vault-token",
            ".bash_history",
        ),
        *("secrets.yaml", "secrets.json", "secrets.toml", ".streamlit/secrets.toml"),
        *("terraform.tfstate", "prod.tfvars", ".config/gcloud/application_default_credentials.json"),
    ],
)
def test_files_named_like_secrets_do_not_leave_the_machine(code, name):
    (code / name).parent.mkdir(parents=True, exist_ok=True)
    (code / name).write_text("x")
    assert f"holds {name}, which looks like a secret" in take(code).hindrance
    (code / ".gitignore").write_text(f"data/\n*.pt\n{name}\n")
    assert take(code).hindrance == ""


@pytest.mark.parametrize("text", [KEY, f'{{"private_key": "-----BEGIN {HEAD}\\nMIIEvQIBADANBgkqh"}}'])
def test_files_with_a_private_key_do_not_leave_the_machine(code, text):
    for name in ("settings.json", "settings.py"):
        (code / name).write_text(text)
        assert f"holds {name}, which looks like a secret" in take(code).hindrance
        (code / name).unlink()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.toml", f'token = "hf_{"aB" * 17}"'),
        ("notes.ipynb", f'{{"source": ["login(\\"ghp_{"a1" * 18}\\")"]}}'),
        ("settings.py", f"KEY = 'AKIA{'Q7' * 8}'"),
        ("requirements.txt", "--index-url https://me:sesame@example.org/simple"),
        ("uv.lock", 'source = { registry = "https://me:sesame@example.org/simple" }'),
        (".npmrc", f"//registry.npmjs.org/:_authToken={DRAWN}"),
        ("run.sh", f"export LAMBDA_API_KEY=secret_mine_{DRAWN}"),
        ("run.sh", f"HF_TOKEN={DRAWN} python train.py"),
        ("settings.ini", f"aws_secret_access_key = {DRAWN}/{DRAWN[:7]}"),
        ("config.json", f'{{"password": "{DRAWN[:14]}"}}'),
        ("compose.yaml", "url: postgres://app:s3same@db.example/app"),
        ("train.sh", "redis-cli -u redis://:s3same@cache.example:6379"),
        ("old.py", f"openai.api_key = 'sk-{DRAWN}{DRAWN[:16]}'"),
        ("pay.py", f"stripe.api_key = 'sk_live_{DRAWN}'"),
        ("predict.py", f"token = 'r8_{DRAWN}{DRAWN[:5]}'"),
        ("age.txt", f"AGE-SECRET-KEY-1{'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L' * 2}"[:74]),
        ("api.py", f"JWT = 'eyJ{DRAWN}.eyJ{DRAWN}.{DRAWN}'"),
        ("flows.py", f"PREFECT = 'pnu_{DRAWN}{DRAWN[:4]}'"),
        ("putty.txt", "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\n"),
    ],
)
def test_files_with_a_token_or_a_login_do_not_leave_the_machine(code, name, text):
    (code / name).write_text(text)
    assert f"holds {name}, which looks like a secret" in take(code).hindrance


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "--index-url https://me:${TOKEN}@example.org/simple"),
        ("README.md", "clone https://user:password@example.org"),
        ("settings.py", "KEY = 'AKIAIOSFODNN7EXAMPLE'"),
        ("plot.ipynb", f"iVBORw0KGgo{'AIza' * 20}/"),
        ("plot.ipynb", f"iVBORw0KGgo/{DRAWN}eyJ{DRAWN}/{DRAWN}"),
        ("readme.txt", f"use ghp_{'x' * 35} or sk_live_{'x' * 30} or r8_…"),
        ("run.sh", "export WANDB_API_KEY=$(cat ~/.wandb) HF_TOKEN=${HF_TOKEN:?} X_SECRET=<your-secret-0123>"),
        (
            "model.yaml",
            "eos_token: '<|endoftext|>'\nmodel_key: resnet50_imagenet1k_v2\ntokenizer: bert-base-v1",
        ),
        ("tokenizer.json", '{"password": 104931, "pass_token": 22, "access_token": 481516234259}'),
        ("compose.yaml", "url: postgres://postgres:postgres@localhost:5432/test\nother: redis://cache:6379"),
        (
            "pool.yaml",
            "api_key: env:THE_API_KEY_2\nsecret: arn:aws:secretsmanager:eu-1:123456789012:secret:a1",
        ),
    ],
)
def test_files_with_a_placeholder_for_a_secret_are_sent(code, name, text):
    (code / name).write_text(text)
    assert take(code).hindrance == ""


@pytest.mark.parametrize("name", ["id_rsa.pub", ".env.example", "environment.py", "kubeconfig.py", "monkey"])
def test_files_that_only_mention_a_secret_are_sent(code, name):
    (code / name).write_text('if "-----BEGIN PRIVATE KEY-----" in text:\n    refuse()\n')
    assert take(code).hindrance == ""


def test_a_pointer_of_git_lfs_is_not_the_file(code):
    (code / "weights.bin").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"
    )
    assert "holds weights.bin only as a pointer of Git LFS" in take(code).hindrance
    (code / "weights.bin").write_text("see version https://git-lfs.github.com/spec/v1")
    assert take(code).hindrance == ""


def test_a_refusal_is_one_line_for_any_file_name(code):
    (code / "two\nlines.pem").write_text("x")
    assert "holds two lines.pem, which looks like a secret" in take(code).hindrance


def test_links_that_lead_out_do_not_leave(code):
    (code / "near").symlink_to("lib/net.py")
    assert take(code).hindrance == "" and "near" in names(code)
    (code / "far").symlink_to("/etc/hostname")
    assert "holds the link far, which leads out of it to /etc/hostname" in take(code).hindrance


@pytest.mark.parametrize(
    ("name", "target", "out"),
    [
        *(("a", "b", False), ("a", "../b", True), ("d/a", "../b", False), ("d/a", "../../b", True)),
        *(("a", "/b", True), ("a", "d/../../b", True), ("a", "d/..", True), ("d/e/a", "../../b/c", False)),
    ],
)
def test_links_that_lead_out_of_the_code_are_found(name, target, out):
    assert leads_out(name, target) is out


def test_a_file_that_is_too_large_is_not_code(code, monkeypatch):
    monkeypatch.setattr(trees, "MOST_FILE_BYTES", 30)
    (code / "weights.bin").write_bytes(bytes(31))
    with pytest.raises(GridbenchError, match=r"weights.bin of 0 MiB.*put it into --data, or name it in"):
        take(code)
    (code / "weights.bin").unlink()
    monkeypatch.setattr(trees, "MOST_BYTES", 40)
    with pytest.raises(GridbenchError, match=r"more than 0 MiB; list files that are not code in .gitignore"):
        take(code)
    monkeypatch.setattr(trees, "MOST_FILES", 3)
    with pytest.raises(GridbenchError, match="has 4 files, more than 3"):
        take(code)


def test_an_invalid_folder_and_a_folder_without_code_are_refused(code, tmp_path):
    with pytest.raises(GridbenchError, match="nowhere does not exist; name the folder"):
        take(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(GridbenchError, match="has no file that git does not ignore"):
        take(tmp_path / "empty")
