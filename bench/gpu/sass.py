"""What the compiler made of kernels for sm_90, as far as it decides how much memory they move: registers, how many of their blocks fit a
multiprocessor, 16-byte accesses among all, bytes that a multiprocessor has under way before the first is waited for, integer divisions. To read, beside the
40 to 64 KiB that an H200 wants under way on each multiprocessor: nothing runs.

    python3 bench/gpu/sass.py build/release/bin/maestro-kernels.fatbin [--only 'rms_norm.*bf16'] [--cuobjdump PATH]
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import re
import shutil
import subprocess
import sys

BLOCK, REGISTERS, THREADS, BLOCKS, SHARED = 256, 65536, 2048, 32, 227 << 10  # Threads of our blocks; what a multiprocessor has.
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?P<predicate>@!?U?P\d+ )?(?P<op>[A-Z][A-Z0-9_.]*)\s*(?P<operands>[^;]*);")
REGISTER = re.compile(r"\bR(\d+)(\.64)?\b")
# A reciprocal of an integer begins a division of 32 bits; one of 64 is a function that is called.
DIVISIONS = re.compile(r"I2F\.(U32|U64)\.RP|CALL\.REL")


@dataclasses.dataclass
class Kernel:
    name: str
    registers: int = 0
    shared: int = 0
    instructions: int = 0
    loads: dict = dataclasses.field(default_factory=dict)  # By bits.
    stores: dict = dataclasses.field(default_factory=dict)
    divisions: int = 0
    burst: int = 0  # The most bytes that a thread asks for before it reads any of them.

    def blocks(self) -> int:
        registers = -(-self.registers // 8) * 8 * BLOCK
        return min(THREADS // BLOCK, BLOCKS, REGISTERS // max(registers, 1), SHARED // max(self.shared, 1))

    def under_way(self) -> float:
        return self.burst * BLOCK * self.blocks() / 1024


def bits(op: str) -> int:
    """Of a global access: LDG.E.128, LDG.E.U16, LDG.E."""
    found = re.search(r"\.(?:U|S)?(8|16|64|128)\b", op)
    return int(found[1]) if found else 32


def read(kernel: Kernel, lines: list[str]) -> None:
    waiting, asked = set(), 0
    widest = max((bits(found["op"]) for line in lines if (found := INSTRUCTION.search(line)) and found["op"].startswith("LDG")), default=0)
    for line in lines:
        found = INSTRUCTION.search(line)
        if not found:
            continue
        op, operands = found["op"], found["operands"]
        kernel.instructions += op != "NOP"
        kernel.divisions += bool(DIVISIONS.match(op))
        registers = [int(register[1]) for register in REGISTER.finditer(operands)]
        is_load = op.startswith("LDG")
        # The first operand of what computes is where its result goes.
        sources = registers if op.startswith(("STG", "STS", "RED", "BRA")) else registers[1:]
        if waiting.intersection(sources) or (not found["predicate"] and op in ("BRA", "EXIT", "RET.REL.NODEC")):
            kernel.burst, asked, waiting = max(kernel.burst, asked), 0, set()
        if is_load and registers:
            width = bits(op)
            kernel.loads[width] = kernel.loads.get(width, 0) + 1
            waiting.update(range(registers[0], registers[0] + max(width // 32, 1)))
            asked += width // 8 if width == widest else 0  # The others are the way of what is not aligned.
        elif op.startswith("STG"):
            kernel.stores[bits(op)] = kernel.stores.get(bits(op), 0) + 1
    kernel.burst = max(kernel.burst, asked)


def kernels_of(cuobjdump: str, fatbin: str) -> list[Kernel]:
    def say(what: str) -> list[str]:
        return subprocess.run([cuobjdump, "-arch", "sm_90", what, fatbin], capture_output=True, text=True, check=True).stdout.splitlines()

    kernels, bodies, name = {}, {}, ""
    for line in say("-res-usage"):
        if found := re.search(r"Function (\w+):", line):
            name = found[1]
        elif found := re.search(r"REG:(\d+).*?SHARED:(\d+)", line):
            kernels[name] = Kernel(name, int(found[1]), max(int(found[2]) - 1024, 0))  # 1 KiB is the system's.
    for line in say("-sass"):
        if found := re.search(r"Function : (\w+)", line):
            name = found[1]
        else:
            bodies.setdefault(name, []).append(line)
    for name, kernel in kernels.items():
        read(kernel, bodies.get(name, []))
    return sorted(kernels.values(), key=lambda kernel: kernel.name)


def widths(accesses: dict) -> str:
    return "+".join(f"{count}x{width}" for width, count in sorted(accesses.items(), reverse=True)) or "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fatbin")
    parser.add_argument("--only", default="", help="kernels whose names match")
    parser.add_argument("--cuobjdump", default=shutil.which("cuobjdump") or next(
        iter(glob.glob(f"{sys.prefix}/lib/python3*/site-packages/triton/backends/nvidia/bin/cuobjdump")), ""))
    options = parser.parse_args()
    if not options.cuobjdump:
        print("cuobjdump is needed, which comes with the CUDA toolkit and with Triton: --cuobjdump PATH", file=sys.stderr)
        return 1
    print(f"{'kernel':44} {'regs':>4} {'blocks':>6} {'KiB/SM':>6} {'instr':>6} {'div':>3}  loads; stores (count x bits)")
    for kernel in kernels_of(options.cuobjdump, options.fatbin):
        if re.search(options.only, kernel.name):
            print(f"{kernel.name:44} {kernel.registers:4} {kernel.blocks():6} {kernel.under_way():6.0f} {kernel.instructions:6} {kernel.divisions:3}  "
                  f"{widths(kernel.loads)}; {widths(kernel.stores)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
