"""Who may include whom: the rules of the README in the root, held over every #include of the tree.

A folder may include itself, the folders in MAY_INCLUDE, and the third-party headers in MAY_USE; everybody may include the
standard library and the C library. The checker is checked first, on a small tree with one fault of each kind.
"""

import os
import pathlib
import re
import sys
import tempfile

COMPILER = {"llvm", "mlir", "llvm-c", "mlir-c", "onnx", "google"}  # never in the executor half

MAY_INCLUDE = {
    "base": set(),
    "cuda": {"base"},
    "plan": {"base"},
    "kernels": {"base", "cuda"},
    "transport": {"base", "cuda"},
    "wavefront": {"base"},  # Pure: plain data in, schedule out; the simulator runs what the executor runs.
    "executor": {"base", "cuda", "plan", "kernels", "transport", "wavefront"},
    "cost_models": {"base", "plan", "wavefront"},
    "ir": {"base"},
    "passes": {"base", "ir", "cost_models"},
    "planner": {"base", "plan", "ir", "passes", "cost_models", "wavefront"},
}
MAY_USE = {
    "base": set(),
    "cuda": {"cuda.h", "cublasLt.h", "cudnn.h"},
    "plan": {"flatbuffers", "fmt"},
    "kernels": {"oneapi", "dnnl", "omp.h", "immintrin.h", "cuda_bf16.h", "cuda_fp16.h", "sanitizer", "fmt"},
    "transport": {"infiniband", "rdma", "openssl", "pmix.h", "fmt"},
    "wavefront": set(),
    "executor": {"nlohmann", "archive.h", "archive_entry.h", "fmt"},
    "cost_models": {"fmt"},
    "ir": {"llvm", "mlir", "fmt"},
    "passes": {"llvm", "mlir", "fmt"},
    "planner": COMPILER | {"flatbuffers", "fmt"},
}
SYSTEM = re.compile(r"[a-z_0-9]+|(sys|linux|netinet|arpa|net|asm)/[a-z_0-9./]+|"
                    r"(c?(assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stdbool|stddef|stdint|"
                    r"stdio|stdlib|string|time|wchar)|unistd|fcntl|pthread|sched|poll|dlfcn|dirent|spawn|malloc|execinfo|"
                    r"cxxabi|numa|glob|fnmatch|getopt|termios|netdb|ifaddrs|endian|byteswap|ucontext)\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".hpp", ".inc", ".cpp", ".cc", ".c", ".cu", ".cuh"}


def layer(path):
    """The folder whose rule a file or an include, given from the root, is under, or None where no rule applies."""
    first = path.split("/")[0]
    return first if first in MAY_INCLUDE else None


def fault(owner, file, included, root):
    """Why `owner`'s `file` may not include `included`, or None."""
    target = layer(included)
    if target is not None:
        allowed = target == owner or target in MAY_INCLUDE[owner]
        return None if allowed else f"{owner}/ may include only {sorted(MAY_INCLUDE[owner])} of this tree"
    if included.split("/")[0] in MAY_USE[owner] or SYSTEM.fullmatch(included):
        return None
    if "/" not in included and (file.parent / included).exists():
        return "includes are written from the repository's root"
    return f"{owner}/ may use only {sorted(MAY_USE[owner])} besides the standard library"


def check(root):
    faults, count = [], 0
    for top in sorted({name.split("/")[0] for name in MAY_INCLUDE}):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES:
                continue
            name = str(file.relative_to(root))
            owner = layer(name)
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                count += 1
                reason = fault(owner, file, match.group(2), root)
                if reason:
                    faults.append(f"{name}:{number}: includes {match.group(2)}: {reason}")
    return faults, count


def check_the_checker():
    wrong = {
        "executor/run.cpp": '#include "ir/nn/nn.h"',
        "wavefront/order.cpp": '#include "plan/plan.h"',
        "kernels/gemm.cpp": "#include <llvm/ADT/SmallVector.h>",
        "plan/plan.h": "#include <google/protobuf/message.h>",
        "base/log.h": "#include <fmt/format.h>",
        "passes/raise.cpp": '#include "planner/import.h"',
        "ir/nn.cpp": '#include "nn.h"',
        "transport/local.cpp": '#include "executor/worker.h"',
    }
    right = {
        "executor/load.cpp": '#include "plan/plan.h"\n#include "wavefront/order.h"\n#include <sys/mman.h>',
        "cost_models/simulate.cpp": '#include "wavefront/order.h"\n#include <vector>',
        "planner/emit.cpp": '#include "plan/plan.h"\n#include <onnx/onnx_pb.h>\n#include <mlir/IR/Builders.h>',
        "ir/nn.h": "",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**wrong, **right}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
        found = {line.split(":")[0] for line in check(root)[0]}
    assert found == set(wrong), f"the checker is wrong: missed {set(wrong) - found}, invented {found - set(wrong)}"


def main():
    check_the_checker()
    faults, count = check(pathlib.Path(os.environ["MAESTRO_SOURCE"]))
    print("\n".join(faults) or f"{count} includes follow the rules")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
