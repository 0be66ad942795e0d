import http.client
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from checks import check, end, run, same

SHOP = Path("/srv/shop")


class Application(BaseHTTPRequestHandler):
    """Says what it was asked."""
    def answer(self):
        size = len(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        text = f"{self.command} {self.path} {self.headers['Host']} {self.headers['X-Forwarded-For']} {size}"
        self.send_response(404 if "missing" in self.path else 200)
        self.send_header("X-Frame-Options", "SAMEORIGIN")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


def processes(name):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found += [int(stat.parent.name)] if f"({name})" in stat.read_text() else []
        except OSError:
            pass
    return found


def ask(path, method="GET", headers=(), body=None, port=8080):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    c.putrequest(method, path, skip_host="Host" in dict(headers))
    for name, value in [*headers, ("Content-Length", str(len(body or b"")))]:
        c.putheader(name, value)
    try:
        c.endheaders(body)
    except ConnectionError:
        pass  # an answer may come before all was sent
    answer = c.getresponse()
    return answer.status, answer.read(), answer


def gets(path, status, text=None, **how):
    got = ask(path, **how)
    same(got[0], status, f"the status of {path}")
    if text is not None:
        same(got[1].decode(), text, f"what {path} says")
    return got[2]


def put(path, text):
    path = SHOP / path
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
    path.write_text(text)
    path.chmod(0o644)


for pid in processes("nginx"):
    os.kill(pid, signal.SIGKILL)
deadline = time.monotonic() + 30
while processes("nginx") and time.monotonic() < deadline:
    time.sleep(0.05)


@check("start starts it, and it serves the first page", must=True)
def _():
    same(processes("nginx"), [], "what is left of the nginx before")
    put("public/index.html", "<h1>Today</h1>")
    run("/srv/shop/start", timeout=30)
    gets("/", 200, "<h1>Today</h1>")


@check("files and their types")
def _():
    for name, kind in {"a.css": "text/css", "b.json": "application/json", "c/d e.svg": "image/svg+xml", "x.js": "application/javascript", "c/index.html": "text/html"}.items():
        put("public/" + name, name)
        same(gets("/" + name.replace(" ", "%20"), 200, name).headers["Content-Type"].split(";")[0], kind, f"the type of {name}")
    gets("/c/", 200, "c/index.html")


@check("what does not exist")
def _():
    put("public/404.html", "nothing of the kind")
    for path in ("/nothing", "/c/nothing.css", "/files/nothing", "/filesX", "/filesprices.txt", "/apix"):
        gets(path, 404, "nothing of the kind")


@check("there is no way out of the folders")
def _():
    put("secret.txt", "secret")
    for path in ("/files../secret.txt", "/files/../secret.txt", "/files/..%2fsecret.txt", "/../secret.txt", "/files..%2fsecret.txt", "/files//../../secret.txt"):
        status, text, _ = ask(path)
        same((status in (400, 404), b"secret" in text), (True, False), f"that {path} is refused, and tells the secret")


@check("downloads")
def _():
    put("downloads/deep/new.txt", "new")
    answer = gets("/files/deep/new.txt", 200, "new")
    same(answer.headers.get_all("Content-Disposition"), ["attachment"], "Content-Disposition")
    same(gets("/", 200).headers.get_all("Content-Disposition"), None, "Content-Disposition elsewhere")


@check("names with a dot")
def _():
    for name in ("public/.env", "public/.git/config", "public/c/.hidden.css", "downloads/.env", "downloads/deep/.x/y", "public/c/.well-known/x"):
        put(name, "secret")
        gets("/" + name.replace("public/", "").replace("downloads/", "files/"), 404)
    put("public/.well-known/acme/token", "token")
    gets("/.well-known/acme/token", 200, "token")
    put("public/a..b.txt", "two dots")
    gets("/a..b.txt", 200, "two dots")


@check("the application does not answer")
def _():
    same(gets("/api/x", 502).headers.get_all("X-Frame-Options"), ["DENY"], "X-Frame-Options")


application = ThreadingHTTPServer(("127.0.0.1", 9000), Application)
threading.Thread(target=application.serve_forever, daemon=True).start()


@check("the application gets paths as they were written, and Host")
def _():
    gets("/api/", 200, "GET / 127.0.0.1:8080 127.0.0.1 0")
    gets("/api/a/b?c=d&e=%20", 200, "GET /a/b?c=d&e=%20 127.0.0.1:8080 127.0.0.1 0")
    gets("/api/a%2Fb%20c/.x", 200, "GET /a%2Fb%20c/.x 127.0.0.1:8080 127.0.0.1 0")
    gets("/api/h", 200, "GET /h shop.test:81 127.0.0.1 0", headers=[("Host", "shop.test:81")])


@check("the application is told whom it is for")
def _():
    gets("/api/f", 200, "GET /f 127.0.0.1:8080 10.1.2.3, 127.0.0.1 0", headers=[("X-Forwarded-For", "10.1.2.3")])


@check("its answers come back as they are")
def _():
    gets("/api/missing", 404, "GET /missing 127.0.0.1:8080 127.0.0.1 0")


@check("large bodies")
def _():
    gets("/api/p", 200, f"POST /p 127.0.0.1:8080 127.0.0.1 {8 << 20}", method="POST", body=bytes(8 << 20))
    gets("/api/p", 413, method="POST", body=bytes((8 << 20) + 1))


@check("the header on every answer, once")
def _():
    for path in ("/", "/nothing", "/a.css", "/files/deep/new.txt", "/files/nothing", "/api/x", "/api/missing", "/.env", "/old/x"):
        same(ask(path)[2].headers.get_all("X-Frame-Options"), ["DENY"], f"X-Frame-Options of {path}")


@check("redirects")
def _():
    for path, to in {"/old/": "/new/", "/old/a/b?c=d": "/new/a/b?c=d"}.items():
        same(gets(path, 301).headers["Location"], to, "Location")


@check("workers are www-data's, and the version is not told")
def _():
    users = {Path(f"/proc/{pid}").stat().st_uid for pid in processes("nginx")}
    same(users, {0, 33}, "the users of nginx's processes")
    same(gets("/", 200).headers["Server"], "nginx", "Server")


end(partial=True)
