"""GPUs of two machines that NICs write to (dma-buf), in two guests with Soft-RoCE, on a CUDA driver of our own whose memory Soft-RoCE is made to
take: the bits of one process, on every rung of the ladder, and what is said of it; what refuses in the middle costs speed alone; one end for all."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runs"))

import runs  # noqa: E402: found by the line above
import shards  # noqa: E402
from guests import Guests, Missing  # noqa: E402
from machines import Job  # noqa: E402

STEPS, LIMIT_SECONDS = 2, 12.0
FAKE = runs.BINARIES.resolve().parent / "test" / "fake-cuda"
NIC = {"LD_PRELOAD": str(FAKE / "libmaestro_fake_nic.so")}
ORDERED, FLUSHED, UNORDERED = ({"MAESTRO_FAKE_CUDA_DMABUF": word} for word in ("ordered", "flushed", "unordered"))
NO_NCCL = {"MAESTRO_FAKE_NCCL_VERSION": "21200"}
BY_NIC, BY_HOST = "; between GPUs dma-buf\n", "; GPUs through the host's memory, not NCCL: process 0"
IN_HOST, PINNED = "goes through the host's memory: ", "sends through pinned memory of the host: "
WAYS = {  # Variables; what is said; what is not.
    "from GPU to GPU": (NIC | ORDERED, [BY_NIC], [IN_HOST, PINNED]),
    "flushed": (NIC | FLUSHED, [BY_NIC], [IN_HOST, PINNED]),
    "no room for sources": (NIC | ORDERED | {"MAESTRO_FAKE_NIC_REGIONS": "2"}, [BY_NIC, PINNED, "ibv_reg_dmabuf_mr"], [IN_HOST]),
    "no room for bulk": (NIC | ORDERED | {"MAESTRO_FAKE_NIC_REGIONS": "1"}, [BY_NIC, PINNED, IN_HOST, "ibv_reg_dmabuf_mr"], []),
    "a GPU without order": (NIC | UNORDERED | NO_NCCL, [BY_HOST, "not dma-buf: process 0 (guest0): GPU 0", "does not order what NICs write"], [BY_NIC]),
    "a driver without dma-bufs": (NIC | NO_NCCL, [BY_HOST, "not dma-buf: process 0 (guest0): GPU 0", "exports no memory by dma-buf"], [BY_NIC]),
    "a NIC without dma-bufs": (ORDERED | NO_NCCL, [BY_HOST, "not dma-buf: process 0 (guest0): verbs over rxe0", "takes no memory of devices"], [BY_NIC]),
    "forbidden": (NIC | ORDERED | NO_NCCL | {"MAESTRO_CUDA_DMABUF": "never"}, [BY_HOST, "not dma-buf: process 0 (guest0): MAESTRO_CUDA_DMABUF=never"], [BY_NIC]),
}


class Ranks:
    def __init__(self, scratch, guests):
        self.scratch, self.guests = scratch, guests
        case = runs.zoo_case("mlp_dropout")
        self.data = shards.write_shards(shards.make_samples(case, 16, seed=5), scratch.path / "data")
        self.plan = scratch.bench().plan(runs.exported(case), "ranks", "--set", "cluster.device=h100-sxm", "--set", "cluster.devices_per_node=2",
                                         "--set", "train.global_batch=8", "--pin", "*.micro_batch=2", "--pin", "*.dp=2")

    def start(self, *arguments, variables):
        changes = {process: (variables, None) for process in range(2)}
        return Job(self.scratch, self.guests, 2, self.plan, "--data", self.data, *arguments, changes=changes)

    def weights(self, out):
        (found,) = [path for path in (self.scratch.path / out / f"checkpoint-{STEPS:06d}").glob("*.safetensors") if path.stem != "optimizer"]
        return found.read_bytes()

    def alone(self):
        done = self.guests.run(0, runs.BINARIES / "maestro-run", self.plan, "--data", self.data, "--steps", STEPS, "--out", "alone")
        self.scratch.check("one process", done.returncode == 0, done.stderr if done.returncode else "")
        self.expected = self.weights("alone")

    def judge(self, name, variables, said_words, other_words):
        out = name.replace(" ", "-")
        began = time.monotonic()
        statuses, said = self.start("--out", out, "--steps", STEPS, variables=variables).end()
        text = "".join(said)
        good = statuses == [0, 0] and all(word in text for word in said_words) and not any(word in text for word in other_words)
        same = statuses == [0, 0] and self.weights(out) == self.expected
        self.scratch.check(f"{name}: said, and the same bits ({time.monotonic() - began:.1f} s)", good and same, "" if good and same else f"{statuses} {same} {said}")

    def judge_refusal(self, what, variables, words, *arguments):
        statuses, said = self.start("--steps", STEPS, "--quiet", *arguments, variables=variables).end()
        errors = {line for text in said for line in text.splitlines() if line.startswith("error:")}
        good = not 0 in statuses and len(errors) == 1 and all(word in min(errors) for word in words)
        self.scratch.check(f"{what}: {', '.join(errors)}", good, "" if good else f"{statuses} {said}")

    def judge_death(self):
        job = self.start("--out", "killed", "--quiet", "--steps", 100000, "--save-every", 5, variables=NIC | ORDERED)
        reached = job.await_checkpoint("killed")
        self.guests.kill(job.processes[1], signal.SIGKILL)
        began = time.monotonic()
        statuses, said = job.end()
        seconds = time.monotonic() - began
        good = reached and statuses[0] == 2 and said[0].count("error:") == 1 and "process 1 (guest1" in said[0] and seconds < LIMIT_SECONDS
        self.scratch.check(f"killed: one end after {seconds:.1f} s", good, "" if good else f"{reached} {statuses} {said}")


def main() -> int:
    scratch = runs.Scratch("guests-gpus")
    os.chdir(scratch.path)
    try:
        guests = Guests(scratch.path)
    except Missing as what:
        print(f"skip: this machine lacks {what}")
        return 77
    os.environ["LD_LIBRARY_PATH"] = str(FAKE)
    with guests:
        ranks = Ranks(scratch, guests)
        ranks.alone()
        for name, way in WAYS.items():
            ranks.judge(name, *way)
        ranks.judge_refusal("asked for, and not to be had", ORDERED | {"MAESTRO_CUDA_DMABUF": "always"}, ["MAESTRO_CUDA_DMABUF=always: process 0 (guest0)", "takes no memory"])
        ranks.judge_refusal("another word", ORDERED | {"MAESTRO_CUDA_DMABUF": "yes"}, ["MAESTRO_CUDA_DMABUF=yes", "never or always"])
        ranks.judge_death()
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
