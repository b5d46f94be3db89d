"""The survey's table: verdicts counted, refusals by reason, and a line a network.

python test/models/survey_table.py out/survey       # of what was judged so far
"""

from __future__ import annotations

import collections
import json
import pathlib
import re
import sys

VERDICTS = ("right", "refused", "cannot", "WRONG", "CRASH")
BAD = ("WRONG", "CRASH")


def kind_of(reason: str) -> str:
    """A message without what is a network's own: names, shapes, numbers."""
    text = reason.strip().splitlines()[-1] if reason.strip() else ""
    text = re.sub(r"[\w.]+\.onnx: ", "", text)
    text = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`]*`", "…", text)
    text = re.sub(r"\bnode_\w+", "a node", text)
    text = re.sub(r"\b(in|In) (module )?[\w.]*\.\w[\w.]*", r"\1 a module", text)
    text = re.sub(r"/[\w./-]+", "…", text)
    text = re.sub(r"\b[\w.]*\d[\w.]*\b", "#", text)
    return re.sub(r"\s+", " ", text)[:200]


def table(rows: list, made="Made by `./dev zoo`") -> str:
    """Markdown of (library, name, variant, result)."""
    variants = [
        variant for variant in ("plain", "default") if any(row[2] == variant for row in rows)
    ]
    networks = collections.defaultdict(dict)
    for library, name, variant, result in rows:
        networks[library, name][variant] = result
    lines = [
        f"# The survey: {len(networks)} networks, {len(rows)} exports",
        "",
        f"{made}; test/models/README.md says what is judged.",
        "",
    ]
    lines += counted(rows, variants)
    numbers = reasons(rows)
    lines += [
        "",
        "| network | parameters | " + " | ".join(variants) + " |",
        "|---|---|" + "---|" * len(variants),
    ]
    for (library, name), results in sorted(networks.items()):
        parameters = max(result.get("parameters", 0) for result in results.values())
        cells = [
            cell(results[variant], numbers) if variant in results else "" for variant in variants
        ]
        lines.append(f"| {library} {name} | {parameters or ''} | " + " | ".join(cells) + " |")
    lines += ["", "What was said, by kind:", ""]
    for kind, number in numbers.items():
        users = [f"{name} {variant}" for _, name, variant, result in rows if key_of(result) == kind]
        some = ", ".join(users[:6]) + (", …" if len(users) > 6 else "")
        lines.append(f"{number}. {kind[0]}, {len(users)}: {kind[1]} ({some})")
    wrong = [
        (name, variant, result) for _, name, variant, result in rows if result["verdict"] in BAD
    ]
    if wrong:
        lines += ["", "Wrong or crashed:", ""]
        lines += [
            f"- {name} {variant}: {result['verdict']}, {' '.join(result['reason'].split())[:400]}"
            for name, variant, result in wrong
        ]
    return "\n".join(lines) + "\n"


def verdicts(text: str) -> dict:
    """The verdict words of a table that was written, by ("library name", variant)."""
    found, variants = {}, []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[:2] == ["network", "parameters"]:
            variants = cells[2:]
        elif variants and len(cells) == len(variants) + 2 and not cells[0].startswith("---"):
            found |= {
                (cells[0], variant): re.split(r"[ ,(]", said.strip("*"))[0].strip("*")
                for variant, said in zip(variants, cells[2:])
                if said
            }
    return found


def counted(rows, variants) -> list:
    lines = ["| export | " + " | ".join(VERDICTS) + " |", "|---|" + "---|" * len(VERDICTS)]
    for variant in variants:
        count = collections.Counter(row[3]["verdict"] for row in rows if row[2] == variant)
        lines.append(
            f"| {variant} | " + " | ".join(str(count[verdict]) for verdict in VERDICTS) + " |"
        )
    return lines


def key_of(result):
    return (
        None
        if result["verdict"] in ("right", *BAD)
        else (result["verdict"], kind_of(result["reason"]))
    )


def reasons(rows) -> dict:
    """A number for each kind of refusal and of the exporter's failures, the most frequent first."""
    count = collections.Counter(key for row in rows if (key := key_of(row[3])))
    return {key: number for number, (key, _) in enumerate(count.most_common(), 1)}


def cell(result, numbers) -> str:
    if result["verdict"] == "right":
        fixed = "".join(f", {dim} = {size}" for dim, size in result.get("fixed", {}).items())
        return f"right, {result['worst']:.2g}{fixed}"
    if result["verdict"] in BAD:
        return f"**{result['verdict']}** " + ", ".join(
            f"{run} {verdict}" for run, verdict in result["runs"].items()
        )
    return f"{result['verdict']} ({numbers[key_of(result)]})"


def kept(folder: pathlib.Path) -> list:
    """Rows of the results that lie in a survey's folder."""
    return [
        (*path.parts[-4:-1], json.loads(path.read_text()))
        for path in sorted(folder.glob("*/*/*/result.json"))
    ]


if __name__ == "__main__":
    made = "Of a survey that was stopped: what was judged so far"
    print(table(kept(pathlib.Path(sys.argv[1])), made), end="")
