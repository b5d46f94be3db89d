"""Two virtual machines with RDMA: Debian's own kernel under QEMU, joined by one cable, with Soft-RoCE on it.

A guest sees this machine's files, read only, and one folder that both may write, all at the same paths; so it runs whatever is built and installed
here. Its kernel and modules are those of the package linux-image-amd64; it boots in seconds from an archive made on the spot.

    with Guests(folder) as guests:
        guests.run(0, "ip", "address").stdout
        subprocess.Popen([*guests.prefix(1), "maestro-run", …])       # in the guest; its output, its status
        guests.plug(1, False)

    python3 guests.py COMMAND…      runs the command in both, side by side; for looking around
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import platform
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

QEMU = "qemu-system-x86_64"
# Found by the initial system alone; what comes later is read through the shared files.
EARLY_MODULES = ["virtio_pci", "9pnet_virtio", "9p"]
LATE_MODULES = ["virtio_net", "crc32_generic", "rdma_rxe"]
BOOT_SECONDS, POLL_SECONDS = 120, 0.05
LOOK_SECONDS = 1  # So often a guest looks for commands by itself: a look takes it tens of milliseconds of a processor.
PROJECT = pathlib.Path(__file__).resolve().parents[2]  # It may lie in a folder that guests have for themselves.
# Of the environment of who asks; the rest is the guest's own.
PASSED_ON = ("MAESTRO_", "MASTER_", "RANK", "WORLD_SIZE", "OMP_", "GTEST_", "LD_", "FI_", "PATH")

INIT = """#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
{early}
options=trans=virtio,version=9p2000.L,msize=262144
busybox mount -t 9p -o ro,cache=loose,$options root /root
cd /root
for folder in tmp run; do busybox mount -t tmpfs tmpfs $folder; done
busybox mkdir -p .{project} .{folder}
busybox mount -t 9p -o ro,cache=loose,$options project .{project}
busybox mount -t 9p -o cache=mmap,$options folder .{folder}
busybox mount -t proc proc proc
busybox mount -t sysfs sys sys
busybox mount -t devtmpfs dev dev
busybox mkdir -p dev/shm
busybox mount -t tmpfs tmpfs dev/shm
inside() {{ busybox chroot /root "$@"; }}
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
{late}
/bin/busybox hostname guest{number}
inside ip link set lo up
inside ip address add {address}/24 dev eth0
inside ip link set eth0 mtu 4200 up
inside rdma link add rxe0 type rxe netdev eth0
ulimit -l unlimited
cd .{jobs}
exec 3</dev/ttyS1
/bin/busybox touch ready
while :; do
  for script in *.sh; do
    [ -e "$script" ] || continue
    job=${{script%.sh}}
    /bin/busybox mv "$script" "$job.taken"
    (
      inside /bin/sh -c 'echo $$ >"$1.pid"; exec /bin/sh "$1.taken"' sh "{jobs}/$job" >"$job.out" 2>"$job.err" </dev/null
      echo $? >"$job.ending"
      /bin/busybox mv "$job.ending" "$job.status"
    ) &
  done
  read -t {poll} _ <&3
