"""Ranks that are processes with GPUs which NICs write to (dma-buf), on a CUDA driver and an RDMA port of our own: the bits of one process on every
rung of the ladder, and what is said of it; what refuses in the middle costs speed alone; one end for all."""

import os
import pathlib
import signal
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "runs")]

import runs  # noqa: E402: found by the line above
import machines  # noqa: E402
import shards  # noqa: E402
from tools import DISTILLATION, STAGES_AND_REPLICAS  # noqa: E402

STEPS, LIMIT_SECONDS = 2, 5.0
FAKES = runs.BINARIES.resolve().parent / "test"
NIC = {"MAESTRO_FAKE_VERBS_DMABUFS": "1000"}
ORDERED, FLUSHED, UNORDERED = ({"MAESTRO_FAKE_CUDA_DMABUF": word} for word in ("ordered", "flushed", "unordered"))
NO_NCCL = {"MAESTRO_FAKE_NCCL_VERSION": "21200"}
BY_NIC, BY_NCCL, BY_HOST = "; between GPUs dma-buf\n", "; between GPUs NCCL 2.28.9\n", "; GPUs through the host's memory, not NCCL: process 0"
IN_HOST, PINNED = "goes through the host's memory: ", "sends through pinned memory of the host: "
REFUSED = "registering 2097152 bytes of a device (ibv_reg_dmabuf_mr): Cannot allocate memory"
WAYS = {  # Plan; variables; what is said; what is not.
    "replicas": ("replicas", NIC | ORDERED, [BY_NIC], [IN_HOST, PINNED]),
    "flushed": ("replicas", NIC | FLUSHED, [BY_NIC], [IN_HOST, PINNED]),
    "no room for bulk": ("replicas", ORDERED | {"MAESTRO_FAKE_VERBS_DMABUFS": "1"}, [BY_NIC, IN_HOST, REFUSED], []),
    "NCCL, where NICs do not": ("replicas", ORDERED, [BY_NCCL], [BY_NIC, IN_HOST, PINNED]),
    "NCCL, asked for": ("replicas", NIC | ORDERED, [BY_NCCL], [BY_NIC, IN_HOST, PINNED]),
    "a GPU without order": ("replicas", NIC | UNORDERED | NO_NCCL, [BY_HOST, "not dma-buf: process 0 (", "GPU 0", "does not order what NICs write"], [BY_NIC]),
    "a driver without dma-bufs": ("replicas", NIC | NO_NCCL, [BY_HOST, "not dma-buf: process 0 (", "GPU 0", "exports no memory by dma-buf"], [BY_NIC]),
    "a NIC without dma-bufs": ("replicas", ORDERED | NO_NCCL, [BY_HOST, "not dma-buf: process 0 (", "verbs over fake0", "takes no memory of devices"], [BY_NIC]),
    "forbidden": ("replicas", NIC | ORDERED | NO_NCCL | {"MAESTRO_CUDA_DMABUF": "never"}, [BY_HOST, "MAESTRO_CUDA_DMABUF=never"], [BY_NIC]),
    "stages": ("stages", NIC | ORDERED, [BY_NIC], [IN_HOST, PINNED]),
    "little that may be locked": ("stages", NIC | ORDERED | {"MAESTRO_FAKE_VERBS_LOCKED": "262144"}, [BY_NIC], [IN_HOST, PINNED]),
    "no room for sources": ("stages", ORDERED | {"MAESTRO_FAKE_VERBS_DMABUFS": "4"}, [BY_NIC, PINNED], [IN_HOST]),
}


