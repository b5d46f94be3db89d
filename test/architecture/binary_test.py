"""What maestro-run is made of: no LLVM, MLIR, ONNX or protobuf, by its libraries and by its symbols, and no library of CUDA, which it
loads where a plan wants a GPU; and its size.

    binary_test.py links | size

The detector is checked on maestro-plan, where that is built: there it must find what maestro-run must not have.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ["MAESTRO_BIN"])
LIBRARY = re.compile(r"LLVM|MLIR|onnx|protobuf|clang", re.IGNORECASE)
CUDA = re.compile(r"^lib(cuda|cudart|cublas|cudnn|nccl|nvrtc)", re.IGNORECASE)
SYMBOL = re.compile(r"\b(llvm|mlir|onnx|google::protobuf)::")
LIMIT_BYTES = 3_000_000  # 200,000 are functions of GPUs and of their libraries.


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout


def libraries(program):
    """Every shared library that the loader would bring in, by name; and the paths of those built here."""
    lines = [line.split() for line in output("ldd", program).splitlines()]
    own = [words[2] for words in lines if len(words) > 2 and words[2].startswith(str(BIN.parent))]
    return [words[0] for words in lines], own


def compiler_parts(program):
    names, own = libraries(program)
    parts = [f"library {name}" for name in names if LIBRARY.search(name)]
    for file in [program, *own]:
        for table in (["--demangle"], ["--demangle", "--dynamic"]):
            symbols = output("nm", *table, file).splitlines()
            parts += [f"symbol {line.split(maxsplit=2)[-1]}" for line in symbols if SYMBOL.search(line)]
    return parts


def check_links():
    planner = BIN / "maestro-plan"
    if planner.exists() and not compiler_parts(planner):
        return "the detector is wrong: it finds no LLVM, MLIR, ONNX or protobuf in maestro-plan"
    parts = compiler_parts(BIN / "maestro-run")
    if parts:
        return "maestro-run must know no compiler, and has " + "; ".join(parts[:10])
    if cuda := [name for name in libraries(BIN / "maestro-run")[0] if CUDA.search(name)]:
        return f"maestro-run must start where no GPU is, and needs {cuda}"
    print("maestro-run needs", *libraries(BIN / "maestro-run")[0])


def check_size():
    program = BIN / "maestro-run"
    with tempfile.TemporaryDirectory() as folder:
        total = 0
        for number, file in enumerate([program, *libraries(program)[1]]):
            copy = shutil.copy(file, f"{folder}/{number}")
            output("strip", copy)
            total += os.path.getsize(copy)
    print(f"maestro-run and the project's own libraries, stripped: {total:,} bytes (at most {LIMIT_BYTES:,})")
    return f"{total - LIMIT_BYTES:,} bytes too many" if total > LIMIT_BYTES else None


def main():
    if not (BIN / "maestro-run").exists():
        sys.exit(f"{BIN}/maestro-run is not built")
    fault = {"links": check_links, "size": check_size}[sys.argv[1]]()
    return print(fault) or 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
