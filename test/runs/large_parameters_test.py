"""Parameters larger than the pieces in which they move keep their values: read, converted, transposed, saved, read again.

SGD with a learning rate far below rounding: what the run saves is what it was given.
"""

from __future__ import annotations

import sys

import numpy
import runs
from tools import different_files, newest_checkpoint, safetensors

SGD = ["--set", "train.optimizer.sgd.lr=1e-30", "--set", "dims.batch.max=1", "--set", "dims.seq.max=16",
       "--set", "train.global_batch=1"]


def expected_values(case, variant):
    import export

    module = export.build_module(case, fresh=variant == "optimized")  # Its exporter merges and deletes plain vectors.
    return {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}


def compare(scratch, what, checkpoint, expected):
    found, _ = safetensors(checkpoint)
    wrong = [name for name, value in found.items()
             if name not in expected or not numpy.array_equal(value, expected[name])]
    largest = max(value.nbytes for value in found.values())
    scratch.check(what, not wrong and len(found) > 10 and largest >= 4 << 20, f"{len(found)} parameters, wrong: {wrong[:4]}")


def judge(scratch, name):
    import export
    import torch
    from safetensors.torch import save_file

    bench = scratch.bench()
    case = runs.zoo_case(name)
    for variant in ("opset20", "optimized"):  # The second stores products' weights transposed.
        plan = bench.plan(export.export_variant(case, variant, export.models_folder()), f"{name}-{variant}", *SGD)
        out = scratch.path / f"{name}-{variant}"
        bench.succeed("maestro-run", plan, "--steps", 1, "--out", out)
        compare(scratch, f"{name} {variant}", newest_checkpoint(out) / f"{name}.safetensors",
                expected_values(case, variant))
    again = scratch.path / f"{name}-again"
    bench.succeed("maestro-run", plan, "--steps", 1, "--out", again, "--weights",
                  f"{name}={newest_checkpoint(out) / f'{name}.safetensors'}")
    different = different_files(newest_checkpoint(out), newest_checkpoint(again))
    scratch.check(f"{name} --weights", not different, f"{different}")
    rounded = {key: torch.from_numpy(value.copy()).bfloat16() for key, value in
               safetensors(newest_checkpoint(out) / f"{name}.safetensors")[0].items()}
    save_file(rounded, scratch.path / "bf16.safetensors")
    narrow = scratch.path / f"{name}-bf16"
    bench.succeed("maestro-run", plan, "--steps", 1, "--out", narrow, "--weights", f"{name}={scratch.path / 'bf16.safetensors'}")
    compare(scratch, f"{name} --weights in bf16", newest_checkpoint(narrow) / f"{name}.safetensors",
            {key: value.float().numpy() for key, value in rounded.items()})


def main() -> int:
    scratch = runs.Scratch("large-parameters")
    judge(scratch, "llama_5m")
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
