"""Local package indexes: folders of wheels without code, served as in PEP 503."""

import functools
import hashlib
import threading
import zipfile
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_): ...


@contextmanager
def served(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def add(index, name, version, *requires):
    folder, file = index / name, f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / file, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    with (folder / "index.html").open("a") as page:
        page.write(f'<a href="{file}#sha256={digest}">{file}</a>\n')
    return digest
