"""The stages a case goes through, each a claim of the contract that can fail by itself."""

from __future__ import annotations

import json
import pathlib
import shutil

import numpy
import torch

import export
import shards
import tolerances
import zoo
from reference import Reference
from tools import ToolFailure, different_files, evaluated, losses, metrics, newest_checkpoint, safetensors

GLOBAL_BATCH = 8
SAMPLES = 20  # two full batches and one of four: a pass ends with a smaller batch
STEPS = 50


class Judge:
    """Collects what fails and goes on, so that one run says all that is wrong."""

    def __init__(self, bench, models: pathlib.Path):
        self.bench = bench
        self.models = models
        self.passed = 0
        self.failures = []

    def check(self, what: str, good: bool, detail: str = "") -> bool:
        print(f"{'ok  ' if good else 'FAIL'} {what}{'' if good and not detail else ': ' + detail}", flush=True)
        if good:
            self.passed += 1
        else:
            self.failures.append(what)
        return good

    def stage(self, what: str, function, *arguments, **keywords):
        """Runs one stage; a tool that fails, or a file that is missing, fails the stage alone."""
        try:
            return function(self, what, *arguments, **keywords)
        except (ToolFailure, OSError, KeyError, ValueError, RuntimeError) as error:
            self.check(what, False, f"{type(error).__name__}: {error}")
            return None


def relative(value: float, expected: float) -> float:
    return abs(value - expected) / max(abs(expected), 1e-30)


def make_data(judge, case, count=SAMPLES, seed=7):
    samples = shards.make_samples(case, count, seed)
    return samples, shards.write_shards(samples, judge.bench.scratch / f"{case.name}-data-{count}-{seed}")


def make_source(judge, case, variant="opset20") -> pathlib.Path:
    """What maestro-plan is given: the graph, or a workload file where the case has one."""
    graph = export.export_variant(case, variant, judge.models)
    if not case.workload:
        return graph
    path = judge.bench.scratch / f"{case.name}-{variant}.yaml"
    path.write_text(case.workload.replace("{model}", str(graph)))
    return path


def plan_case(judge, case, name, *arguments, variant="opset20"):
    return judge.bench.plan(make_source(judge, case, variant), name, "--set", f"train.global_batch={GLOBAL_BATCH}",
                            *arguments)


# ---- gradients ----------------------------------------------------------------------------------------------------


def compare_gradients(judge, what, found: dict, expected: dict, aliases: dict) -> None:
    """Names the worst parameter. `aliases` maps a tied name to the one PyTorch lists."""
    found = {aliases.get(name, name): value for name, value in found.items()}
    missing = sorted(set(expected) - set(found))
    extra = sorted(name for name in set(found) - set(expected) if numpy.abs(found[name]).max() > 0)
    judge.check(f"{what} gradient names", not missing and not extra, f"missing {missing[:5]}, extra {extra[:5]}")
    norm = float(numpy.sqrt(sum(float((value.astype(numpy.float64) ** 2).sum()) for value in expected.values())))
    worst, worst_name, bad = 0.0, "", []
    for name in sorted(set(expected) & set(found)):
        if found[name].shape != expected[name].shape:
            bad.append(f"{name} has shape {found[name].shape}, not {expected[name].shape}")
            continue
        largest = float(numpy.abs(expected[name]).max())
        allowed = tolerances.gradient(largest, norm)
        excess = float(numpy.abs(found[name] - expected[name]).max()) / allowed
        if not excess <= 1:
            bad.append(f"{name} is off by {excess:.3g} × what is allowed (largest {largest:.3g})")
        if excess > worst:
            worst, worst_name = excess, name
    summary = f"worst {worst:.3g} of what is allowed, {worst_name}; {len(expected)} parameters"
    judge.check(f"{what} gradients", not bad, "; ".join(bad[:6]) + (f"; {len(bad)} in all" if bad else summary))


