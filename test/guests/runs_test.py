"""In two guests with Soft-RoCE a plan leaves the bytes over RDMA that it leaves in one process: teacher and student with stages and replicas. A killed process, a stopped one and a pulled cable end all with one cause. Where one guest has no RDMA, or the way is closed, the job uses TCP and says
why, or is refused on all."""

from __future__ import annotations

import os
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runs"))

import runs  # noqa: E402: found by the line above
import shards  # noqa: E402
from guests import Guests, Missing  # noqa: E402
from machines import Job  # noqa: E402
from machines_test import disturbed, same_bits, send  # noqa: E402
from tools import DISTILLATION, STAGES_AND_REPLICAS, different_files  # noqa: E402

STEPS = 3
DROP_ROCE = ["sh", "-c", "modprobe -a cls_u32 act_gact sch_ingress && tc qdisc add dev eth0 ingress && tc filter add dev eth0 parent ffff: protocol ip "
             "u32 match ip protocol 17 0xff match ip dport 4791 0xffff action drop"]


def distillation(scratch):
    """As machines_test's, a tenth of its size: guests compute a thousand times slower."""
    workload = scratch.path / "kd.yaml"
    workload.write_text(DISTILLATION.format(lr=1e-3, teacher=runs.exported(runs.zoo_case("llama_logits")), student=runs.exported(runs.zoo_case("qwen3_logits"))))
    return scratch.bench().plan(workload, "kd", *STAGES_AND_REPLICAS, "--set", "dims.seq.max=8", "--set", "train.global_batch=4")


def alone_in(guests, scratch):
    def run(tool, *arguments):
        done = guests.run(0, runs.BINARIES / tool, *arguments, timeout=200)
        if done.returncode:
            scratch.check("one process", False, done.stderr)
    return run


def resources(guests):
    """Queue pairs, completion queues, memory regions that the kernels know."""
    return [guests.run(number, "rdma", "resource", "show").stdout for number in range(2)]


def chosen(scratch, guests, plan, what, words, *arguments, variables=None, processes=2):
    """What process 0 says of the network."""
    changes = {process: (variables, None) for process in range(processes)} if variables else None
    statuses, said = Job(scratch, guests, processes, plan, "--steps", 1, *arguments, changes=changes).end()
    met = next((line for line in said[0].splitlines() if "have met" in line), "")
    scratch.check(f"{what}: {met}", not any(statuses) and all(word in met for word in words), f"{statuses} {said}" if any(statuses) else "")


def refused(scratch, guests, plan, what, words, *arguments, variables=None, expected=2):
    changes = {process: (variables, None) for process in range(2)} if variables else None
    statuses, said = Job(scratch, guests, 2, plan, "--steps", 1, "--quiet", *arguments, changes=changes).end()
    errors = {line for text in said for line in text.splitlines() if line.startswith("error:")}
    good = statuses == [expected] * 2 and len(errors) == 1 and all(word in min(errors) for word in words)
    scratch.check(f"{what}: {', '.join(errors)}", good, "" if good else f"{statuses} {said}")


def restarted(scratch, guests, plan):
    """Over RDMA too: a process that is killed is started again, all go on, and the end is that of a run that nothing broke."""
    job = Job(scratch, guests, 2, plan, "--steps", STEPS, "--save-every", 1, "--transport", "verbs", "--restarts", 1, "--out", "kd-again")
    if not job.await_checkpoint("kd-again"):
        job.kill()
        return scratch.check("a restart", False, "it did not begin")
    guests.run(1, "pkill", "-KILL", "--newest", "-f", "bin/maestro-run")  # Not the one that watches over it.
    statuses, said = job.end(200)
    different = different_files(*(scratch.path / out / f"checkpoint-{STEPS:06d}" for out in ("kd-alone", "kd-again"))) if statuses == [0, 0] else []
    good = statuses == [0, 0] and not different and all("restart 1 of 1" in text for text in said)
    scratch.check("a restart over verbs", good, "" if good else f"{statuses} {different} {said}")