done
"""


class Missing(Exception):
    """What guests need and this machine lacks."""


def address(number: int) -> str:
    return f"10.78.0.{number + 1}"


# ---- The machine's parts --------------------------------------------------------------------------------------------


def newest_kernel() -> tuple[pathlib.Path, pathlib.Path]:
    """An installed kernel and the folder of its modules."""
    for kernel in sorted(pathlib.Path("/boot").glob("vmlinuz-*-amd64"), reverse=True):
        modules = pathlib.Path("/lib/modules") / kernel.name.removeprefix("vmlinuz-")
        if (modules / "modules.dep").exists():
            return kernel, modules
    raise Missing("a kernel for guests (Debian: linux-image-amd64)")


def module_files(modules: pathlib.Path, names: list[str]) -> list[pathlib.Path]:
    """The modules and what they need, in the order in which they can be loaded."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        needs[pathlib.Path(file).name.removesuffix(".ko")] = [file, *others.split()]
    ordered: list[str] = []
    for name in names:
        if name in needs:  # Else it is part of the kernel.
            ordered += [file for file in reversed(needs[name]) if file not in ordered]
    return [modules / file for file in ordered]


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An initial system: mode and content by path, folders before what is in them (cpio, "newc")."""
    written = bytearray()
    for number, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        encoded = name.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
        for part in (b"070701" + b"".join(b"%08X" % field for field in fields) + encoded, content):
            written += part + bytes(-len(part) % 4)
    return bytes(written)


def initial_system(modules: pathlib.Path, number: int, folder: pathlib.Path, jobs: pathlib.Path) -> bytes:
    early = module_files(modules, EARLY_MODULES)
    late = [file for file in module_files(modules, LATE_MODULES) if file not in early]
    script = INIT.format(early="\n".join(f"busybox insmod /{file.name}" for file in early), number=number, address=address(number), folder=folder, project=PROJECT,
                         late="\n".join(f"/bin/busybox insmod /root{file}" for file in late), jobs=jobs, poll=LOOK_SECONDS)
    busybox = shutil.which("busybox")
    files = {name: (0o40755, b"") for name in ("bin", "dev", "proc", "root")}
    files["bin/busybox"] = (0o100755, pathlib.Path(busybox).read_bytes())
    files["init"] = (0o100755, script.encode())
    return archive(files | {file.name: (0o100644, file.read_bytes()) for file in early})


def end_with_parent() -> None:
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# ---- Commands in a guest: files in a folder that both see -----------------------------------------------------------


def ring(jobs: pathlib.Path) -> None:
    """A line on the guest's second serial port: there is a command. Its terminal echoes what has come, and until then the line is not closed."""
    with socket.socket(socket.AF_UNIX) as bell:
        bell.settimeout(LOOK_SECONDS)
        try:
            bell.connect(str(jobs / "bell"))
            bell.sendall(b"\n")
            bell.recv(1)
        except OSError:  # Others ring.
            pass


class Command:
    """A command in the guest whose jobs folder this is."""

    def __init__(self, jobs: pathlib.Path, name: str, words, environment: dict[str, str] | None = None):
        self.path = jobs / name
        lines = [f"export {key}={shlex.quote(value)}" for key, value in (environment or {}).items()]
        script = self.path.with_suffix(".new")
        script.write_text("\n".join([*lines, f"cd {shlex.quote(os.getcwd())} 2>/dev/null || cd {shlex.quote(str(jobs.parent))}",
                                     "exec " + shlex.join(map(str, words))]) + "\n")
        script.rename(self.path.with_suffix(".sh"))
        ring(jobs)

    def status(self) -> int | None:
        try:
            return int(self.path.with_suffix(".status").read_text())
        except FileNotFoundError:
            return None

    def copy(self, suffix: str, stream, done: int) -> int:
        """Writes what has come since `done` bytes."""
        try:
            with open(self.path.with_suffix(suffix), "rb") as file:
                file.seek(done)
                more = file.read()
        except FileNotFoundError:
            return done
        stream.write(more)
        stream.flush()
        return done + len(more)

    def wait(self) -> int:
        done = {".out": 0, ".err": 0}
        while True:
            status = self.status()
            for suffix, stream in ((".out", sys.stdout.buffer), (".err", sys.stderr.buffer)):
                done[suffix] = self.copy(suffix, stream, done[suffix])
            if status is not None:
                return status
            time.sleep(POLL_SECONDS)


