import sqlite3
import tempfile
from pathlib import Path

from checks import check, end, run, same

work = Path(tempfile.mkdtemp())
count = 0
V1 = """PRAGMA user_version = 1;
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, placed TEXT, items TEXT, total TEXT);
CREATE VIEW sales AS SELECT substr(placed, 7, 4) AS year, count(*) AS orders FROM orders GROUP BY 1 ORDER BY 1;"""


def database(rows, more=""):
    global count
    count += 1
    path = work / f"{count}.db"
    with sqlite3.connect(path) as db:
        db.executescript(V1)
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)
        db.executescript(more)
    return path


def migrate(path, code=0):
    script = Path("/app/migrate.sql").read_bytes()
    return run("sqlite3", "-bail", str(path), input=script, code=code)


def rows(path, query):
    return sqlite3.connect(path).execute(query).fetchall()


def migrated(*orders):
    path = database(orders)
    migrate(path)
    return path


def dump(path):
    return list(sqlite3.connect(path).iterdump()), rows(path, "PRAGMA user_version")


def order(id=1, customer="A B <a@b>", placed="01/02/2003", items="x:1", total="1.00"):
    return (id, customer, placed, items, total)


def columns(path, table):
    return [(name, kind.upper()) for _, name, kind, *_ in rows(path, f"PRAGMA table_info({table})")]


