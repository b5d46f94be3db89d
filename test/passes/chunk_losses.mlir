// RUN: maestro-opt %s --split-input-file --maestro-differentiate --maestro-shard --maestro-chunk-losses --canonicalize --cse | FileCheck %s
// RUN: maestro-opt %s --split-input-file --maestro-differentiate --maestro-shard --maestro-chunk-losses --canonicalize --cse --maestro-split-programs --maestro-verify-phase=phase=split | FileCheck %s --check-prefix=SPLIT

// A tied head behind a soft cap, in two chunks: rows are batch and seq together. Losses leave as rows and are summed as
// ever; the weight's gradient is the first chunk's, the second's and the embedding's, in this order.
// CHECK-LABEL: module @tied
// CHECK: func.func @step
// CHECK: nn.slice %{{.*}} {nn.chunked, offsets = #nn.dims<[0, 0]>, {{.*}}} : (!nn.tensor<[batch*seq, 8], f32>) -> !nn.tensor<[(batch*seq) floordiv 2, 8], f32>
// CHECK: %[[LOGITS0:.*]] = nn.matmul {{.*}} -> !nn.tensor<[(batch*seq) floordiv 2, 100], f32>
// CHECK: nn.tanh
// CHECK: %[[L0:.*]], %{{.*}} = nn.cross_entropy
// CHECK: nn.cross_entropy_grad
// CHECK: nn.tanh_grad
// CHECK: %[[DW0:.*]] = nn.matmul {{.*}} transpose_a = true
// CHECK: nn.slice %{{.*}} {nn.chunked, offsets = #nn.dims<[(batch*seq) floordiv 2, 0]>, {{.*}}} : (!nn.tensor<[batch*seq, 8], f32>) -> !nn.tensor<[batch*seq - ((batch*seq) floordiv 2), 8], f32>
// CHECK: nn.matmul {{.*}} -> !nn.tensor<[batch*seq - ((batch*seq) floordiv 2), 100], f32>
// CHECK: %[[L1:.*]], %{{.*}} = nn.cross_entropy
// CHECK: %[[DW1:.*]] = nn.matmul {{.*}} transpose_a = true
// CHECK: %[[DW:.*]] = nn.add %[[DW0]], %[[DW1]] {nn.chunked}
// CHECK-NOT: 100], f32>) -> !nn.tensor<[batch
// CHECK: nn.concat %[[L0]], %[[L1]]
// CHECK: nn.reduce_sum %{{.*}} {axes = array<i64: 0, 1>}

