"""A server as tests and rigs start it."""

import pathlib
import signal
import subprocess

from resp import Wire, parsed


class Server:
    """A running server, and where it listens."""

    def __init__(self, binary, folder, *arguments, durable="no", unix=None, wrapped_in=(), **options):
        self.folder = pathlib.Path(folder)
        self.arguments = [
            *wrapped_in,
            binary,
            *("--dir", str(folder), "--listen", "127.0.0.1:0", "--durable", durable),
            *(["--unix", str(unix)] if unix else []),
            *arguments,
        ]
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, text=True, **options)
        self.address = self.ready()
        self.unix = self.ready() if unix else None

    def ready(self):
        line = self.process.stdout.readline()
        assert line.startswith("ready: "), (line, self.process.wait())
        return line.removeprefix("ready: ").removeprefix("unix:").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def wire(self, protocol="2"):
        wire = Wire(self.address)
        if protocol == "3":
            wire.ask("HELLO", "3")
        return wire

    def ask(self, *command):
        """One command on a connection of its own, as Python's values."""
        with self.wire() as wire:
            return parsed(wire.ask(*command))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it in good order; returns its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def status(self, field):
        """A number from /proc/PID/status, in KiB where it is memory."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise KeyError(field)
