"""`python -m everseen` is the command."""

import os
import signal
import subprocess
import sys
from importlib import metadata

import pytest

import everseen

PROGRAM = [sys.executable, "-m", "everseen"]


def run(*arguments, **options):
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, check=False, **options)


def test_lines_and_status_are_those_of_the_command(folder):
    ran = run("dedup", "seen.ever", input=b"a\nb\na\n")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"a\nb\n", b"")
    with everseen.open("seen.ever") as seen:
        assert seen.contains("a") and not seen.contains("c")
    assert run("check", "-q", "seen.ever", "--key", "b").returncode == 0
    assert run("check", "-q", "seen.ever", "--key", "c").returncode == 1
    wrong = run("merge", "seen.ever")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith(b"everseen: unrecognized subcommand 'merge'")
    assert run("--version").stdout == f"everseen {everseen.__version__}\n".encode()
    assert run().stderr.startswith(b"Everseen remembers")


def test_arguments_are_bytes(folder):
    name = b"list-\xff.txt"
    with open(name, "wb") as lines:
        lines.write(b"a\n")
    ran = run("dedup", "seen.ever", os.fsdecode(name))
    assert (ran.returncode, ran.stdout) == (0, b"a\n")


def test_a_closed_output_is_an_error_and_nothing_is_remembered(folder):
    shell = f"exec '{sys.executable}' -m everseen dedup seen.ever >&-"
    ran = subprocess.run(["sh", "-c", shell], input=b"a\n", capture_output=True, check=False)
    assert ran.returncode == 2
    assert run("dedup", "seen.ever", input=b"a\n").stdout == b"a\n"


def test_a_closed_descriptor_is_not_given_to_a_file_of_the_store(folder):
    """Messages would go into it."""
    shell = f"exec '{sys.executable}' -m everseen dedup seen.ever 2>&-"
    process = subprocess.Popen(["sh", "-c", shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    # A carriage return is told on standard error.
    process.stdin.write(b"a\nb\r\n")
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(2)] == [b"a\n", b"b\r\n"]
    assert os.readlink(f"/proc/{process.pid}/fd/2") == os.devnull
    process.kill()
    process.communicate()
    assert run("verify", "seen.ever").returncode == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_an_orderly_end(folder, number, status):
    process = subprocess.Popen(
        [*PROGRAM, "dedup", "seen.ever"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(b"a\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"a\n"
    process.send_signal(number)
    # Its input stays open: the signal alone ends it.
    said = process.stdout.read(), process.stderr.read()
    assert (process.wait(), *said) == (status, b"", b"")
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()
    assert run("dedup", "seen.ever", input=b"a\n").stdout == b""


def test_a_script_of_that_name_is_installed():
    scripts = metadata.entry_points(group="console_scripts", name="everseen")
    assert [script.value for script in scripts] == ["everseen.__main__:main"]
