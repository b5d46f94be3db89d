"""Plans that are not plans, or not this machine's, and random damage to every kind of file."""

from __future__ import annotations

import random


def cuts(content: bytes, count: int):
    """Prefixes, shortest first, never the whole."""
    return [content[: len(content) * index // count] for index in range(1, count)]


def flips(content: bytes, count: int, seed: int):
    """Copies with one to eight bytes changed; half of them in the first 4 KiB, where structure lies."""
    generator = random.Random(seed)
    for index in range(count):
        damaged = bytearray(content)
        for _ in range(generator.choice([1, 1, 2, 8])):
            limit = min(len(damaged), 4096) if index % 2 else len(damaged)
            damaged[generator.randrange(limit)] = generator.choice([0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)])
        yield bytes(damaged)


def another_device(content: bytes) -> bytes:
    """The same plan for a device that is not here, of a name as long."""
    marker = b"\x03\x00\x00\x00cpu\x00"
    assert marker in content, "no device kind in the plan"
    return content.replace(marker, b"\x03\x00\x00\x00tpu\x00")


# name: (bytes of the plan from those of a valid one, words)
PLANS = {
    "plan empty": (lambda plan: b"", ["wrong.mpl"]),
    "plan text": (lambda plan: b"not a plan\n" * 100, ["wrong.mpl"]),
    "plan a tar": (lambda plan: b"\0" * 10240, ["wrong.mpl"]),
    "plan version": (lambda plan: plan.replace(b"MPL1", b"MPL2", 1), ["wrong.mpl", ("version", "MPL2", "MPL1")]),
    "plan other device": (another_device, [("tpu", "device", "machine")]),
    "plan first half": (lambda plan: plan[: len(plan) // 2], ["wrong.mpl"]),
    "plan second half": (lambda plan: plan[len(plan) // 2 :], ["wrong.mpl"]),
}
