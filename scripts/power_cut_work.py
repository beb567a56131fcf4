"""What `power_cut_ext4` has the command do on a disk before its power is cut, and what it looks for after."""

import collections
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time

# What follows a store's name in those of the files that may remain after it was closed: its own file.
REMAIN = ("",)

libc = ctypes.CDLL(None, use_errno=True)


class Skipped(Exception):
    """The machine does not allow it."""


class Violation(Exception):
    """A promise that was not kept."""


class Work:
    """Processes on one store of the disk, and what was acknowledged to them."""

    def __init__(self, disk, draw, command, folder, tally):
        self.disk, self.draw, self.command, self.tally = disk, draw, command, tally
        self.scratch = folder / "scratch"
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        self.store = "store.ever"
        self.created = False
        self.workers = draw.randint(1, 4)
        self.buffer = draw.choice(["256K", "1M", "4M"])
        # Others' work on the disk: writes back any page of any file, and the journal.
        self.restless = draw.random() < 0.6
        # A process is killed now and then, well before the cut.
        self.killing = draw.random() < 0.4
        self.lock = threading.Lock()

    def live(self, last):
        """One life of the disk: work, cut, mount, look."""
        self.dark, self.over = threading.Event(), threading.Event()
        self.children, self.failures = set(), []
        seeds = [self.draw.randrange(1 << 60) for _ in range(self.workers + 4)]
        threads = [
            threading.Thread(target=self.guarded, args=(job, given, random.Random(seed)))
            for (job, given), seed in zip(self.jobs(), seeds)
        ]
        for thread in threads:
            thread.start()
        time.sleep(2 ** self.draw.uniform(-6, 1))
        self.expect_no_failure()
        self.cut_at = time.monotonic()
        self.dark.set()
        self.disk.cut(self.draw)
        self.cut_by = time.monotonic()
        # Some go on for a while on a disk that takes nothing, and may not believe otherwise.
        time.sleep(self.draw.choice([0, 0, 0.02, 0.2]))
        self.over.set()
        self.kill_all()
        for thread in threads:
            thread.join()
        self.disk.unmount()
        self.disk.mount()
        self.tally[f"rounds {self.disk.cut_told()}"] += 1
        if self.failures:
            raise Violation("\n".join(self.failures))
        self.look(last)

    def jobs(self):
        """What is done at the same time until the cut, each with what it is given."""
        jobs = [(self.worker, number) for number in range(self.workers)]
        jobs += [(job, None) for job in self.beside()]
        if not self.created and self.draw.random() < 0.85:
            # Else the cut may come while the store is made.
            self.make()
        return jobs

    def expect_no_failure(self):
        """Runs just before the cut, when nothing may have failed."""

    def worker(self, number, draw):
        if number == 0 and not self.created:
            self.make()
        while not self.dark.is_set():
            if self.created:
                self.step(number, draw)
            else:
                self.dark.wait(0.002)

    def guarded(self, job, number, draw):
        try:
            job(number, draw)
        except Violation as violation:
            self.failures.append(str(violation))
        except OSError as error:
            # The disk is gone. Before that, nothing of ours may fail.
            if not self.dark.is_set():
                self.failures.append(f"{job.__name__}: {error}")

    def beside(self):
        jobs = []
        if self.restless:
            jobs.append(self.write_back)
        if self.killing:
            jobs.append(self.kill_one)
        if self.draw.random() < 0.5:
            jobs.append(self.check_points)
        return jobs

    def count_leftovers(self):
        logs = len(list(self.disk.root.glob(f"{self.store}-log.*")))
        self.tally[f"cuts that left {logs} logs of the store"] += 1

    # Running the command.

    def start(self, args, lines=None, out=subprocess.DEVNULL, pipe=False):
        """Starts the command on lines, from a file that no cut reaches, or on a pipe."""
        stdin = subprocess.PIPE if pipe else subprocess.DEVNULL
        if lines is not None and not pipe:
            stdin = tempfile.TemporaryFile(dir=self.scratch)
            stdin.write("".join(f"{line}\n" for line in lines).encode())
            stdin.seek(0)
        err = tempfile.TemporaryFile(dir=self.scratch)
        child = subprocess.Popen(
            [self.command, *args], cwd=self.disk.root, stdin=stdin, stdout=out, stderr=err
        )
        child.err = err
        if lines is not None and not pipe:
            stdin.close()
        return child

    def acknowledged(self, args, lines=None, out=subprocess.DEVNULL, dawdle=None):
        """Whether a run that may be killed or cut ends well. Before the cut nothing else may end it badly.

        To dawdle is to keep its input open for so long, so that it has read all and not committed.
        """
        with self.lock:
            if self.over.is_set():
                return None
            child = self.start(args, lines, out, pipe=dawdle is not None)
            self.children.add(child)
        if dawdle is not None:
            self.dawdle(child, lines, dawdle)
        code = child.wait()
        with self.lock:
            self.children.discard(child)
        child.err.seek(0)
        told = child.err.read().decode()
        if code != 0 and not self.dark.is_set() and code != -signal.SIGKILL:
            # The cut may have come between its failure and here.
            raise Violation(f"{args} failed with {code} before the cut: {told}")
        if code == 0:
            self.tally[f"runs of {args[0]} acknowledged"] += 1
        elif self.dark.is_set():
            self.tally[f"runs of {args[0]} under way at the cut"] += 1
        return code == 0

    def dawdle(self, child, lines, seconds):
        try:
            child.stdin.write("".join(f"{line}\n" for line in lines).encode())
            child.stdin.flush()
            self.dark.wait(seconds)
            child.stdin.close()
        except BrokenPipeError:
            pass

    def must(self, args, lines=None, codes=(0,)):
        """What a run prints that nothing disturbs."""
        out = tempfile.TemporaryFile(dir=self.scratch)
        child = self.start(args, lines, out)
        code = child.wait()
        out.seek(0)
        child.err.seek(0)
        told = child.err.read().decode()
        if code not in codes:
            raise Violation(f"{args} exited with {code}: {told}{out.read(400)}")
        self.told_last = told
        return out.read().decode(errors="replace")

    def kill_all(self):
        with self.lock:
            for child in self.children:
                child.kill()

    # What else goes on.

    def kill_one(self, _, draw):
        while not self.dark.wait(draw.uniform(0.01, 0.4)):
            with self.lock:
                if self.children and not self.dark.is_set():
                    draw.choice(sorted(self.children, key=lambda child: child.pid)).kill()
                    self.tally["kills before the cut"] += 1

    def write_back(self, _, draw):
        """As the system does by itself, only sooner and in no order."""
        while not self.dark.wait(draw.uniform(0.0005, 0.01)):
            names = [path for path in self.disk.root.glob("**/*") if path.is_file() and path.parent.name != "lost+found"]
            if not names or draw.random() < 0.1:
                with open(self.disk.root / "other", "wb", buffering=0) as other:
                    other.write(b"x" * draw.randrange(1 << 16))
                    os.fsync(other)
                continue
            try:
                with open(draw.choice(names), "rb", buffering=0) as file:
                    size = max(os.fstat(file.fileno()).st_size, 1)
                    offset, length = draw.randrange(size), draw.choice([1, 4096, 65536, 1 << 20])
                    libc.sync_file_range(
                        file.fileno(), ctypes.c_int64(offset), ctypes.c_int64(length), 7
                    )
            except FileNotFoundError:
                pass

    def check_points(self, _, draw):
        while not self.dark.wait(draw.uniform(0.01, 0.3)):
            if self.created:
                self.acknowledged(["checkpoint", self.store, "--buffer", self.buffer])

    # What all kinds of work look at.

    def look_at_store(self):
        self.must(["verify", self.store])
        return json.loads(self.must(["info", "--json", self.store]))

    def look_at_files(self):
        """A closed store is one file."""
        self.must(["checkpoint", self.store, "--buffer", self.buffer])
        left = {name for name in os.listdir(self.disk.root) if name.startswith(self.store)}
        if more := left - {self.store + ending for ending in REMAIN}:
            raise Violation(f"left behind after closing: {sorted(more)}")

    def make(self):
        if self.acknowledged(["create", self.store, *self.options]):
            self.created = True

    def is_made(self):
        """After a cut: whether there is a store, which may have been made without being acknowledged."""
        self.count_leftovers()
        path = self.disk.root / self.store
        if self.created and not path.exists():
            raise Violation("the store is gone")
        if not path.exists():
            # What the cut has left of its making must not be in the way.
            self.must(["create", self.store, *self.options])
            self.must(["info", self.store])
            path.unlink()
            return False
        self.created = True
        return True


