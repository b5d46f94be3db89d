// RUN: maestro-opt %s --maestro-partition-sections=for-trial | FileCheck %s --check-prefix=TRIAL
// RUN: maestro-opt %s --maestro-partition-sections=first-atoms=m:1+4 | FileCheck %s --check-prefix=TOLD
// RUN: maestro-opt %s "--maestro-partition-sections=first-atoms=m:4 recompute=m:full" | FileCheck %s --check-prefix=MARK
// RUN: maestro-opt %s "--maestro-partition-sections=first-atoms=m:4 recompute=m:full" | maestro-opt "--pass-pipeline=builtin.module(builtin.module(maestro-differentiate,maestro-split-programs))" | FileCheck %s --check-prefix=FULL
// RUN: maestro-opt %s --maestro-partition-sections=first-atoms=m:1+4 | maestro-opt --maestro-verify-phase=phase=partition
// RUN: not maestro-opt %s --maestro-partition-sections=first-atoms=m:4+1 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not maestro-opt %s --maestro-partition-sections=first-atoms=m:1+x 2>&1 | FileCheck %s --check-prefix=TEXT

// An embedding, four equal layers, a head. A trial has the embedding, one layer, two layers and the head: what one layer costs,
// and what another one adds; the fourth is left out, and its reader reads what the third computes.
// TRIAL: section.section "m.stage0"
// TRIAL: section.section "m.stage1"
// TRIAL: section.section "m.stage2"
// TRIAL: section.section "m.stage3"
// TRIAL-NOT: section.section
// TRIAL: module @m.stage0
// TRIAL: nn.gather
// TRIAL: module @m.stage1
// TRIAL-COUNT-2: nn.matmul
// TRIAL: module @m.stage2
// TRIAL-COUNT-4: nn.matmul
// TRIAL: module @m.stage3
// TRIAL-NOT: "m/d.up"
// TRIAL: nn.reduce_sum

// Stages begin where they are told to: the embedding; three layers; the last layer and the head.
// TOLD: module @m.stage0
// TOLD: nn.gather
// TOLD: module @m.stage1
// TOLD-COUNT-6: nn.matmul
// TOLD: module @m.stage2
// TOLD-COUNT-3: nn.matmul

// Where everything is computed again, what passes from layer to layer is kept: behind the embedding, and behind each layer but
// the stage's last. The other stage has what arrived.
// MARK: module @m.stage0 attributes {nn.recompute = "full"}
// MARK: nn.gather {{.*}}nn.atom = 0 : i64
// MARK: nn.matmul {{.*}}nn.atom = 1 : i64
// MARK: nn.matmul {{.*}}nn.atom = 3 : i64
// MARK: module @m.stage1
// MARK: nn.matmul {{.*}}nn.atom = 4 : i64
// FULL: nn.stash = "3 values, 192*batch bytes"
// FULL: nn.stash = "1 values, 64*batch bytes"
// ORDER: section 'm' is to be cut at atoms that it does not have (6)
// TEXT: first-atoms: 'm:1+x' is not SECTION:ATOM+ATOM
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%ids: !nn.tensor<[batch], i64> {nn.field = "ids"},
                   %e: !nn.tensor<[64, 16], f32> {nn.parameter = "m/e", nn.trainable},
                   %au: !nn.tensor<[16, 64], f32> {nn.parameter = "m/a.up", nn.trainable},
                   %ad: !nn.tensor<[64, 16], f32> {nn.parameter = "m/a.down", nn.trainable},
                   %bu: !nn.tensor<[16, 64], f32> {nn.parameter = "m/b.up", nn.trainable},
                   %bd: !nn.tensor<[64, 16], f32> {nn.parameter = "m/b.down", nn.trainable},
                   %cu: !nn.tensor<[16, 64], f32> {nn.parameter = "m/c.up", nn.trainable},
                   %cd: !nn.tensor<[64, 16], f32> {nn.parameter = "m/c.down", nn.trainable},
                   %du: !nn.tensor<[16, 64], f32> {nn.parameter = "m/d.up", nn.trainable},
                   %dd: !nn.tensor<[64, 16], f32> {nn.parameter = "m/d.down", nn.trainable},
                   %w: !nn.tensor<[16, 32], f32> {nn.parameter = "m/head", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %h0 = nn.gather %e, %ids {axis = 0 : i64} : (!nn.tensor<[64, 16], f32>, !nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 16], f32>
    %a1 = nn.matmul %h0, %au : (!nn.tensor<[batch, 16], f32>, !nn.tensor<[16, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %a2 = nn.relu %a1 : (!nn.tensor<[batch, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %h1 = nn.matmul %a2, %ad : (!nn.tensor<[batch, 64], f32>, !nn.tensor<[64, 16], f32>) -> !nn.tensor<[batch, 16], f32>
    %b1 = nn.matmul %h1, %bu : (!nn.tensor<[batch, 16], f32>, !nn.tensor<[16, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %b2 = nn.relu %b1 : (!nn.tensor<[batch, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %h2 = nn.matmul %b2, %bd : (!nn.tensor<[batch, 64], f32>, !nn.tensor<[64, 16], f32>) -> !nn.tensor<[batch, 16], f32>
    %c1 = nn.matmul %h2, %cu : (!nn.tensor<[batch, 16], f32>, !nn.tensor<[16, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %c2 = nn.relu %c1 : (!nn.tensor<[batch, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %h3 = nn.matmul %c2, %cd : (!nn.tensor<[batch, 64], f32>, !nn.tensor<[64, 16], f32>) -> !nn.tensor<[batch, 16], f32>
    %d1 = nn.matmul %h3, %du : (!nn.tensor<[batch, 16], f32>, !nn.tensor<[16, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %d2 = nn.relu %d1 : (!nn.tensor<[batch, 64], f32>) -> !nn.tensor<[batch, 64], f32>
    %h4 = nn.matmul %d2, %dd : (!nn.tensor<[batch, 64], f32>, !nn.tensor<[64, 16], f32>) -> !nn.tensor<[batch, 16], f32>
    %y = nn.matmul %h4, %w : (!nn.tensor<[batch, 16], f32>, !nn.tensor<[16, 32], f32>) -> !nn.tensor<[batch, 32], f32>
    %l = nn.reduce_sum %y {axes = array<i64: 1>} : (!nn.tensor<[batch, 32], f32>) -> !nn.tensor<[batch], f32>
    %sum = nn.reduce_sum %l {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}
