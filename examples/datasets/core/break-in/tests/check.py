import json
from pathlib import Path

from checks import check, end, same

WANTED = {
    "entry_ip": "91.198.174.77",
    "entry_time": "2024-03-09T21:17:02Z",
    "entry_path": "/uploads/a.php",
    "exposed_file": "/srv/shop/config.ini",
    "account": "yuki",
    "account_ip": "146.70.12.9",
    "account_time": "2024-03-09T22:40:31Z",
    "persistence": ["/etc/cron.d/sysstat-collect", "/root/.ssh/authorized_keys"],
    "stolen_file": "/srv/shop/customers.db",
    "stolen_to": "146.70.12.9:8443",
    "root_logins": 1,
    "failed_guesses": {"185.220.101.4": 196},
}


def report():
    with open("/evidence/report.json") as file:
        return json.loads(file.read(100_000))


for key, value in WANTED.items():
    @check(key)
    def _():
        got = report()
        same(set(got) <= set(WANTED), True, "that there are no other keys")
        # Not what was wanted is shown: who reads the log of a wrong answer learns nothing.
        same(type(got[key]) is type(value) and got[key] == value, True, "that it is right")


end(partial=True)