class Ranks:
    def __init__(self, scratch):
        self.scratch, self.plans, self.expected = scratch, {}, {}
        case = runs.zoo_case("mlp_dropout")
        gpus = ["--set", "cluster.device=h100-sxm"]
        samples = shards.write_shards(shards.make_samples(case, 16, seed=5), scratch.path / "data")
        bench = scratch.bench()
        self.plans["replicas"] = [bench.plan(runs.exported(case), "replicas", *gpus, "--set", "cluster.devices_per_node=2", "--set",
                                             "train.global_batch=8", "--pin", "*.micro_batch=2", "--pin", "*.dp=2"), "--data", samples]
        workload = scratch.path / "kd.yaml"
        workload.write_text(DISTILLATION.format(lr=1e-3, teacher=runs.exported(runs.zoo_case("llama_logits")), student=runs.exported(runs.zoo_case("qwen3_logits"))))
        self.plans["stages"] = [bench.plan(workload, "stages", *STAGES_AND_REPLICAS, *gpus, "--set", "dims.seq.max=8", "--set", "train.global_batch=4")]

    def start(self, plan, *arguments, processes=2, variables):
        changes = {process: (variables, None) for process in range(processes)}
        return machines.Job(self.scratch, machines.Loopback(), processes, *self.plans[plan], *arguments, changes=changes)

    def weights(self, out):
        return [path.read_bytes() for path in sorted((self.scratch.path / out / f"checkpoint-{STEPS:06d}").glob("*.safetensors"))]

    def alone(self, plan):
        self.scratch.bench().succeed("maestro-run", *self.plans[plan], "--steps", STEPS, "--out", f"{plan}-alone")
        self.expected[plan] = self.weights(f"{plan}-alone")

    def judge(self, name, plan, variables, said_words, other_words, processes=2):
        out = f"{name.replace(' ', '-')}-{processes}"
        began = time.monotonic()
        transport = "nccl" if "asked" in name else "verbs"
        statuses, said = self.start(plan, "--out", out, "--steps", STEPS, "--transport", transport, processes=processes, variables=variables).end()
        text = "".join(said)
        good = not any(statuses) and all(word in text for word in said_words) and not any(word in text for word in other_words)
        same = not any(statuses) and self.weights(out) == self.expected[plan]
        self.scratch.check(f"{name}, {processes} processes: said, and the same bits ({time.monotonic() - began:.1f} s)", good and same,
                           "" if good and same else f"{statuses} {same} {said}")

    def judge_refusal(self, what, variables, words, *arguments):
        statuses, said = self.start("replicas", "--steps", STEPS, "--quiet", *arguments, variables=variables).end()
        errors = {line for text in said for line in text.splitlines() if line.startswith("error:")}
        good = 0 not in statuses and len(errors) == 1 and all(word in min(errors) for word in words)
        self.scratch.check(f"{what}: {', '.join(errors)}", good, "" if good else f"{statuses} {said}")

    def judge_memory(self):
        """One whose GPU is too small ends all, also those who wait to be told where its memory is."""
        small = NIC | ORDERED | {"MAESTRO_FAKE_CUDA_MEMORY": str(2 << 20)}
        changes = {0: (NIC | ORDERED, None), 1: (small, None)}
        job = machines.Job(self.scratch, machines.Loopback(), 2, *self.plans["replicas"], "--steps", 1, "--quiet", "--transport", "verbs", changes=changes)
        statuses, said = job.end(30)
        errors = {line for text in said for line in text.splitlines() if line.startswith("error:")}
        good = statuses == [2, 2] and len(errors) == 1 and "process 1 (" in min(errors) and "nvidia-smi" in min(errors)
        self.scratch.check(f"too little memory: {', '.join(errors)}", good, "" if good else f"{statuses} {said}")

    def judge_lost(self):
        """A GPU that fails in the middle, of a process whose memory others write."""
        fails = NIC | FLUSHED | {"MAESTRO_FAKE_CUDA_LOST": "1:300"}
        changes = {0: (NIC | FLUSHED, None), 1: (fails, None)}
        job = machines.Job(self.scratch, machines.Loopback(), 2, *self.plans["replicas"], "--steps", 1000, "--quiet", "--transport", "verbs", changes=changes)
        statuses, said = job.end(30)
        errors = {line for text in said for line in text.splitlines() if line.startswith("error:")}
        good = statuses == [2, 2] and len(errors) == 1 and all(word in min(errors) for word in ("process 1 (", "GPU 1", "CUDA_ERROR_ECC_UNCORRECTABLE", "dmesg"))
        self.scratch.check(f"a GPU is lost: {', '.join(errors)}", good, "" if good else f"{statuses} {said}")

    def judge_death(self):
        job = self.start("replicas", "--transport", "verbs", "--out", "killed", "--quiet", "--steps", 100000, "--save-every", 5, variables=NIC | ORDERED)
        reached = job.await_checkpoint("killed")
        os.kill(job.pid(1), signal.SIGKILL)
        began = time.monotonic()
        statuses, said = job.end()
        seconds = time.monotonic() - began
        good = reached and statuses == [2, -signal.SIGKILL] and said[0].count("error:") == 1 and "process 1 (" in said[0] and seconds < LIMIT_SECONDS
        self.scratch.check(f"killed: one end after {seconds:.1f} s", good, "" if good else f"{reached} {statuses} {said}")


def main() -> int:
    scratch = runs.Scratch("cuda-rdma")
    os.environ["LD_LIBRARY_PATH"] = f"{FAKES / 'fake-cuda'}:{FAKES / 'fake-verbs'}"
    ranks = Ranks(scratch)
    for plan in ranks.plans:
        ranks.alone(plan)
    for name, way in WAYS.items():
        ranks.judge(name, *way)
    ranks.judge("stages", *WAYS["stages"], processes=4)
    verbs = ("--transport", "verbs")
    ranks.judge_refusal("asked for, and not to be had", ORDERED | {"MAESTRO_CUDA_DMABUF": "always"}, ["MAESTRO_CUDA_DMABUF=always: process 0 (", "takes no memory"], *verbs)
    ranks.judge_refusal("another word", ORDERED | {"MAESTRO_CUDA_DMABUF": "yes"}, ["MAESTRO_CUDA_DMABUF=yes", "never or always"], *verbs)
    ranks.judge_memory()
    ranks.judge_lost()
    ranks.judge_death()
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
