"""The tree speaks of the project alone: no folder of one machine, no package index, no host that readers do not know.

Every file that git would keep is read, the binary ones too: an exported model can carry its author's paths.
"""

import os
import pathlib
import re
import sys
import tempfile

MACHINE = re.compile(rb"(?<![\w.$}])/(?:work|root|home|Users|mnt|tmp/venv)/[\w.]")
INDEX = re.compile(rb"--(?:extra-)?index-url|--trusted[-]host|PIP_[I]NDEX|index\.crates|python[h]osted|sources\.list")
URL = re.compile(rb"https?://([A-Za-z0-9.-]+)")
HOSTS = {b"github.com", b"pytorch.org", b"docs.pytorch.org", b"onnx.ai", b"arxiv.org", b"llvm.org", b"mlir.llvm.org",
         b"ui.perfetto.dev", b"www.apache.org", b"huggingface.co", b"flatbuffers.dev", b"www.w3.org", b"git-lfs"}


def kept_files(root):
    ignored = {line.strip("/") for line in (root / ".gitignore").read_text().split() if line.startswith("/")}
    for folder, folders, files in os.walk(root):
        here = pathlib.Path(folder)
        folders[:] = [name for name in folders if name not in {".git", "__pycache__"} and
                      str((here / name).relative_to(root)) not in ignored]
        yield from (here / name for name in files if name != ".git" and not name.endswith(".pyc")) # A worktree has a file.


def faults(root):
    for path in kept_files(root):
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            found = [match.group(0) for match in (MACHINE.search(line), INDEX.search(line)) if match]
            found += [host for host in URL.findall(line) if host not in HOSTS]
            for text in found:
                yield f"{path.relative_to(root)}:{number}: {text.decode(errors='replace')}"


def check_the_checker():
    wrong = {"a": "/wo" + "rk/main/x", "b": "pip --index-" + "url x", "c": "http" + "://mirror.example/x", "d": "see /ro" + "ot/x"}
    right = {"e": "frame/wo" + "rk/x https" + "://github.com/onnx", "build/f": "/wo" + "rk/x", ".gitignore": "/build/\n"}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**wrong, **right}.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        found = {fault.split(":")[0] for fault in faults(root)}
    assert found == set(wrong), f"the checker is wrong: found {found}, not {set(wrong)}"


def main():
    check_the_checker()
    found = list(faults(pathlib.Path(os.environ["MAESTRO_SOURCE"])))
    print("\n".join(found) or "no machine's folders, no package index, no unknown host")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