class Adding(Work):
    """Lines are added to a store of a kind that only adds; copies are made of it."""

    def __init__(self, *args):
        super().__init__(*args)
        self.transactional = self.draw.random() < 0.5
        self.kind = self.draw.choice(["bloom", "scalable", "fingerprint"])
        self.options = ["--kind", self.kind, "--fpr", "1e-9"]
        self.options += ["--capacity", "400k"] if self.kind == "bloom" else []
        self.options += ["--transactional" if self.transactional else "--no-transactional"]
        self.sure, self.open, self.next = set(), [], collections.Counter()
        self.copies = {}

    def told(self):
        promise = "transactional" if self.transactional else "plain"
        return f"{self.workers} adding to a {promise} store of kind {self.kind}"

    def beside(self):
        return super().beside() + ([self.copy] if self.draw.random() < 0.6 else [])

    def step(self, number, draw):
        if others := self.others(draw):
            return self.add(others, draw)
        with self.lock:
            first = self.next[number]
            self.next[number] += draw.choice([1, 10, 300, 2000, 2000, 20_000])
            # The store is not to be full, which would be an error.
            if self.next.total() > 390_000:
                return self.dark.wait(0.1)
        self.add([f"{number}/{at}" for at in range(first, self.next[number])], draw)

    def others(self, draw):
        """Lines that somebody else is adding or was killed at, which may be acknowledged to this one before.

        Not in a transactional store: what another has not committed is pending there.
        """
        with self.lock:
            there = [lines for lines in self.open if not self.sure.issuperset(lines)]
        if not there or self.transactional or draw.random() < 0.7:
            return None
        return draw.choice(there)

    def add(self, lines, draw):
        with self.lock:
            if lines not in self.open:
                self.open.append(lines)
        while not self.dark.is_set():
            dawdle = draw.uniform(0, 0.6) if draw.random() < 0.3 else None
            args = ["add", self.store, "--buffer", self.buffer]
            if self.acknowledged(args, lines, dawdle=dawdle):
                with self.lock:
                    self.sure.update(lines)
                return
            # It was killed: it is done again, or left as it is.
            if draw.random() < 0.3:
                return

    def copy(self, _, draw):
        while not self.dark.wait(draw.uniform(0.01, 0.3)):
            if self.created and len(self.copies) < 4:
                with self.lock:
                    before, name = set(self.sure), f"copy{len(self.copies)}.ever"
                    self.copies[name] = None
                args = ["snapshot", self.store, name, "--buffer", self.buffer]
                self.copies[name] = before if self.acknowledged(args) else None

    def look(self, last):
        if not self.is_made():
            return
        info = self.look_at_store()
        asked = sorted(self.sure.union(*self.open))
        absent = [f"absent/{at}" for at in range(200)]
        found = set(self.must(["check", self.store], asked + absent, codes=(0, 1)).split("\n")) - {""}
        if lost := self.sure - found:
            raise Violation(f"{len(lost)} of {len(self.sure)} acknowledged lines are lost, as {min(lost)}")
        if found & set(absent):
            raise Violation("lines that were never added are there")
        for lines in self.open:
            if self.sure.issuperset(lines):
                continue
            there = sum(line in found for line in lines)
            if not all(line in found for line in lines[:there]):
                raise Violation("of a run that was cut short, others than the first lines are there")
            # More than these may have been committed in parts.
            if self.transactional and 0 < there < len(lines) <= 2000:
                raise Violation(f"{there} of {len(lines)} lines of one commit are there")
        if info["keys"] != len(found):
            raise Violation(f"info counts {info['keys']} keys of {len(found)}")
        self.tally["lines acknowledged and found"] += len(self.sure)
        self.tally["lines found of runs under way"] += len(found - self.sure)
        # What was there once stays.
        self.sure, self.open = found, []
        self.look_at_copies()
        if last or self.draw.random() < 0.5:
            self.look_at_files()

    def look_at_copies(self):
        for name, lines in self.copies.items():
            if not (self.disk.root / name).exists():
                if lines is not None:
                    raise Violation(f"{name} was acknowledged and is gone")
                continue
            self.must(["verify", name])
            asked = sorted(lines or [])
            found = self.must(["check", name], asked, codes=(0, 1)).split()
            if found != asked:
                raise Violation(f"{name} lacks {len(asked) - len(found)} lines")
            self.tally["copies found whole"] += 1


