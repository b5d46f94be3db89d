// RUN: maestro-opt %s --maestro-differentiate --maestro-split-programs --cse | FileCheck %s
// RUN: maestro-opt %s --maestro-differentiate --maestro-split-programs=recompute=selective --cse | FileCheck %s --check-prefix=AGAIN

// RUN: maestro-opt %s --maestro-differentiate | sed 's/^module attributes {/module attributes {nn.split_backward, /' | maestro-opt --maestro-split-programs --cse --maestro-verify-phase=phase=split | FileCheck %s --check-prefix=SPLIT

// The example of passes/split_programs.cpp: relu's result crosses, since its gradient reads it. What is cheap (the
// mask out of a field, the transposed weight) is computed again; so is relu, when elementwise operators may be.
// CHECK: nn.stash = "2 values, 64*batch bytes"
// AGAIN: nn.stash = "1 values, 32*batch bytes"
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4], f32> {nn.field = "x"},
                   %keep: !nn.tensor<[batch, 8], i64> {nn.field = "keep"},
                   %w: !nn.tensor<[8, 4], f32> {nn.parameter = "m/w", nn.trainable},
                   %u: !nn.tensor<[8, 8], f32> {nn.parameter = "m/u", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %wt = nn.transpose %w {permutation = array<i64: 1, 0>} : (!nn.tensor<[8, 4], f32>) -> !nn.tensor<[4, 8], f32>
    %h = nn.matmul %x, %wt : (!nn.tensor<[batch, 4], f32>, !nn.tensor<[4, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %r = nn.relu %h : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %m = nn.cast %keep : (!nn.tensor<[batch, 8], i64>) -> !nn.tensor<[batch, 8], f32>
    %rm = nn.mul %r, %m : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %y = nn.matmul %rm, %u : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    %c = nn.reduce_sum %m {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
  // CHECK-LABEL: func.func @count
  // CHECK-SAME: (%arg0: !nn.tensor<[batch, 8], i64> {nn.field = "keep"})
  // CHECK-SAME: -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"})
  // CHECK-LABEL: func.func @step
  // CHECK-LABEL: func.func @forward
  // CHECK-SAME: -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[batch, 8], f32> {nn.saved = 0 : i64}, !nn.tensor<[batch, 8], f32> {nn.saved = 1 : i64})
  // CHECK: %[[R:.*]] = nn.relu
  // CHECK: %[[RM:.*]] = nn.mul
  // CHECK: return %{{.*}}, %[[R]], %[[RM]]
  // CHECK-LABEL: func.func @backward
  // CHECK-SAME: %arg0: !nn.tensor<[batch, 8], f32> {nn.saved = 0 : i64}
  // CHECK-SAME: %arg2: !nn.tensor<[], f32> {nn.loss_scale = "loss"}
  // CHECK-SAME: -> (!nn.tensor<[8, 4], f32> {nn.gradient = "m/w"}, !nn.tensor<[8, 8], f32> {nn.gradient = "m/u"})
  // CHECK: nn.cast %{{.*}} : (!nn.tensor<[batch, 8], i64>)
  // CHECK: nn.relu_grad %arg0

  // AGAIN-LABEL: func.func @backward
  // AGAIN: %[[M:.*]] = nn.cast
  // AGAIN: nn.mul %arg0, %[[M]]

  // Split, what multiplies by the samples' values to weights' gradients is a program of its own, with what it multiplies; a first stage's
  // chain of gradients is not.
  // SPLIT-LABEL: func.func @forward
  // SPLIT-LABEL: func.func @backward
  // SPLIT-SAME: -> (!nn.tensor<[batch, 8], f32> {nn.saved = 2 : i64}
  // SPLIT: nn.relu_grad
  // SPLIT-NOT: nn.gradient
  // SPLIT-LABEL: func.func @weight_gradient
  // SPLIT-SAME: {nn.saved = 1 : i64}
  // SPLIT-SAME: {nn.saved = 2 : i64}
  // SPLIT-SAME: -> (!nn.tensor<[8, 4], f32> {nn.gradient = "m/w"}, !nn.tensor<[8, 8], f32> {nn.gradient = "m/u"})
  // SPLIT-NOT: nn.relu_grad
}
