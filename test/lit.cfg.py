# The lit suites below test/: IR in text, run through maestro-opt and checked with FileCheck; graphs in ONNX's
# text syntax, run through import-text.
import os

import lit.formats

config.name = "maestro"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".onnxtxt"]
config.excludes = ["models", "support"]
config.test_source_root = os.path.dirname(__file__)

# Said by ctest: where the programs lie, and where tests may write.
build = lit_config.params["build"]
llvm = lit_config.params["llvm"]
config.test_exec_root = os.path.join(build, "test", "lit")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), llvm, os.environ.get("PATH", "")]
)
config.substitutions.append(("%build", build))