class Printing(Work):
    """`dedup` prints lines into files of the same disk, appended to by each run."""

    def __init__(self, *args):
        super().__init__(*args)
        # Of the kind that `dedup` makes by itself, or in layers.
        self.kind = self.draw.choice([None, "scalable"])
        self.options = ["--transactional", "--fpr", "1e-9"]
        self.options += ["--kind", self.kind] if self.kind else []
        self.every = self.draw.choice([200, 2000, 1_000_000])
        # Of each list that a run was through with, where in its output that run began.
        self.lists, self.finished, self.number = {}, {}, 0

    def told(self):
        kind = self.kind or "the default kind"
        return f"{self.workers} printing, store of {kind}, commits after each {self.every} lines"

    def step(self, number, draw):
        with self.lock:
            self.number += 1
            name = self.number
            # From a few thousand lines that others have in their lists as well.
            start, count = draw.randrange(30_000), draw.choice([1, 50, 3000, 20_000])
            self.lists[name] = [f"line {at}" for at in range(start, start + count)]
        while not self.dark.is_set() and name not in self.finished and draw.random() < 0.9:
            self.print(name)

    def print(self, name):
        args = ["dedup", self.store, "--commit-every", str(self.every), "--buffer", self.buffer]
        with open(self.disk.root / f"out.{name}", "ab") as out:
            before = out.seek(0, os.SEEK_END)
            if self.acknowledged(args, self.lists[name], out):
                self.finished[name] = before

    def printed(self, name, since=0):
        """The lines of a list's output, of which a cut or a kill may have torn some; the next run ends those."""
        path = self.disk.root / f"out.{name}"
        return path.read_bytes()[since:].split(b"\n") if path.exists() else []

    def look(self, last):
        if not self.is_made():
            return
        self.look_at_store()
        done = {line for name, since in self.finished.items() for line in self.printed(name, since)}
        again = [name for name in self.lists if name not in self.finished]
        for name in again:
            self.dark.clear()
            self.over.clear()
            self.print(name)
            if name not in self.finished:
                raise Violation("dedup was killed after the cut")
            if twice := (set(self.printed(name, self.finished[name])) & done) - {b""}:
                raise Violation(f"{len(twice)} lines of finished runs are printed again, as {min(twice)}")
        there = {line for name in self.lists for line in self.printed(name)}
        asked = {line.encode() for lines in self.lists.values() for line in lines}
        if lost := asked - there:
            raise Violation(f"{len(lost)} of {len(asked)} lines are in no output, as {min(lost)}")
        self.tally["lines in the outputs of dedup"] += len(asked)
        self.tally["runs of dedup done again"] += len(again)
        if last or self.draw.random() < 0.5:
            self.look_at_files()


