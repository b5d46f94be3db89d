"""The survey's judge judged: every kind of difference is found, every way of ending is named, a
table says what it was made of."""

from __future__ import annotations

import json
import pathlib
import tempfile
import types
import unittest

import numpy
import torch
from safetensors.numpy import save_file

import survey_export
import survey_judge
import survey_table
from networks.network import Network, floats

NETWORK = types.SimpleNamespace(name="net")
TRUTH = {"weight": numpy.array([1.0, -2.0]), "bias": numpy.array([0.5])}


class Compare(unittest.TestCase):
    def wrong(self, gradients, loss=2.0, rounding=None, aliases=None) -> list:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            numpy.savez(folder / "expected.npz", **TRUTH)
            (folder / "metrics.jsonl").write_text(json.dumps({"loss": loss}) + "\n")
            save_file(
                {
                    f"net.{key}": numpy.asarray(value, numpy.float32)
                    for key, value in gradients.items()
                },
                folder / "gradients.safetensors",
            )
            expected = {"loss": 2.0, "rounding": rounding or {}, "aliases": aliases or {}}
            return survey_judge.compare(NETWORK, expected, folder, folder)[0]

    def test_what_is_right(self):
        self.assertEqual(self.wrong(TRUTH), [])
        self.assertEqual(self.wrong(TRUTH, loss=2.00001), [])
        self.assertEqual(
            self.wrong(
                {"other": TRUTH["weight"], "bias": TRUTH["bias"]}, aliases={"other": "weight"}
            ),
            [],
        )
        self.assertEqual(self.wrong(TRUTH | {"unread": [0.0]}), [])

    def test_what_is_wrong(self):
        for gradients, loss, word in (
            (TRUTH, 2.0001, "loss"),
            (TRUTH, float("nan"), "loss"),
            (TRUTH, None, "loss"),
            (TRUTH | {"weight": [1.0, -2.001]}, 2.0, "weight off"),
            (TRUTH | {"weight": [1.0, float("nan")]}, 2.0, "weight off"),
            ({"weight": TRUTH["weight"]}, 2.0, "no gradient of bias"),
            (TRUTH | {"weight": [1.0]}, 2.0, "shape"),
            (TRUTH | {"frozen": [0.1]}, 2.0, "frozen has a gradient"),
        ):
            wrong = self.wrong(gradients, loss)
            self.assertEqual(len(wrong), 1, wrong)
            self.assertIn(word, wrong[0])

    def test_rounding_that_pytorch_has_too(self):
        off = TRUTH | {"weight": [1.0, -2.001]}
        self.assertEqual(self.wrong(off, rounding={"weight": 5e-4}), [])
        self.assertNotEqual(self.wrong(off, rounding={"weight": 1e-5}), [])


class PyTorch(unittest.TestCase):
    def test_batch_norm_of_one_sample(self):
        """In eval() the bias has the sum of what comes back for its channel."""
        norm = torch.nn.BatchNorm2d(8).eval()
        weights = torch.randn(1, 4, 8)
        with survey_export.batch_norm_as_meant():
            (norm(torch.randn(1, 8, 2, 2)).flatten(2).transpose(1, 2) * weights).sum().backward()
        torch.testing.assert_close(norm.bias.grad, weights.sum((0, 1)))

    def test_what_a_network_keeps_between_samples(self):
        class Keeps(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight, self.kept = torch.nn.Parameter(torch.ones(2)), None

            def train(self, mode=True):
                self.kept = None if mode else self.kept
                return super().train(mode)

            def forward(self, features):
                self.kept = self.weight.exp() if self.kept is None else self.kept
                return (features * self.kept).sum()

        network = Network(
            "keeps", "plain", Keeps, {"features": floats(2)}, lambda module, features: module(features), scalar=True
        )
        samples = [{"features": numpy.ones(2)}, {"features": numpy.ones(2)}]
        module = survey_export.Called(network)
        found = survey_export.gradients(network, module, samples, torch.float64)[1]
        numpy.testing.assert_allclose(found["network.weight"], numpy.e, rtol=1e-12)


class Tools(unittest.TestCase):
    def ended(self, script):
        with tempfile.TemporaryDirectory() as name:
            tool = pathlib.Path(name) / "tool"
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(0o755)
            survey_judge.call_tool(tool.parent, tool.parent, "tool")

    def test_statuses(self):
        self.ended("exit 0")
        with self.assertRaisesRegex(survey_judge.Refused, "no such operator"):
            self.ended("echo no such operator >&2; exit 1")
        for script in ("exit 2", "kill -SEGV $$", "kill -ABRT $$"):
            with self.assertRaises(survey_judge.Crashed):
                self.ended(script)


class Table(unittest.TestCase):
    ROWS = [
        ("lib", "a", "plain", {"verdict": "right", "worst": 0.25, "reason": "", "runs": {}}),
        (
            "lib",
            "a",
            "default",
            {"verdict": "refused", "worst": 0, "reason": "node 'x' reads 'y'", "runs": {}},
        ),
        (
            "lib",
            "b",
            "plain",
            {"verdict": "WRONG", "worst": 9, "reason": "mb 1: loss", "runs": {"mb 1": "WRONG"}},
        ),
        (
            "lib",
            "b",
            "default",
            {"verdict": "refused", "worst": 0, "reason": "node 'z' reads 'u'", "runs": {}},
        ),
    ]

    def test_reads_what_it_wrote(self):
        text = survey_table.table(self.ROWS)
        self.assertEqual(
            survey_table.verdicts(text),
            {
                ("lib a", "plain"): "right",
                ("lib a", "default"): "refused",
                ("lib b", "plain"): "WRONG",
                ("lib b", "default"): "refused",
            },
        )

    def test_kinds(self):
        said = "maestro-plan: error: a.onnx: node 'n1' reads 'w', which the exporter's optimizer made of"
        self.assertEqual(
            survey_table.kind_of(said),
            survey_table.kind_of(
                said.replace("a.onnx", "resnet18.onnx").replace("'n1'", "'conv_7'")
            ),
        )
        self.assertIn("the exporter's optimizer made of", survey_table.kind_of(said))

    def test_one_kind_for_messages_that_differ_in_names(self):
        self.assertIn("1. refused, 2:", survey_table.table(self.ROWS))


if __name__ == "__main__":
    unittest.main()
