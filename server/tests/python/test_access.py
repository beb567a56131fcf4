"""Who may come in, and what each may do; TLS; what the server counts."""

import hashlib
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
from conftest import Server, built
from resp import Closed, packed

NOAUTH = b"-NOAUTH Authentication required.\r\n"
WRONG = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"


def line(name, rights, password):
    return f"{name} {rights} {hashlib.sha256(password.encode()).hexdigest()}\n"


@pytest.fixture
def guarded(folder):
    users = folder / "users"
    users.write_text("# who may\n" + line("default", "write", "w") + line("reader", "read", "r") + line("root", "admin", "a"))
    with Server(folder / "stores", "--users", str(users)) as running:
        yield running


def test_nothing_is_done_before_a_client_says_who_it_is(guarded):
    with guarded.wire() as wire:
        for command in [("BF.ADD", "k", "a"), ("PING",), ("ECHO", "a"), ("MULTI",), ("WATCH", "k"), ("CLIENT", "ID"), ("COMMAND",), ("INFO",), ("FLUSHALL",), ("KEYS", "*"), ("SHUTDOWN",)]:
            assert wire.ask(*command) == NOAUTH, command
        assert wire.ask("HELLO", "3").startswith(b"-NOAUTH HELLO must be called")
        assert wire.ask("AUTH", "x") == WRONG
        assert wire.ask("BF.ADD", "k", "a") == NOAUTH
        assert wire.ask("AUTH", "w") == b"+OK\r\n"
        assert wire.ask("BF.ADD", "k", "a") == b":1\r\n"
        assert wire.ask("RESET") == b"+RESET\r\n"
        assert wire.ask("BF.ADD", "k", "a") == NOAUTH


def test_each_user_does_what_its_line_says(guarded):
    with guarded.wire() as reader, guarded.wire() as writer, guarded.wire() as root:
        assert reader.ask("AUTH", "reader", "r") == b"+OK\r\n"
        assert writer.ask("HELLO", "2", "AUTH", "default", "w").startswith(b"*14\r\n")
        assert root.ask("AUTH", "root", "a") == b"+OK\r\n"
        assert reader.ask("BF.ADD", "k", "a") == b"-NOPERM this user has no permissions to run the 'bf.add' command\r\n"
        assert writer.ask("BF.ADD", "k", "a") == b":1\r\n"
        assert reader.ask("BF.EXISTS", "k", "a") == b":1\r\n"
        assert writer.ask("FLUSHALL") == b"-NOPERM this user has no permissions to run the 'flushall' command\r\n"
        assert root.ask("FLUSHALL") == b"+OK\r\n"
        assert reader.ask("BF.EXISTS", "k", "a") == b":0\r\n"
        # Rights hold for what MULTI gathers as well.
        assert reader.ask("MULTI") == b"+OK\r\n"
        assert reader.ask("BF.ADD", "k", "a").startswith(b"-NOPERM")
        assert reader.ask("EXEC").startswith(b"-EXECABORT")


def test_strangers_may_send_little(guarded):
    for sent, answer in [
        (b"*11\r\n", b"-ERR Protocol error: unauthenticated multibulk length\r\n"),
        (b"*1\r\n$20000\r\n", b"-ERR Protocol error: unauthenticated bulk length\r\n"),
    ]:
        with guarded.wire() as wire:
            wire.send(sent)
            assert wire.answer() == answer
            with pytest.raises(Closed):
                wire.answer()


def test_many_users_of_one_password_file_are_refused_with_the_line(folder):
    users = folder / "users"
    for text, number in [("a b\n", 1), (line("a", "all", "x"), 1), (line("a", "read", "x") * 2, 2)]:
        users.write_text(text)
        ran = subprocess.run(
            [built("everseen-server", "EVERSEEN_SERVER"), "--dir", "stores", "--listen", "127.0.0.1:0", "--users", str(users)],
            capture_output=True, check=False, text=True)
        assert ran.returncode == 2
        assert f"users, line {number}: " in ran.stderr, ran.stderr


