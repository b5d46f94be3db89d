"""Runs a page's blocks as its reader would: in order, in an empty folder, tools and .venv on the PATH, the package in place.

    docs_test.py PAGE.md          # below the repository

```sh is run (bash, stops at the first failure); ```<language> FILE writes FILE; every other block is only read. A python file
that no sh block mentions is run, too.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w*) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    found = [match.groups() for match in FENCE.finditer(page.read_text())]
    return [block for block in found if block[0] == "sh" or block[1]]


def commands(found):
    """What to do, in order: ("write", file, text) or ("run", what, script)."""
    shell = "\n".join(text for language, _, text in found if language == "sh")
    for language, file, text in found:
        if language == "sh":
            yield "run", text, text
        else:
            yield "write", file, text
            if language == "python" and file not in shell:
                yield "run", f"python {file}\n", f"python {file}\n"


def environment():
    path = [os.environ["MAESTRO_BIN"], str(pathlib.Path(os.environ["MAESTRO_PYTHON"]).parent), os.environ["PATH"]]
    return dict(os.environ, PATH=os.pathsep.join(path), PYTHONPATH=f"{os.environ['MAESTRO_SOURCE']}/python", HF_HUB_OFFLINE="1")


def unbuilt_tools(source, page):
    """Tools that the page names and `./dev demo` does not build."""
    built = re.search(r"^tools=\((.*)\)$", (source / "dev").read_text(), re.MULTILINE).group(1).split()
    return sorted(set(re.findall(r"(?<![\w/.-])maestro-[a-z]+(?![\w.-])", page.read_text())) - set(built))


def main():
    source = pathlib.Path(os.environ["MAESTRO_SOURCE"])
    page = source / sys.argv[1]
    found = blocks(page)
    if unbuilt := unbuilt_tools(source, page):
        sys.exit(f"{page}: names {', '.join(unbuilt)}, which ./dev demo does not build (dev: tools)")
    if not any(language == "sh" for language, _, _ in found):
        sys.exit(f"{page}: no ```sh block to run")
    with tempfile.TemporaryDirectory() as folder:
        for kind, what, text in commands(found):
            if kind == "write":
                (pathlib.Path(folder) / what).write_text(text)
                continue
            print(f"$ {what}", end="", flush=True)
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment(),
                                  stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                sys.exit(f"{page.name}: status {done.returncode} of:\n{what}")


if __name__ == "__main__":
    main()
