"""A server with prepared answers, in the place of a router's admin port."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Scripted:
    """A server with prepared answers: a status, or nothing at all."""

    def __init__(self, *answers: int | bytes | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, bytes, str | None]] = []
        self.kinds: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append((self.command, self.path, body, self.headers["Authorization"]))
                outer.kinds.append(self.headers["Content-Type"])
                answer = outer.answers.pop(0)
                if answer is None:
                    return
                self.send_response(answer if isinstance(answer, int) else 200)
                self.end_headers()
                told = b'{"repeated": false}' if answer == 200 else b'{"error": "because"}'
                self.wfile.write(answer if isinstance(answer, bytes) else told)

            do_PUT = do_POST = do_DELETE = _answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