def test_other_machines_are_not_let_in_without_a_password(folder):
    server = built("everseen-server", "EVERSEEN_SERVER")
    ran = subprocess.run([server, "--dir", "stores", "--listen", "0.0.0.0:0"], capture_output=True, check=False, text=True)
    assert ran.returncode == 2
    assert "can be reached from other machines" in ran.stderr
    assert not (folder / "stores").exists()


def certificate(folder, name, signed_by=None):
    """A certificate for localhost, signed by itself or by another; paths of it and its key."""
    key, request, found = (folder / f"{name}.{ending}" for ending in ("key", "csr", "pem"))
    run = lambda *words: subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
    run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    extensions = folder / f"{name}.ext"
    is_root = signed_by is None
    extensions.write_text("basicConstraints=CA:TRUE\n" if is_root else "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    issuer = ["-signkey", key] if is_root else ["-CA", folder / f"{signed_by}.pem", "-CAkey", folder / f"{signed_by}.key",
                                                "-CAcreateserial"]
    run("x509", "-req", "-in", request, "-days", "2", "-out", found, "-extfile", extensions, *issuer)
    return found, key


def secret_wire(server, context):
    host, _, port = server.address.rpartition(":")
    plain = socket.create_connection((host, int(port)), 60)
    return context.wrap_socket(plain, server_hostname="localhost")


def test_tls_with_certificates_on_both_sides(folder):
    root, _ = certificate(folder, "root")
    certificate(folder, "stranger")
    pair = certificate(folder, "server", "root")
    client = certificate(folder, "client", "root")
    other = certificate(folder, "other", "stranger")
    options = ["--tls-cert", str(pair[0]), "--tls-key", str(pair[1]), "--tls-client-ca", str(root)]
    with Server(folder / "stores", *options) as server:
        good = ssl.create_default_context(cafile=root)
        good.load_cert_chain(*client)
        with secret_wire(server, good) as wire:
            wire.sendall(packed("BF.ADD", "k", "a"))
            assert wire.recv(100) == b":1\r\n"
        for context in [ssl.create_default_context(cafile=root), ssl.create_default_context(cafile=root)]:
            if context is not good:
                context.load_cert_chain(*other)
            with pytest.raises((ssl.SSLError, ConnectionError)), secret_wire(server, context) as wire:
                wire.sendall(packed("BF.EXISTS", "k", "a"))
                if not wire.recv(100):
                    raise ConnectionError
        # Plain bytes are no TLS.
        with server.wire() as wire:
            wire.send(packed("PING"))
            with pytest.raises(Closed):
                wire.answer()


def test_without_a_certificate_no_client_is_let_in_that_must_have_one(folder):
    root, _ = certificate(folder, "root")
    pair = certificate(folder, "server", "root")
    options = ["--tls-cert", str(pair[0]), "--tls-key", str(pair[1])]
    context = ssl.create_default_context(cafile=root)
    with Server(folder / "stores", *options) as server, secret_wire(server, context) as wire:
        wire.sendall(packed("PING"))
        assert wire.recv(100) == b"+PONG\r\n"
    with Server(folder / "stores", *options, "--tls-client-ca", str(root)) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)), secret_wire(server, context) as wire:
            wire.sendall(packed("PING"))
            if not wire.recv(100):
                raise ConnectionError


def test_what_the_server_counts(folder):
    with Server(folder / "stores", "--metrics", "127.0.0.1:0") as server:
        metrics = server.ready().removeprefix("metrics:")
        with server.wire() as wire:
            wire.ask("BF.MADD", 'a "b"\n', "x", "y")
            wire.ask("BF.ADD", 'a "b"\n', "z")
            with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as answer:
                assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
                text = answer.read().decode()
        lines = text.splitlines()
        assert lines[-1] == "# EOF"
        for expected in [
            "everseen_clients 1",
            "everseen_stores_open 1",
            'everseen_commands_total{command="bf.add"} 1',
            'everseen_commands_total{command="bf.madd"} 1',
            'everseen_store_keys{store="a \\"b\\"\\n"} 3.0',
            'everseen_store_failed{store="a \\"b\\"\\n"} 0.0',
        ]:
            assert expected in lines, (expected, text)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://{metrics}/", timeout=60)
