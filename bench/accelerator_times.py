"""Times of the operators that plans for accelerators are made of, measured on the GPU of this machine: what built-in device
descriptions (cost_models/devices.cpp) are held against. Needs PyTorch with CUDA, and nothing of Maestro.

    python3 bench/accelerator_times.py times.txt     # about 4 minutes; test/cost_models/h200_times.txt and h100_times.txt are its

A line is an operator: its kernel, type, m, n, k and batch as in cost_models/operator_time.h, operations, bytes, microseconds. Calls
run in a CUDA graph, one after the other on operands that lie in different places (256 MB of them, so that the second-level
cache holds none), for a quarter of a second after as long a warm-up: clocks are what the power limit leaves.
"""

import argparse
import sys
import time

import torch
import torch.nn.functional as F

CACHE = 256 << 20  # Bytes of operands in rotation: five times an H100's second-level cache.
SECONDS = 0.25

# Rows (tokens, pictures' patches) by weights: those of examples/large.
LLAMA_8B = [(4096, 4096), (4096, 1024), (4096, 14336), (14336, 4096), (4096, 128256)]
LLAMA_70B = [(8192, 8192), (8192, 1024), (8192, 28672), (28672, 8192)]
VIT = [(1664, 1664), (1664, 8192), (8192, 1664)]
WHISPER = [(1280, 1280), (1280, 5120), (5120, 1280)]
PRODUCTS = [(LLAMA_8B, [256, 1024, 2048, 4096, 8192, 16384], True), (LLAMA_70B, [1024, 2048, 4096, 8192], False),
            (VIT, [257 * n for n in (1, 4, 16, 64)], True), (WHISPER, [1500 * n for n in (1, 2, 4, 16)], True)]
# Sequences, heads, length, depth, causal.
ATTENTIONS = [(1, 32, 1024, 128, True), (1, 32, 2048, 128, True), (4, 32, 2048, 128, True), (1, 32, 4096, 128, True),
              (1, 32, 8192, 128, True), (1, 64, 2048, 128, True), (1, 64, 4096, 128, True), (1, 32, 4096, 128, False),
              (4, 16, 257, 104, False), (16, 16, 257, 104, False), (64, 16, 257, 104, False),
              (1, 20, 1500, 64, False), (4, 20, 1500, 64, False), (16, 20, 1500, 64, False)]
# Rows and width of what is bound by memory.
ROWS = [(257, 1664), (4112, 1664), (16448, 1664), (2048, 4096), (8192, 4096), (16384, 4096), (2048, 14336), (8192, 14336), (8192, 8192)]


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, dtype=dtype, device="cuda")