@check("an empty database gets the tables and the version", must=True)
def _():
    path = migrated()
    same(rows(path, "PRAGMA user_version"), [(2,)], "the version")
    same([r[0] for r in rows(path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1")],
         ["customers", "items", "orders", "rejects"], "the list of tables")
    same(columns(path, "customers"), [("id", "INTEGER"), ("name", "TEXT"), ("email", "TEXT")], "customers")
    same(columns(path, "orders"), [("id", "INTEGER"), ("customer_id", "INTEGER"), ("placed", "TEXT"), ("total_cents", "INTEGER")], "orders")
    same(columns(path, "items"), [("order_id", "INTEGER"), ("line", "INTEGER"), ("sku", "TEXT"), ("quantity", "INTEGER")], "items")
    same(columns(path, "rejects"), [(n, "INTEGER" if n == "id" else "TEXT") for n in ("id", "customer", "placed", "items", "total", "reason")], "rejects")


@check("a plain order", must=True)
def _():
    path = migrated(order(7, "Ada Okafor <ada@shop>", "09/11/2021", "tea:2,scone:10", "1,234.50"))
    same(rows(path, "SELECT * FROM customers"), [(1, "Ada Okafor", "ada@shop")], "customers")
    same(rows(path, "SELECT * FROM orders"), [(7, 1, "2021-11-09", 123450)], "orders")
    same(rows(path, "SELECT * FROM items ORDER BY line"), [(7, 1, "tea", 2), (7, 2, "scone", 10)], "items")
    same(rows(path, "SELECT * FROM rejects"), [], "rejects")


@check("customers are told apart by address, in any case, and named by their last order")
def _():
    path = migrated(order(30, " Zed  Q <Z@x.y>"), order(5, "Late <l@x>"), order(9, "zed <z@X.Y>"), order(31, "Al>pha <q@x>"),
                    order(40, "Ärger <Ä@x>"), order(2, "nobody"))
    same(rows(path, "SELECT * FROM customers ORDER BY id"), [(1, "Late", "l@x"), (2, "Zed  Q", "z@x.y"), (3, "Ärger", "Ä@x")], "customers")
    same(rows(path, "SELECT id, customer_id FROM orders ORDER BY id"), [(5, 1), (9, 2), (30, 2), (40, 3)], "orders")


@check("items: blanks, none, many")
def _():
    path = migrated(order(1, items="  a b : 3 ,c:04"), order(2, items=""), order(3, items="   "), order(4, items=None),
                    order(5, items=",".join(f"s{n}:{n}" for n in range(1, 301))))
    same(rows(path, "SELECT * FROM items WHERE order_id < 5 ORDER BY 1, 2"), [(1, 1, "a b", 3), (1, 2, "c", 4)], "items")
    same(rows(path, "SELECT count(*), sum(quantity), max(line), typeof(quantity) FROM items WHERE order_id = 5"), [(300, 45150, 300, "integer")], "many")
    same(rows(path, "SELECT count(*) FROM orders"), [(5,)], "the number of orders")


def rejected(reason, **texts):
    for (key, values) in texts.items():
        bad = [order(n, **{key: text}) for n, text in enumerate(values, 1)]
        path = migrated(*bad)
        same(rows(path, "SELECT * FROM rejects ORDER BY id"), [row + (reason,) for row in bad], "rejects")
        same(rows(path, "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM items), (SELECT count(*) FROM customers)"),
             [(0, 0, 0)], "the number of orders, items and customers")


@check("customers that are rejected")
def _():
    rejected("customer", customer=[None, "", "Bo", "Bo <>", "Bo <bo>", "Bo <b@>", "Bo <@b>", "Bo <a@b@c>", "<a@b>", "  <a@b>", "Bo <a@b> ",
                                   "Bo <a b@c>", "Bo <<a@b>", "Bo <a@b>>", "Bo a@b>", "Bo <a@b", "Bo <x> <a@b>"])


@check("dates that are rejected")
def _():
    rejected("placed", placed=[None, "", "30/02/2024", "29/02/2023", "31/04/2020", "00/01/2020", "01/13/2020", "1/02/2020", "01-02-2020",
                               "01/02/20", "01/02/2020 ", "01/02/1899", "01/02/2100", "2020/01/02", "aa/bb/cccc"])


@check("dates that are not")
def _():
    path = migrated(order(1, placed="29/02/2024"), order(2, placed="31/12/2099"), order(3, placed="01/01/1900"), order(4, placed="29/02/2000"))
    same(rows(path, "SELECT placed FROM orders ORDER BY id"), [("2024-02-29",), ("2099-12-31",), ("1900-01-01",), ("2000-02-29",)], "placed")


@check("items that are rejected")
def _():
    rejected("items", items=["a", "a:", ":1", "a:1,", ",a:1", "a:1,,b:2", "a:0", "a:00", "a:-1", "a:1.5", "a:1:2", "a:x", "a:1 2", ",", ":", "a:+1", " :1"])


@check("totals that are rejected, and some that are not")
def _():
    rejected("total", total=[None, "", "1", "1.0", ".50", "1.000", "-1.00", "1.5x", "x1.50", "1.00 ", " 1.00", ",.00", "1.0,0", "1..00", "€1.00"])
    path = migrated(order(1, total="0.05"), order(2, total="1,2,3.99"), order(3, total="12,345,678,901.00"), order(4, total="007.00"), order(5, total=",1.00"))
    same(rows(path, "SELECT total_cents FROM orders ORDER BY id"), [(5,), (12399,), (1234567890100,), (700,), (100,)], "cents")


@check("the first reason counts")
def _():
    path = migrated(order(1, "x", "x", "x", "x"), order(2, placed="x", items="x", total="x"), order(3, items="x", total="x"))
    same(rows(path, "SELECT id, reason FROM rejects ORDER BY id"), [(1, "customer"), (2, "placed"), (3, "items")], "reasons")


@check("the view goes on")
def _():
    path = migrated(order(1), order(2), order(3, placed="01/01/1999"), order(4, placed="31/02/1999"))
    same(rows(path, "SELECT * FROM sales"), [("1999", 1), ("2003", 2)], "sales")


@check("keys and checks are the database's")
def _():
    path = migrated(order(1), order(2, "C <c@d>"))
    db = sqlite3.connect(path)
    db.execute("PRAGMA foreign_keys = ON")
    for wrong in ("INSERT INTO orders VALUES (8, 99, '2020-01-01', 1)", "INSERT INTO items VALUES (99, 1, 'x', 1)",
                  "INSERT INTO items VALUES (1, 2, 'x', 0)", "INSERT INTO items VALUES (1, 1, 'x', 1)", "INSERT INTO customers VALUES (9, 'x', 'a@b')",
                  "INSERT INTO customers VALUES (9, NULL, 'n@n')", "UPDATE orders SET placed = NULL", "DELETE FROM customers WHERE id = 1"):
        try:
            db.execute(wrong)
        except sqlite3.IntegrityError:
            continue
        raise AssertionError(f"the database accepts {wrong}")
    db.execute("DELETE FROM orders WHERE id = 1")
    same(db.execute("SELECT order_id FROM items").fetchall(), [(2,)], "items after their order was deleted")
    same(db.execute("PRAGMA foreign_key_check").fetchall(), [], "broken keys")


@check("a database of version 2 or 3 is left alone")
def _():
    path = migrated(order(1), order(2, customer="x"))
    before = dump(path)
    migrate(path, code=None)
    same(dump(path), before, "version 2 after another run")
    path = database([order(1)], "PRAGMA user_version = 3;")
    before = dump(path)
    migrate(path, code=None)
    same(dump(path), before, "version 3")


@check("what fails in the middle changes nothing")
def _():
    path = database([order(1)], "CREATE TABLE items (somebody TEXT); INSERT INTO items VALUES ('else');")
    before = dump(path)
    if migrate(path, code=None).returncode == 0:
        raise AssertionError("a table items was there, and was run over")
    same(dump(path), before, "the database")


@check("shop.db is as it was, and migrates")
def _():
    copy = work / "shop.db"
    copy.write_bytes(Path("/app/shop.db").read_bytes())
    same(rows(copy, "PRAGMA user_version"), [(1,)], "its version")
    migrate(copy)
    same(rows(copy, "SELECT id, customer_id, placed, total_cents FROM orders ORDER BY id"),
         [(1, 1, "2023-01-03", 975), (2, 1, "2023-02-17", 280), (4, 2, "2024-02-29", 121330), (9, 3, "2024-12-11", 0)], "orders")
    same(rows(copy, "SELECT id, reason FROM rejects"), [(5, "customer")], "rejects")


end(partial=True)
