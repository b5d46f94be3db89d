"""One plan on several machines that share nothing but a network leaves the bytes that it leaves in one process; when one process dies, stops or
is cut off, all end soon and say the same; and what does not fit together is refused before anything is trained."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import runs
from machines import Job, Loopback, Network, newest
from tools import DISTILLATION, STAGES_AND_REPLICAS, different_files, metrics, safetensors

STEPS = 6
FOUR = ["--set", "cluster.devices_per_node=4"]
BATCH = ["--set", "train.global_batch=8", "--pin", "*.micro_batch=2", "--pin"]
NODES = """
device: cpu
nodes: 2
devices_per_node: 2
links:
  - {name: node, spans: 2, bandwidth: 10 GB/s, latency: 1 us}
  - {name: network, spans: 4, bandwidth: 1 GB/s, latency: 20 us}
"""
EXAMPLES = runs.HERE.parent.parent / "examples"


def plans(scratch):
    """Of a teacher and a student with stages and replicas, of three modalities, of replicas alone, and of tensors in parts."""
    workload = scratch.path / "kd.yaml"
    workload.write_text(DISTILLATION.format(lr=1e-3, teacher=runs.exported(runs.zoo_case("llama_logits")), student=runs.exported(runs.zoo_case("qwen3_logits"))))
    bench = scratch.bench()
    gpt = runs.exported(runs.zoo_case("gpt2_logits"))
    nodes = scratch.path / "nodes.yaml"
    nodes.write_text(NODES)
    two = ["--set", "cluster.devices_per_node=2", *BATCH]
    return {
        "kd": bench.plan(workload, "kd", *STAGES_AND_REPLICAS),
        "multimodal": bench.plan(EXAMPLES / "multimodal" / "workload.yaml", "multimodal", *FOUR, "--set", "train.global_batch=16"),
        "replicas": bench.plan(gpt, "replicas", *two, "*.dp=2"),
        "three": bench.plan(gpt, "three", "--set", "cluster.devices_per_node=3", "--set", "train.global_batch=9", "--pin", "*.micro_batch=3",
                            "--pin", "*.dp=3"),
        "tensor": bench.plan(gpt, "tensor", *two, "*.tensor=2"),
        "nodes": bench.plan(gpt, "nodes", "--cluster", nodes, *BATCH, "*.dp=4"),
        "flat": bench.plan(gpt, "flat", *FOUR, *BATCH, "*.dp=4"),
    }


def same_bits(scratch, plans, places, alone_runs=None, steps=STEPS, more=()):
    """`alone_runs`: runs maestro-run as one process, on a processor like that of the places."""
    for name, plan in plans.items():
        if name in ("three", "flat"):
            continue
        arguments = [plan, "--steps", steps, "--save-every", 3, "--save-gradients", "--quiet"]
        (alone_runs or scratch.bench().succeed)("maestro-run", *arguments, "--out", f"{name}-alone")
        alone = scratch.path / f"{name}-alone"
        ranks = 4 if name in ("kd", "multimodal", "nodes") else 2
        for where, place, processes, *forced in places(ranks):
            network = forced or isinstance(place, Network) or alone_runs  # Else memory.
            out = "-".join([name, where, str(processes), *forced])
            statuses, said = Job(scratch, place, processes, *arguments, *more, *forced, "--out", out).end()
            together = scratch.path / out
            different = [] if any(statuses) else [
                *different_files(alone / f"checkpoint-{steps:06d}", together / f"checkpoint-{steps:06d}"),
                *(["gradients"] if (alone / "gradients.safetensors").read_bytes() != (together / "gradients.safetensors").read_bytes() else []),
                *(name for name in ("loss", "edges") if [line[name] for line in metrics(alone)] != [line[name] for line in metrics(together)]),
                *(["network"] if any(("network" in line) != bool(network) for line in metrics(together)) else [])]
            scratch.check(f"{name}: {processes} processes, {where}", not any(statuses) and not different,
                          "" if not any(statuses) and not different else f"{statuses} {different} {said}")


def stages(scratch, plans, network):
    """Gradients that are added up within nodes, then between them, are those that are added up in one go, but for rounding."""
    bench = scratch.bench()
    sums = json.loads(bench.succeed("maestro-dump", plans["nodes"], "--format", "json").stdout)["gradient_sums"]
    scratch.check("sums go from node to node", sums and all(one["degrees"] == [2, 2] for one in sums), f"{[one['degrees'] for one in sums]}")
    bench.succeed("maestro-run", plans["flat"], "--steps", 1, "--save-gradients", "--quiet", "--out", "flat")
    staged, flat = (safetensors(scratch.path / out / "gradients.safetensors")[0] for out in ("nodes-alone", "flat"))
    worst = max(float(abs(staged[name] - flat[name]).max() / (abs(flat[name]).max() + 1e-12)) for name in flat)
    scratch.check("and are the same sums", staged.keys() == flat.keys() and worst < 1e-4, f"{worst:.1e} of a gradient's largest")
    if network:  # Two ranks a machine: half as many bytes between them.
        sent = {}
        for name in ("nodes", "flat"):
            statuses, said = Job(scratch, network, 2, plans[name], "--steps", 2, "--quiet", "--out", f"{name}-sent").end()
            sent[name] = sum(use["bytes"] for use in metrics(scratch.path / f"{name}-sent")[-1]["network"]) if statuses == [0, 0] else str(said)
        scratch.check("over half of the bytes", isinstance(sent["nodes"], int) and 0.4 < sent["nodes"] / sent["flat"] < 0.6, f"{sent}")


def ways(scratch, plan, network):
    """Process 0 says how processes write to each other; memory is shared within a machine alone."""
    def check(what, words, place, processes, *more, expected=0):
        statuses, said = Job(scratch, place, processes, plan, "--steps", 1, *more).end()
        scratch.check(f"{what}: {words}", set(statuses) == {expected} and words in said[0], f"{statuses} {said}")

    check("one machine", "4 processes have met: shared memory\n", Loopback(), 4)
    check("one machine", "have met: libfabric tcp", Loopback(), 2, "--transport", "libfabric")
    if network:
        check("2 machines", "have met: shared memory within a machine, else libfabric tcp", network, 4)
        check("2 machines", "--transport local: not all processes that write to each other are on one machine", network, 4, "--transport", "local", expected=2)
        apart = {process: ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] for process in (1,)}
        check("another container", "not shared memory: process 0 with process 1 (", Loopback(apart), 2)


def resumes(scratch, plan):
    """From where a job of another number of processes has ended."""
    arguments = [plan, "--save-every", 2, "--quiet", "--out", "resumed"]
    first = Job(scratch, Loopback(), 3, *arguments, "--steps", 4).end()
    second = Job(scratch, Loopback(), 2, *arguments, "--steps", STEPS, "--resume").end()
    different = different_files(scratch.path / "kd-alone" / f"checkpoint-{STEPS:06d}", scratch.path / "resumed" / f"checkpoint-{STEPS:06d}")
    scratch.check("two go on where three ended", first[0] == [0] * 3 and second[0] == [0] * 2 and not different,
                  f"{different} {[text for text in first[1] + second[1] if text]}")


def traced(scratch, plan, network):
    """Machines' clocks differ; the trace has one, on which no task begins before what it needs was made."""
    job = Job(scratch, network, 3, plan, "--steps", 12, "--quiet", "--trace", "trace.json")
    statuses, said = job.end()
    if not scratch.check("a trace of three machines", statuses == [0] * 3, "" if statuses == [0] * 3 else f"{statuses} {said}"):
        return
    tasks = [event for event in json.loads((scratch.path / "trace.json").read_text())["traceEvents"] if event.get("cat") == "task"]
    begin = min(event["ts"] for event in tasks)
    seconds = (max(event["ts"] + event["dur"] for event in tasks) - begin) / 1e6
    # By step and micro-batch of the student, on whose second stage it runs forward after the first: ranks 1 and 3 have the second.
    end_of_forward, early = {}, 0.0
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in json.loads((scratch.path / "trace.json").read_text())["traceEvents"]
             if event.get("name") == "thread_name"}
    for event in tasks:
        if event["name"] == "forward" and "student stage 0" in names[event["pid"], event["tid"]]:
            end_of_forward[event["args"]["step"], event["args"]["microbatch"]] = event["ts"] + event["dur"]
    followers = [event for event in tasks if event["name"] == "forward" and "student stage 1" in names[event["pid"], event["tid"]]]
    pairs = [(event["ts"], end_of_forward[key]) for event in followers if (key := (event["args"]["step"], event["args"]["microbatch"])) in end_of_forward]
    early = max((made - began for began, made in pairs), default=None)
    scratch.check("on one clock", pairs and seconds < 60 and early < 2000,
                  f"{len(pairs)} tasks behind another machine's, {seconds:.1f} s in all, the earliest {early} µs before its operand")


