"""Whole layers on a GPU beside what plans say of them: the networks of examples/large, forward and backward, at the sizes that plans use.

    python3 bench/accelerator_layers.py measure times.txt      # bench/h100_layers.txt and h200_layers.txt are its; there: PyTorch with CUDA and transformers, nothing of Maestro; 5 minutes
    .venv/bin/python bench/accelerator_layers.py compare times.txt --device h100-sxm   # here: no GPU

Measured: bf16, each layer compiled (`torch.compile`); a layer is a quarter of what six take more than two, so that what comes before and
behind them is left out. Sizes are those at which a GPU is busy longer than its host takes to launch. Gradients are added up in bf16, as PyTorch does, where plans add them up in f32.
Predicted: the same from two plans of the same networks. Kernels one by one are in bench/accelerator_times.py.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
    """The tower alone and a function that makes its input."""
    import torch
    import transformers

    if name.startswith("llama"):
        width, _, heads, kv_heads, inner = {"llama-70b": (8192, 80, 64, 8, 28672), "llama-8b": (4096, 32, 32, 8, 14336)}[name]
        model = transformers.LlamaModel(transformers.LlamaConfig(
            vocab_size=512, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=kv_heads, max_position_embeddings=8192, attn_implementation="sdpa", use_cache=False))
        return model, model.layers, lambda samples, positions: {
            "inputs_embeds": torch.randn(samples, positions, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)}
    if name == "vit-2b":
        model = transformers.ViTModel(transformers.ViTConfig(
            image_size=448, patch_size=28, hidden_size=1664, intermediate_size=8192, num_hidden_layers=layers, num_attention_heads=16,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="sdpa"), add_pooling_layer=False)
        listed = getattr(model, "layers", None) or model.encoder.layer
        return model, listed, lambda samples, positions: {
            "pixel_values": torch.randn(samples, 3, 448, 448, device="cuda", dtype=torch.bfloat16, requires_grad=True)}
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    model = WhisperEncoder(transformers.WhisperConfig(
        d_model=1280, encoder_layers=layers, encoder_attention_heads=20, encoder_ffn_dim=5120, num_mel_bins=128,
        max_source_positions=1500, attn_implementation="sdpa"))
    return model, model.layers, lambda samples, positions: {
        "input_features": torch.randn(samples, 128, 3000, device="cuda", dtype=torch.bfloat16, requires_grad=True)}


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

# Of a network: the example that has it, its section, the dims of its samples and positions there, and pins under which all sizes fit.
SECTIONS = {"llama-8b": ("kd", "student", ("batch", "seq")), "llama-70b": ("kd", "teacher", ("batch", "seq")),
            "vit-2b": ("multimodal", "vision", ("images", None)), "whisper-large": ("multimodal", "audio", ("sounds", None))}
EXAMPLES = {"kd": (["kd.py"], ["teacher.devices=0", "student.devices=1", "teacher.micro_batch=4", "student.micro_batch=2"]), "multimodal": (["multimodal.py", "--sounds"], ["vision.devices=0", "audio.devices=1", "language.devices=2",
                               "vision.micro_batch=8", "audio.micro_batch=8", "language.micro_batch=1"])}
CLUSTER = "{{name: one, nodes: 1, devices_per_node: 3, device: {device}, links: [{{name: all, spans: 3, bandwidth: 450 GB/s, latency: 2 us}}]}}\n"


def plans(scratch, example, device):
    """Of few layers and of many, each section on a device of its own."""
    import subprocess

    script, pins = EXAMPLES[example]
    (scratch.path / "cluster.yaml").write_text(CLUSTER.format(device=device))
    for layers in (FEW, MANY):
        folder = scratch.path / f"{example}-{layers}"
        subprocess.run([sys.executable, "-B", ROOT / "examples" / "large" / script[0], folder, *script[1:], "--layers", str(layers)], check=True, capture_output=True)
        plan = folder / "plan.mpl"
        words = [word for pin in ["*.recompute=none", "*.split_backward=no", *pins] for word in ("--pin", pin)]
        scratch.bench().succeed("maestro-plan", "--workload", folder / "workload.yaml", "--cluster", scratch.path / "cluster.yaml", "--set", "train.global_batch=8",
                                "--quiet", "-o", plan, *words)
        yield plan


def program_seconds(plan, section, sizes):
    """Of a section's programs, by kind, at these sizes of the workload's dims."""
    import math

    found = {}
    names = [symbol["name"] for symbol in plan["symbols"]]
    for executable in plan["executables"]:
        if plan["sections"][executable["section"]]["name"] == section:
            for program in executable["programs"]:
                found[program["kind"]] = sum(term["picoseconds"] * 1e-12 * math.prod(sizes[names[symbol]] for symbol in term["symbols"]) for term in program.get("cost", []))
    return found


def compare(path, device):
    sys.path[:0] = [str(ROOT / "test" / "runs")]
    import statistics

    import runs

    lines = [line.split() for line in pathlib.Path(path).read_text().splitlines() if line and not line.startswith("#")]
    scratch, made, ratios = runs.Scratch("layers"), {}, []
    print(f"{device}, beside {pathlib.Path(path).read_text().splitlines()[0].lstrip('# ').split(':')[0]}: a layer")
    print(f"{'network':14} {'samples':>7} {'positions':>9}   {'forward':>24}   {'forward and backward':>24}")
    for name, samples, positions, *measured in lines:
        example, section, dims = SECTIONS[name]
        if example not in made:
            made[example] = [runs.summary(scratch.bench(), plan) for plan in plans(scratch, example, device)]
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
    print(f"predicted / measured: {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}")
    return scratch.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("measure", help="on a machine with a GPU")
    verb.add_argument("times")
    verb = verbs.add_parser("compare", help="with plans, on a machine without one")
    verb.add_argument("times")
    verb.add_argument("--device", default="h100-sxm", help="a built-in device (default %(default)s)")
    arguments = parser.parse_args()
    return measure(arguments.times) if arguments.verb == "measure" else compare(arguments.times, arguments.device)


if __name__ == "__main__":
    sys.exit(main())
