import socket
import ssl
import tempfile
import threading
from pathlib import Path

from checks import check, end, run, same


def pile(script):
    """A folder with what the script leaves in it."""
    folder = Path(tempfile.mkdtemp()) / "pile"
    folder.mkdir()
    run("bash", "-c", ". /tests/pile.sh\n" + script, cwd=folder)
    return folder


def public(path):
    kind = ["x509", "-noout", "-pubkey"] if path.suffix == ".crt" else ["pkey", "-pubout"]
    return run("openssl", *kind, "-in", str(path)).stdout


def subjects(path):
    """The public keys of the certificates in a file, in order: names may be the same."""
    blocks = path.read_text().split("-----END CERTIFICATE-----")[:-1]
    return [run("openssl", "x509", "-noout", "-pubkey", input=(b + "-----END CERTIFICATE-----\n").encode()).stdout for b in blocks]


def bundles(script, host, chain, root):
    """The bundle for host has the certificates for these keys; a server with it is trusted by a client with its root."""
    folder = pile(script.replace("keep ", "mkdir ../kept; cp *.key ../kept; keep "))
    kept, out = folder.parent / "kept", folder.parent / "out"
    out.mkdir()
    run("/app/bundle", str(folder), host, str(out))
    same(sorted(p.name for p in out.iterdir()), ["fullchain.pem", "key.pem", "root.pem"], "the list of files")
    same(oct((out / "key.pem").stat().st_mode & 0o77), "0o0", "what others may do with key.pem")
    names = {public(p): p.stem for p in kept.glob("*.key")}
    same([names.get(k) for k in subjects(out / "fullchain.pem")], chain, "the chain")
    same([names.get(k) for k in subjects(out / "root.pem")], [root], "the root")
    handshake(out, host)


