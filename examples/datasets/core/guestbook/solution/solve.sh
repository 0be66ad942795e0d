#!/bin/bash
# Parameters for the database, escapes for the page, lists of what is allowed for everything else.
set -euo pipefail
cp /oracle/index.php /app/index.php
php -l /app/index.php
