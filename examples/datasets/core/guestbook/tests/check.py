import http.client
import json
import os
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote, urlencode

from checks import check, end, same

work = Path(tempfile.mkdtemp())
book = work / "book.db"
PORT = 8097
server = subprocess.Popen(["php", "-d", "display_errors=1", "-S", f"127.0.0.1:{PORT}", "/app/index.php"], cwd="/app", stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "GUESTBOOK": str(book)})


def ask(path, **form):
    c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
    if form:
        body = urlencode(form, errors="surrogateescape", doseq=True)
        c.request("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded"})
    else:
        c.request("GET", path)
    answer = c.getresponse()
    text = answer.read().decode("utf-8", "replace")
    if "Warning" in text or "Fatal error" in text or "Deprecated" in text or "SQLSTATE" in text:
        raise AssertionError(f"{path} prints a warning or error: {text[:300]}")
    return answer.status, text, answer


def entries(*rows):
    """The book has these entries, and nothing else: (name, message) or (name, message, hidden)."""
    with sqlite3.connect(book) as db:
        db.execute("DELETE FROM entries")
        db.execute("DELETE FROM settings")
        db.execute("INSERT INTO settings VALUES ('password', 'hunter2')")
        db.executemany("INSERT INTO entries (name, message, hidden) VALUES (?, ?, ?)", [(*r, 0)[:3] for r in rows])


def stored():
    return sqlite3.connect(book).execute("SELECT name, message FROM entries ORDER BY id").fetchall()


def shown(path, *wanted, status=200):
    """The articles of a page: (name, message) in HTML."""
    got = ask(path)
    same(got[0], status, f"the status of {path}")
    parts = [a.split("</article>")[0] for a in got[1].split("<article ")[1:]]
    same([tuple(p.split("<h2>")[1].removesuffix("</p>").split("</h2><p>")) for p in parts], list(wanted), f"what {path} shows")


deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    try:
        ask("/")
        break
    except OSError:
        time.sleep(0.05)
    except AssertionError:
        break
NASTY = ["it's", "a\\'b", "x'); DROP TABLE entries; --", '"', "100%_", "[a](b)", "ünï 😀", "${x} {$y}", "<?php echo 1 ?>", "a\r\nb", "%s %d", "<!--", "&amp;"]


@check("entries are kept as they were written")
def _():
    entries()
    for text in NASTY:
        got = ask("/", name=text, message=text + "!")
        same((got[0], got[2].headers["Location"]), (303, "/"), f"what comes of {text!r}")
    same(stored(), [(t, t + "!") for t in NASTY], "what is in the book")


@check("entries that are refused")
def _():
    entries()
    for form in ({"name": "x"}, {"message": "x"}, {"name": " ", "message": "x"}, {"name": "x", "message": "\n"}, {"name": "x" * 2001, "message": "x"},
                 {"name[]": "x", "message": "x"}, {"name": "x", "message[a]": "x"}):
        same(ask("/", **form)[0], 400, f"the status of {str(form)[:50]}")
    same(stored(), [], "what is in the book")
    same(ask("/", name="x" * 2000, message="0")[0], 303, "the status of a long name")
    same(len(stored()), 1, "how many are in the book")


@check("redirects stay here")
def _():
    entries()
    for to, wanted in {"/search?q=a&b=c": "/search?q=a&b=c", "/entry?id=1": "/entry?id=1", "//evil.test": "/", "http://evil.test": "/", "/\\evil.test": "/", "/a\r\nX-Y: z": "/", "x": "/", "": "/",
                       "/a%0d": "/", "/" + "a" * 200: "/", "/a\n": "/", "/a:b": "/", "/a//b": "/a//b"}.items():
        got = ask("/", name="n", message="m", next=to)
        same((got[0], got[2].headers["Location"], got[2].headers["X-Y"]), (303, wanted, None), f"what comes of next={to!r}")


@check("what guests wrote is text")
def _():
    entries(("<b>Bo</b>", "<script>alert('1')</script>"), ('"q"', "a & b &lt;"), ("\"><img src=x onerror=alert(1)>", "[<b>](x)"))
    wanted = [("&lt;b&gt;Bo&lt;/b&gt;", "&lt;script&gt;alert(&#039;1&#039;)&lt;/script&gt;"), ("&quot;q&quot;", "a &amp; b &amp;lt;"),
              ("&quot;&gt;&lt;img src=x onerror=alert(1)&gt;", "[&lt;b&gt;](x)")]
    shown("/", *wanted)
    shown("/search?q=%26", wanted[1])


