"""Answer each request with a stream of tokens, 5 ms each."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.do_GET()
        for _ in range(asked["max_tokens"]):
            time.sleep(0.005)
            self.wfile.write(b'data: {"choices": [{"text": "word "}]}\n\n')
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *words):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
