#!/bin/bash
set -euo pipefail
mkdir -p /srv/tally
install -m 755 /oracle/start /oracle/serve /srv/tally/
/srv/tally/start