def read_gradients(folder: pathlib.Path, component: str | None) -> dict:
    """By parameter of one component; without one by <component>.<parameter>."""
    tensors, _ = safetensors(folder / "gradients.safetensors")
    if component is None:
        return tensors
    foreign = [name for name in tensors if not name.startswith(component + ".")]
    if foreign:
        raise ToolFailure(f"gradients.safetensors names {foreign[:3]}, expected {component}.<parameter>")
    return {name[len(component) + 1 :]: value for name, value in tensors.items()}


def stored_dtype(variant: str) -> str:
    return export.VARIANTS[variant].get("dtype", "float32")


def first_step(judge, what, case, micro_batch, variant="opset20", fresh=False, weights=None, stored=None, layout=()):
    """Step 1: loss and gradients of the global batch, whatever the micro-batches. `layout`: more arguments of maestro-plan."""
    samples, data = make_data(judge, case)
    plan = plan_case(judge, case, f"{case.name}-{variant}-{micro_batch}", "--pin", f"*.micro_batch={micro_batch}",
                     *layout, variant=variant)
    extra = ["--weights", f"{case.name}={weights}"] if weights else []
    out = judge.bench.run(plan, data, f"{plan.stem}-first", "--overwrite", "--steps", 1, "--save-gradients", *extra)
    reference = Reference(case, samples, GLOBAL_BATCH, fresh=fresh, stored=stored or stored_dtype(variant))
    loss, gradients = reference.gradients(reference.batch(0))
    line = metrics(out)[0]
    judge.check(f"{what} loss", relative(line["loss"], loss) <= tolerances.LOSS,
                f"{line['loss']:.8g} against PyTorch's {loss:.8g}, {relative(line['loss'], loss):.2g} relative")
    compare_gradients(judge, what, read_gradients(out, case.name), gradients, reference.aliases())
    norm = float(numpy.sqrt(sum(float((g.astype(numpy.float64) ** 2).sum()) for g in gradients.values())))
    judge.check(f"{what} grad_norm", relative(line["grad_norm"], norm) <= tolerances.GRAD_NORM, f"{line['grad_norm']:.8g}, {norm:.8g}")
    return loss


# ---- training, checkpoints ----------------------------------------------------------------------------------------


def training(judge, what, case, micro_batch=3, steps=STEPS, variant="opset20"):
    """AdamW as PyTorch's; returns the run's folder and the trained reference."""
    samples, data = make_data(judge, case)
    plan = plan_case(judge, case, f"{case.name}-{variant}-train", "--pin", f"*.micro_batch={micro_batch}", variant=variant)
    out = judge.bench.run(plan, data, f"{case.name}-{variant}-train", "--steps", steps)
    reference = Reference(case, samples, GLOBAL_BATCH, stored=stored_dtype(variant))
    expected = numpy.array(reference.train(steps))
    found = losses(out)
    if not judge.check(f"{what} steps logged", len(found) == steps, f"{len(found)} lines, {steps} steps"):
        return None
    error = numpy.abs(found - expected) / numpy.abs(expected)
    judge.check(f"{what} {steps} AdamW steps", bool(error.max() <= tolerances.TRAINED_LOSS) and expected[-1] < expected[0],
                f"{expected[0]:.4f} → {found[-1]:.6f} against {expected[-1]:.6f}; largest {error.max():.2g} relative "
                f"at step {int(error.argmax()) + 1}, last {error[-1]:.2g}")
    sizes = [line["samples"] for line in metrics(out)[:3]]
    judge.check(f"{what} batches of a pass", sizes == [8, 8, 4], f"{sizes}")
    return plan, data, out, reference