class Guests:
    """Guests 0 and 1 at 10.78.0.1 and .2. A process of a job is in guest p mod 2."""

    address = address(0)

    def __init__(self, folder: pathlib.Path, megabytes: int = 2048):
        """Boots; `folder` is what the guests may write. Missing where this machine lacks what is needed."""
        for tool in (QEMU, "busybox", "rdma"):
            if not shutil.which(tool):
                raise Missing(f"{tool} (Debian: qemu-system-x86, busybox-static, iproute2)")
        if platform.machine() != "x86_64":
            raise Missing("an x86-64 machine")
        kernel, modules = newest_kernel()
        self.folder, self.megabytes = folder.resolve(), megabytes
        self.machines = []
        self.jobs = [self.folder / f"guest{number}" for number in range(2)]
        try:
            for number, end in enumerate(socket.socketpair()):
                with end:  # Of the cable; QEMU's own "stream" blocks where the other side does not read.
                    self.boot(number, kernel, modules, end.fileno())
            deadline = time.monotonic() + BOOT_SECONDS
            for number in range(2):
                while not (self.jobs[number] / "ready").exists():
                    if time.monotonic() > deadline or self.machines[number].poll() is not None:
                        said = "".join((self.jobs[number] / file).read_text(errors="replace")[-2000:] for file in ("qemu", "console"))
                        raise RuntimeError(f"guest {number} has not started: {said}")
                    time.sleep(POLL_SECONDS)
        except BaseException:
            self.close()
            raise

    def boot(self, number: int, kernel: pathlib.Path, modules: pathlib.Path, cable: int) -> None:
        jobs = self.jobs[number]
        jobs.mkdir()
        (jobs / "console").touch()
        (jobs / "initial").write_bytes(initial_system(modules, number, self.folder, jobs))
        share = "local,path={},mount_tag={},security_model=none,multidevs=remap"
        self.machines.append(subprocess.Popen(
            [QEMU, "-machine", "accel=tcg", "-cpu", "Nehalem", "-smp", "1", "-m", str(self.megabytes), "-nodefaults", "-no-reboot", "-display", "none",
             "-serial", f"file:{jobs}/console", "-serial", f"unix:{jobs}/bell,server,nowait", "-monitor", f"unix:{jobs}/monitor,server,nowait", "-kernel", kernel, "-initrd", jobs / "initial", "-append", "console=ttyS0 quiet panic=-1",
             "-netdev", f"socket,id=cable,fd={cable}", "-device", f"virtio-net-pci,netdev=cable,romfile=,mac=52:54:00:4d:00:{number + 1:02x}",
             "-virtfs", share.format("/", "root") + ",readonly=on", "-virtfs", share.format(PROJECT, "project") + ",readonly=on", "-virtfs", share.format(self.folder, "folder")],
            stdin=subprocess.DEVNULL, stdout=open(jobs / "qemu", "wb"), stderr=subprocess.STDOUT, pass_fds=[cable], preexec_fn=end_with_parent))

    def prefix(self, process: int) -> list[str]:
        """Before a command line: runs it in the guest, with its output and status."""
        return [sys.executable, "-B", str(pathlib.Path(__file__).resolve()), "--in", str(self.jobs[process % 2])]

    def run(self, number: int, *command, timeout: float = 60) -> subprocess.CompletedProcess:
        return subprocess.run([*self.prefix(number), *map(str, command)], capture_output=True, text=True, timeout=timeout, check=False)

    def kill(self, process: subprocess.Popen, signal_number: int) -> None:
        """Sends a signal to a command that was started with prefix()."""
        for number, jobs in enumerate(self.jobs):
            if (jobs / f"{process.pid}.pid").exists():
                self.run(number, "kill", f"-{int(signal_number)}", (jobs / f"{process.pid}.pid").read_text().strip())

    def plug(self, number: int, is_in: bool) -> None:
        """The cable's end. Out of it, packets are lost; an interface that is merely down would hold up who sends, Soft-RoCE for ever."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(10)
            monitor.connect(str(self.jobs[number] / "monitor"))
            said = b""
            for line in (b"", f"set_link cable {'on' if is_in else 'off'}\n".encode()):
                monitor.sendall(line)
                while not said.endswith(b"(qemu) "):
                    said += monitor.recv(4096)
                said = b""

    def close(self) -> None:
        for machine in self.machines:
            machine.kill()
            machine.wait()

    def __enter__(self) -> Guests:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def main() -> int:
    if sys.argv[1:2] == ["--in"]:
        environment = {key: value for key, value in os.environ.items() if key.startswith(PASSED_ON)}
        return Command(pathlib.Path(sys.argv[2]), str(os.getpid()), sys.argv[3:], environment).wait()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="maestro-guests-") as folder, Guests(pathlib.Path(folder)) as guests:
        print(f"both have started after {time.monotonic() - began:.1f} s", flush=True)
        commands = [subprocess.Popen([*guests.prefix(number), *sys.argv[1:]]) for number in range(2)]
        return max(command.wait() for command in commands)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as what:
        print(f"skip: this machine lacks {what}")
        sys.exit(77)  # As ctest counts what was skipped.
