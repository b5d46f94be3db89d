"""The rows of bench/planning.py: made from plans, printed, kept in a results file, compared.

A results file has a note, and rows, one a line. KEY identifies a row; the rest of it is

    revision   of the tools
    seconds    that planning took
    peak       bytes of memory that planning took
    error      the message, where there is no plan; else:
    step       seconds that the plan predicts: the mean of several simulated steps
    searched   seconds of the typical step by which the search compares layouts
    gap        searched / proven lower bound - 1
    gains      each baseline's step / searched; null where it does not fit
    layout     in the search's words
    percent    where the mean device's step goes, and the bound, as parts of the step
"""

import json
import math

KEY = ("workload", "size", "device", "devices", "samples", "without")
BASELINES = ("one layout for all", "static split")
RATIOS = {"step": "step", "seconds": "planning time"}


def of_plan(dumped):
    quantities = {quantity["name"]: quantity["value"] for quantity in dumped["quantities"]}
    layouts = {row["subject"]: row for row in dumped.get("candidates", []) if row["kind"] == "Layout"}
    row = {"step": dumped["prediction"]["step_seconds"]}
    if not layouts:  # One section on one device: nothing was searched.
        return row
    first = next(iter(layouts.values()))
    # Baselines are predicted as the search predicts: its own layout, too.
    gains = {name: round(layout["step_seconds"] / first["step_seconds"], 4) or None for name, layout in layouts.items()
             if name != "search"}
    return row | {"searched": first["step_seconds"], "gap": quantities["search.gap"], "gains": gains,
                  "layout": first["choice"], "percent": percent(quantities)}


def percent(quantities):
    """Where the mean device's step goes; the bound is of the search's step, and is scaled to this one."""
    step, searched = quantities["step.simulated_seconds"], quantities["search.step_seconds"]
    mean = {name[5:-8]: value for name, value in quantities.items() if name.startswith("mean.")}
    least = mean.pop("least_work")
    mean = {"bound": quantities["search.lower_bound_seconds"] * step / searched, "work of these cuts": least,
            "padding and constants": mean.pop("tasks") - least, **mean}
    return {name: round(100 * seconds / step, 1) for name, seconds in mean.items()}


def key(row):
    return tuple(row[name] for name in KEY)


def read(path):
    return {key(row): row for row in json.loads(path.read_text())["rows"]}


def keep(path, row, note=None):
    """Puts a row into the file, in place of the one with its key."""
    found = json.loads(path.read_text()) if path.exists() else {"note": "", "rows": []}
    rows = {key(other): other for other in found["rows"]} | {key(row): row}
    ordered = sorted(rows.values(), key=lambda row: (row["workload"], row["devices"], str(key(row))))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in ordered)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"note": {json.dumps(found["note"] if note is None else note)}, "rows": [\n{lines}\n]}}\n')


def head(row):
    name = row["workload"] + (f" without {row['without']}" if row["without"] else "")
    return f"{name:11} {row['devices']:6} GPUs"


def text(row):
    line = f"{head(row)}: planned in {row['seconds']:5.1f} s, {row['peak'] / 2**30:.2f} GiB"
    if "error" in row:
        return f"{line}: {row['error']}"
    line += f", {row['step']:.3g} s a step"
    if "searched" not in row:
        return line
    gains = (f"{name} {gain:.2f} x" if gain else f"{name} does not fit" for name, gain in row["gains"].items())
    line += f" ({row['searched']:.3g} by the search), gap {100 * row['gap']:.1f} %; {', '.join(gains)}"
    line += f"\n{'':13}{row['layout']}"
    if row["devices"] == 64:
        line += f"\n{'':13}% of the step: " + ", ".join(f"{name} {value}" for name, value in row["percent"].items())
    return line


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def print_gains(rows):
    whole = [row["gains"] for row in rows if row["devices"] == 64 and not row["without"] and "gains" in row]
    for baseline in BASELINES:
        gains = [found[baseline] for found in whole if found.get(baseline)]
        if gains:
            mean = geometric_mean(gains)
            print(f"at 64 GPUs against {baseline}: {mean:.2f} x, geometric mean of {len(gains)} that fit")


def outcome(row):
    if row is None:
        return "absent"
    return row.get("error", "planned")


def print_ratios(title, rows, others):
    """The ratio of each row to the row of the same key in `others`: below 1 is better."""
    print(f"\n{title}, as ratios")
    ratios = {what: {} for what in RATIOS}
    for row in rows:
        other = others.get(key(row))
        if other is None or "error" in row or "error" in other:
            print(f"{head(row)}: {outcome(row)}; there {outcome(other)}")
            continue
        for what in RATIOS:
            ratios[what][head(row)] = row[what] / other[what]
        print(f"{head(row)}: " + ", ".join(f"{RATIOS[what]} {ratios[what][head(row)]:.3f} x" for what in RATIOS))
    for what, found in ratios.items():
        if found:
            worst = max(found, key=found.get)
            print(f"{RATIOS[what]}: {geometric_mean(found.values()):.3f} x, geometric mean of {len(found)}; "
                  f"worst {found[worst]:.3f} x, {worst}")


def print_without(rows):
    """A search that lacks some moves, against the search that has them all."""
    whole = {key(row): row for row in rows if not row["without"]}
    lacking = [row for row in rows if row["without"]]
    if lacking:
        print_ratios(f"without {lacking[0]['without']}", [row | {"without": ""} for row in lacking], whole)
