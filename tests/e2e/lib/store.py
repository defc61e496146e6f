"""
Stand-ins for stores and networks: an HTTP server with planned answers, a proxy that cuts connections.
"""
import http.server
import socket
import ssl
import threading
import time

class Fake:
    """Answers requests by `plan`, one item each and then the last one forever:
    a status, (status, headers), ("slow", seconds, status), "cut" (no answer, the body half read)."""

    def __init__(self, plan=(200,), tls=None):
        self.plan, self.seen, self.at, self.lock = list(plan), [], 0, threading.Lock()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                fake.answer(self)

            def log_message(self, *a):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls:  # a file with key and certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, h):
        with self.lock:
            step = self.plan[min(self.at, len(self.plan) - 1)]
            self.at += 1
        size = int(h.headers.get("Content-Length", 0))
        if step == "cut":
            h.rfile.read(size // 2)
            h.connection.shutdown(socket.SHUT_RDWR)
            h.close_connection = True
            return
        body = h.rfile.read(size)
        headers, status = {}, step
        if isinstance(step, tuple) and step[0] == "slow":
            time.sleep(step[1])
            status = step[2]
        elif isinstance(step, tuple):
            status, headers = step
        with self.lock:
            self.seen.append((status, h.path, dict(h.headers), body, time.monotonic()))
        text = b"" if status == 200 else b"because the test says so"
        try:
            h.send_response(status)
            for k, v in headers.items():
                h.send_header(k, v)
            h.send_header("Content-Length", str(len(text)))
            h.end_headers()
            h.wfile.write(text)
        except OSError:
            pass

    def bodies(self, status=200):
        return [s for s in self.seen if s[0] == status]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Proxy:
    """Forwards connections to a port, except those that `plan` cuts: ("up", n) after n bytes to the
    server, "reply" after the server's answer, which the client does not get; None = forward."""

    def __init__(self, port, plan):
        self.to, self.plan, self.n, self.cuts = port, plan, 0, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(client,), daemon=True).start()

    def one(self, client):
        server = socket.create_connection(("127.0.0.1", self.to))
        try:
            while self.request(client, server):
                pass
        except OSError:
            pass
        for s in (client, server):
            s.close()

    def request(self, client, server):
        head = b""
        while b"\r\n\r\n" not in head:
            more = client.recv(65536)
            if not more:
                return False
            head += more
        head, rest = head.split(b"\r\n\r\n", 1)
        size = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0)
        how = self.plan(head.decode()) if callable(self.plan) else None
        while len(rest) < size:
            rest += client.recv(1 << 20)
        if isinstance(how, tuple):
            self.cuts += 1
            server.sendall(head + b"\r\n\r\n" + rest[:how[1]])
            return False
        server.sendall(head + b"\r\n\r\n" + rest)
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = server.recv(65536)
            if not more:
                return False
            answer += more
        if how == "reply":
            self.cuts += 1
            return False
        client.sendall(answer)
        ahead, body = answer.split(b"\r\n\r\n", 1)
        length = next((int(x.split(b":")[1]) for x in ahead.split(b"\r\n") if x.lower().startswith(b"content-length")), None)
        chunked = b"chunked" in ahead.lower()
        while (length is not None and len(body) < length) or (chunked and not body.endswith(b"0\r\n\r\n")):
            more = server.recv(1 << 16)
            if not more:
                return False
            client.sendall(more)
            body = body[-16:] + more if chunked else body + more
        return length is not None or chunked

    def close(self):
        self.socket.close()
