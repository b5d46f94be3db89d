"""How a compound run went: its losses, and how long each section's devices worked and waited. Plain Python 3.

    python3 sections.py metrics.jsonl [--below NATS]      # status 1 if the last losses' mean is not below that
"""

import argparse
import json
import sys


def average(values):
    return sum(values) / len(values)


def show_losses(lines):
    names = sorted(lines[0]["losses"])
    print("  step     loss  " + "  ".join(f"{name:>14}" for name in names))
    for line in lines[:: max(1, len(lines) // 8)] + lines[-1:]:
        print(f"  {line['step']:4d}  {line['loss']:7.3f}  " + "  ".join(f"{line['losses'][name]:14.3f}" for name in names))


def show_sections(lines):
    """The first steps meet new shapes; what follows is steady."""
    steady = lines[len(lines) // 3 :]
    print(f"\n  a step of {1e3 * average([line['step_seconds'] for line in steady]):.1f} ms "
          f"(predicted {1e3 * average([line['predicted_step_seconds'] for line in steady]):.1f} ms)\n")
    print("  section               busy        idle   micro-batches")
    for name in lines[0]["sections"]:
        found = [line["sections"][name] for line in steady]
        busy, idle = average([entry["busy"] for entry in found]), average([entry["idle"] for entry in found])
        share = 100 * idle / max(busy + idle, 1e-12)
        print(f"  {name:16s} {1e3 * busy:6.1f} ms  {1e3 * idle:6.1f} ms ({share:3.0f} %)  "
              f"{average([entry['microbatches'] for entry in found]):5.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("metrics")
    parser.add_argument("--below", type=float)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in open(arguments.metrics)]
    show_losses(lines)
    show_sections(lines)
    last = average([line["losses"]["cross_entropy"] for line in lines[-max(1, len(lines) // 10) :]])
    if arguments.below is not None and not last < arguments.below:
        sys.exit(f"sections: the last cross-entropy, {last:.3f}, is not below {arguments.below:.3f}")


if __name__ == "__main__":
    main()