def seconds(call, make):
    """Of one call: `make` makes a set of operands, `call` takes them."""
    first = make()
    size = sum(x.numel() * x.element_size() for x in first)
    sets = [first] + [make() for _ in range(min(max(1, CACHE // size), 63))]
    for operands in sets[:2]:
        call(*operands)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for operands in sets:
            call(*operands)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    torch.cuda.synchronize()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    repeats = max(2, int(SECONDS / (begin.elapsed_time(end) * 1e-3)))
    for _ in range(repeats):
        graph.replay()
    begin.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / (repeats * len(sets))


class Table:
    def __init__(self, path):
        self.file = open(path, "w")
        self.begin = time.time()

    def comment(self, text):
        print(f"# {text}", file=self.file, flush=True)

    def add(self, kernel, dtype, m, n, k, batch, flops, size, call, make):
        try:
            took = seconds(call, make)
        except (torch.cuda.OutOfMemoryError, RuntimeError) as error:
            print(f"{kernel} {m}x{n}x{k}: {str(error).splitlines()[0]}", file=sys.stderr)
            return
        print(f"{kernel} {dtype} {m} {n} {k} {batch} {flops:.6g} {size:.6g} {took * 1e6:.4g}", file=self.file, flush=True)
        print(f"{time.time() - self.begin:4.0f} s  {kernel:24} {m}x{n}x{k}x{batch}  {took * 1e6:.4g} us  {flops / took * 1e-12:.4g} TFLOP/s  "
              f"{size / took * 1e-9:.4g} GB/s", flush=True)


def products(table):
    for weights, rows, trained in PRODUCTS:
        for k, n in weights:
            for m in rows:
                flops, size = 2 * m * n * k, 2 * (m * n + m * k + k * n)
                table.add("matmul", "bf16", m, n, k, 1, flops, size, lambda x, w, y: torch.mm(x, w, out=y),
                          lambda: (random(m, k), random(k, n), random(m, n)))
                if trained:
                    table.add("matmul", "bf16", m, k, n, 1, flops, size, lambda dy, w, dx: torch.mm(dy, w.t(), out=dx),
                              lambda: (random(m, n), random(k, n), random(m, k)))
                    table.add("matmul_transposed", "bf16", k, n, m, 1, flops, size, lambda x, dy, dw: torch.mm(x.t(), dy, out=dw),
                              lambda: (random(m, k), random(m, n), random(k, n)))


def attentions(table):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for batch, heads, length, depth, causal in ATTENTIONS:
        queries = batch * heads * length
        kind = "_causal" if causal else ""

        def make():
            return tuple(random(batch, heads, length, depth) for _ in range(4))

        def forward(q, k, v, _):
            F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            with sdpa_kernel(backend):
                name = "cudnn" if backend == SDPBackend.CUDNN_ATTENTION else "flash"
                table.add(f"attention{kind}_{name}", "bf16", queries, length, depth, 1, queries * length * (4 * depth + 12), 8 * queries * depth,
                          forward, make)

                def make_backward():
                    q, k, v, dy = make()
                    leaves = [x.requires_grad_() for x in (q, k, v)]
                    y = F.scaled_dot_product_attention(*leaves, is_causal=causal)
                    return (*leaves, y, dy)

                def backward(q, k, v, y, dy):
                    torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)

                table.add(f"attention_grad{kind}_{name}", "bf16", queries, length, depth, 1, queries * length * (10 * depth + 12),
                          16 * queries * depth, backward, make_backward)


def streams(table):
    for rows, width in ROWS:
        one = 2 * rows * width

        def add(kernel, passes, call, make):
            table.add(kernel, "bf16", rows, width, 1, 1, 8 * rows * width, passes * one, call, make)

        def two():
            return random(rows, width), random(rows, width)

        def three():
            return random(rows, width), random(rows, width), random(rows, width)

        add("copy", 2, lambda x, y: y.copy_(x), two)
        add("add", 3, lambda x, y, z: torch.add(x, y, out=z), three)
        add("gelu", 2, lambda x, y: torch.ops.aten.gelu.out(x, out=y), two)
        add("gelu_grad", 3, lambda x, dy, dx: torch.ops.aten.gelu_backward.grad_input(dy, x, grad_input=dx), three)
        add("silu", 2, lambda x, y: torch.ops.aten.silu.out(x, out=y), two)
        weight, bias = random(width), random(width)
        add("layer_norm", 2, lambda x, y: F.layer_norm(x, (width,), weight, bias), two)
        add("rms_norm", 2, lambda x, y: F.rms_norm(x, (width,), weight), two)
        mean = torch.zeros(rows, 1, dtype=torch.float32, device="cuda")  # As norms keep it of bf16 on GPUs.
        add("layer_norm_grad", 3, lambda x, dy: torch.ops.aten.native_layer_norm_backward(dy, x, [width], mean, mean + 1, weight, bias,
                                                                                          [True, True, True]), two)
        add("softmax", 2, lambda x, y: torch.softmax(x, -1), two)
        add("transpose", 2, lambda x, y: y.view(width, rows).copy_(x.t()), two)
        add("reduce_sum", 1, lambda x: torch.sum(x, 0), lambda: (random(rows, width),))
    for rows in (2048, 8192):
        width = 128256
        table.add("log_softmax", "bf16", rows, width, 1, 1, 8 * rows * width, 4 * rows * width, lambda x: torch.log_softmax(x, -1),
                  lambda: (random(rows, width),))


def optimizer(table):
    parameters = 1 << 28
    step = torch.ones((), device="cuda")

    def make():
        return [random(parameters, dtype=torch.float32) for _ in range(4)]

    def adamw(p, g, m, v):
        torch._fused_adamw_([p], [g], [m], [v], [], [step], lr=1e-4, beta1=0.9, beta2=0.95, weight_decay=0.1, eps=1e-8, amsgrad=False,
                            maximize=False)

    table.add("adamw", "f32", parameters, 1, 1, 1, 12 * parameters, 28 * parameters, adamw, make)


def calls(table):
    table.add("call", "f32", 1, 1, 1, 1, 1, 8, lambda x: x.add_(1), lambda: (torch.zeros(1, device="cuda"),))


def layers(table):
    """Whole layers of a language model and an encoder, forward, and both ways: what sums of operators are held against."""
    class Layer(torch.nn.Module):
        def __init__(self, width, heads, kv_heads, inner, causal):
            super().__init__()
            depth = width // heads
            self.heads, self.kv_heads, self.depth, self.causal = heads, kv_heads, depth, causal
            self.q, self.k, self.v, self.o = (torch.nn.Linear(width, to, bias=not causal) for to in (width, kv_heads * depth, kv_heads * depth, width))
            self.up, self.down = torch.nn.Linear(width, inner, bias=not causal), torch.nn.Linear(inner, width, bias=not causal)
            self.gate = torch.nn.Linear(width, inner, bias=False) if causal else None
            norm = torch.nn.RMSNorm if causal else torch.nn.LayerNorm
            self.norm1, self.norm2 = norm(width), norm(width)

        def forward(self, x, cos, sin):
            y = self.norm1(x)
            split = lambda z, heads: z.view(*z.shape[:2], heads, self.depth).transpose(1, 2)  # noqa: E731
            q, k, v = split(self.q(y), self.heads), split(self.k(y), self.kv_heads), split(self.v(y), self.kv_heads)
            if self.causal:
                turn = lambda z: z * cos + torch.cat((-z[..., self.depth // 2:], z[..., :self.depth // 2]), -1) * sin  # noqa: E731
                q, k = turn(q), turn(k)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.heads != self.kv_heads)
            x = x + self.o(a.transpose(1, 2).reshape(x.shape))
            y = self.norm2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y) if self.causal else F.gelu(self.up(y)))

    for name, shape, batches in (("llama_8b", (4096, 32, 8, 14336, True), [(1, 2048), (4, 2048), (1, 8192)]),
                                 ("llama_70b", (8192, 64, 8, 28672, True), [(1, 2048), (2, 2048)]),
                                 ("vit_2b", (1664, 16, 16, 8192, False), [(4, 257), (16, 257), (64, 257)]),
                                 ("whisper", (1280, 20, 20, 5120, False), [(1, 1500), (4, 1500), (16, 1500)])):
        layer = Layer(*shape).cuda().bfloat16()
        for batch, length in batches:
            width, depth = shape[0], shape[0] // shape[1]
            cos = sin = random(length, depth)
            for both in (False, True):
                def call(x):
                    if not both:
                        with torch.no_grad():
                            return layer(x, cos, sin)
                    x = x.detach().requires_grad_()
                    y = layer(x, cos, sin)
                    return torch.autograd.grad(y, [x, *layer.parameters()], y)

                table.add(f"layer_{name}{'_both' if both else ''}", "bf16", batch, length, width, 1, 1, 1, call, lambda: (random(batch, length, width),))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="written")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("accelerator_times: PyTorch sees no GPU here; run it on a machine that has one")
    table = Table(arguments.file)
    table.comment(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}: bench/accelerator_times.py")
    table.comment("kernel type m n k batch operations bytes microseconds")
    with torch.cuda.stream(torch.cuda.Stream()):  # Of the default one nothing can be captured.
        for part in (calls, optimizer, attentions, streams, products, layers):
            part(table)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
