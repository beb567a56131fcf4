"""Options that a store which exists can't meet."""

import os
from datetime import timedelta

import pytest

import everseen
from everseen import errors


@pytest.fixture(autouse=True)
def made(folder):
    everseen.open("bloom.ever", 1000, 1e-4, label=b"rules 1").close()
    everseen.open("large.ever", 10**6, bits_per_key=20.0).close()
    everseen.open("prints.ever", grows_to=10**6, transactional=True, measured=False).close()
    everseen.open("forgets.ever", forget_after=86400).close()


UNMET = [
    ("bloom.ever", {"fpr": 1e-12}, "has a rate of 1e-4; leave out `fpr`"),
    ("bloom.ever", {"kind": "fingerprint"}, "has kind bloom; leave out `kind`"),
    ("bloom.ever", {"capacity": 1001}, "has a capacity of 1000; leave out `capacity`"),
    ("bloom.ever", {"grows_to": 1000}, "has kind bloom; leave out `grows_to`"),
    ("bloom.ever", {"transactional": True}, "has no transactions; leave out `transactional`"),
    ("bloom.ever", {"bits_per_key": 64.0}, "has 32.6 bits a key; leave out `bits_per_key`"),
    ("bloom.ever", {"hash": "xxh3"}, "has hash highway; leave out `hash`"),
    ("bloom.ever", {"seed": bytes(32)}, "has another seed; leave out `seed`"),
    ("bloom.ever", {"label": b"rules 2"}, "has another label; leave out `label`"),
    ("bloom.ever", {"growth": 4}, "has kind bloom; leave out `growth`"),
    ("bloom.ever", {"foldable": 3}, "times; leave out `foldable`"),
    ("bloom.ever", {"like": "prints.ever"}, "leave out `like`"),
    ("prints.ever", {"capacity": 10**6 + 1}, "has a limit of 1000000 keys; leave out `capacity`"),
    ("prints.ever", {"grows_to": 10**7}, "has a limit of 1000000 keys; leave out `grows_to`"),
    ("prints.ever", {"transactional": False}, "dropped; leave out `transactional`"),
    ("prints.ever", {"measured": True}, "has no sample; leave out `measured`"),
    ("prints.ever", {"label": b"rules 1"}, "has no label; leave out `label`"),
    ("prints.ever", {"forget_after": 86400}, "has no window: it keeps keys for ever; leave out `forget_after`"),
    ("forgets.ever", {"forget_after": 86401}, "has a window of 86400s; leave out `forget_after`"),
    ("forgets.ever", {"forget_after": timedelta(hours=1)}, "has a window of 86400s; leave out `forget_after`"),
    ("forgets.ever", {"forget_by": "last"}, "has ages since keys first came; leave out `forget_by`"),
    ("forgets.ever", {"forget_steps": 200}, "has 15 steps; leave out `forget_steps`"),
    ("bloom.ever", {"forget_by": "first"}, "has no window: it keeps keys for ever; leave out `forget_by`"),
    ("bloom.ever", {"forget_steps": 15}, "has no window: it keeps keys for ever; leave out `forget_steps`"),
]


@pytest.mark.parametrize("mode", ["a", "r+", "r"])
@pytest.mark.parametrize(("name", "options", "message"), UNMET)
def test_a_store_that_is_less_is_refused(name, options, message, mode):
    with pytest.raises(errors.UnmetOptionError, match=message) as raised:
        everseen.open(name, mode=mode, **options)
    assert [raised.value.option] == list(options)
    # It is not left open.
    everseen.open(name, exclusive=True, timeout=0.0).close()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bloom.ever", {"capacity": 5}, "created with a capacity of 1000: `capacity` has no effect"),
        ("bloom.ever", {"fpr": 1e-3}, "created with a rate of 1e-4: `fpr` has no effect"),
        ("large.ever", {"bits_per_key": 5.0}, "created with 20.0 bits a key: `bits_per_key` has no effect"),
        ("bloom.ever", {"measured": False}, "created with a sample: `measured` has no effect"),
        ("forgets.ever", {"forget_after": 86400, "forget_steps": 5}, "created with 15 steps: `forget_steps` has no effect"),
        ("prints.ever", {"grows_to": 5}, "created with a limit of 1000000 keys: `grows_to` has no effect"),
    ],
)
def test_what_has_no_effect_is_warned_of(name, options, message):
    with pytest.warns(errors.NoEffectWarning, match=message) as caught:
        everseen.open(name, **options).close()
    # It names the line that has asked for it.
    assert [warning.filename for warning in caught] == [__file__]


def test_the_same_words_again_do_no_harm():
    """Warnings are errors here."""
    for options in [
        {},
        {"capacity": 1000, "fpr": 1e-4, "label": b"rules 1", "transactional": False, "measured": True},
        {"kind": "bloom", "hash": "highway", "buffer": 1 << 20, "writer": "me"},
        {"like": "bloom.ever"},
    ]:
        everseen.open("bloom.ever", **options).close()
    everseen.open("forgets.ever", forget_after=timedelta(days=1), forget_steps=15).close()
    everseen.open("forgets.ever").close()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"times": 4}, "name that by `like`"), ({"mode": "r", "exclusive": True}, "use mode 'r\\+'")],
)
def test_options_that_say_nothing_alone(options, message):
    for name in ("bloom.ever", "none.ever"):
        with pytest.raises(ValueError, match=message):
            everseen.open(name, **options)
    assert not os.path.exists("none.ever")
