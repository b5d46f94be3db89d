"""What a plan says of itself: work and rates of the same samples as its time, what is assumed, what trains; and a deadline that holds.

    python test/cli/plan_says.py [--binaries DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy

import good

CLUSTER = "name: c\nnodes: 1\ndevices_per_node: 1\ndevice: h100-sxm\n"


def sines(rows: int, columns: int) -> numpy.ndarray:
    """Sines in the first half of the columns, cosines in the second, as Marian and Pegasus have them."""
    angles = numpy.arange(rows)[:, None] / 10_000.0 ** (2 * numpy.arange(columns // 2) / columns)
    return numpy.concatenate([numpy.sin(angles), numpy.cos(angles)], axis=1).astype(numpy.float32)


def graph_with_positions(table: numpy.ndarray):
    """The token model, which adds a row of `positions.weight` to each embedding."""
    graph = good.tokens_graph()
    for name, value in (("zero", 0), ("one", 1)):
        graph.initializer.append(good.numpy_helper.from_array(numpy.array(value, numpy.int64), name))
    graph.initializer.append(good.numpy_helper.from_array(table, "positions.weight"))
    make = good.helper.make_node
    nodes = [graph.node[0], make("Shape", ["input_ids"], ["shape"]), make("Gather", ["shape", "one"], ["seq"]),
             make("Range", ["zero", "seq", "one"], ["places"]), make("Gather", ["positions.weight", "places"], ["positions"]),
             make("Add", ["embedded", "positions"], ["placed"]), make("MatMul", ["placed", "head.weight"], ["logits"])]
    del graph.node[:]
    graph.node.extend(nodes)
    return graph


def devices_of(plan, section):
    """How many devices the section is on."""
    return len({rank for station in plan["stations"] for rank in station["ranks"]
                if plan["sections"][plan["executables"][station["executable"]]["section"]]["name"] == section})


class PlanSays(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        good.write_all(self.folder)

    def command(self, tool, *arguments):
        done = subprocess.run([str(BINARIES / tool), *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def seconds(self, *arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.command(*arguments)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    def plan(self, *arguments):
        """(prediction, what planning said, the summary)"""
        said = self.command("maestro-plan", "workload.yaml", "-o", "plan.mpl", *arguments).stderr
        prediction = json.loads(self.command("maestro-dump", "plan.mpl", "--format", "json").stdout)["prediction"]
        return prediction, said, self.command("maestro-dump", "plan.mpl").stdout

    def test_work_is_of_the_samples_that_the_time_is_of(self):
        (self.folder / "workload.yaml").write_text(good.WORKLOAD + "synthetic: {seq: 6}\n")
        short, _, _ = self.plan("--set", "dims.seq.max=12")
        bound, _, _ = self.plan("--set", "dims.seq.max=96")
        self.assertEqual(bound["step_flops"], short["step_flops"])
        # Two products of 8 by 16, forward and twice backward but for the embedding's, and what is elementwise.
        self.assertGreaterEqual(short["step_flops"], 4 * 6 * 3 * 2 * 8 * 16)
        self.assertLess(short["step_flops"], 3 * 4 * 6 * 3 * 2 * 8 * 16)
        for prediction in (short, bound):
            self.assertAlmostEqual(prediction["tokens_per_second"] * prediction["step_seconds"], 4 * 6, places=6)
        (self.folder / "workload.yaml").write_text(good.WORKLOAD)
        full, _, _ = self.plan()
        self.assertGreater(full["step_flops"], 1.9 * short["step_flops"])

    def test_what_nobody_measured_is_assumed(self):
        _, said, summary = self.plan("--set", "cluster.devices_per_node=2", "--deadline", "2s")
        predicted = [line for text in (said, summary) for line in text.splitlines() if " a step" in line and ("predicted" in line or "compared" in line)]
        self.assertGreaterEqual(len(predicted), 3, said)
        for line in predicted:
            if "Compared" not in line:
                self.assertIn("assumed", line)
        (self.folder / "cluster.yaml").write_text(CLUSTER)
        _, said, summary = self.plan("--cluster", "cluster.yaml")
        self.assertNotIn("assumed: ", said + summary.split("Training")[0])

    def test_a_gpu_s_utilisation_is_of_its_data_sheet(self):
        example = HERE.parent.parent / "examples/kd/workload.yaml"
        self.command("maestro-plan", example, "-o", "gpu.mpl", "--set", "cluster.device=h100-sxm", "--set", "cluster.devices_per_node=2",
                     "--set", "train.precision=bf16", "--deadline", "5s")
        plan = json.loads(self.command("maestro-dump", "gpu.mpl", "--format", "json").stdout)
        numbers = {quantity["name"]: quantity["value"] for quantity in plan["quantities"]}
        for section in ("teacher", "student"):
            most = devices_of(plan, section) * 989.5e12 * plan["prediction"]["step_seconds"]
            self.assertAlmostEqual(numbers[section + ".mfu"] / (100 * numbers[section + ".flops"] / most), 1, places=3)

    def test_sections_share_the_step_s_work_and_explanations_leave_the_search_out(self):
        example = HERE.parent.parent / "examples/kd/workload.yaml"
        self.command("maestro-plan", example, "-o", "plan.mpl", "--set", "cluster.devices_per_node=2", "--deadline", "5s")
        plan = json.loads(self.command("maestro-dump", "plan.mpl", "--format", "json").stdout)
        numbers = {quantity["name"]: quantity["value"] for quantity in plan["quantities"]}
        flops, step = plan["prediction"]["step_flops"], plan["prediction"]["step_seconds"]
        self.assertAlmostEqual(numbers["teacher.flops"] + numbers["student.flops"], flops, delta=1e-6 * flops)
        for section in ("teacher", "student"):  # Devices are assumed to multiply 100 GFLOP/s.
            self.assertAlmostEqual(numbers[section + ".mfu"], 100 * numbers[section + ".flops"] / (devices_of(plan, section) * 100e9 * step), places=3)
            self.assertAlmostEqual(numbers[section + ".tokens_per_second"] * step, 16 * 256, places=3)
        summary = self.command("maestro-dump", "plan.mpl").stdout
        self.assertRegex(summary, r"teacher +[0-9.]+ GFLOP +[0-9,]+ tokens/s +[0-9.]+ % MFU")
        short = self.command("maestro-dump", "plan.mpl", "--explain").stdout
        whole = self.command("maestro-dump", "plan.mpl", "--explain", "--all").stdout
        for name in ("search.simulations", "mean.stall_seconds"):
            self.assertIn(name, whole)
            self.assertNotIn("\n  " + name, short)
        self.assertIn("nn.kl_divergence reads it", short)  # Why it is this tensor that crosses.
        self.assertNotIn("teacher's parameters, gradients", short)  # It is frozen.
        for name in ("teacher", "student"):  # One wording for what a micro-batch holds.
            size = re.search(rf"^  {name} .*micro-batches of at most (.*?)  components", summary, re.MULTILINE)[1].strip()
            self.assertIn(f"{name}.micro_batch = {size} (default)", short)
            self.assertRegex(short.split("Compared")[1], rf"{name} [^;]*, {size}")

    def test_what_trains_is_named(self):
        good.write_model(graph_with_positions(good.weights((24, 8), 9)), self.folder / "tokens.onnx")
        _, said, summary = self.plan()
        self.assertNotIn("sines", said)
        self.assertIn("tokens trains: embed.weight, head.weight, positions.weight\n", summary)
        good.write_model(graph_with_positions(sines(24, 8)), self.folder / "tokens.onnx")
        _, said, _ = self.plan()
        warning = [line for line in said.splitlines() if line.startswith("warning")]
        self.assertEqual(len(warning), 1, said)
        for word in ("'positions.weight' trains", "requires_grad=False", "components.tokens.frozen: ['positions.weight']"):
            self.assertIn(word, warning[0])
        _, said, summary = self.plan("--set", "components.tokens.frozen=['positions.weight']")
        self.assertNotIn("sines", said)
        self.assertIn("tokens trains: embed.weight, head.weight\n  tokens keeps as it is: positions.weight\n", summary)

    def test_a_deadline_is_the_commands(self):
        """In processor time, beside the same without it, since this machine may be shared and the tools slowed by sanitizers: one layout has to
        be tried and written in any case."""
        example, cluster = (HERE.parent.parent / "examples" / name for name in ("multimodal/workload.yaml", "clusters/h100x64.yaml"))
        patient = self.seconds("maestro-plan", example, "--cluster", cluster, "-o", "plan.mpl", "--deadline", "60s")
        shown = self.command("maestro-dump", "plan.mpl", "--explain").stdout
        self.assertIn("With more", shown)
        self.assertNotIn("that the deadline left", shown)
        planning = self.seconds("maestro-plan", example, "--cluster", cluster, "-o", "plan.mpl", "--deadline", "1s")
        self.assertLess(planning, 0.85 * patient)
        said = self.command("maestro-plan", example, "--cluster", cluster, "-o", "plan.mpl", "--deadline", "1ms").stderr
        self.assertRegex(said, "--deadline 0.001s: cannot be less than [0-9.]+ s, which reading the models took")
        shown = self.command("maestro-dump", "plan.mpl", "--explain").stdout
        self.assertNotIn("With more", shown)  # What was not tried is left out, rather than said to bring nothing.
        self.assertRegex(shown, "deadline = cut in after [0-9]+ simulations.*\n.*; [0-9]+ ways to compute again")
        self.assertIn("of those that the deadline left", shown)
        decisions = json.loads(self.command("maestro-dump", "plan.mpl", "--format", "json").stdout)["decisions"]
        self.assertIn("deadline", [decision["subject"] for decision in decisions])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binaries", default=os.environ.get("MAESTRO_BIN", "build/release/bin"))
    arguments, rest = parser.parse_known_args()
    BINARIES = pathlib.Path(arguments.binaries).resolve()
    unittest.main(argv=[sys.argv[0], *rest])