def evaluates(scratch, plan):
    job = Job(scratch, Loopback(), 2, plan, "--evaluate", "--steps", 2, "--quiet")
    statuses, said = job.end()
    scratch.check("an evaluation", statuses == [0, 0], f"{statuses} {said}")


def disturbed(scratch, what, place, plan, disturb, most_seconds, words, survivors, save_every=10):
    """All who can speak end in time, with status 2 and one and the same error."""
    out = what.replace(" ", "-")
    job = Job(scratch, place, survivors + 1, plan, "--quiet", "--save-every", save_every, "--out", out, "--steps", 1_000_000)
    if not job.await_checkpoint(out):
        job.kill()
        return scratch.check(what, False, "it did not begin")
    began = time.monotonic()
    victims = disturb(job)
    statuses, said = [], []
    for number, process in enumerate(job.processes):
        if number in victims:
            continue
        try:
            said.append(process.communicate(timeout=most_seconds + 30)[1])
            statuses.append(process.returncode)
        except Exception as failure:  # noqa: BLE001: whatever it is, the others are judged too.
            said.append(str(failure))
            statuses.append(None)
    seconds = time.monotonic() - began
    job.kill()
    errors = {line for text in said for line in text.splitlines() if line.startswith("error:")}
    good = statuses == [2] * survivors and len(errors) == 1 and words in min(errors) and seconds < most_seconds
    scratch.check(f"{what}: all end after {seconds:.1f} s", good, "" if good else f"{statuses} {seconds:.1f} s {said}")
    before = newest(scratch.path / out)
    done = scratch.bench().command("maestro-run", plan, "--quiet", "--out", out, "--steps", before + 1, "--resume")
    return scratch.check(f"{what}: it goes on from step {before}", done.returncode == 0, done.stderr[-300:] if done.returncode else "")


