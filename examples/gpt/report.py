"""Draws a run's loss against that of byte frequencies. Plain Python 3.

    python3 report.py metrics.jsonl byte_frequencies.json        # status 1 if the loss did not fall well below
"""

import json
import sys

WIDTH = 40


def average(values):
    return sum(values) / len(values)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    losses = [json.loads(line)["loss"] for line in open(sys.argv[1])]
    baseline = json.load(open(sys.argv[2]))["nats"]
    top = max(losses[0], baseline)
    chunk = max(1, len(losses) // 12)
    for start in range(0, len(losses), chunk):
        value = average(losses[start : start + chunk])
        bar = "█" * round(WIDTH * value / top)
        print(f"  step {start + 1:4d}  {value:6.3f}  {bar}")
    print(f"  bytes alone  {baseline:6.3f}  {'░' * round(WIDTH * baseline / top)}")
    last = average(losses[-chunk:])
    print(f"\nLoss {losses[0]:.3f} -> {last:.3f} nats a byte; knowing only byte frequencies costs {baseline:.3f}.")
    if last > 0.9 * baseline:
        sys.exit("report: the loss is not well below that of byte frequencies")


if __name__ == "__main__":
    main()
