"""Plans as text in the `plan` dialect, and back: maestro-dump --format mlir prints what maestro-opt reads, verifies, prints
again letter for letter, and turns into the same bytes.

    plan_text.py examples | models
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["MAESTRO_SOURCE"])
BIN = pathlib.Path(os.environ["MAESTRO_BIN"])
COMPOUND = """
components:
  teacher: {{model: {teacher}, frozen: true}}
  student: {{model: {student}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels, weight: 0.5}}
  - kl_divergence: {{student: student.logits, teacher: teacher.logits, temperature: 2.0, labels: labels, weight: 0.5}}
train: {{global_batch: 8, precision: bf16, optimizer: {{sgd: {{lr: 0.1, momentum: 0.9, nesterov: true}}}}}}
"""


def run(tool, *words):
    done = subprocess.run([BIN / tool, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{tool} {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def dump(plan, *words):
    return run("maestro-dump", plan, "--format", "mlir", *words)


class PlanText(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="maestro-plan-text-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.maxDiff = 4000

    def read_and_emit(self, text):
        """The file that maestro-opt makes of a text, which it prints unchanged."""
        file, made = self.folder / "plan.mlir", self.folder / "made.mpl"
        file.write_text(text)
        self.assertMultiLineEqual(run("maestro-opt", file, f"--maestro-emit-plan=file={made}"), text)
        return made

    def round_trip(self, plan):
        made = self.read_and_emit(dump(plan))
        self.assertEqual(made.read_bytes(), plan.read_bytes(), f"{plan}: other bytes after a round trip")

    def section_alone(self, plan, section):
        """What is shown of one section is a module, too; it refers to no more than is there."""
        text, file = dump(plan, "--section", section), self.folder / "section.mlir"
        self.assertLess(len(text), len(dump(plan)))
        file.write_text(text)
        self.assertMultiLineEqual(run("maestro-opt", file), text)

    def plan(self, *words):
        plan = self.folder / "planned.mpl"
        run("maestro-plan", *words, "-o", plan, "--quiet")
        return plan


class Examples(PlanText):
    def test_frozen(self):
        frozen = sorted((SOURCE / "test/plan/frozen").glob("*.mpl"))
        self.assertTrue(frozen)
        for plan in frozen:
            with self.subTest(plan.name):
                self.round_trip(plan)
        self.section_alone(frozen[0], "student")

    def test_no_field_is_forgotten(self):
        """Emission sets every field of plan.fbs, so the text must have it."""
        emission = (SOURCE / "planner/from_ir/plan_from_ir.cpp").read_text()
        elsewhere = {"DimExpr": "exprs.emplace_back(", "Attribute": "plan::exprsAttribute(",
                     "AttributeList": "builder.attributes(", "Plan.kernels": "builder.kernel(",
                     "Plan.scopes": "builder.scope(", "Plan.attribute_lists": "builder.attributes("}
        variables = {"DeviceKind": "kind", "SourceFile": "file", "CostTerm": "term", "GradientSum": "sum", "StepSamples": "step"}
        schema = (SOURCE / "plan/plan.fbs").read_text()
        tables = re.findall(r"^(?:table|struct) (\w+) \{\n(.*?)^\}", schema, re.S | re.M)
        fields = [(table, field) for table, body in tables for field in re.findall(r"^  (\w+): ", body, re.M)]
        self.assertGreater(len(fields), 120)
        for table, field in fields:
            call = elsewhere.get(table) or elsewhere.get(f"{table}.{field}")
            pattern = re.escape(call) if call else rf"\b{variables.get(table, table.lower())}(?:\.|->){field}\b"
            self.assertIsNotNone(re.search(pattern, emission),
                                 f"{table}.{field} is not in plan/print/mlir.cpp, ir/plan/plan_ops.td, planner/from_ir")

    def test_golden(self):
        text = (SOURCE / "test/plan/golden/mlir.mlir").read_text()
        self.assertMultiLineEqual(dump(self.read_and_emit(text)), text)


class Models(PlanText):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(SOURCE / "test/models"))
        import export
        import zoo

        cases, folder = zoo.all_cases(), export.models_folder()
        cls.model = lambda self, name: export.export_variant(cases[name], "opset20", folder)

    def test_one_model(self):
        for name in ("mlp_logits", "gpt2_logits", "convnet_logits"):
            with self.subTest(name):
                self.round_trip(self.plan(self.model(name)))

    def test_replicas_and_stages(self):
        devices = ["--set", "cluster.devices_per_node=4"]
        for pins in (["*.stages=2"], ["*.dp=2", "*.micro_batch=2"], ["*.tensor=2", "*.dp=2"]):
            with self.subTest(pins):
                words = [word for pin in pins for word in ("--pin", pin)]
                self.round_trip(self.plan(self.model("llama_logits"), *devices, *words))

    def test_compound(self):
        workload = self.folder / "kd.yaml"
        workload.write_text(COMPOUND.format(teacher=self.model("llama_logits"), student=self.model("llama_tied_logits")))
        plan = self.plan(workload, "--set", "cluster.devices_per_node=2")
        self.round_trip(plan)
        self.section_alone(plan, "teacher")


if __name__ == "__main__":
    group = {"examples": Examples, "models": Models}[sys.argv.pop(1)]
    unittest.main(argv=[sys.argv[0], group.__name__])