class Counting(Work):
    """Lines are added to a counting store and removed again."""

    def __init__(self, *args):
        super().__init__(*args)
        self.options = ["--kind", "counting", "--capacity", "60k", "--fpr", "1e-9"]
        # How often a line is there at least and at most.
        self.least, self.most = collections.Counter(), collections.Counter()

    def told(self):
        return f"{self.workers} counting"

    def step(self, number, draw):
        start, count = draw.randrange(5000), draw.choice([1, 30, 500, 2000])
        lines = [f"{number}/{at}" for at in range(start, start + count)]
        with self.lock:
            there = [line for line in lines if self.least[line] > 0]
            lines = [line for line in lines if self.most[line] < 3]
        if there and draw.random() < 0.4:
            self.change("remove", there, -1)
        elif lines:
            self.change("add", lines, 1)

    def change(self, command, lines, sign):
        done = self.acknowledged([command, self.store, "--buffer", self.buffer], lines)
        if done is None:
            return
        with self.lock:
            if done or sign < 0:
                self.least.update({line: sign for line in lines})
            if done or sign > 0:
                self.most.update({line: sign for line in lines})

    def look(self, last):
        if not self.is_made():
            return
        keys = self.look_at_store()["keys"]
        self.look_at_sum(keys)
        there = [line for line in sorted(self.least) if self.least[line] > 0]
        if lost := len(there) - len(self.must(["check", self.store], there, codes=(0, 1)).split()):
            raise Violation(f"{lost} of {len(there)} acknowledged lines are lost")
        self.tally["lines counted and found"] += len(there)
        if last:
            self.take_out(keys)
            self.look_at_files()

    def look_at_sum(self, keys):
        least, most = sum(self.least.values()), sum(self.most.values())
        if not least <= keys <= most:
            raise Violation(f"{keys} keys, where {least} to {most} were to be")

    def take_out(self, keys):
        """Each line can be removed as often as it is there, and no more often."""
        for count, left in (self.least, keys - sum(self.least.values())), (self.most - self.least, 0):
            lines = [line for line, times in sorted(count.items()) for _ in range(times)]
            if not lines:
                continue
            self.must(["remove", self.store, "--buffer", self.buffer], lines)
            now = json.loads(self.must(["info", "--json", self.store]))["keys"]
            if now != left:
                raise Violation(f"{now} keys where {left} were to be left: {self.told_last.strip()}")
        self.must(["verify", self.store])
        self.tally["counting stores emptied line by line"] += 1