def handshake(out, host):
    """A client that trusts root.pem alone gets a greeting from a server with the rest."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(out / "fullchain.pem", out / "key.pem")
    client = ssl.create_default_context(cafile=out / "root.pem")
    client.hostname_checks_common_name = False
    here, there = socket.socketpair()
    here.settimeout(30)
    there.settimeout(30)

    def serve():
        try:
            with server.wrap_socket(there, server_side=True) as s:
                s.sendall(b"hello")
        except OSError:
            there.close()
    threading.Thread(target=serve, daemon=True).start()
    with client.wrap_socket(here, server_hostname=host) as s:
        same(s.recv(5), b"hello", "what the client got")


def refuses(script, host):
    folder = pile(script)
    out = folder.parent / "out"
    out.mkdir()
    run("/app/bundle", str(folder), host, str(out), code=1)
    same(list(out.iterdir()), [], "the list of files")


BASE = """issue root /CN=R - $now $later $ca
issue mid /CN=M root $now $later $ca
issue low /CN=L mid $now $later $ca
"""


@check("a plain pile", must=True)
def _():
    bundles(BASE + """issue www /CN=x low $now $later subjectAltName=DNS:www.test
        cat low.crt root.crt www.crt mid.crt > all; cat www.key > a; keep all a""", "www.test", ["www", "low", "mid"], "root")


@check("a root alone issued it; DER, folders, other text")
def _():
    bundles("""issue root /CN=R - $now $later $ca
        issue www /CN=x root $now $later subjectAltName=DNS:*.dev.test
        openssl x509 -in www.crt -outform DER -out 'x y'; mkdir -p a/b; { echo text; openssl x509 -in root.crt -text; echo more; cat www.key; } > a/b/c
        head -c 5000 /dev/urandom > noise; : > empty; mv 'x y' xy; keep xy a noise empty""", "api.dev.test", ["www"], "root")


@check("same names, different keys")
def _():
    bundles(BASE + """issue twin /CN=L mid $now $later $ca
        issue fake /CN=R - $now $later $ca
        issue www /CN=x twin $now $later subjectAltName=DNS:www.test
        cat low.crt fake.crt root.crt > 1; cat mid.crt twin.crt www.crt www.key > 2; keep 1 2""", "www.test", ["www", "twin", "mid"], "root")


@check("what has expired, or is not valid yet, is left out")
def _():
    bundles("""issue root /CN=R - $now $later $ca
        issue mid /CN=M root $now 20210101000000Z $ca; mv mid.crt old.crt
        issue mid /CN=M root 21100101000000Z $later $ca; mv mid.crt future.crt
        issue mid /CN=M root $now $later $ca
        issue www /CN=x mid $now 20210101000000Z subjectAltName=DNS:www.test; mv www.crt www-old.crt; mv www.key www-old.key
        issue www /CN=x mid $now 20900101000000Z subjectAltName=DNS:www.test
        issue soon /CN=x mid 21100101000000Z $later subjectAltName=DNS:www.test
        cat old.crt future.crt mid.crt > 1; cat soon.crt www-old.crt www.crt root.crt *.key > 2; keep 1 2""", "www.test", ["www", "mid"], "root")


@check("the certificate that is valid the longest, if its key and its chain are there")
def _():
    bundles(BASE + """issue a /CN=a low $now 20900101000000Z subjectAltName=DNS:www.test
        issue b /CN=b mid $now 21000101000000Z subjectAltName=DNS:www.test
        issue nokey /CN=c mid $now 21100101000000Z subjectAltName=DNS:www.test
        issue lost /CN=LOST root $now $later $ca
        issue nochain /CN=d lost $now 21100101000000Z subjectAltName=DNS:www.test
        issue other /CN=www.test mid $now 21100101000000Z subjectAltName=DNS:other.test
        issue nosan /CN=www.test mid $now 21100101000000Z
        cat a.key b.key nochain.key other.key nosan.key > keys; rm lost.crt; cat *.crt > certs; keep keys certs""", "www.test", ["b", "mid"], "root")


@check("the shortest of several chains")
def _():
    bundles("""issue root /CN=R - $now $later $ca
        issue new /CN=N - $now $later $ca; mv new.crt new-self.crt
        issue mid /CN=M root $now $later $ca
        issue low /CN=L mid $now $later $ca; mv low.crt low-long.crt
        issue low /CN=L root $now $later $ca
        issue www /CN=x low $now $later subjectAltName=DNS:www.test
        cat low-long.crt mid.crt www.crt low.crt new-self.crt root.crt www.key > all; keep all""", "www.test", ["www", "low"], "root")


@check("only authorities issue, and only for servers")
def _():
    refuses("""issue root /CN=R - $now $later $ca
        issue mid /CN=M root $now $later basicConstraints=CA:FALSE
        issue www /CN=x mid $now $later subjectAltName=DNS:www.test
        issue client /CN=x root $now $later subjectAltName=DNS:www.test extendedKeyUsage=clientAuth
        cat *.crt *.key > all; keep all""", "www.test")


@check("nothing will do")
def _():
    refuses(BASE + "issue www /CN=x low $now $later subjectAltName=DNS:*.b.test; cat *.crt *.key > all; keep all", "x.a.b.test")
    refuses(BASE + "issue www /CN=x low $now $later subjectAltName=DNS:www.test; cat www.crt low.crt root.crt www.key > all; keep all", "www.test")
    refuses("issue root /CN=R - $now 20210101000000Z $ca; issue www /CN=x root $now $later subjectAltName=DNS:www.test; cat *.crt *.key > all; keep all", "www.test")
    refuses(": > a", "www.test")


@check("the shop's")
def _():
    out = Path("/app/tls")
    same(sorted(p.name for p in out.iterdir()), ["fullchain.pem", "key.pem", "root.pem"], "the list of files")
    same(len(subjects(out / "fullchain.pem")), 2, "the length of the chain")
    handshake(out, "www.shop.invalid")
    handshake(out, "shop.invalid")


end()