def checkpoint(judge, what, case, plan, data, out, reference):
    """The last checkpoint loads where its users load it, with the loss that the run had reached."""
    from safetensors.torch import load_model

    folder = newest_checkpoint(out)
    path = folder / f"{case.name}.safetensors"
    trained = reference.mean_loss()
    loaded = Reference(case, reference.samples, GLOBAL_BATCH)
    loaded.module = export.zoo_module(case)
    missing, unexpected = load_model(loaded.module, path, strict=True)
    loaded.module.train(case.train_mode)
    judge.check(f"{what} load_model(strict=True)", not missing and not unexpected, f"{missing} {unexpected}")
    value = loaded.mean_loss()
    judge.check(f"{what} loss of the loaded weights", relative(value, trained) <= tolerances.TRAINED_LOSS, f"{value:.7g}, {trained:.7g}")
    said = evaluated(judge.bench.succeed("maestro-run", plan, "--data", data, "--evaluate", "--weights",
                                         f"{case.name}={path}"))
    judge.check(f"{what} --evaluate", relative(said["loss"], value) <= tolerances.LOSS and said["samples"] == len(reference.samples),
                f"{said} against PyTorch's {value:.8g}")
    saved = [reference.aliases().get(name, name) for name in safetensors(path)[0]]
    judge.check(f"{what} tied weights once", len(saved) == len(set(saved)), f"twice in the file: {sorted(saved)}")
    if hasattr(loaded.module, "config"):
        from_pretrained(judge, what, case, path, loaded.module, value, reference)


def from_pretrained(judge, what, case, path, module, value, reference):
    """A folder with config.json and this file is what transformers calls a pretrained model."""
    folder = judge.bench.scratch / f"{case.name}-pretrained"
    folder.mkdir(exist_ok=True)
    module.config.save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(path.read_bytes())
    model, information = type(module).__bases__[0].from_pretrained(folder, output_loading_info=True)
    troubles = {key: sorted(names) for key, names in information.items() if names and key != "error_msgs"}
    judge.check(f"{what} from_pretrained", not troubles, json.dumps(troubles, default=str)[:400])
    state = module.state_dict()
    wrong = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, state[name])]
    judge.check(f"{what} from_pretrained values", not wrong, f"{wrong[:5]}")


def from_pretrained_index(judge, what, module, path, tensors):
    """So is one with several files and their index."""
    folder = judge.bench.scratch / f"{path.stem}-pretrained-index"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(path.parent, folder)
    (folder / f"{path.name}.index.json").rename(folder / "model.safetensors.index.json")
    module.config.save_pretrained(folder)
    model, information = type(module).__bases__[0].from_pretrained(folder, output_loading_info=True)
    troubles = {key: sorted(names) for key, names in information.items() if names and key != "error_msgs"}
    state = model.state_dict()
    wrong = [name for name, value in tensors.items() if not torch.equal(torch.from_numpy(value.copy()), state[name])]
    judge.check(f"{what} from_pretrained of several files", not troubles and not wrong, f"{json.dumps(troubles, default=str)[:300]} {wrong[:5]}")


def stored_types(judge, what, case, variant):
    """A plan says what its files hold; what it trains and saves is f32."""
    plan = plan_case(judge, case, f"{case.name}-{variant}-types", variant=variant)
    said = json.loads(judge.bench.succeed("maestro-dump", plan, "--format", "json").stdout)
    wanted = {"bfloat16": "bf16", "float16": "f16"}[stored_dtype(variant)]
    weights = [entry for entry in said["parameters"] if entry["dtype"] not in ("i64", "bool")]
    wrong = [entry["name"] for entry in weights if entry["dtype"] != wanted or
             ("source_file" in entry and entry["source_dtype"] != wanted)]
    judge.check(f"{what} element types of the file", bool(weights) and not wrong, f"{wrong[:5]} are not {wanted}")


# ---- determinism, precision ---------------------------------------------------------------------------------------


