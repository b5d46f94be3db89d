"""The page of `maestro-dump --format html` in a browser: plans of few and of many sections, devices and long names, in a wide
window and in a phone's. No text overlaps, nothing is cut off, and nothing lies outside its drawing (check.js).

    MAESTRO_BIN=build/release/bin .venv/bin/python test/page/page_test.py [--keep FOLDER]    the pages, and a picture of each
"""

import argparse
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "test/cli"))

import good  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
WINDOWS = (1280, 390)  # A desk's, a phone's.
LONG = "an_encoder_whose_name_somebody_wrote_out_in_full_for_sensor"


def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        raise FileNotFoundError(f"none of {', '.join(BROWSERS)} is on the PATH; ./dev test installs the first")
    return [found, "--no-sandbox", "--headless", "--disable-gpu", "--hide-scrollbars"]


def encoder_graph(name, rows):
    nodes = [helper.make_node("MatMul", [f"{rows}_values", "weight"], ["features"], name=f"node_{name}")]
    return helper.make_graph(
        nodes, name, [helper.make_tensor_value_info(f"{rows}_values", TensorProto.FLOAT, [rows, 4])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [rows, 8])],
        [numpy_helper.from_array(good.weights((4, 8), 1), "weight")])


def reader_graph(count):
    """Of all encoders' features, and the sum of the logits that each makes."""
    nodes, inputs, weights = [], [], []
    for i in range(count):
        nodes.append(helper.make_node("MatMul", [f"features_{i}", f"weight_{i}"], [f"part_{i}"], name=f"node_part_{i}"))
        inputs.append(helper.make_tensor_value_info(f"features_{i}", TensorProto.FLOAT, ["batch", 8]))
        weights.append(numpy_helper.from_array(good.weights((8, good.CLASSES), i), f"weight_{i}"))
    nodes.append(helper.make_node("Sum", [f"part_{i}" for i in range(count)], ["logits"], name="node_sum"))
    return helper.make_graph(nodes, "reader", inputs, [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", good.CLASSES])], weights)


def write_wide(folder, count=7):
    """Encoders, every other one frozen, and who reads them all."""
    components, edges = ["  reader: {model: reader.onnx}"], []
    good.write_model(reader_graph(count), folder / "reader.onnx")
    for i in range(count):
        good.write_model(encoder_graph(f"encoder_{i}", "batch"), folder / f"encoder_{i}.onnx")
        components.append(f"  {LONG}_{i}: {{model: encoder_{i}.onnx{', frozen: true' if i % 2 else ''}}}")
        edges.append(f"  - {LONG}_{i}.features -> reader.features_{i}")
    text = "components:\n" + "\n".join(components) + "\nedges:\n" + "\n".join(edges) + """
inputs: {labels: {dtype: int64, shape: [batch]}}
loss: [{cross_entropy: {logits: reader.logits, labels: labels}}]
train: {global_batch: 32}
"""
    path = folder / "a_workload_with_many_sections.yaml"
    path.write_text(text)
    return path


def cases(folder):
    """By name: what maestro-plan is told."""
    examples, clusters = ROOT / "examples", ROOT / "examples/clusters"
    return {
        "small": [examples / "kd/workload.yaml", "--set", "cluster.devices_per_node=2"],
        "stages": [examples / "multimodal/workload.yaml", "--set", "cluster.devices_per_node=4", "--pin", "language.stages=4"],
        "wide": [write_wide(folder), "--set", "cluster.devices_per_node=4"],
        "large": [examples / "kd/workload.yaml", "--cluster", clusters / "h100x512.yaml", "--set", "train.global_batch=2048",
                  "--pin", "student.stages=2"],
        "one": [examples / "gpt/workload.yaml"],
    }


class Pages(unittest.TestCase):
    def command(self, tool, *arguments):
        done = subprocess.run([str(BINARIES / tool), *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="maestro-page-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(KEEP or scratch.name)
        self.folder.mkdir(parents=True, exist_ok=True)

    def look(self, pages):
        """What check.js finds, by page and width. All of them as frames of one page, since a browser takes long to start."""
        check = (HERE / "check.js").read_text()
        for page in pages:
            (self.folder / f"{page.stem}-checked.html").write_text(page.read_text().replace("</head>", f"<script>{check}</script></head>", 1))
        frames = "".join(f'<iframe name="{page.stem} {width}" src="{page.stem}-checked.html" width="{width}" height="900" style="border:0"></iframe>'
                         for page in pages for width in WINDOWS)
        collect = """<pre id="found"></pre><script>const found = {};
addEventListener("message", (event) => {
  for (let i = 0; i < frames.length; ++i)
    if (frames[i] === event.source) found[document.querySelectorAll("iframe")[i].name] = event.data;
  document.querySelector("#found").textContent = JSON.stringify(found);
});</script>"""
        (self.folder / "all.html").write_text(f"<!DOCTYPE html><html><body>{collect}{frames}</body></html>")
        done = subprocess.run([*browser(), "--virtual-time-budget=20000", "--window-size=1400,1000", "--dump-dom", (self.folder / "all.html").as_uri()],
                              capture_output=True, text=True, timeout=200)
        match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
        self.assertTrue(match and match[1], done.stderr[-2000:])
        return json.loads(html.unescape(match[1]))

    def test_pages_read_well(self):
        pages = []
        for name, arguments in cases(self.folder).items():
            self.command("maestro-plan", *arguments, "-o", f"{name}.mpl", "--deadline", "3s", "--quiet")
            pages.append(self.folder / f"{name}.html")
            pages[-1].write_text(self.command("maestro-dump", f"{name}.mpl", "--format", "html"))
        found = self.look(pages)
        self.assertEqual(sorted(found), sorted(f"{page.stem} {width}" for page in pages for width in WINDOWS))
        faults = [f"{name}: {fault}" for name, told in found.items() for fault in told["faults"]]
        self.assertFalse(faults, "\n" + "\n".join(faults))
        if KEEP:
            for page in pages:
                for width in WINDOWS:
                    subprocess.run([*browser(), f"--screenshot={page.stem}-{width}.png", f"--window-size={width},2400", page.as_uri()], cwd=self.folder,
                                   capture_output=True, check=True, timeout=200)

    def test_faults_are_seen(self):
        """The judge itself: each fault in a page of its own."""
        filler = "".join(f"<p>line {i} of what is well</p>" for i in range(24))
        faulty = {
            "overlap": ('<p style="position:absolute;top:40px;left:10px">this lies over the lines of the page</p>', "overlaps"),
            "cut": ('<div style="width:60px;overflow:hidden;white-space:nowrap">this goes on beyond what is shown</div>', "cut off"),
            "outside": ('<svg width="100" height="30"><text x="60" y="20">out of the drawing</text></svg>', "outside its drawing"),
            "box": ('<svg width="300" height="60"><g><rect class="box" x="10" y="10" width="80" height="40"/><text x="20" y="30">longer than its box</text></g></svg>',
                    "crosses the edge of a box"),
            "through": ('<svg width="300" height="60"><g><title>from here</title><path class="edge" d="M0 30 L290 30"/></g>'
                        '<g><rect class="box" x="90" y="10" width="80" height="40"/></g></svg>', "runs through the box"),
            "broad": ('<div style="width:2000px">as broad as a barn door</div>', "the page is"),
            "fine": ("", None),
        }
        pages = []
        for name, (part, _) in faulty.items():
            pages.append(self.folder / f"{name}.html")
            pages[-1].write_text(f"<!DOCTYPE html><html><head><title>{name}</title></head><body>{part}{filler}</body></html>")
        found = self.look(pages)
        for name, (_, words) in faulty.items():
            told = found[f"{name} {WINDOWS[0]}"]["faults"]
            self.assertEqual(bool(told), words is not None, (name, told))
            self.assertTrue(words is None or any(words in fault for fault in told), (name, told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binaries", default=os.environ.get("MAESTRO_BIN", "build/release/bin"))
    parser.add_argument("--keep", help="a folder for the pages and pictures")
    arguments, rest = parser.parse_known_args()
    BINARIES, KEEP = pathlib.Path(arguments.binaries).resolve(), arguments.keep and str(pathlib.Path(arguments.keep).resolve())
    unittest.main(argv=[sys.argv[0], *rest])
