"""Whole layers on a GPU beside what plans say of them: the networks of examples/large, forward and backward, at the sizes that plans use.

    python3 bench/accelerator_layers.py measure times.txt    # on a machine with a GPU: PyTorch, transformers and onnx; 6 minutes
    .venv/bin/python bench/accelerator_layers.py compare     # without one: h100_layers.txt and h200_layers.txt, which `measure` wrote

Measured: bf16, each layer compiled (`torch.compile`); a layer is a quarter of what six take more than two, so that what comes before and
behind them is left out. Sizes are those at which a GPU is busy longer than its host takes to launch. Gradients are added up in bf16, as
PyTorch does, where plans add them up in f32. Predicted: the same from two plans of the same networks. Kernels one by one are in
bench/accelerator_times.py.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
LARGE = ROOT / "examples" / "large"
FEW, MANY = 2, 6  # Layers.
SECONDS = 0.5

# Network, whether it trains, and sizes: samples by positions of each (pictures and sounds have theirs).
CASES = [
    ("llama-8b", True, [(1, 1024), (1, 2048), (1, 4096), (2, 4096), (1, 8192)]),
    ("llama-70b", False, [(1, 1024), (1, 2048), (1, 4096), (4, 4096)]),
    ("vit-2b", True, [(32, 257), (64, 257), (128, 257)]),
    ("whisper-large", True, [(8, 1500), (16, 1500), (32, 1500)]),
]


# ---- measured, where the GPU is -----------------------------------------------------------------------------------------


def network(name, layers):
    """The example's tower, its layers, and a function that makes an input of so many samples and positions."""
    sys.path.insert(0, str(LARGE))
    import large
    import multimodal
    import torch
    import transformers

    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    kind, size = name.split("-")
    if kind == "llama":
        config = large.llama_config(size, layers)
        model = transformers.LlamaModel(config)
        return model, model.layers, lambda samples, positions: {"inputs_embeds": random(samples, positions, config.hidden_size)}
    if kind == "vit":
        model, pixels = multimodal.Vision(size, 1, layers).tower, multimodal.VITS[size][4]
        listed = getattr(model, "layers", None) or model.encoder.layer
        return model, listed, lambda samples, _: {"pixel_values": random(samples, 3, pixels, pixels)}
    model, (bands, frames) = multimodal.Audio(size, 1, layers).tower, multimodal.WHISPERS[size][4:6]
    return model, model.layers, lambda samples, _: {"input_features": random(samples, bands, frames)}


