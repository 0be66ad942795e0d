"""Follows the intruder from the web server, by what was run, to the logins and what came of them."""
import json
import re
import shlex
from ast import literal_eval
from collections import Counter
from datetime import datetime, timezone

OUR_USUAL = {"ines", "tomas", "yuki", "deploy"}
iso = "%Y-%m-%dT%H:%M:%SZ"
auth = open("/evidence/auth.log").read().splitlines()
web = [re.match(r'(\S+) - - \[(.*?)\] "(\S+) (\S+) \S+" (\d+)', line).groups() for line in open("/evidence/access.log")]
commands = []
for line in open("/evidence/commands.log"):
    time, user, _, text = re.match(r"time=(\d+) user=(\S+) pid=(\d+) cmd=(.*)", line).groups()
    commands.append((int(time), user, literal_eval(text)))


def web_time(text):
    return datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z").astimezone(timezone.utc)


# Commands of the web server are no commands of people: which requests came at their times?
odd = [(t, c) for t, user, c in commands if user == "www-data"]
calls = [r for r in web if int(web_time(r[1]).timestamp()) == odd[0][0] and "c=" in r[3]]
ip, _, _, path, _ = calls[0]
name = path.split("?")[0].rsplit("/", 1)[1]
upload = [r for r in web if r[0] == ip and r[2] == "POST" and name in r[3] and r[4] == "200"][0]
exposed = re.search(r"cat ([^' ]+)", " ".join(c for _, c in odd)).group(1)

# Logins from addresses that an account has only once, followed by somebody who hides traces.
logins = [(datetime.strptime("2024 " + line[:15], "%Y %b %d %H:%M:%S"), *m.groups()) for line in auth
          if (m := re.search(r"Accepted (\S+) for (\S+) from (\S+)", line))]
hider = next(user for _, user, c in commands if c == "history -c")
usual = Counter(where for _, _, user, where in logins if user == hider).most_common(1)[0][0]
login = next(entry for entry in logins if entry[2] == hider and entry[3] != usual)
evil = [c for t, user, c in commands if user == hider and t >= login[0].replace(tzinfo=timezone.utc).timestamp()
        and t < login[0].replace(tzinfo=timezone.utc).timestamp() + 3600]
archive = next(shlex.split(c) for c in evil if " tar " in c)
sent = next(m.group(1) for c in evil if (m := re.search(r"curl .*-T .* http://([^/]+)", c)))

failed = Counter(m.group(1) for line in auth if (m := re.search(r"Failed password for .* from (\S+) port", line)))
report = {
    "entry_ip": ip,
    "entry_time": web_time(upload[1]).strftime(iso),
    "entry_path": path.split("?")[0],
    "exposed_file": exposed,
    "account": hider,
    "account_ip": login[3],
    "account_time": login[0].strftime(iso),
    "persistence": sorted(m.group(1) for c in evil if (m := re.search(r"sudo tee (?:-a )?(\S+)", c))),
    "stolen_file": archive[-1],
    "stolen_to": sent,
    "root_logins": sum(user == "root" and where == login[3] for _, _, user, where in logins),
    "failed_guesses": {a: n for a, n in sorted(failed.items()) if n >= 100},
}
json.dump(report, open("/evidence/report.json", "w"), indent=2)
print(json.dumps(report, indent=2))