def determinism(judge, what, case, *arguments, steps=12):
    """Twice the same bytes; stopped and resumed the same bytes."""
    _, data = make_data(judge, case)
    plan = plan_case(judge, case, f"{case.name}-same", "--pin", "*.micro_batch=3", *arguments)
    again = plan_case(judge, case, f"{case.name}-same-again", "--pin", "*.micro_batch=3", *arguments)
    judge.check(f"{what} plan twice", plan.read_bytes() == again.read_bytes(), "")
    suffix = "-".join([case.name, *map(str, arguments)]).replace("=", "").replace(".", "")
    runs = [judge.bench.run(plan, data, f"{suffix}-{label}", "--steps", steps) for label in ("one", "two")]
    stopped = judge.bench.run(plan, data, f"{suffix}-stopped", "--steps", steps // 2 - 1)
    judge.bench.run(plan, data, f"{suffix}-stopped", "--steps", steps, "--resume")
    whole = newest_checkpoint(runs[0])
    for label, other in (("twice", runs[1]), ("resumed", stopped)):
        different = different_files(whole, newest_checkpoint(other))
        judge.check(f"{what} {label}", newest_checkpoint(other).name == whole.name and not different,
                    f"{newest_checkpoint(other).name} differs in {different}")
    resumed = [line["step"] for line in metrics(stopped)]
    judge.check(f"{what} resumed steps", resumed == list(range(1, steps + 1)), f"{resumed}")


def bf16_curve(judge, what, case, steps=200):
    samples = shards.make_chains(case.fields, longest=24, count=480, seed=11)
    data = shards.write_shards(samples, judge.bench.scratch / f"{case.name}-chains", per_shard=120)
    curves = {}
    for precision in ("f32", "bf16"):
        plan = plan_case(judge, case, f"{case.name}-{precision}", "--set", f"train.precision={precision}")
        curves[precision] = losses(judge.bench.run(plan, data, f"{case.name}-{precision}", "--steps", steps))
    error = numpy.abs(curves["bf16"] - curves["f32"]) / curves["f32"]
    judge.check(f"{what} bf16 within 2 % of f32 over {steps} steps", bool(error.max() <= tolerances.BF16_LOSS),
                f"largest {100 * error.max():.2f} % at step {int(error.argmax()) + 1}; "
                f"f32 {curves['f32'][0]:.3f} → {curves['f32'][-1]:.3f}")
    judge.check(f"{what} bf16 is not f32", bool(error.max() > 0), "the two curves are the same bits")


def cosine(left, right) -> float:
    left, right = left.astype(numpy.float64).ravel(), right.astype(numpy.float64).ravel()
    return float(left @ right / max(numpy.linalg.norm(left) * numpy.linalg.norm(right), 1e-300))


def bf16_gradients(judge, what, case, layout=()):
    """Step 1 in bf16 errs no more than PyTorch's autocast does: loss, and the gradients' directions, against f32. Twice
    autocast's own error is allowed, since rounding falls differently, and some more where that is very small."""
    samples, data = make_data(judge, case)
    plan = plan_case(judge, case, f"{case.name}-bf16-first", "--pin", "*.micro_batch=3", "--set", "train.precision=bf16", *layout)
    out = judge.bench.run(plan, data, plan.stem, "--overwrite", "--steps", 1, "--save-gradients")
    reference = Reference(case, samples, GLOBAL_BATCH)
    aliases = reference.aliases()
    found = {aliases.get(name, name): value for name, value in read_gradients(out, case.name).items()}
    exact, expected = reference.gradients(reference.batch(0))
    rounded, autocast = reference.gradients(reference.batch(0), bf16=True)
    loss = metrics(out)[0]["loss"]
    allowed = 2 * relative(rounded, exact) + 3e-4
    judge.check(f"{what} bf16 loss", relative(loss, exact) <= allowed,
                f"{relative(loss, exact):.2g} off, autocast {relative(rounded, exact):.2g}")
    # What is nothing but rounding has no direction (the bias of keys, which softmax does not see).
    norm = float(numpy.sqrt(sum((value.astype(numpy.float64) ** 2).sum() for value in expected.values())))
    names = [name for name, value in expected.items() if numpy.linalg.norm(value) > 1e-5 * norm]
    errors = {name: (1 - cosine(found[name], expected[name]), 1 - cosine(autocast[name], expected[name])) for name in names}
    bad = [f"{name}: {ours:.2g}, autocast {theirs:.2g}" for name, (ours, theirs) in errors.items()
           if not ours <= 2 * theirs + 1e-4]
    worst = max(names, key=lambda name: errors[name][0])
    judge.check(f"{what} bf16 gradients' directions", bool(names) and not bad,
                "; ".join(bad[:4]) or f"1 - cosine at most {errors[worst][0]:.2g} ({worst}), autocast {errors[worst][1]:.2g} "
                f"there; {len(names)} parameters")
    judge.check(f"{what} bf16 is not f32", max(ours for ours, _ in errors.values()) > 1e-7, f"{errors[worst]}")


def edited(judge, plan, edit):
    """The same plan, but for one of test/plan/edit_plan's edits."""
    made = plan.with_suffix(".edited.mpl")
    judge.bench.succeed("../test/edit_plan", plan, made, edit)
    return made


def without_proof(judge, plan):
    """As if planning had missed that padding shows."""
    return edited(judge, plan, "without-proof")


def unwritten_gradient(judge, what, case):
    """As if planning had given a gradient nothing but itself: there is a call, and it leaves what was there."""
    _, data = make_data(judge, case)
    plan = plan_case(judge, case, f"{case.name}-unwritten", "--pin", "*.micro_batch=3")
    plan = edited(judge, plan, "unwritten-gradient")
    done = judge.bench.command("maestro-run", plan, "--data", data, "--steps", 1, "--self-check")
    judge.check(f"{what} --self-check finds a gradient that nothing writes",
                done.returncode == 1 and "no task writes the gradient of" in done.stderr,
                f"status {done.returncode}: {done.stderr.strip()[-300:]}")


def self_check(judge, what, case, expect_stop: bool):
    _, data = make_data(judge, case)
    plan = plan_case(judge, case, f"{case.name}-selfcheck", "--pin", "*.micro_batch=3")
    plan = without_proof(judge, plan) if expect_stop else plan
    done = judge.bench.command("maestro-run", plan, "--data", data, "--steps", 1, "--self-check",
                               "--out", judge.bench.scratch / f"{case.name}-selfcheck-{'stops' if expect_stop else 'agrees'}")
    said = (done.stderr.strip() or done.stdout.strip())[-300:]
    judge.check(f"{what} --self-check {'stops' if expect_stop else 'agrees'}",
                done.returncode == (1 if expect_stop else 0) and ("error: self-check: " in done.stderr) == expect_stop,
                f"status {done.returncode}: {said}")


def refused(judge, what, case, *words, variant="opset20"):
    """maestro-plan says no, with each of `words` (of a tuple any), and leaves no plan behind."""
    source = make_source(judge, case, variant)
    path = judge.bench.scratch / f"{case.name}-refused.mpl"
    done = judge.bench.command("maestro-plan", source, "-o", path)
    absent = [word for word in words
              if not any(one.lower() in done.stderr.lower() for one in ([word] if isinstance(word, str) else word))]
    judge.check(f"{what} refused", done.returncode == 1 and not absent and not path.exists(),
                f"status {done.returncode}, lacks {absent}: {done.stderr.strip()[-400:]}")


def said(judge, what, case, *words, variant="opset20"):
    """maestro-plan goes on, and says each of `words`."""
    done = judge.bench.command("maestro-plan", make_source(judge, case, variant), "-o", judge.bench.scratch / f"{case.name}-said.mpl")
    absent = [word for word in words if word not in done.stderr + done.stdout]
    judge.check(f"{what} says {', '.join(words)}", done.returncode == 0 and not absent, f"status {done.returncode}: {done.stderr[-400:]}")


def position_bound(judge, what, case, longest):
    """A table of positions bounds the dim that is looked up in it, and synthetic data keeps to it."""
    plan = plan_case(judge, case, f"{case.name}-bound")
    said = json.loads(judge.bench.succeed("maestro-dump", plan, "--format", "json").stdout)
    found = {symbol["name"]: symbol["sample_max"] for symbol in said["symbols"]}
    judge.check(f"{what} bound", found.get("seq") == longest, f"{found}")
    done = judge.bench.command("maestro-run", plan, "--steps", 1, "--out", judge.bench.scratch / f"{case.name}-synthetic")
    judge.check(f"{what} synthetic data", done.returncode == 0, f"status {done.returncode}: {done.stderr[-300:]}")
    longer = judge.bench.scratch / f"{case.name}-longer.yaml"
    longer.write_text(f"components: {{m: {{model: {make_source(judge, case)}}}}}\ndims: {{seq: {{max: {longest + 1}}}}}\n")
    done = judge.bench.command("maestro-plan", longer, "-o", judge.bench.scratch / "longer.mpl")
    judge.check(f"{what} a longer one refused", done.returncode == 1 and f"a table for {longest}" in done.stderr, done.stderr)


def outside_vocabulary(judge, what, case, field, values):
    """Ids that no row stands for are refused by field, sample, value and limit, also where they reach the table on detours."""
    plan = plan_case(judge, case, f"{case.name}-ids")
    for value in values:
        samples = shards.make_samples(case, 8, seed=7)
        samples[5][field][1] = value
        data = shards.write_shards(samples, judge.bench.scratch / f"{case.name}-ids{value}")
        done = judge.bench.command("maestro-run", plan, "--data", data, "--steps", 1, "--out",
                                   judge.bench.scratch / f"{case.name}-ids-out{value}")
        words = [f"field '{field}'", "sample000005", f" {value} ", f"[0, {zoo.VOCABULARY})"]
        absent = [word for word in words if word not in done.stderr]
        judge.check(f"{what} id {value} refused", done.returncode == 1 and not absent,
                    f"status {done.returncode}, lacks {absent}: {done.stderr[-300:]}")


def miscounted_features(judge, what, case, field, micro_batch=3):
    """As many features as marked places: with fewer or more, later samples would take each other's."""
    plan = plan_case(judge, case, f"{case.name}-miscounted", "--pin", f"*.micro_batch={micro_batch}")
    for change, how in ((-1, "fewer"), (1, "more")):
        samples = shards.make_samples(case, 8, seed=7)
        victim = next(sample for sample in samples if len(sample.get(field, [])) in (1, 2))
        victim[field] = numpy.resize(victim[field], (len(victim[field]) + change, *victim[field].shape[1:]))
        data = shards.write_shards(samples, judge.bench.scratch / f"{case.name}-{how}")
        done = judge.bench.command("maestro-run", plan, "--data", data, "--steps", 1, "--out",
                                   judge.bench.scratch / f"{case.name}-{how}-out")
        judge.check(f"{what} with {how} features refused", done.returncode == 1 and "as many features" in done.stderr,
                    f"status {done.returncode}: {done.stderr[-300:]}")


# ---- dropout ------------------------------------------------------------------------------------------------------


def dropout(judge, what, case):
    """It drops; keyed by sample, so not by micro-batch; its mean over seeds is PyTorch's."""
    samples, data = make_data(judge, case, count=64, seed=3)
    found = {}
    for micro_batch in (5, 64):
        plan = judge.bench.plan(make_source(judge, case), f"{case.name}-{micro_batch}", "--set",
                                "train.global_batch=64", "--pin", f"*.micro_batch={micro_batch}")
        for seed in range(6):
            out = judge.bench.run(plan, data, f"{case.name}-{micro_batch}-{seed}", "--steps", 1, "--seed", seed)
            found[micro_batch, seed] = losses(out)[0]
    same = max(relative(found[5, seed], found[64, seed]) for seed in range(6))
    judge.check(f"{what} the same whatever the micro-batch", same <= tolerances.LOSS, f"{same:.2g} relative")
    values = [found[64, seed] for seed in range(6)]
    judge.check(f"{what} seeds differ", len(set(values)) == 6, f"{values}")
    reference = Reference(case, samples, 64)
    batch = reference.batch(0)
    with torch.no_grad():
        draws = numpy.array([reference.loss(batch).item() for _ in range(200)])
        reference.module.eval()
        undropped = reference.loss(batch).item()
    away = abs(numpy.mean(values) - draws.mean()) / (draws.std() / numpy.sqrt(6))
    judge.check(f"{what} mean over seeds is PyTorch's", bool(away < 4), f"{away:.2f} standard errors away")
    judge.check(f"{what} drops", min(abs(value - undropped) for value in values) > 1e-6, f"{undropped} in eval()")