def seconds(call):
    """Of one call; calls are queued faster than they run."""
    import torch

    def of(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count

    of(2)
    count = max(4, int(SECONDS / of(4)))
    of(count)  # Clocks are what the power limit leaves.
    return of(count)


def times(name, trains, sizes, layers):
    """By size: seconds of forward, and of forward and backward (None where it does not train)."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    model, listed, inputs = network(name, layers)
    model = model.to("cuda", torch.bfloat16)
    model.requires_grad_(trains)
    for layer in listed:
        layer.compile(dynamic=False)
    result = {}
    for size in sizes:
        torch._dynamo.reset()
        given = inputs(*size)

        def forward():
            with torch.no_grad(), sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
                return model(**given)

        gradient = torch.randn_like(forward()[0])

        def both():
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
                torch.autograd.backward(model(**given)[0], gradient)

        result[size] = (seconds(forward), seconds(both) if trains else None)
        for tensor in (*model.parameters(), *given.values()):
            tensor.grad = None
    return result


def measure(path):
    import torch

    if not torch.cuda.is_available():
        sys.exit("accelerator_layers: PyTorch sees no GPU here; run it on a machine that has one")
    with open(path, "w") as file:
        def say(text):
            print(text, file=file, flush=True)
            print(text, flush=True)

        say(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}: network, samples, positions, microseconds of a layer forward, of its forward and backward")
        for name, trains, sizes in CASES:
            few, many = (times(name, trains, sizes, layers) for layers in (FEW, MANY))
            for size in sizes:
                each = [f"{(most - least) / (MANY - FEW) * 1e6:.1f}" if least else "-" for least, most in zip(few[size], many[size])]
                say(f"{name} {size[0]} {size[1]} {' '.join(each)}")
            torch.cuda.empty_cache()


# ---- predicted, from plans ----------------------------------------------------------------------------------------------

# Of a network: the example that has it, its section, the dims of its samples and positions there.
SECTIONS = {"llama-8b": ("kd", "student", ("batch", "seq")), "llama-70b": ("kd", "teacher", ("batch", "seq")),
            "vit-2b": ("multimodal", "vision", ("images", None)), "whisper-large": ("multimodal", "audio", ("sounds", None))}
# Of an example: what exports it, and sizes of micro-batches that hold all of CASES; each section has a device of its own.
EXAMPLES = {"kd": (["kd.py"], {"teacher": 4, "student": 2}), "multimodal": (["multimodal.py", "--sounds"], {"vision": 8, "audio": 8, "language": 1})}
CLUSTER = "{{nodes: 1, devices_per_node: 3, device: {device}, links: [{{name: node, spans: 3, bandwidth: 450 GB/s, latency: 2 us}}]}}\n"
STORED = {"h100-sxm": HERE / "h100_layers.txt", "h200": HERE / "h200_layers.txt"}  # By built-in device.


def exported(scratch, example, layers):
    import subprocess

    folder = scratch.path / f"{example}-{layers}"
    if not folder.exists():
        script, *flags = EXAMPLES[example][0]
        subprocess.run([sys.executable, "-B", LARGE / script, folder, *flags, "--layers", str(layers)], check=True, capture_output=True)
    return folder


def planned(scratch, example, layers, device):
    """The plan as maestro-dump has it."""
    import runs

    cluster, plan = scratch.path / "cluster.yaml", scratch.path / "plan.mpl"
    cluster.write_text(CLUSTER.format(device=device))
    pins = ["*.recompute=none", "*.split_backward=no"]
    for number, (section, size) in enumerate(EXAMPLES[example][1].items()):
        pins += [f"{section}.devices={number}", f"{section}.micro_batch={size}"]
    scratch.bench().succeed("maestro-plan", "--workload", exported(scratch, example, layers) / "workload.yaml", "--cluster", cluster,
                            "--set", "train.global_batch=8", "--quiet", "-o", plan, *[word for pin in pins for word in ("--pin", pin)])
    return runs.summary(scratch.bench(), plan)


def program_seconds(plan, section, sizes):
    """Of a section's programs, by kind, at these sizes of the workload's dims."""
    import math

    names = [symbol["name"] for symbol in plan["symbols"]]
    programs = [program for executable in plan["executables"] if plan["sections"][executable["section"]]["name"] == section
                for program in executable["programs"]]
    return {program["kind"]: sum(term["picoseconds"] * 1e-12 * math.prod(sizes[names[symbol]] for symbol in term["symbols"])
                                 for term in program.get("cost", [])) for program in programs}


def compare_one(scratch, device, path):
    import statistics

    head, *lines = path.read_text().splitlines()
    made, ratios = {}, []
    print(f"a layer on {device}, predicted and measured ({head.lstrip('# ').split(':')[0]})")
    print(f"{'network':14} {'samples':>7} {'positions':>9}   {'forward':>24}   {'forward and backward':>24}")
    for name, samples, positions, *measured in map(str.split, lines):
        example, section, dims = SECTIONS[name]
        if example not in made:
            made[example] = [planned(scratch, example, layers, device) for layers in (FEW, MANY)]
        sizes = {dim: int(size) for dim, size in zip(dims, (samples, positions)) if dim}
        few, many = (program_seconds(plan, section, sizes) for plan in made[example])
        each = {kind: (many[kind] - few[kind]) / (MANY - FEW) for kind in many}
        forward = each.get("Forward", each.get("Evaluate"))
        cells = []
        for predicted, found in zip((forward, forward + each.get("Backward", 0)), measured):
            if found != "-":
                ratios.append(predicted * 1e6 / float(found))
                cells.append(f"{predicted * 1e3:7.2f} of {float(found) * 1e-3:6.2f} ms {ratios[-1]:5.2f}")
        print(f"{name:14} {samples:>7} {positions:>9}   {'   '.join(f'{cell:>24}' for cell in cells)}", flush=True)
    print(f"predicted / measured: {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}", flush=True)


def compare():
    sys.path.insert(0, str(ROOT / "test" / "runs"))
    import runs

    scratch = runs.Scratch("layers")
    for device, path in STORED.items():
        compare_one(scratch, device, path)
    return scratch.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("measure", help="on a machine with a GPU").add_argument("times")
    verbs.add_parser("compare", help="with plans, on a machine without one")
    arguments = parser.parse_args()
    return measure(arguments.times) if arguments.verb == "measure" else compare()


if __name__ == "__main__":
    sys.exit(main())