def send(place, number, signal_number):
    def disturb(job):
        place.kill(job.processes[number], signal_number)
        return {number}
    return disturb


def slow(scratch, plan):
    """A process that has the processor for a part of the time alone is named, while nothing fails."""
    job = Job(scratch, Loopback(), 3, plan, "--quiet", "--save-every", 10, "--out", "slow", "--steps", 1_000_000)
    named = []
    if job.await_checkpoint("slow"):
        deadline = time.monotonic() + 60
        while not named and time.monotonic() < deadline:
            for _ in range(20):
                job.processes[1].send_signal(signal.SIGSTOP)
                time.sleep(0.03)
                job.processes[1].send_signal(signal.SIGCONT)
                time.sleep(0.01)
            named = [device["rank"] for line in metrics(scratch.path / "slow") for device in line.get("slow_devices", [])]
    for process in job.processes:
        process.send_signal(signal.SIGTERM)
    statuses, said = job.end(30)
    said = "".join(said)
    scratch.check("a slow process is named", named and set(named) == {1} and "rank 1 of process 1" in said and 130 in statuses,
                  "" if named else f"{named} {statuses} {said[-300:]}")


def interrupted(scratch, plan):
    """Everybody ends after the same step, which is saved."""
    job = Job(scratch, Loopback(), 3, plan, "--quiet", "--save-every", 10, "--out", "interrupted", "--steps", 1_000_000)
    if job.await_checkpoint("interrupted"):
        for process in job.processes:
            process.send_signal(signal.SIGTERM)
    statuses, said = job.end(30)
    scratch.check("an interrupted job", 130 in statuses and set(statuses) <= {0, 130} and "is saved" in "".join(said), f"{statuses} {said}")


