#!/usr/bin/env python3
"""Reads an Everseen store, after FORMAT.md. Shares no code with the library; standard library alone.

    reader.py STORE                        checks everything and prints what it holds, as JSON
    reader.py STORE --hashes FILE          also answers for hashes as given to `insert_hash`, one a
                                           line, decimal or 0x…: "answers", a string of 0 and 1;
                                           of a counting store "counts" too, how often each is there
    reader.py STORE --hashes FILE --raw    the same for hashes that are not to be mixed
    reader.py STORE --clock MILLISECONDS   of a store that forgets: as of this time, since 1970, or of
                                           the latest that the store has recorded if that is later
    reader.py FILE --page-of-fingerprints NUMBER END
                                           prints the list in a page: FILE is that page alone,
                                           NUMBER its place in a store, END the end of its range

It never writes. What it must refuse it names on stderr, and exits with 2. Comments name the
sections of FORMAT.md.
"""

import argparse
import bisect
import json
import os
import struct
import sys
import zlib

PAGE = 4096
MASK = (1 << 64) - 1
PLAIN, COUNTING, SCALABLE, FINGERPRINT = 1, 2, 3, 4
OPEN, INSERT, COMMIT, CUT, REMOVE, EXEMPT, LOST = 1, 2, 3, 4, 5, 6, 7
STUCK = 15
MOST_CLOCK = 1 << 56
MOST_STEP = 1 << 55
LOG_LIKE = (b"EVERSLOG", b"EVERSEEN", b"EVERDELT")
EXEMPT_SECTION, SAMPLE_SECTION, LOST_SECTION = 1, 2, 3


class Refused(Exception):
    """The bytes are not what FORMAT.md allows."""


class Newer(Refused):
    """A later version wrote this, and there is no other place to look. Versioning and feature bits."""


def require(condition, message):
    if not condition:
        raise Refused(message)


def crc32(*parts):
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc


def page_crc(owner, number, page):
    """The CRC of a page at this place. `owner` is the store's id, or nothing if its pages are not bound. Pages."""
    return crc32(owner, struct.pack("<Q", number), page[4:])


def zeros(data):
    return not any(data)


# Hash, From hash to page, Probes