@check("links, and what only looks like one")
def _():
    cases = {"see [this](https://a.test/?x=1&y=2)!": 'see <a href="https://a.test/?x=1&amp;y=2">this</a>!', "[a](http://b)[c](http://d)": '<a href="http://b">a</a><a href="http://d">c</a>',
             "[x](javascript:alert(1))": "[x](javascript:alert(1))", "[x](JavaScript:alert`1`)": "[x](JavaScript:alert`1`)", "[x]( https://a)": "[x]( https://a)", "[x](data:text/html,y)": "[x](data:text/html,y)",
             '[x](https://a" onclick="y)': '<a href="https://a&quot; onclick=&quot;y">x</a>', "[<i>](https://a)": '<a href="https://a">&lt;i&gt;</a>', "[x](httpsx)": "[x](httpsx)",
             "[\"]](https://a)": "[&quot;]](https://a)", "[&#93;](https://a)": '<a href="https://a">&amp;#93;</a>', "a[](https://a)": "a[](https://a)", "[x](//a)": "[x](//a)",
             "[a [b](https://c)": '<a href="https://c">a [b</a>', "[x](https://a&#41;b)": '<a href="https://a&amp;#41;b">x</a>', "[x](/https://a)": "[x](/https://a)"}
    entries(*[("n", m) for m in cases])
    shown("/", *[("n", h) for h in cases.values()])


@check("the order")
def _():
    entries(("b", "2"), ("a", "3"), ("c", "1"), ("a", "0"), ("h", "h", 1))
    orders = {"": "2301", "?order=id": "2310", "?order=name": "3021", "?order=name%20desc": "1230", "?order=message": "0123", "?order=message+desc": "3210", "?order=id%20desc": "0132"}
    orders[""] = orders["?order=id"]
    for order, wanted in orders.items():
        same("".join(a[0] for a in ask("/" + order)[1].split("<p>")[1:]), wanted, f"the messages of /{order}")
    for order in ("hidden", "id;", "1", "id,name", "(CASE WHEN (SELECT value FROM settings) LIKE 'h%' THEN id ELSE -id END)", "ID", "id asc", "name desc ", "id\n", "", "name desc desc"):
        same(ask("/?order=" + quote(order))[0], 400, f"the status of order={order}")


@check("searching")
def _():
    entries(("a", "Hello 100%"), ("b", "under_score"), ("c", "it's"), ("d", "hello again"), ("e", "hello hidden", 1), ("f", "back\\slash"))
    shown("/search?q=hELLO", ("a", "Hello 100%"), ("d", "hello again"))
    shown("/search?q=%25", ("a", "Hello 100%"))
    shown("/search?q=_", ("b", "under_score"))
    shown("/search?q='", ("c", "it&#039;s"))
    shown("/search?q=%5C", ("f", "back\\slash"))
    for q in ("", "?q=", "?q[]=hello", "?q=" + quote("x%' OR 1=1 --"), "?q=" + quote("' UNION SELECT 1, name, value, 0 FROM settings --")):
        shown("/search" + q)
    same("<h1>&lt;i&gt;&quot;&#039;</h1>" in ask("/search?q=" + quote("<i>\"'"))[1], True, "that what was asked for is shown as text")


@check("one entry")
def _():
    entries(("Bö", "<b>\"'"), ("h", "h", 1))
    status, text, answer = ask("/entry?id=1")
    same((status, json.loads(text), answer.headers["Content-Type"]), (200, {"name": "Bö", "message": "<b>\"'"}, "application/json"), "the entry")
    for number in ("2", "3", "", "x", "1x", "-1", "1 OR 1=1", "0 UNION SELECT 1, name, value, 0 FROM settings", "1;", "99999999999999999999", "1.0", " 1"):
        same(ask("/entry?id=" + quote(number))[0], 404, f"the status of id={number}")
    same(ask("/entry")[0], 404, "the status without id")
    same(ask("/entry?id[]=1")[0], 404, "the status of a list")


@check("pages")
def _():
    Path("/app/pages/fresh-1.html").write_text("<p>fresh <?= 6 * 7 ?></p>")
    Path("/app/secret.html").write_text("secret")
    same(ask("/page?name=fresh-1")[:2], (200, "<p>fresh <?= 6 * 7 ?></p>"), "the page")
    same(ask("/page?name=about")[0], 200, "the status of about")
    for name in ("../secret", "..%2fsecret", "nothing", "", "../index.php%00", "about.html", "/etc/passwd", "fresh-1%0a", "php://filter/resource=about", "./about"):
        same(ask("/page?name=" + name)[0], 404, f"the status of {name}")
    same(ask("/page?name[]=about")[0], 404, "the status of a list")
    same(ask("/page")[0], 404, "the status without name")
    same(ask("/other")[0], 404, "the status of another path")


server.kill()
end()
