// RUN: maestro-opt %s | maestro-opt | FileCheck %s
// RUN: maestro-opt %s --mlir-print-op-generic | maestro-opt | FileCheck %s
// Sections, stages and edges, printed and parsed.

// CHECK: section.section "vision" {active_dims = ["images"], components = ["vision"], trains}
section.section "vision" {active_dims = ["images"], components = ["vision"], trains}
// CHECK: section.section "teacher" {active_dims = ["images", "clips"], components = ["teacher", "head"]}
section.section "teacher" {active_dims = ["images", "clips"], components = ["teacher", "head"]}
// CHECK: section.section "language.stage1" {components = ["language"], of = "language", stage = 1 : i64, stages = 2 : i64, trains}
section.section "language.stage1" {components = ["language"], of = "language", stage = 1 : i64, stages = 2 : i64, trains}
// CHECK: section.edge "features" from "vision" to "language.stage1" gradient : !nn.tensor<[4*images, 64], f32>
section.edge "features" from "vision" to "language.stage1" gradient : !nn.tensor<[4*images, 64], f32>
// CHECK: section.edge "hidden" from "teacher" to "language.stage1" : !nn.tensor<[batch, seq, 64], bf16>
section.edge "hidden" from "teacher" to "language.stage1" : !nn.tensor<[batch, seq, 64], bf16>
