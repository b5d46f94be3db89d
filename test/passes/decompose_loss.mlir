// RUN: maestro-opt %s --split-input-file --maestro-decompose-loss | FileCheck %s

// The example of passes/decompose_loss.cpp: a mean is split where it divides.
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  // CHECK-LABEL: func.func @graph
  // CHECK-SAME: -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"})
  func.func @graph(%losses: !nn.tensor<[batch, seq], f32> {nn.field = "losses"},
                   %counted: !nn.tensor<[batch, seq], f32> {nn.field = "counted"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "mean"}) {
    // CHECK: %[[S:.*]] = nn.reduce_sum %arg0
    // CHECK: %[[C:.*]] = nn.reduce_sum %arg1
    // CHECK-NOT: nn.div
    // CHECK: return %[[S]], %[[C]]
    %s = nn.reduce_sum %losses {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    %c = nn.reduce_sum %counted {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    %m = nn.div %s, %c : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    return %m : !nn.tensor<[], f32>
  }
}

// -----

// A weighted sum of means: one sum and one count each. Rows are counted; a floor under a count is one of the whole batch's.
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  // CHECK-LABEL: func.func @graph
  // CHECK-SAME: {nn.loss = "loss", nn.role = "sum", nn.weight = 5.000000e-01 : f64}
  // CHECK-SAME: {nn.loss = "loss", nn.role = "count", nn.weight = 5.000000e-01 : f64}
  // CHECK-SAME: {nn.loss = "loss", nn.role = "sum", nn.term = 1 : i64, nn.weight = -2.500000e-01 : f64}
  // CHECK-SAME: {nn.floor = 1.000000e+00 : f64, nn.loss = "loss", nn.role = "count", nn.term = 1 : i64, nn.weight = -2.500000e-01 : f64}
  // CHECK-SAME: {nn.output = "x"}
  func.func @graph(%x: !nn.tensor<[batch, 10], f32> {nn.field = "x"},
                   %y: !nn.tensor<[batch, seq], f32> {nn.field = "y"},
                   %mask: !nn.tensor<[batch, seq], f32> {nn.field = "mask"})
      -> (!nn.tensor<[1], f32> {nn.loss = "loss", nn.role = "mean"}, !nn.tensor<[batch, 10], f32> {nn.output = "x"}) {
    %half = nn.fill {value = 0.5 : f64} : () -> !nn.tensor<[], f32>
    %two = nn.fill {value = 2.0 : f64} : () -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[], f32>
    // CHECK: %[[S0:.*]] = nn.reduce_sum %arg0 {axes = array<i64: 0, 1>}
    // CHECK: %[[N:.*]] = nn.dim_values {values = #nn.dims<[10*batch]>}
    %a = nn.reduce_mean %x {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 10], f32>) -> !nn.tensor<[], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    // CHECK: %[[C1:.*]] = nn.reduce_sum %arg2
    %c = nn.reduce_sum %mask {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    %g = nn.maximum %c, %one : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    %b = nn.div %s, %g : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    %h = nn.div %b, %two : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    %d = nn.sub %a, %h : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    %w = nn.mul %half, %d : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    %r = nn.reshape %w : (!nn.tensor<[], f32>) -> !nn.tensor<[1], f32>
    // CHECK: %[[S1:.*]] = nn.reshape
    // CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %[[C1]], %arg0
    return %r, %x : !nn.tensor<[1], f32>, !nn.tensor<[batch, 10], f32>
  }
}

// -----

// A mean of per-sample means of a fixed size: the outer one divides, the inner one stays.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  // CHECK-LABEL: func.func @graph
  func.func @graph(%x: !nn.tensor<[batch, 10], f32> {nn.field = "x"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "mean"}) {
    // CHECK: %[[A:.*]] = nn.reduce_sum %arg0 {axes = array<i64: 0>}
    // CHECK: nn.dim_values {values = #nn.dims<[batch]>}
    // CHECK: nn.reduce_mean %[[A]] {axes = array<i64: 0>}
    %a = nn.reduce_mean %x {axes = array<i64: 0>} : (!nn.tensor<[batch, 10], f32>) -> !nn.tensor<[10], f32>
    %b = nn.reduce_mean %a {axes = array<i64: 0>} : (!nn.tensor<[10], f32>) -> !nn.tensor<[], f32>
    return %b : !nn.tensor<[], f32>
  }
}