def rough(scratch, guests, plan):
    """A network that delays, loses, doubles, reorders and damages packets costs time alone, and the devices' own counters tell of it."""
    shape = "modprobe sch_netem && tc qdisc add dev eth0 root netem delay 300us loss 0.2% duplicate 1% corrupt 0.1% reorder 1%"
    made = [guests.run(number, "sh", "-c", shape) for number in range(2)]
    if any(done.returncode for done in made):
        return scratch.check("a rough network", False, made[0].stderr)
    statuses, said = Job(scratch, guests, 2, plan, "--steps", STEPS, "--save-every", 3, "--transport", "verbs", "--out", "kd-rough").end(200)
    for number in range(2):
        guests.run(number, "tc", "qdisc", "delete", "dev", "eth0", "root")
    different = different_files(*(scratch.path / out / f"checkpoint-{STEPS:06d}" for out in ("kd-alone", "kd-rough"))) if statuses == [0, 0] else []
    told = "counters of trouble have grown" in "".join(said)
    scratch.check("a rough network: the same bytes, and it is told of", statuses == [0, 0] and not different and told,
                  "" if statuses == [0, 0] and not different and told else f"{statuses} {different} {said}")


SECOND_PORT = ("modprobe macvlan && ip link add link eth0 name rail1 type macvlan mode bridge && ip address add 10.79.0.{host}/24 dev rail1 && "
               "ip link set rail1 up && rdma link add rxe1 type rxe netdev rail1")


def packets_sent(guests):
    """By device, of guest 0."""
    said = guests.run(0, "sh", "-c", "cd /sys/class/infiniband && grep . */ports/1/hw_counters/sent_pkts").stdout
    return {line.split("/")[0]: int(line.split(":")[1]) for line in said.splitlines()}


def two_ports(scratch, guests, plan):
    """One process a machine writes over both of its ports, each to that of the other machine on the same network. Several processes would have one
    each, and between the two networks nothing goes, so that all take the first, and it is said why."""
    for number in range(2):
        made = guests.run(number, "sh", "-c", SECOND_PORT.format(host=number + 1))
        if made.returncode:
            return scratch.check("a second port", False, made.stderr)
    both = {"MAESTRO_IB_DEVICE": "rxe0,rxe1"}
    before = packets_sent(guests)
    job = Job(scratch, guests, 2, plan, "--steps", STEPS, "--save-every", 3, "--transport", "verbs", "--out", "kd-rails", changes={process: (both, None) for process in range(2)})
    statuses, said = job.end(200)
    used = {device: count - before[device] for device, count in packets_sent(guests).items()}
    different = different_files(*(scratch.path / out / f"checkpoint-{STEPS:06d}" for out in ("kd-alone", "kd-rails"))) if statuses == [0, 0] else []
    named = "verbs over rxe0 port 1" in said[0] and "and verbs over rxe1 port 1" in said[0]
    good = statuses == [0, 0] and not different and named and min(used["rxe0"], used["rxe1"]) > 20
    scratch.check(f"two ports: {used}", good, "" if good else f"{statuses} {different} {said}")
    chosen(scratch, guests, plan, "two ports and networks", ["verbs over rxe0 port 1", "not over more ports: process"], "--transport", "verbs",
           variables=both, processes=4)
    for number in range(2):
        guests.run(number, "sh", "-c", "rdma link delete rxe1; ip link delete rail1")


def other_provider(scratch, guests, plan):
    """libfabric's own way to the RDMA device: a provider that wants what is written from to be registered."""
    for number in range(2):
        guests.run(number, "modprobe", "-a", "rdma_ucm", "ib_uverbs")
    provider = {"MAESTRO_LIBFABRIC_PROVIDER": "verbs;ofi_rxm", "FI_UNIVERSE_SIZE": "16"}  # Of 256, Soft-RoCE has too few completions.
    statuses, said = Job(scratch, guests, 2, plan, "--steps", STEPS, "--save-every", 3, "--transport", "libfabric", "--out", "kd-provider",
                         changes={process: (provider, None) for process in range(2)}).end(200)
    different = different_files(*(scratch.path / out / f"checkpoint-{STEPS:06d}" for out in ("kd-alone", "kd-provider"))) if statuses == [0, 0] else []
    good = statuses == [0, 0] and not different and "libfabric verbs;ofi_rxm over rxe0" in said[0]
    scratch.check("libfabric's verbs provider", good, "" if good else f"{statuses} {different} {said}")