// What follows from chunks is @backward's; evaluating needs no gradients.
// SPLIT-LABEL: module @tied
// SPLIT: func.func @forward
// SPLIT-SAME: -> (!nn.tensor<[batch, seq, 8], f32> {nn.saved = 0 : i64})
// SPLIT-NOT: cross_entropy
// SPLIT-LABEL: func.func @backward
// SPLIT-SAME: nn.loss = "loss", nn.role = "sum"
// SPLIT-COUNT-2: nn.cross_entropy %
// SPLIT-LABEL: func.func @evaluate
// SPLIT-SAME: -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"})
// SPLIT-COUNT-2: nn.cross_entropy %
// SPLIT-NOT: cross_entropy_grad
// SPLIT: module @decomposed
module @tied attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}, seq = {combine = "max", max = 128 : i64}}, nn.loss_chunks = 2 : i64} {
  func.func @graph(%ids: !nn.tensor<[batch, seq], i64> {nn.field = "ids"},
                   %labels: !nn.tensor<[batch, seq], i64> {nn.field = "labels"},
                   %e: !nn.tensor<[100, 8], f32> {nn.parameter = "m/e", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %x = nn.gather %e, %ids {axis = 0 : i64} : (!nn.tensor<[100, 8], f32>, !nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, seq, 8], f32>
    %h = nn.silu %x : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %y = nn.matmul %h, %e {transpose_b = true} : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[100, 8], f32>) -> !nn.tensor<[batch, seq, 100], f32>
    %cap = nn.fill {value = 30.0 : f64} : () -> !nn.tensor<[1, 1, 1], f32>
    %d = nn.div %y, %cap : (!nn.tensor<[batch, seq, 100], f32>, !nn.tensor<[1, 1, 1], f32>) -> !nn.tensor<[batch, seq, 100], f32>
    %t = nn.tanh %d : (!nn.tensor<[batch, seq, 100], f32>) -> !nn.tensor<[batch, seq, 100], f32>
    %c = nn.mul %t, %cap : (!nn.tensor<[batch, seq, 100], f32>, !nn.tensor<[1, 1, 1], f32>) -> !nn.tensor<[batch, seq, 100], f32>
    %l:2 = nn.cross_entropy %c, %labels : (!nn.tensor<[batch, seq, 100], f32>, !nn.tensor<[batch, seq], i64>) -> (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>)
    %s = nn.reduce_sum %l#0 {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], f32>
    return %s, %n : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// A decomposed loss with smoothing and a penalty on the normaliser (z-loss), on rows that are one dim: all its wide
// values stay within the chunks, what is one number a row may leave.
// CHECK-LABEL: module @decomposed
// CHECK: func.func @step
// CHECK-NOT: !nn.tensor<[rows, 50], f32>
// CHECK-COUNT-2: nn.log_softmax %
// CHECK-NOT: !nn.tensor<[rows, 50], f32>
// CHECK: return
module @decomposed attributes {nn.dims = {rows = {combine = "sum", max = 64 : i64}}, nn.loss_chunks = 2 : i64} {
  func.func @graph(%h: !nn.tensor<[rows, 8], f32> {nn.field = "h"},
                   %labels: !nn.tensor<[rows, 1], i64> {nn.field = "labels"},
                   %mask: !nn.tensor<[rows], f32> {nn.field = "mask"},
                   %w: !nn.tensor<[8, 50], f32> {nn.parameter = "m/w", nn.trainable},
                   %b: !nn.tensor<[50], f32> {nn.parameter = "m/b", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %y = nn.matmul %h, %w, %b : (!nn.tensor<[rows, 8], f32>, !nn.tensor<[8, 50], f32>, !nn.tensor<[50], f32>) -> !nn.tensor<[rows, 50], f32>
    %p = nn.log_softmax %y {axis = 1 : i64} : (!nn.tensor<[rows, 50], f32>) -> !nn.tensor<[rows, 50], f32>
    %g = nn.gather_elements %p, %labels {axis = 1 : i64} : (!nn.tensor<[rows, 50], f32>, !nn.tensor<[rows, 1], i64>) -> !nn.tensor<[rows, 1], f32>
    %g1 = nn.reshape %g : (!nn.tensor<[rows, 1], f32>) -> !nn.tensor<[rows], f32>
    %u = nn.reduce_mean %p {axes = array<i64: 1>} : (!nn.tensor<[rows, 50], f32>) -> !nn.tensor<[rows], f32>
    %z = nn.sub %y, %p : (!nn.tensor<[rows, 50], f32>, !nn.tensor<[rows, 50], f32>) -> !nn.tensor<[rows, 50], f32>
    %zm = nn.reduce_mean %z {axes = array<i64: 1>} : (!nn.tensor<[rows, 50], f32>) -> !nn.tensor<[rows], f32>
    %z2 = nn.mul %zm, %zm : (!nn.tensor<[rows], f32>, !nn.tensor<[rows], f32>) -> !nn.tensor<[rows], f32>
    %a = nn.add %g1, %u : (!nn.tensor<[rows], f32>, !nn.tensor<[rows], f32>) -> !nn.tensor<[rows], f32>
    %c = nn.sub %z2, %a : (!nn.tensor<[rows], f32>, !nn.tensor<[rows], f32>) -> !nn.tensor<[rows], f32>
    %m = nn.mul %c, %mask : (!nn.tensor<[rows], f32>, !nn.tensor<[rows], f32>) -> !nn.tensor<[rows], f32>
    %s = nn.reduce_sum %m {axes = array<i64: 0>} : (!nn.tensor<[rows], f32>) -> !nn.tensor<[], f32>
    %n = nn.reduce_sum %mask {axes = array<i64: 0>} : (!nn.tensor<[rows], f32>) -> !nn.tensor<[], f32>
    return %s, %n : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// A teacher's head and a student's, of other widths within, whose logits meet: one region.
// CHECK-LABEL: module @distilled
// CHECK: func.func @step
// CHECK-NOT: !nn.tensor<[rows, 50], f32>
// CHECK-COUNT-2: nn.kl_divergence %
// CHECK-NOT: !nn.tensor<[rows, 50], f32>
// CHECK: return
module @distilled attributes {nn.dims = {rows = {combine = "sum", max = 64 : i64}}, nn.loss_chunks = 2 : i64} {
  func.func @graph(%h: !nn.tensor<[rows, 8], f32> {nn.field = "h"}, %g: !nn.tensor<[rows, 24], f32> {nn.field = "g"},
                   %w: !nn.tensor<[50, 8], f32> {nn.parameter = "s/w", nn.trainable},
                   %v: !nn.tensor<[50, 24], f32> {nn.parameter = "t/w"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %t = nn.matmul %g, %v {transpose_b = true} : (!nn.tensor<[rows, 24], f32>, !nn.tensor<[50, 24], f32>) -> !nn.tensor<[rows, 50], f32>
    %y = nn.matmul %h, %w {transpose_b = true} : (!nn.tensor<[rows, 8], f32>, !nn.tensor<[50, 8], f32>) -> !nn.tensor<[rows, 50], f32>
    %l:3 = nn.kl_divergence %y, %t {temperature = 2.0 : f64} : (!nn.tensor<[rows, 50], f32>, !nn.tensor<[rows, 50], f32>) -> (!nn.tensor<[rows], f32>, !nn.tensor<[rows], f32>, !nn.tensor<[rows], f32>)
    %s = nn.reduce_sum %l#0 {axes = array<i64: 0>} : (!nn.tensor<[rows], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[rows]>} : () -> !nn.tensor<[], f32>
    return %s, %n : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// Logits that are an edge's, too, stay whole, and the section says that it has no chunks.
// CHECK-LABEL: module @sent
// CHECK-NOT: nn.loss_chunks
// CHECK-NOT: nn.chunked
module @sent attributes {nn.dims = {rows = {combine = "sum", max = 64 : i64}}, nn.loss_chunks = 2 : i64} {
  func.func @graph(%h: !nn.tensor<[rows, 8], f32> {nn.field = "h"}, %labels: !nn.tensor<[rows], i64> {nn.field = "labels"},
                   %w: !nn.tensor<[50, 8], f32> {nn.parameter = "s/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"},
          !nn.tensor<[rows, 50], f32> {nn.edge = "logits"}) {
    %y = nn.matmul %h, %w {transpose_b = true} : (!nn.tensor<[rows, 8], f32>, !nn.tensor<[50, 8], f32>) -> !nn.tensor<[rows, 50], f32>
    %l:2 = nn.cross_entropy %y, %labels : (!nn.tensor<[rows, 50], f32>, !nn.tensor<[rows], i64>) -> (!nn.tensor<[rows], f32>, !nn.tensor<[rows], f32>)
    %s = nn.reduce_sum %l#0 {axes = array<i64: 0>} : (!nn.tensor<[rows], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[rows]>} : () -> !nn.tensor<[], f32>
    return %s, %n, %y : !nn.tensor<[], f32>, !nn.tensor<[], f32>, !nn.tensor<[rows, 50], f32>
  }
}