def refused(scratch, plans, network):
    def check(what, words, job, expected=1):
        statuses, said = job.end(30)
        errors = [text.count("error:") for text in said]
        scratch.check(what, set(statuses) == {expected} and all(any(word in text for word in words) for text in said) and set(errors) == {1},
                      f"{statuses} {said}")

    plan = plans["kd"]
    steps = ["--steps", 1, "--quiet"]
    check("another plan", ["the plan"], Job(scratch, Loopback(), 2, plan, *steps, changes={1: ({}, [plans["multimodal"], *steps])}))
    check("another flag", ["the flags"], Job(scratch, Loopback(), 2, plan, *steps, changes={1: ({}, [plan, *steps, "--seed", 3])}))
    check("another provider", ["'sockets'", "'tcp;ofi_rxm'", "MAESTRO_LIBFABRIC_PROVIDER"], expected=2,
          job=Job(scratch, Loopback(), 2, plan, *steps, "--transport", "libfabric", changes={1: ({"MAESTRO_LIBFABRIC_PROVIDER": "sockets"}, None)}))
    check("more processes than ranks", ["has 4 ranks"], Job(scratch, Loopback(), 5, plan, *steps))
    check("a wrong number", ["RANK='7'"], Job(scratch, Loopback(), 1, plan, *steps, changes={0: ({"RANK": "7", "WORLD_SIZE": "2"}, None)}))
    check("a used --out, on all", ["--resume"], Job(scratch, Loopback(), 2, plan, *steps, "--out", "kd-alone"))
    check("data that is not there, on all", ["nosuch"], Job(scratch, Loopback(), 2, plan, *steps, "--data", "nosuch.tar"))
    if network:
        none = {process: ({"MAESTRO_JOB_SECRET": None}, None) for process in range(2)}
        check("a network without a secret", ["MAESTRO_JOB_SECRET_FILE"], Job(scratch, network, 2, plan, *steps, changes=none))
        check("an interface that is not there", ["there is no such interface"],
              Job(scratch, network, 1, plan, *steps, changes={0: ({"WORLD_SIZE": "2", "MAESTRO_INTERFACE": "nosuch0"}, None)}))


def main() -> int:
    scratch = runs.Scratch("machines")
    made = plans(scratch)
    networks = {}
    try:
        networks = {count: Network(count, scratch.path) for count in (2, 3)}
    except (PermissionError, FileNotFoundError) as failure:
        print(f"skip machines: {failure}", flush=True)

    def places(ranks):
        yield "one machine", Loopback(), 2
        yield "one machine", Loopback(), 2, "--transport", "libfabric"
        if ranks > 2:
            yield "one machine", Loopback(), 3
        for count, network in networks.items():
            if count <= ranks:
                yield f"{count} machines", network, ranks if count == 2 else 3

    try:
        same_bits(scratch, made, places)
        stages(scratch, made, networks.get(2))
        ways(scratch, made["kd"], networks.get(2))
        resumes(scratch, made["kd"])
        evaluates(scratch, made["kd"])
        if 3 in networks:
            traced(scratch, made["kd"], networks[3])
        place = networks.get(3, Loopback())
        for number in (0, 2):
            disturbed(scratch, f"process {number} is killed", place, made["kd"], send(place, number, signal.SIGKILL), 7, f"process {number} (", 2)
            disturbed(scratch, f"process {number} is stopped", place, made["kd"], send(place, number, signal.SIGSTOP), 15, f"process {number} (", 2)
        interrupted(scratch, made["kd"])
        slow(scratch, made["three"])
        refused(scratch, made, networks.get(2))
        if networks:
            def unplug(job):
                networks[3].unplug(2)
                return {2}
            disturbed(scratch, "a cable is pulled", networks[3], made["kd"], unplug, 15, "process 2 (", 2)
    finally:
        for network in networks.values():
            network.close()
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
