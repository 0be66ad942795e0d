# at most: 0.4
# Migrates what is well-formed, and trusts that everything is.
cat > /app/migrate.sql <<'END'
ALTER TABLE orders RENAME TO old;
DROP VIEW sales;
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id), placed TEXT NOT NULL, total_cents INTEGER NOT NULL);
CREATE TABLE items (order_id INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE, line INTEGER NOT NULL, sku TEXT NOT NULL,
  quantity INTEGER NOT NULL CHECK (quantity > 0), PRIMARY KEY (order_id, line));
CREATE TABLE rejects (id INTEGER PRIMARY KEY, customer TEXT, placed TEXT, items TEXT, total TEXT, reason TEXT NOT NULL);
CREATE VIEW sales AS SELECT substr(placed, 1, 4) AS year, count(*) AS orders FROM orders GROUP BY 1 ORDER BY 1;
CREATE TEMP TABLE p AS SELECT id, trim(substr(customer, 1, instr(customer, '<') - 1)) AS name,
  lower(replace(substr(customer, instr(customer, '<') + 1), '>', '')) AS email FROM old WHERE customer LIKE '%<%@%>';
INSERT INTO customers (name, email) SELECT name, email FROM p GROUP BY email HAVING id = max(id) ORDER BY min(id);
INSERT INTO orders SELECT old.id, customers.id, substr(placed, 7, 4) || '-' || substr(placed, 4, 2) || '-' || substr(placed, 1, 2),
  CAST(replace(replace(total, ',', ''), '.', '') AS INTEGER) FROM old JOIN p USING (id) JOIN customers USING (email) WHERE total LIKE '%.__';
INSERT INTO items WITH RECURSIVE piece (id, line, text, rest) AS (
    SELECT id, 0, NULL, items || ',' FROM old WHERE items <> ''
    UNION ALL SELECT id, line + 1, trim(substr(rest, 1, instr(rest, ',') - 1)), substr(rest, instr(rest, ',') + 1) FROM piece WHERE rest <> '')
  SELECT id, line, trim(substr(text, 1, instr(text, ':') - 1)), CAST(substr(text, instr(text, ':') + 1) AS INTEGER) FROM piece WHERE line > 0;
INSERT INTO rejects SELECT id, customer, placed, items, total, 'customer' FROM old WHERE id NOT IN (SELECT id FROM orders);
DROP TABLE old;
PRAGMA user_version = 2;
END