def finalise(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def page_of(key, pages):
    return (key * pages) >> 64


def draws(key):
    state = key
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        both = finalise(state)
        yield both & 0xFFFFFFFF
        yield both >> 32


def run_length(probes):
    return 3 if probes <= 20 else 2


def bits(key, probes):
    drawn = draws(key)

    def below(n):
        return (next(drawn) * n) >> 32

    length = run_length(probes)
    for _ in range(probes // length):
        first = below(32640)
        start, end = (0, 384) if first < 384 else (first - (first - 384) % 512,) * 2
        end = end if start == 0 else start + 512
        size = end - start
        behind = [0, 1 + below(size - 1)]
        if length == 3:
            third = 1 + below(size - 2)
            behind.append(third + (third >= behind[1]))
        for step in behind:
            yield start + (first - start + step) % size
    for _ in range(probes % length):
        yield below(32640)


def own_counters(key, probes):
    drawn = draws(key)
    return {(next(drawn) * 8160) >> 32 for _ in range(probes)}


# Pages of fingerprints


class Bits:
    """The bits of a page, counted from its start."""

    def __init__(self, page):
        self.number = int.from_bytes(page, "little")

    def __call__(self, begin, count):
        return self.number >> begin & ((1 << count) - 1)


def base_of(page):
    """The step that the ages of a page's numbers are counted back from. Ages."""
    return int.from_bytes(page[4088:], "little")


def fingerprints(page, owner, number, end, age_bits=0):
    """The numbers in a page at this place, whose range ends at `end`."""
    crc, occupancy, _, first, high_count, low_bits, ages = struct.unpack("<IIQQHBB", page[:28])
    require(crc == page_crc(owner, number, page), "a page of fingerprints: CRC")
    require(age_bits <= low_bits <= 56 and first < end, "a page of fingerprints: parts")
    require(ages == age_bits and (age_bits or base_of(page) == 0), "a page of fingerprints: ages")
    require(high_count == (end - first - 1 >> low_bits) + 1, "a page of fingerprints: high_count")
    groups = (high_count + 127) // 128
    begins = struct.unpack(f"<{groups + 1}H", page[28:30 + 2 * groups])
    front = (30 + 2 * groups + 7) // 8 * 8
    require(begins[0] == front * 8 and begins[-1] <= 32704, "a page of fingerprints: begins")
    bits, found = Bits(page), []
    require(zeros(page[30 + 2 * groups:front]), "a page of fingerprints: stray bits")
    require(bits(begins[-1], 32704 - begins[-1]) == 0, "a page of fingerprints: stray bits")
    for group in range(groups):
        begin, behind = begins[group], begins[group + 1]
        count, left = divmod(behind - begin - 128, low_bits + 1)
        require(count >= 0 and left == 0, "a page of fingerprints: begins")
        unary = bits(begin, 128 + count)
        require(bin(unary).count("1") == count, "a page of fingerprints: unary bits")
        require(unary >> 127 + count == 0, "a page of fingerprints: unary bits")
        ones = [bit for bit in range(128 + count) if unary >> bit & 1]
        for place, bit in enumerate(ones):
            high = 128 * group + bit - place
            low = bits(begin + 128 + count + place * low_bits, low_bits)
            found.append(first + (high << low_bits | low))
    own = [one >> age_bits for one in found]
    require(all(a < b for a, b in zip(own, own[1:])), "a page of fingerprints: not sorted")
    require(not found or found[-1] < end, "a page of fingerprints: beyond its range")
    require(len(found) == occupancy, "a page of fingerprints: occupancy")
    return found


# Header

HEADER = struct.Struct("<8sIIQQQIHHIIQdQ32s16sQIIdQI88sI")
assert HEADER.size == 256


def without_locks(header):
    """A header without the bit that a writer may have set since its copy was made, and without its CRC."""
    return header[:32] + bytes([header[32] & ~1]) + header[33:252]


class Header:
    def __init__(self, page, length):
        require(len(page) >= 8, "cut short: no header")
        require(page[:8] == b"EVERSEEN", "not a store")
        require(length >= 131072 and len(page) == PAGE, f"cut short: {length} bytes")
        self.bytes = page[:256]
        (_, version, size, compatible, self.read_only_compatible, incompatible, page_size, self.kind,
         self.hash, flags, self.probes, self.capacity, self.fpr, self.bits, self.seed,
         self.store_id, self.created, self.growth, reserved, self.tightening, self.window,
         self.steps, rest, crc) = HEADER.unpack(self.bytes)
        require(crc == crc32(page[:252]), "the header is damaged: CRC")
        require(version == 1, f"format version {version}")
        require(zeros(page[256:]), "header: padding")
        require(incompatible & ~15 == 0, f"incompatible features {incompatible:#x}")
        require(size == 256, "header: header_length")
        require(page_size == PAGE, "header: page_size")
        require(PLAIN <= self.kind <= FINGERPRINT, f"header: kind {self.kind}")
        require(self.hash in (1, 2, 3), "header: hash")
        require(flags & ~1 == 0, "header: flags")
        require(reserved == 0 and zeros(rest), "header: reserved")
        require((incompatible & 2 != 0) == (self.kind == FINGERPRINT), "header: incompatible")
        self.forgets = incompatible & 8 == 8
        require(not self.forgets or self.kind == FINGERPRINT, "header: incompatible")
        if self.forgets:
            require(1000 <= self.window <= 31_622_400_000_000, "header: window")
            require(1 <= self.steps <= 255, "header: window")
        else:
            require(self.window == 0 and self.steps == 0, "header: reserved")
        self.age_bits = self.steps.bit_length()
        require(0 < self.fpr < 1, "header: fpr")
        require(self.capacity >= 1, "header: capacity")
        self.page_owner = self.store_id if incompatible & 4 else b""
        self.has_label = compatible & 1 == 1
        self.transactional = flags & 1 == 1
        require(self.kind != COUNTING or not self.transactional, "header: flags")
        if self.kind == SCALABLE:
            require(self.probes == 0 and self.bits == 0, "header: probes, bits")
            require(2 <= self.growth <= 16, "header: growth")
            require(0 < self.tightening < 1, "header: tightening")
            most = self.fpr * (1 - self.tightening) * 2.0**63
            require(self.capacity <= most, "header: capacity")
        elif self.kind == FINGERPRINT:
            require(self.probes == 0, "header: probes")
            require(1 <= self.bits <= 1 << 63 - self.age_bits, "header: bits")
            require(self.growth == 0 and self.tightening == 0, "header: growth")
        else:
            require(1 <= self.probes <= 64, "header: probes")
            require(self.bits > 0 and self.bits % 32640 == 0, "header: bits")
            require(self.growth == 0 and self.tightening == 0, "header: growth")

    def mix(self, raw):
        return finalise(raw ^ int.from_bytes(self.seed[:8], "little"))

    def step(self, clock):
        """The step of a time. Ages."""
        return clock * self.steps // self.window


# Superblocks

FIXED = struct.Struct("<8sIIQQ256sQQIIII")
LAYER = struct.Struct("<QQQQdIIIIQ")
WRITER = struct.Struct("<QHHI")
SECTION = struct.Struct("<IIQQII")
DIRECTORY = struct.Struct("<8Q")
assert (FIXED.size, LAYER.size, WRITER.size, SECTION.size) == (320, 64, 16, 32)


class Layer:
    def __init__(self, data, least):
        require(len(data) == 64, "layer: cut short")
        self.bytes = data
        (self.first_page, self.pages, self.capacity, self.keys, self.fpr, self.probes, flags,
         run, *reserved) = LAYER.unpack(data)
        require(self.first_page >= least and self.first_page % 16 == 0, "layer: first_page")
        require(self.first_page < 1 << 50, "layer: first_page")
        require(1 <= self.pages <= (1 << 50) - self.first_page, "layer: pages")
        require(self.capacity >= 1, "layer: capacity")
        require(0 < self.fpr < 1, "layer: fpr")
        require(1 <= self.probes <= 64, "layer: probes")
        require(flags & ~1 == 0, "layer: flags")
        require(run in (1, run_length(self.probes)), "layer: run_length")
        require(reserved == [0, 0], "layer: reserved")
        self.counts = run == 1
        self.all_written = flags & 1 == 1

    def end(self):
        return self.first_page + self.pages


class Directory:
    """Where the directory of a fingerprint store lies. Directory entry."""

    def __init__(self, data, sequence, generation):
        require(len(data) == 64, "directory: cut short")
        (*self.places, self.segments, self.segment_pages, self.keys, self.end_page, self.version,
         self.generation) = DIRECTORY.unpack(data)
        require(32 <= self.end_page <= 1 << 50, "directory: end_page")
        require(self.segment_pages <= self.end_page - 32, "directory: segment_pages")
        require(self.segments <= self.segment_pages, "directory: segments")
        require(self.segments or zeros(data[:40]), "directory: segments")
        if self.segments:
            for start, end in self.copies():
                require(32 <= start and end <= self.end_page, "directory: directory_page")
            (a, end_a), (b, end_b) = self.copies()
            require(end_a <= b or end_b <= a, "directory: directory_page")
        require(self.keys <= 16384 * self.segment_pages, "directory: directory_keys")
        require(1 <= self.version <= sequence, "directory: version")
        require(1 <= self.generation <= generation, "directory: directory_generation")
        self.begin, self.came, self.went = 0, self.keys, 0

    def pages(self):
        return (self.segments + 101) // 102

    def copies(self):
        return [(place, place + self.pages()) for place in self.places]

    def end(self):
        return self.end_page


class Run(Directory):
    """A run above the oldest one. Run."""

    def __init__(self, data, sequence, generation):
        require(len(data) == 104, "run: cut short")
        came, went = struct.unpack("<QQ", data[32:48])
        keys = min(MASK, came + went)
        super().__init__(data[:32] + struct.pack("<Q", keys) + data[48:72], sequence, generation)
        require(self.segments, "run: segments")
        self.came, self.went = came, went
        self.begin, begun_with, arrived, self.below_until = struct.unpack("<QQQQ", data[72:])
        require(begun_with == 0 or begun_with >= keys, "run: begun_with")
        require(begun_with or not arrived, "run: arrived")


class Section:
    def __init__(self, data, before, taken):
        require(len(data) == 32, "section: cut short")
        (self.kind, self.rarity, self.first_page, self.hashes, self.crc,
         reserved) = SECTION.unpack(data)
        parts = [part for part in before if part.kind == self.kind]
        rises = all(part.kind < self.kind for part in before)
        if self.kind == SAMPLE_SECTION and parts:
            rises = before[-1] is parts[-1] and parts[-1].hashes and len(parts) < 4
        require(self.kind in (1, 2, 3) and rises, "section: section_kind")
        if self.kind == SAMPLE_SECTION:
            require(1 <= self.rarity <= 32, "section: rarity")
            require(all(part.rarity == self.rarity for part in parts), "section: rarity")
            if not parts and zeros(data[8:]):
                return
        else:
            require(self.rarity == 0, "section: rarity")
        require(32 <= self.first_page < 1 << 50 and self.first_page % 16 == 0,
                "section: section_page")
        require(1 <= self.hashes < 1 << 60, "section: hashes")
        require(self.end() <= 1 << 50, "section: hashes")
        require(reserved == 0, "section: section_reserved")
        for start, end in taken:
            require(self.end() <= start or end <= self.first_page, "section: section_page")

    def end(self):
        if not self.hashes:
            return 0
        return self.first_page + (8 + self.hashes * 8 + PAGE - 1) // PAGE

    def read(self, store):
        if not self.hashes:
            return set()
        data = store.read(self.first_page * PAGE, 8 + self.hashes * 8)
        require(crc32(data) == self.crc, "a section is damaged: CRC")
        _, *hashes = struct.unpack(f"<{1 + self.hashes}Q", data)
        require(all(a < b for a, b in zip(hashes, hashes[1:])), "a section is damaged: not sorted")
        return set(hashes)


def mark_text(data, what):
    require(1 <= len(data) <= 255, f"{what}: name")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{what}: name is not UTF-8") from None


class Superblock:
    def __init__(self, place, header):
        require(not zeros(place[:8]), "never written")
        require(place[:8] == b"EVERSUPR", "magic")
        (_, crc, length, self.sequence, self.generation, copy, keys, self.commit_sequence, flags,
         layer_count, writer_count, section_count) = FIXED.unpack(place[:320])
        require(320 <= length <= 57344 and length % 8 == 0, f"length {length}")
        data = place[:length]
        require(crc == crc32(data[12:]), "CRC")
        require(without_locks(copy) == without_locks(header.bytes), "belongs to another header")
        if flags & ~63:
            raise Newer(f"superblock flags {flags & ~63:#x} of a newer version")
        known = flags & ~(60 if header.forgets else 12 if header.kind == FINGERPRINT else 4)
        require(known in (0, 1) or known == 3 and header.kind == FINGERPRINT, "flags")
        require(section_count <= 8, "section_count")
        require(self.generation >= 1, "generation")
        require(layer_count <= 64, "layer_count")
        self.log_expected = flags & 1 == 1
        self.partly_merged = flags & 2 == 2
        at, self.layers, least = 320, [], 32
        for _ in range(layer_count):
            layer = Layer(data[at:at + 64], least)
            require(layer.counts == (header.kind == COUNTING), "layer: run_length")
            self.layers.append(layer)
            at, least = at + 64, layer.end()
        self.sections = []
        taken = [(layer.first_page, layer.end()) for layer in self.layers]
        self.directory = None
        if header.kind == FINGERPRINT:
            highest = self.generation + self.partly_merged
            self.directory = Directory(data[at:at + 64], self.sequence, highest)
            taken += self.directory.copies()
            at += 64
        for _ in range(section_count):
            section = Section(data[at:at + 32], self.sections, taken)
            require(section.kind != SAMPLE_SECTION or not header.forgets, "a sample")
            self.sections.append(section)
            if section.hashes:
                taken.append((section.first_page, section.end()))
            at += 32
        self.writers = {}
        for _ in range(writer_count):
            require(at + 16 <= length, "writer_count")
            sequence, name_length, tag_length, _ = WRITER.unpack(data[at:at + 16])
            end = at + 16 + name_length + tag_length
            require(end <= length, "writer_count")
            name = mark_text(data[at + 16:at + 16 + name_length], "writer")
            require(tag_length <= 4096, "tag_length")
            require(sequence <= self.commit_sequence, "commit_sequence")
            require(name not in self.writers, "a writer's name twice")
            self.writers[name] = (sequence, data[end - tag_length:end])
            at = (end + 7) // 8 * 8
        self.moment = 0
        if flags & 4:
            require(at + 8 <= length, "length")
            self.moment, at = int.from_bytes(data[at:at + 8], "little"), at + 8
            require(self.moment, "moment")
        self.clock = 0
        if flags & 16:
            require(at + 8 <= length, "length")
            self.clock, at = int.from_bytes(data[at:at + 8], "little"), at + 8
            require(1 <= self.clock <= MOST_CLOCK, "clock")
        if flags & 32:
            require(at + 8 <= length, "length")
            earliest, at = int.from_bytes(data[at:at + 8], "little"), at + 8
            require(1 <= earliest <= MOST_STEP, "earliest")
        self.runs, self.set_version = [], self.directory and self.directory.version
        if flags & 8:
            at = self.take_runs(data, at, header, taken)
        self.label = None
        if header.has_label:
            require("everseen.label" in self.writers, "label")
            self.label = self.writers.pop("everseen.label")[1]
        parts = self.layers + [self.directory] if self.directory else self.layers
        total = sum(part.keys for part in parts)
        for run in self.runs:
            # Where keys are forgotten, an entry says nothing of the runs below.
            went = 0 if header.forgets else run.went
            require(went <= total, "run: went")
            total += run.came - went
        total = min(MASK, total)
        require(self.partly_merged or keys == total, "keys")
        require(zeros(data[at:]), "length")
        if header.kind == FINGERPRINT:
            require(layer_count == 0, "layers")
        elif header.kind != SCALABLE:
            require(layer_count == 1, "layers")
            layer = self.layers[0]
            require(layer.pages * 32640 == header.bits, "layers: bits")
            require(layer.probes == header.probes, "layers: probes")
            require(layer.capacity == header.capacity, "layers: capacity")
            require(header.kind != COUNTING or layer.first_page >= 64, "layers: no journal")

    def take_runs(self, data, at, header, taken):
        """Reads the run table, and returns where it ends. Run table."""
        require(at + 16 <= len(data), "length")
        count, reserved, self.set_version = struct.unpack("<IIQ", data[at:at + 16])
        require(1 <= count <= 24, "run_count")
        require(reserved == 0, "run table: reserved")
        at += 16
        for _ in range(count):
            run = Run(data[at:at + 104], self.sequence, self.generation + self.partly_merged)
            self.runs.append(run)
            at += 104
        versions = [run.version for run in [self.directory] + self.runs]
        require(max(versions) <= self.set_version <= self.sequence, "set_version")
        space = header.bits << header.age_bits
        require(all(run.begin < space for run in self.runs), "run: begin")
        steps = [run.below_until for run in self.runs]
        most = MOST_STEP if header.forgets else 0
        require(steps == sorted(steps) and steps[-1] <= most, "run: below_until")
        places = sorted(taken + [copy for run in self.runs for copy in run.copies()])
        apart = all(end <= start for (_, end), (start, _) in zip(places, places[1:]))
        require(apart, "run: directory_page")
        return at


def newest_superblock(store, header):
    good, faults = [], []
    for name, offset in (("A", 16384), ("B", 73728)):
        try:
            good.append(Superblock(store.read(offset, 57344), header))
        except Newer:
            raise
        except Refused as fault:
            faults.append(f"{name}: {fault}")
    require(good, f"both superblocks are damaged ({'; '.join(faults)})")
    # `max` takes the first of equals, and B is the one to take then.
    return max(reversed(good), key=lambda superblock: superblock.sequence), faults


# Segments

SEGMENT = struct.Struct("<QQQQII")
assert SEGMENT.size == 40


def check_sealed(page, owner, number, generation, occupancy, used, what):
    """Header of a page of fences or of the directory, and the zeros behind its entries."""
    crc, found, made = struct.unpack("<IIQ", page[:16])
    require(not zeros(page) and crc == page_crc(owner, number, page), f"{what}: CRC")
    require(made == generation, f"{what}: generation")
    require(found == occupancy and zeros(page[16 + used:]), f"{what}: occupancy")


class Segment:
    """A segment, as its entry in the directory says."""

    def __init__(self, data, directory):
        (self.first, self.first_page, self.keys, self.generation, self.pages,
         self.list) = SEGMENT.unpack(data)
        require(1 <= self.pages <= 2040, "a segment: pages")
        require(32 <= self.first_page < 1 << 50, "a segment: first_page")
        require(self.end_page() <= directory.end_page, "a segment: first_page")
        require(self.keys <= 15232 * self.pages, "a segment: keys")
        require(1 <= self.generation <= directory.generation, "a segment: generation")
        require(self.list <= 1, "a segment: list")

    def end_page(self):
        return self.first_page + self.pages + (self.pages + 509) // 510


class Runs:
    """All runs of a store, the oldest first."""

    def __init__(self, store, superblock, header):
        directories = [superblock.directory] + superblock.runs
        self.runs = [RunPages(store, directory, header) for directory in directories]
        self.forgets = header.forgets
        self.faults = [fault for run in self.runs for fault in run.faults]
        extents = [extent for run in self.runs for extent in run.extents()]
        if superblock.runs:
            extents += [copy for directory in directories for copy in directory.copies()]
            extents += [(section.first_page, section.end())
                        for section in superblock.sections if section.hashes]
        extents.sort()
        apart = all(end <= start for (_, end), (start, _) in zip(extents, extents[1:]))
        require(apart, "the directory: two segments share a page")

    def check(self):
        for run in self.runs:
            run.check()
        below = set()
        for run in self.runs if len(self.runs) > 1 else []:
            came, went = run.counting()
            agrees = not came & below and went <= below
            require(agrees or self.forgets, "a run contradicts those below it")
            below = (below | came) - went

    def contains(self, fingerprint, since):
        """Looking up. What came before step `since` is forgotten."""
        for run in reversed(self.runs):
            if run.directory.begin <= fingerprint:
                if run.went.contains(fingerprint, since):
                    return False
                if run.came.contains(fingerprint, since):
                    return True
        return False


class RunPages:
    """What the directory of a run names."""

    def __init__(self, store, directory, header):
        self.store, self.owner, self.faults = store, header.page_owner, []
        self.directory = directory
        segments = []
        for index in range(directory.pages()):
            segments += self.directory_page(directory, index)
        lists = [segment.list for segment in segments]
        most = 1 if isinstance(directory, Run) else 0
        require(lists == sorted(lists) and max(lists, default=0) <= most, "a segment: list")
        self.came, self.went = (Segments(store, [one for one in segments if one.list == which],
                                         directory, header) for which in (0, 1))
        pages = sum(end - start for start, end in self.extents())
        require(pages == directory.segment_pages, "the directory: segment_pages")
        for segments, count in ((self.came, directory.came), (self.went, directory.went)):
            keys = sum(segment.keys for segment in segments.segments)
            require(keys >= count if directory.begin else keys == count,
                    "the directory: directory_keys")

    def extents(self):
        return [(segment.first_page, segment.end_page())
                for segments in (self.came, self.went) for segment in segments.segments]

    def check(self):
        self.came.check()
        self.went.check()

    def counting(self):
        """The fingerprints of both lists that count, as many as the run says."""
        begin = self.directory.begin
        came, went = ({one for one in segments.all() if one >= begin}
                      for segments in (self.came, self.went))
        require((len(came), len(went)) == (self.directory.came, self.directory.went),
                "a run: came, went")
        return came, went

    def directory_page(self, directory, index):
        """The entries of a page, from the first copy in which it is whole."""
        count, found = min(102, directory.segments - 102 * index), []
        for place in directory.places:
            number = place + index
            what = f"page {number}, of the directory, is damaged"
            try:
                page = self.store.read(number * PAGE, PAGE)
                check_sealed(page, self.owner, number, directory.generation, count, 40 * count, what)
                entries = page[16:16 + 40 * count]
                found.append([Segment(entries[at:at + 40], directory)
                              for at in range(0, 40 * count, 40)])
            except Refused as fault:
                self.faults.append(str(fault))
        require(found, "; ".join(self.faults[-2:]))
        return found[0]


class Segments:
    """The segments of a list of a run, and what is in their pages."""

    def __init__(self, store, segments, directory, header):
        self.store, self.owner, self.age_bits = store, header.page_owner, header.age_bits
        self.space = header.bits << header.age_bits
        self.segments = segments
        self.firsts = [segment.first for segment in segments]
        rising = all(one < other for one, other in zip(self.firsts, self.firsts[1:]))
        require(rising and all(one <= directory.begin for one in self.firsts[:1]),
                "the directory: first")
        require(all(first < self.space for first in self.firsts), "the directory: first")
        require(not any(map(self.age_of, self.firsts)), "the directory: first")
        self.fences = [None] * len(self.segments)
        self.lists, self.bases = {}, {}

    def age_of(self, number):
        return number & (1 << self.age_bits) - 1

    def all(self):
        return (one for index, segment in enumerate(self.segments)
                for place in range(segment.pages) for one in self.list(index, place))

    def end(self, index):
        """Where a segment's range ends."""
        return (self.firsts + [self.space])[index + 1]

    def fences_of(self, index):
        """The fences of a segment, checked, and the end of its range behind them."""
        if self.fences[index] is None:
            segment, fences = self.segments[index], []
            for number in range(segment.first_page + segment.pages, segment.end_page()):
                count = min(510, segment.pages - len(fences))
                page = self.store.read(number * PAGE, PAGE)
                what = f"page {number}, of fences, is damaged"
                check_sealed(page, self.owner, number, segment.generation, count, 8 * count, what)
                fences += struct.unpack(f"<{count}Q", page[16:16 + 8 * count])
            fences.append(self.end(index))
            what = f"the fences from page {segment.first_page + segment.pages} on"
            require(fences[0] == segment.first, f"{what}: first")
            require(all(a < b for a, b in zip(fences, fences[1:])), f"{what}: not sorted")
            require(not any(map(self.age_of, fences)), f"{what}: first")
            self.fences[index] = fences
        return self.fences[index]

    def list(self, index, place):
        """The list in a page of a segment, checked."""
        segment, fences = self.segments[index], self.fences_of(index)
        number = segment.first_page + place
        if number not in self.lists:
            page = self.store.read(number * PAGE, PAGE)
            what = f"page {number} is damaged"
            generation, first = struct.unpack("<QQ", page[8:24])
            crc = struct.pack("<I", page_crc(self.owner, number, page))
            require(page[:4] == crc and not zeros(page), f"{what}: CRC")
            require(generation == segment.generation, f"{what}: generation")
            require(first == fences[place], f"{what}: first")
            end = fences[place + 1]
            found = fingerprints(page, self.owner, number, end, self.age_bits)
            self.lists[number], self.bases[number] = found, base_of(page)
        return self.lists[number]

    def check(self):
        for index, segment in enumerate(self.segments):
            keys = sum(len(self.list(index, place)) for place in range(segment.pages))
            require(keys == segment.keys, f"segment {index}: {keys} keys, not {segment.keys}")

    def contains(self, fingerprint, since):
        if not self.segments:
            return False
        number = fingerprint << self.age_bits
        index = bisect.bisect_right(self.firsts, number) - 1
        place = bisect.bisect_right(self.fences_of(index), number) - 1
        found = self.list(index, place)
        at = bisect.bisect_left(found, number)
        if at == len(found) or found[at] >> self.age_bits != fingerprint:
            return False
        base = self.bases[self.segments[index].first_page + place]
        return base - self.age_of(found[at]) >= since


# Copy mark


def refuse_half_applied(store, header, superblock):
    mark = store.read(12288, 96)
    if mark[:8] != b"EVERCOPY" or int.from_bytes(mark[8:12], "little") != crc32(mark[12:]):
        return
    state, store_id, generation, _, sequence = struct.unpack("<I16sQQQ", mark[12:56])
    own = (superblock.generation == generation and not superblock.log_expected
           and superblock.sequence in (sequence, sequence - 1))
    require(state != 1 or store_id != header.store_id or not own, "a delta was applied half")


# Intents


def counting_intent(store, header, generation):
    """The range of pages that may be torn."""
    newest = None
    for offset in (4096, 8192):
        data = store.read(offset, 64)
        magic, crc, _, store_id, of, sequence, start, end = struct.unpack("<8sII16sQQQQ", data)
        if magic != b"EVERINTT" or crc != crc32(data[12:]) or store_id != header.store_id:
            continue
        if newest is None or (of, sequence) > newest[0]:
            newest = ((of, sequence), range(start, max(start, end)))
    if newest is not None and newest[0][0] == generation:
        return newest[1]
    return None


# Journal


def counting_images(store, header, generation, layer, intended):
    """The images of a journal that counts, by the numbers of their pages."""
    front = store.read(131072, 64)
    magic, crc, count, store_id, of = struct.unpack("<8sII16sQ", front[:40])
    if magic != b"EVERJRNL" or crc != crc32(front[12:]) or store_id != header.store_id:
        return {}
    if of != generation or count > min(layer.first_page - 48, 7680):
        return {}
    numbers = struct.unpack(f"<{count}Q", store.read(135168, 8 * count))
    rising = all(one < other for one, other in zip(numbers, numbers[1:]))
    if not rising or not all(layer.first_page <= number < layer.end() for number in numbers):
        return {}
    if not all(number in intended for number in numbers):
        return {}
    images = {}
    for place, number in enumerate(numbers):
        image = store.read(196608 + place * PAGE, PAGE)
        crc, _, made = struct.unpack("<IIQ", image[:16])
        if crc != page_crc(header.page_owner, number, image) or made != generation + 1:
            return {}
        images[number] = image
    return images


def after(counter, net):
    return STUCK if counter == STUCK else min(STUCK, max(0, counter + net))


def counters(page):
    for byte in page[16:]:
        yield byte & 15
        yield byte >> 4


# The log, Log records


class BadLogHeader(Refused):
    """Length, magic or CRC: what a crash leaves of a log that was being made."""


class AnotherStore(Refused):
    """The log of another store."""


class Log:
    """A log. With `alone`, its header alone is read: it is one that doesn't count."""

    def __init__(self, path, header, generation, alone=False):
        self.name = os.path.basename(path)
        with open(path, "rb") as file:
            self.data = file.read(PAGE if alone else -1)
        head = self.data[:64]
        if len(self.data) < PAGE or head[:8] != b"EVERSLOG":
            raise BadLogHeader(f"{self.name}: no log header")
        _, version, crc, store_id, self.salt, of, self.moment = struct.unpack("<8sII16s16sQQ", head)
        if version == 2:
            head = self.data[:72]
        if crc != crc32(head[:12], head[16:]):
            raise BadLogHeader(f"{self.name}: the log's header is damaged: CRC")
        require(version == 1 + header.forgets, f"{self.name}: log version {version}")
        # Clocks.
        self.clock = int.from_bytes(head[64:], "little")
        require(self.clock <= MOST_CLOCK, f"{self.name}: clock")
        if store_id != header.store_id:
            raise AnotherStore(f"{self.name}: belongs to another store")
        require(of == generation, f"{self.name}: of generation {of}")
        self.generation = of
        # The note.
        crc_of_note, _, self.durable, self.length = struct.unpack("<IIQQ", self.data[512:536])
        good = crc_of_note == crc32(self.salt, self.data[516:536]) and self.durable >= PAGE
        if not good:
            self.durable = self.length = 0
        if alone:
            return
        self.end, self.previous, self.cut_forgets = PAGE, crc, False
        self.marks, self.cut, self.records = [], None, 0
        self.changes, self.removes, self.nets, committed = [], 0, {}, {}
        while self.cut is None:
            record = self.record(self.end)
            if record is None or record[0] != self.previous:
                break
            _, crc, kind, handle, payload = record
            if kind == INSERT:
                self.changes.append((self.end, handle, payload, True))
                self.count(payload, 1)
            elif kind == REMOVE:
                can_remove = header.kind in (COUNTING, FINGERPRINT)
                require(can_remove, f"{self.name}: keys removed at {self.end}")
                self.changes.append((self.end, handle, payload, False))
                self.count(payload, -1)
            elif kind == COMMIT:
                mark = read_mark(payload)
                require(mark is not None, f"{self.name}: a mark at {self.end} makes no sense")
                self.marks.append(mark)
                committed[handle] = self.end
            elif kind == CUT:
                self.cut = self.read_cut(payload, header)
            self.end += 24 + len(payload)
            self.previous = crc
            self.records += 1
        if self.cut is None:
            self.check_tail()
        # Which keys count. `states` says of each fingerprint what the last record that counts made of it.
        self.keys, self.states = set(), {}
        for offset, handle, payload, is_insert in self.changes:
            if header.transactional and offset >= committed.get(handle, 0):
                continue
            keys = struct.unpack(f"<{len(payload) // 8}Q", payload)
            self.removes += 0 if is_insert else len(keys)
            if is_insert:
                self.keys.update(keys)
            if header.kind == FINGERPRINT:
                self.states.update((key * header.bits >> 64, is_insert) for key in keys)
        self.clock_counts = bool(self.states or self.marks or self.cut_forgets)

    def count(self, payload, by):
        for key in struct.unpack(f"<{len(payload) // 8}Q", payload):
            self.nets[key] = self.nets.get(key, 0) + by

    def next_moment(self):
        """The store's moment once this log's keys are in its pages. Moments."""
        low, high = struct.unpack("<QQ", self.salt)
        return max(1, finalise((finalise((finalise(self.moment) + low) & MASK) + high) & MASK))

    def expect_length(self):
        require(self.length <= len(self.data), f"{self.name}: cut off, it was made longer")

    def expect(self, moment):
        require(self.moment in (0, moment), f"{self.name}: of another moment")

    def record(self, offset):
        """(previous, crc, kind, handle, payload), or None where no valid record lies."""
        head = self.data[offset:offset + 24]
        if len(head) < 24:
            return None
        crc, previous, length, kind, flags, handle = struct.unpack("<IIIHHQ", head)
        if length > 65536 or length % 8 or not OPEN <= kind <= LOST or flags:
            return None
        record = self.data[offset:offset + 24 + length]
        if len(record) < 24 + length:
            return None
        if crc != crc32(self.salt, struct.pack("<Q", offset), record[4:]):
            return None
        return previous, crc, kind, handle, record[24:]

    def read_cut(self, payload, header):
        require(len(payload) >= 72, f"{self.name}: the cut makes no sense")
        flags, index = struct.unpack("<II", payload[:8])
        self.cut_forgets = header.forgets and flags & 2 == 2
        require(flags & ~(3 if header.forgets else 1) == 0, f"{self.name}: the cut makes no sense")
        if header.kind == FINGERPRINT:
            require(zeros(payload[4:72]), f"{self.name}: the cut makes no sense")
            return flags & 1 == 1, index, None
        return flags & 1 == 1, index, Layer(payload[8:72], 32)

    def check_tail(self):
        """Torn tail or damage."""
        require(self.durable <= self.end,
                f"{self.name}: damaged at byte {self.end}, which had been durable")
        offset = self.end + 8
        while offset + 24 < len(self.data):
            record = self.record(offset)
            if record is not None and record[2] == COMMIT:
                mark = read_mark(record[4])
                require(mark is None or mark[1] <= self.end,
                        f"{self.name}: damaged at byte {self.end}, which had been durable")
            offset += 8


def read_mark(payload):
    """(sequence, durable, name, tag), or None."""
    if len(payload) < 24:
        return None
    sequence, durable, name_length, tag_length, _ = struct.unpack("<QQHHI", payload[:24])
    end = 24 + name_length + tag_length
    if not 1 <= name_length <= 255 or tag_length > 4096 or len(payload) < end:
        return None
    try:
        name = payload[24:24 + name_length].decode("utf-8")
    except UnicodeDecodeError:
        return None
    return sequence, durable, name, payload[end - tag_length:end]


def check_cut(log, superblock, header):
    _, index, layer = log.cut
    layers = superblock.layers
    if header.kind == FINGERPRINT:
        return
    wrong = f"{log.name}: the cut's layer does not fit"
    if index < len(layers):
        require(index + 1 == len(layers) and layers[index].bytes == layer.bytes, wrong)
    else:
        require(index == len(layers) < 64 and header.kind == SCALABLE and layer.keys == 0, wrong)
        for part in layers + superblock.sections:
            require(part.end() <= layer.first_page, wrong)


# Recovery


class Store:
    def __init__(self, path, clock=0):
        self.path = path
        self.file = open(path, "rb")
        self.length = os.fstat(self.file.fileno()).st_size
        self.header = Header(self.read(0, min(PAGE, self.length)), self.length)
        self.superblock, self.faults = newest_superblock(self, self.header)
        refuse_half_applied(self, self.header, self.superblock)
        self.layers = self.superblock.layers
        directory, self.segments = self.superblock.directory, None
        parts = self.layers + self.superblock.sections + self.superblock.runs
        for part in parts + ([directory] if directory else []):
            require(self.length >= part.end() * PAGE, "cut short: pages are missing")
        if directory:
            self.segments = Runs(self, self.superblock, self.header)
        kept = {}
        for section in self.superblock.sections:
            kept.setdefault(section.kind, set()).update(section.read(self))
        self.exempt = kept.get(EXEMPT_SECTION, set())
        self.sample, self.lost = kept.get(SAMPLE_SECTION), kept.get(LOST_SECTION, set())
        rarity = {section.kind: section.rarity for section in self.superblock.sections}
        salt = int.from_bytes(self.header.seed[8:16], "little")
        for key in (self.sample or set()) | self.lost:
            sampled = (key ^ salt) % (1 << rarity.get(SAMPLE_SECTION, 64)) == 0
            require(sampled, "a key in the sample is not sampled")
        intent = None
        if self.header.kind != FINGERPRINT:
            intent = counting_intent(self, self.header, self.superblock.generation)
        self.writers = dict(self.superblock.writers)
        self.commit_sequence = self.superblock.commit_sequence
        self.logs = self.read_logs(intent)
        # The time of the store. Clocks.
        told = [log.clock for log in self.logs if log.clock_counts]
        self.clock, self.since = max([clock, self.superblock.clock] + told), 0
        if self.header.forgets:
            self.since = self.header.step(self.clock) - self.header.steps
        # Torn pages are those of a checkpoint that is due, and of no other.
        self.torn = intent if self.logs and self.logs[0].cut else range(0)
        if self.torn is None:
            self.torn = range(0)
        self.checked = set()
        self.images = {}
        if self.header.kind == COUNTING:
            self.images = counting_images(
                self, self.header, self.superblock.generation, self.layers[0], self.torn)
            # What is torn is in the journal, or it is damage.
            self.torn = range(0)

    def read(self, offset, size):
        data = os.pread(self.file.fileno(), size, offset)
        require(len(data) == size, f"cut short at byte {offset + len(data)}")
        return data

    def log(self, generation, alone=False):
        path = f"{self.path}-log.{generation}"
        return Log(path, self.header, generation, alone) if os.path.exists(path) else None

    def read_logs(self, intent):
        generation = self.superblock.generation
        begun = intent is not None or self.superblock.partly_merged
        expected = self.superblock.log_expected or begun
        try:
            first = self.log(generation)
        except BadLogHeader:
            if expected:
                raise
            first = None
        else:
            require(first or not expected, f"the log of generation {generation} is missing")
        if first is None:
            self.refuse_strays([])
            return []
        first.expect(self.superblock.moment)
        if self.superblock.log_expected or first.end > PAGE:
            first.expect_length()
        logs = [first]
        if first.cut is None:
            require(not begun, f"{first.name}: its cut is missing")
        else:
            check_cut(first, self.superblock, self.header)
            if not first.cut[0]:
                second = self.log(generation + 1)
                require(second, f"the log of generation {generation + 1} is missing")
                second.expect(first.next_moment())
                second.expect_length()
                require(second.cut is None, f"{second.name}: closed, and not the first")
                logs.append(second)
        self.refuse_strays(logs)
        for log in logs:
            for sequence, _, name, tag in log.marks:
                self.commit_sequence = max(self.commit_sequence, sequence)
                self.writers[name] = (sequence, tag)
        return logs

    def refuse_strays(self, logs):
        """Refuses logs that no crash can have left. Files, A stray log; Moments."""
        generation, moment = self.superblock.generation, self.superblock.moment
        folder, name = os.path.split(os.path.abspath(self.path))
        for other in sorted(os.listdir(folder)):
            number = other[len(name) + 5:]
            if not other.startswith(f"{name}-log.") or not number.isdecimal():
                continue
            number = int(number)
            known = [generation] + [log.generation for log in logs]
            if number in known or other != f"{name}-log.{number}":
                continue
            with open(os.path.join(folder, other), "rb") as file:
                start = file.read(PAGE)
            if start[:8] not in LOG_LIKE and not zeros(start):
                continue
            leftover = number == generation - 1 or logs and number == generation + 1
            try:
                log = self.log(number, alone=True)
            except AnotherStore:
                raise
            except Refused:
                require(leftover, f"{other}: a log that can't be told")
                continue
            require(leftover, f"{other}: of another moment")
            if number > generation:
                log.expect(logs[0].next_moment())
            elif log.moment or moment:
                require(log.next_moment() == moment, f"{other}: of another moment")

    def page(self, index, number):
        """A page of a layer, checked. Pages."""
        layer = self.layers[index]
        at = layer.first_page + number
        data = self.images.get(at) or self.read(at * PAGE, PAGE)
        if at in self.checked:
            return data
        what = f"page {number} of layer {index} is damaged"
        if zeros(data):
            require(not layer.all_written, f"{what}: blank")
        else:
            crc, occupancy = struct.unpack("<II", data[:8])
            if crc != page_crc(self.header.page_owner, at, data):
                require(at in self.torn, f"{what}: CRC")
            else:
                if self.header.kind == COUNTING:
                    bits = sum(counter > 0 for counter in counters(data))
                else:
                    bits = bin(int.from_bytes(data[16:], "little")).count("1")
                require(bits == occupancy, f"{what}: occupancy")
        self.checked.add(at)
        return data

    def check_reused(self):
        """What was read is of the directory that was read. Room and reuse."""
        if self.segments:
            reused = int.from_bytes(self.read(4096, 8), "little")
            require(reused <= self.superblock.set_version,
                    f"passed: pages are used again up to version {reused}")

    def check_pages(self):
        if self.segments:
            self.segments.check()
        for index, layer in enumerate(self.layers):
            for number in range(layer.pages):
                self.page(index, number)

    def count(self, key):
        """How often a counting store has a key. Counting."""
        layer = self.layers[0]
        page = self.page(0, page_of(key, layer.pages))
        own = own_counters(key, layer.probes)
        count = min(page[16 + at // 2] >> at % 2 * 4 & 15 for at in own)
        made = int.from_bytes(page[8:16], "little")
        if key in self.exempt:
            count = made = 0
        for log in self.logs:
            if log.generation >= made:
                count = after(count, log.nets.get(key, 0))
        return count

    def contains(self, key):
        if self.header.kind == COUNTING:
            return self.count(key) > 0
        if self.header.kind == FINGERPRINT:
            fingerprint = key * self.header.bits >> 64
            for log in reversed(self.logs):
                is_there = log.states.get(fingerprint)
                if is_there and self.header.forgets and self.header.step(log.clock) < self.since:
                    is_there = None
                if is_there is not None:
                    return is_there
            is_there = self.segments.contains(fingerprint, self.since)
            return is_there and key not in self.exempt
        if any(key in log.keys for log in self.logs):
            return True
        for index, layer in enumerate(self.layers):
            page = self.page(index, page_of(key, layer.pages))
            if all(page[16 + bit // 8] >> bit % 8 & 1 for bit in bits(key, layer.probes)):
                return key not in self.exempt
        return False

    def info(self):
        header, superblock = self.header, self.superblock
        return {
            "kind": {PLAIN: "bloom", COUNTING: "counting", SCALABLE: "scalable",
                     FINGERPRINT: "fingerprint"}[header.kind],
            "hash": {1: "highway", 2: "xxh3", 3: "murmur3"}[header.hash],
            "transactional": header.transactional,
            "capacity": header.capacity,
            "fpr": header.fpr,
            "created": header.created,
            "window": header.window,
            "steps": header.steps,
            "clock": self.clock,
            "store_id": header.store_id.hex(),
            "sequence": superblock.sequence,
            "generation": superblock.generation,
            "log_expected": superblock.log_expected,
            "commit_sequence": self.commit_sequence,
            "superblock_faults": self.faults,
            "exempt": len(self.exempt),
            "sample": None if self.sample is None else len(self.sample),
            "lost": len(self.lost),
            "torn": [self.torn.start, self.torn.stop],
            "layers": [
                {"first_page": layer.first_page, "pages": layer.pages, "keys": layer.keys,
                 "capacity": layer.capacity, "probes": layer.probes,
                 "all_written": layer.all_written, "fpr": layer.fpr}
                for layer in self.layers
            ],
            "directory": self.segments and {
                "version": superblock.directory.version,
                "generation": superblock.directory.generation,
                "segments": superblock.directory.segments,
                "pages": superblock.directory.segment_pages,
                "keys": superblock.directory.keys,
                "end_page": superblock.directory.end_page,
                "faults": self.segments.faults,
            },
            "logs": [
                {"name": log.name, "end": log.end, "records": log.records, "keys": len(log.keys),
                 "removes": log.removes, "closed": log.cut is not None}
                for log in self.logs
            ],
            "label": None if superblock.label is None else superblock.label.hex(),
            "writers": [
                {"writer": name, "seq": sequence, "tag": tag.hex()}
                for name, (sequence, tag) in sorted(self.writers.items())
            ],
        }


def main():
    parser = argparse.ArgumentParser(description="reads an Everseen store")
    parser.add_argument("store")
    parser.add_argument("--hashes", metavar="FILE", help="hashes to look up, one a line")
    parser.add_argument("--raw", action="store_true", help="hashes are not to be mixed")
    parser.add_argument("--clock", metavar="MILLISECONDS", type=int, default=0,
                        help="what time it is for a store that forgets")
    parser.add_argument("--page-of-fingerprints", metavar=("NUMBER", "END"), nargs=2, type=int,
                        help="the file is a page of fingerprints")
    parser.add_argument("--page-owner", metavar="STORE_ID", type=bytes.fromhex, default=b"",
                        help="the store that the page is bound to")
    arguments = parser.parse_args()
    try:
        if arguments.page_of_fingerprints:
            with open(arguments.store, "rb") as file:
                place = arguments.page_of_fingerprints
                print(fingerprints(file.read(), arguments.page_owner, *place))
            return 0
        store = Store(arguments.store, arguments.clock)
        store.check_pages()
        info = store.info()
        if arguments.hashes:
            with open(arguments.hashes, encoding="ascii") as lines:
                keys = [int(line, 0) for line in lines if line.strip()]
            if not arguments.raw:
                keys = [store.header.mix(key) for key in keys]
            if store.header.kind == COUNTING:
                info["counts"] = [store.count(key) for key in keys]
            info["answers"] = "".join("01"[store.contains(key)] for key in keys)
        store.check_reused()
    except (Refused, OSError, ValueError) as error:
        print(f"{arguments.store}: {error}", file=sys.stderr)
        return 2
    json.dump(info, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
