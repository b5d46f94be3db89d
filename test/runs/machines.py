"""Jobs of several processes, started as an engine does, and machines for them: namespaces with a network, a name, mounts and a clock of their own,
joined by a bridge that nothing else reaches."""

from __future__ import annotations

import os
import pathlib
import secrets
import signal
import socket
import subprocess
import time

import runs


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Loopback:
    """All processes on this machine, met at 127.0.0.1."""

    address = "127.0.0.1"

    def __init__(self, within: dict[int, list[str]] | None = None):
        """`within`: by process, a command that starts it."""
        self.within = within or {}

    def prefix(self, process: int) -> list[str]:
        return self.within.get(process, [])

    @staticmethod
    def kill(process: subprocess.Popen, signal_number: int) -> None:
        os.kill(process.pid, signal_number)


class Namespace:
    """Held by a process of its own; with a monotonic clock that is `ahead` seconds ahead, where the kernel has such."""

    has_clock = subprocess.run(["unshare", "--time", "--monotonic", "1", "--fork", "true"], capture_output=True).returncode == 0

    def __init__(self, ahead: int):
        clock = ["--time", "--monotonic", str(ahead), "--fork", "--kill-child"] if self.has_clock else []
        self.holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", *clock, "sh", "-c", "echo $$; exec sleep infinity"],
                                       stdout=subprocess.PIPE, text=True)
        said = self.holder.stdout.readline()
        if not said:
            raise PermissionError("network namespaces may not be made here")
        self.pid = int(said)

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()


class Network(Loopback):
    """Machines 0 … count − 1 at 10.77.0.1 …; process p is on machine p mod count."""

    def __init__(self, count: int, folder: pathlib.Path):
        self.count, self.address, self.folder = count, "10.77.0.1", folder
        hosts = folder / f"hosts{count}"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"10.77.0.{number + 1} machine{number}\n" for number in range(count)))
        self.switch = Namespace(0)
        self.inside(self.switch, "ip", "link", "add", "bridge", "type", "bridge")
        self.inside(self.switch, "ip", "link", "set", "bridge", "up")
        # Monotonic clocks count from the machine's start: here some 20 minutes lie between two of them.
        self.machines = [Namespace(1234 * number) for number in range(count)]
        for number, machine in enumerate(self.machines):
            self.inside(machine, "hostname", f"machine{number}")
            self.inside(machine, "mount", "--bind", str(hosts), "/etc/hosts")
            self.inside(machine, "ip", "link", "set", "lo", "up")
            self.inside(self.switch, "ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", "net0", "netns", str(machine.pid))
            self.inside(self.switch, "ip", "link", "set", f"port{number}", "master", "bridge", "up")
            self.inside(machine, "ip", "address", "add", f"10.77.0.{number + 1}/24", "dev", "net0")
            self.inside(machine, "ip", "link", "set", "net0", "up")

    def enter(self, machine: Namespace) -> list[str]:
        kinds = (("net", "net"), ("uts", "uts"), ("mount", "mnt"), *([("time", "time")] if machine.has_clock else []))
        spaces = [f"--{kind}=/proc/{machine.pid}/ns/{file}" for kind, file in kinds]
        return ["nsenter", *spaces, f"--wd={self.folder}", "--"]

    def inside(self, machine: Namespace, *command: str) -> None:
        subprocess.run([*self.enter(machine), *command], check=True)

    def prefix(self, process: int) -> list[str]:
        return self.enter(self.machines[process % self.count])

    def unplug(self, number: int) -> None:
        self.inside(self.switch, "ip", "link", "set", f"port{number}", "down")

    def plug(self, number: int) -> None:
        self.inside(self.switch, "ip", "link", "set", f"port{number}", "up")

    def close(self) -> None:
        for namespace in (*self.machines, self.switch):
            namespace.close()


class Job:
    """Processes of one maestro-run, with torchrun's variables."""

    def __init__(self, scratch: runs.Scratch, place, processes: int, *arguments, changes=None):
        """`changes`: by process, variables and arguments in place of the others'."""
        self.scratch, self.port = scratch, free_port()
        secret = secrets.token_hex(16)
        self.processes = []
        for process in range(processes):
            variables, own = (changes or {}).get(process, ({}, None))
            environment = os.environ | {"RANK": str(process), "WORLD_SIZE": str(processes), "MASTER_ADDR": place.address,
                                        "MASTER_PORT": str(self.port), "MAESTRO_JOB_SECRET": secret} | variables
            line = [*place.prefix(process), str(runs.BINARIES / "maestro-run"), *map(str, own or arguments)]
            self.processes.append(subprocess.Popen(line, cwd=scratch.path, env={k: v for k, v in environment.items() if v is not None},
                                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def end(self, timeout: float = 120) -> tuple[list[int], list[str]]:
        """Each process's status and what it said."""
        deadline = time.monotonic() + timeout
        said = []
        for process in self.processes:
            try:
                said.append(process.communicate(timeout=max(0.1, deadline - time.monotonic()))[1])
            except subprocess.TimeoutExpired:
                process.kill()
                said.append(process.communicate()[1] + f"\nit had not ended after {timeout} s")
        return [process.returncode for process in self.processes], said

    def await_checkpoint(self, out: str, timeout: float = 60) -> bool:
        deadline = time.monotonic() + timeout
        while not list((self.scratch.path / out).glob("checkpoint-*")):
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.processes):
                return False
            time.sleep(0.02)
        return True

    def pid(self, process: int) -> int:
        """nsenter becomes the program that it starts."""
        return self.processes[process].pid

    def kill(self) -> None:
        for process in self.processes:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()


def newest(folder: pathlib.Path) -> int:
    return max(int(path.name[-6:]) for path in folder.glob("checkpoint-*"))
