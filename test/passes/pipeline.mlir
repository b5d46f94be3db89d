// RUN: maestro-opt %s --maestro-pipeline=stop-after=import | FileCheck %s --check-prefix=IMPORT
// RUN: maestro-opt %s --maestro-pipeline=stop-after=loss | FileCheck %s --check-prefix=LOSS
// RUN: maestro-opt %s --maestro-pipeline=stop-after=partition | FileCheck %s --check-prefix=SECTION
// RUN: maestro-opt %s --maestro-pipeline=stop-after=differentiate | FileCheck %s --check-prefix=STEP
// RUN: maestro-opt %s --maestro-pipeline | FileCheck %s --check-prefix=SPLIT
// RUN: maestro-opt %s --maestro-pipeline | maestro-opt --maestro-verify-phase=phase=split
// RUN: not maestro-opt %s --maestro-verify-phase=phase=loss 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not maestro-opt %s --maestro-verify-phase=phase=lunch 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// A classifier: gather, product, cross entropy as an exporter's mean arrives.

// IMPORT: nn.role = "mean"
// LOSS-NOT: nn.role = "mean"
// LOSS: nn.role = "sum"
// LOSS-NOT: func.func @step
// SECTION: section.section "m" {{.*}}trains
// SECTION-NOT: section.edge
// SECTION: module @m {
// SECTION-NOT: func.func @step
// STEP: module @m
// STEP: func.func @step
// STEP-NOT: func.func @forward
// SPLIT: func.func @count
// SPLIT: func.func @forward
// SPLIT: func.func @backward
// EARLY: the loss 'loss' cannot have the role 'mean' here
// UNKNOWN: 'lunch' is no phase; there are import, raise, loss, partition, differentiate, split
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}, seq = {combine = "max", max = 128 : i64}}} {
  func.func @graph(%ids: !nn.tensor<[batch, seq], i64> {nn.field = "ids"},
                   %labels: !nn.tensor<[batch, seq], i64> {nn.field = "labels"},
                   %e: !nn.tensor<[100, 8], f32> {nn.parameter = "m/e", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "mean"}) {
    %h = nn.gather %e, %ids {axis = 0 : i64} : (!nn.tensor<[100, 8], f32>, !nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, seq, 8], f32>
    %y = nn.matmul %h, %e {transpose_b = true} : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[100, 8], f32>) -> !nn.tensor<[batch, seq, 100], f32>
    %l:2 = nn.cross_entropy %y, %labels : (!nn.tensor<[batch, seq, 100], f32>, !nn.tensor<[batch, seq], i64>) -> (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>)
    %s = nn.reduce_sum %l#0 {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    %ignored = nn.fill {value = -100.0 : f64} : () -> !nn.tensor<[], i64>
    %i = nn.equal %labels, %ignored : (!nn.tensor<[batch, seq], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[batch, seq], i1>
    %n = nn.not %i : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, seq], i1>
    %f = nn.cast %n : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, seq], f32>
    %c = nn.reduce_sum %f {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    %m = nn.div %s, %c : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    return %m : !nn.tensor<[], f32>
  }
}
