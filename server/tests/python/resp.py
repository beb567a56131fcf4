"""The wire in a page: commands to bytes, and where an answer's bytes end."""

import ast
import socket


class Closed(Exception):
    """The server closed the connection; `args[0]` is what came before."""


def packed(*words):
    """A command as clients send it, an array of bulk strings."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def words(line):
    """The words of a command as it is written in the oracle: bare, or in double quotes with Python's escapes.

    `"x"*70000` is a long word; what follows ` #` is a remark.
    """
    found, rest = [], line.strip()
    while rest:
        if rest[0] == "#":
            break
        if rest[0] == '"':
            end = 1
            while rest[end] != '"':
                end += 2 if rest[end] == "\\" else 1
            word = ast.literal_eval("b" + rest[: end + 1])
            rest = rest[end + 1 :]
            if rest.startswith("*"):
                times, _, rest = rest[1:].partition(" ")
                word *= int(times)
        else:
            word, _, rest = rest.partition(" ")
            word = word.encode()
        found.append(word)
        rest = rest.lstrip()
    return found


class Wire:
    """A connection that hands out answers as the bytes they came in."""

    def __init__(self, address, timeout=60):
        if isinstance(address, str) and address.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        else:
            host, _, port = str(address).rpartition(":")
            self.socket = socket.create_connection((host or "127.0.0.1", int(port)), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def close(self):
        self.socket.close()

    def send(self, raw):
        self.socket.sendall(raw)

    def ask(self, *command):
        self.send(packed(*command))
        return self.answer()

    def _more(self):
        try:
            read = self.socket.recv(1 << 16)
        except ConnectionResetError:
            read = b""
        if not read:
            raise Closed(self.unread)
        self.unread += read

    def _line(self, start):
        """Where the line that begins at `start` ends, its CRLF included."""
        looked = start
        while True:
            end = self.unread.find(b"\r\n", looked)
            if end >= 0:
                return end + 2
            looked = max(start, len(self.unread) - 1)
            self._more()

    def _end(self, start):
        due = 1
        while due:
            end = self._line(start)
            kind, rest = self.unread[start : start + 1], self.unread[start + 1 : end - 2]
            due -= 1
            if kind in b"$=!" and rest != b"-1":
                end += int(rest) + 2
                while len(self.unread) < end:
                    self._more()
            elif kind in b"*~>" and rest != b"-1":
                due += int(rest)
            elif kind in b"%|":
                due += 2 * int(rest)
            start = end
        return start

    def answer(self):
        """The bytes of the next answer, whole."""
        end = self._end(0)
        taken, self.unread = self.unread[:end], self.unread[end:]
        return taken

    def to_the_end(self):
        """All that comes until the server closes the connection."""
        try:
            while True:
                self._more()
        except Closed:
            taken, self.unread = self.unread, b""
            return taken


def parsed(raw):
    """An answer as Python values; errors are `Refusal`s, null is None."""
    value, rest = _parsed(raw)
    assert not rest, rest
    return value


class Refusal(str):
    """An error answer."""


def _parsed(raw):
    line, _, rest = raw.partition(b"\r\n")
    kind, text = line[:1], line[1:]
    if kind in b"$=!":
        if text == b"-1":
            return None, rest
        size = int(text)
        value = rest[:size]
        return (Refusal(value.decode()) if kind == b"!" else value), rest[size + 2 :]
    if kind in b"*~>":
        if text == b"-1":
            return None, rest
        members = []
        for _ in range(int(text)):
            member, rest = _parsed(rest)
            members.append(member)
        return members, rest
    if kind in b"%|":
        members = {}
        for _ in range(int(text)):
            name, rest = _parsed(rest)
            members[name], rest = _parsed(rest)
        return members, rest
    if kind == b"+":
        return text.decode(), rest
    if kind == b"-":
        return Refusal(text.decode()), rest
    if kind in b":(":
        return int(text), rest
    if kind == b",":
        return float(text), rest
    if kind == b"#":
        return text == b"t", rest
    assert kind == b"_", line
    return None, rest
