-- The shop's database, version 1, with some of what people wrote into it.
PRAGMA user_version = 1;
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer TEXT, -- Name <address>
  placed TEXT,   -- DD/MM/YYYY
  items TEXT,    -- sku:quantity,sku:quantity
  total TEXT     -- 1,234.50
);
CREATE VIEW sales AS
  SELECT substr(placed, 7, 4) AS year, count(*) AS orders FROM orders GROUP BY 1 ORDER BY 1;
INSERT INTO orders VALUES
  (1, 'Ada Okafor <ada@shop.invalid>', '03/01/2023', 'tea:2,scone:1', '9.75'),
  (2, 'ada okafor <ADA@shop.invalid>', '17/02/2023', 'tea:1', '2.80'),
  (4, 'Bo Lind <bo@shop.invalid>', '29/02/2024', ' coffee:3 , tea:1 ', '1,213.30'),
  (5, 'Bo Lind', '30/02/2024', 'tea:1', '2.80'),
  (9, 'Cy <cy@shop.invalid>', '11/12/2024', '', '0.00');
