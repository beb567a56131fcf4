"""A client process of the kill test: inserts, claims, commits and removes until the connection breaks, and notes what it knows.

Run as `python clients.py ADDRESS NUMBER SEED LOG [refused]`. It writes a byte to standard output for each answer, and its notes,
one JSON array a line, to LOG: what it is about to ask, then what was answered, and when. With `refused` it ends at the first error, as if
the connection had broken: an error promises nothing.
"""

import json
import random
import sys
import time

from resp import Closed, Refusal, Wire, packed, parsed

# Items that all clients want, in each round: whose answer is "new" wins.
SHARED = 400


class Notes:
    def __init__(self, path):
        # Only servers are killed: what is written here is there.
        self.file = open(path, "a", encoding="ascii")

    def write(self, *note):
        self.file.write(json.dumps(note) + "\n")
        self.file.flush()


MAY_BE_REFUSED = "refused" in sys.argv[5:]


def ask(wire, notes, *commands):
    """Several commands in one go. What is asked is noted first, what comes back as it comes."""
    notes.write("asks", *commands)
    wire.send(b"".join(packed(*command) for command in commands))
    answers = []
    for _ in commands:
        answer = parsed(wire.answer())
        # An array that ends with an error says what became of the items before it; nothing is made of that here.
        if isinstance(answer, Refusal) or isinstance(answer, list) and any(isinstance(each, Refusal) for each in answer):
            assert MAY_BE_REFUSED, (commands, answer)
            raise Closed(repr(answer).encode())
        answer = [word.decode() if isinstance(word, bytes) else word for word in answer] if isinstance(answer, list) else answer
        answers.append(answer)
        notes.write("told", answer, time.monotonic())
        sys.stdout.write(".")
        sys.stdout.flush()
    return answers


def run(address, number, seed, log):
    draw, notes, made = random.Random(f"{seed}-{number}"), Notes(log), 0
    committed = []
    try:
        wire = Wire(address)
        ask(wire, notes, ["CLIENT", "SETNAME", f"client{number}"])
        while True:
            choice = draw.randrange(10)
            own = [f"{seed}-{number}-{made + step}" for step in range(draw.randrange(1, 20))]
            shared = [f"shared-{draw.randrange(SHARED)}" for _ in range(draw.randrange(1, 20))]
            made += len(own)
            if choice < 2:
                ask(wire, notes, *(["BF.ADD", "bloom", item] for item in own + shared))
            elif choice < 4:
                ask(wire, notes, ["BF.MADD", "bloom", *own, *shared])
            elif choice == 4:
                ask(wire, notes, ["CF.INSERT", "cuckoo", "ITEMS", *own])
                if draw.random() < 0.5:
                    ask(wire, notes, *(["CF.DEL", "cuckoo", item] for item in own[::2]))
            elif choice == 5:
                ask(wire, notes, ["BF.MADD", "removed", *own], ["EV.REMOVE", "removed", *own[::2]])
            elif choice < 8:
                ask(wire, notes, ["EV.CLAIM", "claims", *shared, *own])
            elif choice == 8:
                ask(wire, notes, ["EV.CLAIM", "claims", *own], ["EV.COMMIT", "claims", "TAG", f"{seed}-{number}-{made}"])
                committed += own
            elif committed:
                gone = [committed.pop(draw.randrange(len(committed))) for _ in range(min(len(committed), 5))]
                ask(wire, notes, ["EV.REMOVE", "claims", *gone], ["EV.COMMIT", "claims"])
    except (Closed, OSError):
        notes.write("ends")


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
