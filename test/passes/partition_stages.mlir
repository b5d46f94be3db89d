// RUN: maestro-opt %s --maestro-partition-sections=stages=m:2 | FileCheck %s --check-prefix=TWO
// RUN: maestro-opt %s --maestro-partition-sections=stages=m:3 | FileCheck %s --check-prefix=THREE
// RUN: maestro-opt %s "--maestro-partition-sections=stages=m:2 recompute=m:selective" | FileCheck %s --check-prefix=AGAIN
// RUN: maestro-opt %s --maestro-partition-sections=cuts=m.b | FileCheck %s --check-prefix=CUT
// RUN: maestro-opt %s "--maestro-partition-sections=cuts=m.b,m.a" | FileCheck %s --check-prefix=CUTS
// RUN: not maestro-opt %s --maestro-partition-sections=cuts=m.e 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: not maestro-opt %s --maestro-partition-sections=cuts=m.z 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: maestro-opt %s --maestro-partition-sections=stages=m:2 | maestro-opt --maestro-verify-phase=phase=partition
// RUN: not maestro-opt %s --maestro-partition-sections=stages=m:30 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not maestro-opt %s --maestro-partition-sections=stages=n:2 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not maestro-opt %s --maestro-partition-sections=stages=m:x 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not maestro-opt %s --maestro-partition-sections=recompute=m:some 2>&1 | FileCheck %s --check-prefix=SOME

// Two equal layers, a head and a tied embedding. Stages are cut where little crosses, between the layers and not behind
// the head, whose losses are smaller yet; the embedding is a parameter of both stages then.
// TWO: section.section "m.stage0" {{.*}}of = "m"
// TWO: section.section "m.stage1" {{.*}}of = "m", stage = 1 : i64
// TWO: section.edge "m.stage0_to_m.stage1" from "m.stage0" to "m.stage1" gradient : !nn.tensor<[batch, 16], f32>
// TWO-NOT: section.edge
// TWO: module @m.stage0 {
// TWO: nn.parameter = "m/e", nn.trainable
// TWO: module @m.stage1 {
// TWO: nn.parameter = "m/e", nn.trainable
// THREE: section.section "m.stage2" {{.*}}of = "m", stage = 2 : i64
// THREE: section.edge "m.stage1_to_m.stage2" from "m.stage1" to "m.stage2" gradient
// AGAIN: module @m.stage0 attributes {nn.recompute = "selective"}
// AGAIN: module @m.stage1 attributes {nn.recompute = "selective"}
// CUT: section.edge "m_to_m.b" from "m" to "m.b" gradient : !nn.tensor<[batch, 16], f32>
// CUT-NOT: section.edge
// CUT: module @m {
// CUT: nn.parameter = "m/a.down", nn.trainable
// CUT: module @m.b {
// CUT: nn.parameter = "m/b.up", nn.trainable
// Cuts take the order of the data, however they are given, and what they leave stays, however little it is.
// CUTS: section.section "m" {
// CUTS: section.section "m.a" {
// CUTS: section.section "m.b" {
// CUTS: section.edge "m_to_m.a" from "m" to "m.a" gradient : !nn.tensor<[batch, 16], f32>
// CUTS: section.edge "m.a_to_m.b" from "m.a" to "m.b" gradient : !nn.tensor<[batch, 16], f32>
// CUTS-NOT: section.edge
// SOME: recompute: 'm:some' is not SECTION:none, SECTION:selective or SECTION:full
// FIRST: the cut at 'm.e' leaves nothing before it; cut at a later module
// NOWHERE: there is nothing to cut at 'm.z': no operator reads a parameter of it
// MANY: section 'm' cannot be cut into 30 stages: it has only {{[0-9]+}} places where a sample's rows can cross
// NAME: there is no section 'n' to cut into 2 stages; sections: m
// COUNT: stages: 'm:x' is not SECTION:COUNT
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%ids: !nn.tensor<[batch], i64> {nn.field = "ids"},
                   %e: !nn.tensor<[16, 16], f32> {nn.parameter = "m/e", nn.trainable},
                   %a: !nn.tensor<[16, 64], f32> {nn.parameter = "m/a.up", nn.trainable},
                   %b: !nn.tensor<[64, 16], f32> {nn.parameter = "m/a.down", nn.trainable},
                   %c: !nn.tensor<[16, 64], f32> {nn.parameter = "m/b.up", nn.trainable},
                   %d: !nn.tensor<[64, 16], f32> {nn.parameter = "m/b.down", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %h = nn.gather %e, %ids {axis = 0 : i64} : (!nn.tensor<[16, 16], f32>, !nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 16], f32>
    %1 = nn.matmul %h, %a : (!nn.tensor<[batch, 16], f32>, !nn.tensor<[16, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %2 = nn.relu %1 : (!nn.tensor<[batch, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %3 = nn.matmul %2, %b : (!nn.tensor<[batch, 64], f32>, !nn.tensor<[64, 16], f32>) -> !nn.tensor<[batch, 16], f32>
    %4 = nn.matmul %3, %c : (!nn.tensor<[batch, 16], f32>, !nn.tensor<[16, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %5 = nn.relu %4 : (!nn.tensor<[batch, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %6 = nn.matmul %5, %d : (!nn.tensor<[batch, 64], f32>, !nn.tensor<[64, 16], f32>) -> !nn.tensor<[batch, 16], f32>
    %y = nn.matmul %6, %e {transpose_b = true} : (!nn.tensor<[batch, 16], f32>, !nn.tensor<[16, 16], f32>) -> !nn.tensor<[batch, 16], f32>
    %l = nn.reduce_sum %y {axes = array<i64: 1>} : (!nn.tensor<[batch, 16], f32>) -> !nn.tensor<[batch], f32>
    %sum = nn.reduce_sum %l {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}
