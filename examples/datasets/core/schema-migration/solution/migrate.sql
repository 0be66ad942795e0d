-- All or nothing. CHECK constraints on a table that goes away again stop the script for any other version (with -bail).
PRAGMA foreign_keys = OFF;
BEGIN IMMEDIATE;
CREATE TEMP TABLE only_version_1 (version INTEGER CHECK (version = 1));
INSERT INTO only_version_1 SELECT user_version FROM pragma_user_version;

DROP VIEW sales;
ALTER TABLE orders RENAME TO old;

-- The pieces. instr is 1 for the first character, and 0 for none.
CREATE TEMP TABLE parsed AS
  SELECT id, trim(substr(customer, 1, instr(customer, '<') - 1)) AS name,
    lower(substr(customer, instr(customer, '<') + 1, length(customer) - instr(customer, '<') - 1)) AS email,
    customer LIKE '%<%>' AND length(customer) - length(replace(replace(customer, '<', ''), '>', '')) = 2 AS angles,
    substr(placed, 7, 4) || '-' || substr(placed, 4, 2) || '-' || substr(placed, 1, 2) AS day,
    replace(substr(total, 1, length(total) - 3), ',', '') AS whole, substr(total, -2) AS cents
  FROM old;

-- Items one by one: what is left is eaten from the left.
CREATE TEMP TABLE pieces AS
  WITH RECURSIVE piece (id, line, text, rest) AS (
    SELECT id, 0, NULL, items || ',' FROM old WHERE trim(coalesce(items, '')) <> ''
    UNION ALL
    SELECT id, line + 1, trim(substr(rest, 1, instr(rest, ',') - 1)), substr(rest, instr(rest, ',') + 1)
    FROM piece WHERE rest <> '')
  SELECT id, line, trim(substr(text, 1, instr(text, ':') - 1)) AS sku,
    trim(substr(text, instr(text, ':') + 1)) AS quantity,
    length(text) - length(replace(text, ':', '')) AS colons
  FROM piece WHERE line > 0;

CREATE TEMP TABLE reasons AS
  SELECT old.id, CASE
    WHEN NOT coalesce(angles AND name <> '' AND email GLOB '?*@?*' AND length(email) - length(replace(email, '@', '')) = 1 AND email NOT GLOB '* *', 0) THEN 'customer'
    WHEN NOT coalesce(placed GLOB '[0-9][0-9]/[0-9][0-9]/[0-9][0-9][0-9][0-9]' AND day BETWEEN '1900' AND '2099-12-31'
      AND date(day, '+0 days') IS day, 0) THEN 'placed' -- 30 February becomes March
    WHEN EXISTS (SELECT 1 FROM pieces p WHERE p.id = old.id AND (colons <> 1 OR sku = '' OR quantity = ''
      OR quantity GLOB '*[^0-9]*' OR CAST(quantity AS INTEGER) = 0)) THEN 'items'
    WHEN NOT coalesce(total GLOB '*.[0-9][0-9]' AND whole <> '' AND whole NOT GLOB '*[^0-9]*', 0) THEN 'total'
    END AS reason
  FROM old JOIN parsed USING (id);

CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  placed TEXT NOT NULL,
  total_cents INTEGER NOT NULL
);
CREATE TABLE items (
  order_id INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  line INTEGER NOT NULL,
  sku TEXT NOT NULL,
  quantity INTEGER NOT NULL CHECK (quantity >= 1),
  PRIMARY KEY (order_id, line)
);
CREATE TABLE rejects (id INTEGER PRIMARY KEY, customer TEXT, placed TEXT, items TEXT, total TEXT, reason TEXT NOT NULL);

INSERT INTO customers
  SELECT row_number() OVER (ORDER BY first), (SELECT name FROM parsed WHERE id = last), email
  FROM (SELECT email, min(id) AS first, max(id) AS last
    FROM parsed JOIN reasons USING (id) WHERE reason IS NULL GROUP BY email);
INSERT INTO orders
  SELECT parsed.id, customers.id, day, CAST(whole || cents AS INTEGER)
  FROM parsed JOIN reasons USING (id) JOIN customers USING (email) WHERE reason IS NULL;
INSERT INTO items
  SELECT id, line, sku, CAST(quantity AS INTEGER) FROM pieces JOIN reasons USING (id) WHERE reason IS NULL;
INSERT INTO rejects
  SELECT id, customer, placed, items, total, reason FROM old JOIN reasons USING (id) WHERE reason IS NOT NULL;

DROP TABLE old;
CREATE VIEW sales AS
  SELECT substr(placed, 1, 4) AS year, count(*) AS orders FROM orders GROUP BY 1 ORDER BY 1;
PRAGMA user_version = 2;
COMMIT;