def gpus(scratch, guests):
    """What GPUs of two machines send goes by RDMA from one's memory to the other's: on a CUDA driver of our own, whose memory Soft-RoCE is made to
    take (test/cuda/fake/nic.cpp). test/cuda/rdma_test.py has every other case."""
    case = runs.zoo_case("mlp_dropout")
    data = shards.write_shards(shards.make_samples(case, 16, seed=5), scratch.path / "gpu-data")
    plan = scratch.bench().plan(runs.exported(case), "gpus", "--set", "cluster.device=h100-sxm", "--set", "cluster.devices_per_node=2", "--set", "train.global_batch=8",
                                "--pin", "*.micro_batch=2", "--pin", "*.dp=2")
    fakes = runs.BINARIES.resolve().parent / "test" / "fake-cuda"
    if not (fakes / "libcuda.so.1").exists():
        return  # Built without a CUDA toolkit.
    variables = {"LD_LIBRARY_PATH": str(fakes), "MAESTRO_FAKE_CUDA_DMABUF": "ordered"}
    arguments = [plan, "--data", data, "--steps", 1, "--save-every", 1]
    alone = guests.run(0, "env", f"LD_LIBRARY_PATH={fakes}", runs.BINARIES / "maestro-run", *arguments, "--out", "gpus-alone", timeout=100)
    nic = variables | {"LD_PRELOAD": str(fakes / "libmaestro_fake_nic.so")}
    statuses, said = Job(scratch, guests, 2, *arguments, "--out", "gpus-apart", changes={process: (nic, None) for process in range(2)}).end(200)
    ended = alone.returncode == 0 and statuses == [0, 0]
    different = different_files(*(scratch.path / out / "checkpoint-000001" for out in ("gpus-alone", "gpus-apart"))) if ended else []
    told = "verbs over rxe0" in said[0] and "; between GPUs dma-buf\n" in said[0] and "through" not in said[0]
    good = ended and not different and told
    scratch.check("from GPU to GPU: the bytes of one process", good, "" if good else f"{alone.stderr} {statuses} {different} {said}")


def main() -> int:
    scratch = runs.Scratch("guests")
    os.chdir(scratch.path)
    kd = distillation(scratch)
    try:
        guests = Guests(scratch.path)
    except Missing as what:
        print(f"skip: this machine lacks {what}")
        return 77
    with guests:
        before = resources(guests)
        same_bits(scratch, {"kd": kd}, lambda _: [("over verbs", guests, 2), ("over verbs", guests, 4)], alone_in(guests, scratch), STEPS,
                  ["--transport", "verbs"])
        chosen(scratch, guests, kd, "by itself", ["verbs over rxe0 port 1 (RoCE 10.78.0.1"])
        chosen(scratch, guests, kd, "TCP alone", ["libfabric"], "--transport", "libfabric")
        gpus(scratch, guests)
        two_ports(scratch, guests, kd)
        other_provider(scratch, guests, kd)
        restarted(scratch, guests, kd)
        rough(scratch, guests, kd)
        disturbed(scratch, "process 1 is killed", guests, kd, send(guests, 1, signal.SIGKILL), 12, "process 1 (guest1", 1, save_every=1)
        disturbed(scratch, "process 1 is stopped", guests, kd, send(guests, 1, signal.SIGSTOP), 20, "process 1 (guest1", 1, save_every=1)
        guests.run(1, "pkill", "-KILL", "-f", "bin/maestro-run")
        scratch.check("nothing is left of queue pairs and memory", resources(guests) == before, f"{before} before, {resources(guests)} after")

        missing = {"MAESTRO_IB_DEVICE": "mlx5_9"}
        chosen(scratch, guests, kd, "another device", ["libfabric", "not verbs: process 0 (guest0", "MAESTRO_IB_DEVICE", "rxe0"], variables=missing)
        refused(scratch, guests, kd, "a device that cannot be read", ["rxe0:one", "'one'"], variables={"MAESTRO_IB_DEVICE": "rxe0:one"}, expected=1)
        guests.run(1, *DROP_ROCE)
        chosen(scratch, guests, kd, "a firewall", ["libfabric", "not verbs: process", "UDP port 4791"])
        guests.run(1, "rdma", "link", "delete", "rxe0")
        chosen(scratch, guests, kd, "no device in guest 1", ["libfabric", "not verbs: process 1 (guest1", "no RDMA device"])
        refused(scratch, guests, kd, "no device, and verbs alone", ["process 1 (guest1", "no RDMA device", "--transport auto"], "--transport", "verbs")
        guests.run(1, "sh", "-c", "tc qdisc delete dev eth0 ingress; rdma link add rxe0 type rxe netdev eth0")

        def unplug(_):
            guests.plug(1, False)
            return {1}
        disturbed(scratch, "a cable is pulled", guests, kd, unplug, 20, "process 1 (guest1", 1, save_every=1)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
