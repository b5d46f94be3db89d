"""A weightless 32-layer Llama of 8 billion parameters is planned in 5 s and 1 GB: shapes are read, never weights."""

import sys

import runs  # First: it says where the others are.

import figures

SECONDS, BYTES = 5, 1 << 30


def main() -> int:
    scratch = runs.Scratch("large-plan")
    seconds, peak = figures.plan_8b(scratch)
    scratch.check("planning time", seconds <= SECONDS, f"{seconds:.2f} s")
    scratch.check("planning memory", peak <= BYTES, f"{peak / (1 << 20):.0f} MiB")
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
