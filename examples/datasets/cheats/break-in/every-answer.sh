# at most: 0
# Lists of all candidates: one of them will be right.
python3 - <<'END'
import json, re
text = open("/evidence/auth.log").read() + open("/evidence/access.log").read() + open("/evidence/commands.log").read()
ips = sorted(set(re.findall(r"\d+\.\d+\.\d+\.\d+", text)))
files = sorted(set(re.findall(r"/[\w./-]+", text)))
json.dump({k: ips + files for k in ["entry_ip", "entry_time", "entry_path", "exposed_file", "account", "account_ip", "account_time",
  "persistence", "stolen_file", "stolen_to", "root_logins", "failed_guesses"]}, open("/evidence/report.json", "w"))
END
