"""How the losses of a compound run went. Plain Python 3.

    python3 losses.py metrics.jsonl [--below NATS]      # status 1 if the last cross-entropies' mean is not below that
"""

import argparse
import json
import sys


def average(values):
    return sum(values) / len(values)


def show(lines):
    names = sorted(lines[0]["losses"])
    print("  step     loss  " + "  ".join(f"{name:>14}" for name in names))
    for line in lines[:: max(1, len(lines) // 8)] + lines[-1:]:
        print(f"  {line['step']:4d}  {line['loss']:7.3f}  " + "  ".join(f"{line['losses'][name]:14.3f}" for name in names))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("metrics")
    parser.add_argument("--below", type=float)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in open(arguments.metrics)]
    show(lines)
    last = average([line["losses"]["cross_entropy"] for line in lines[-max(1, len(lines) // 10) :]])
    if arguments.below is not None and not last < arguments.below:
        sys.exit(f"losses: the last cross-entropy, {last:.3f}, is not below {arguments.below:.3f}")


if __name__ == "__main__":
    main()
