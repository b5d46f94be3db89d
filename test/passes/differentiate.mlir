// RUN: maestro-opt %s --split-input-file --maestro-differentiate | FileCheck %s

// The example of passes/differentiate.cpp, with a frozen matrix below it that gets no gradient work.
module {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %arg4: !nn.tensor<[], f32> {nn.loss_scale = "loss"}
  // CHECK-SAME: -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[4, 2], f32> {nn.gradient = "m/w"})
  func.func @graph(%x: !nn.tensor<[batch, 3], f32> {nn.field = "x"},
                   %frozen: !nn.tensor<[3, 4], f32> {nn.parameter = "m/frozen"},
                   %w: !nn.tensor<[4, 2], f32> {nn.parameter = "m/w", nn.trainable},
                   %unused: !nn.tensor<[4], f32> {nn.parameter = "m/unused", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    // CHECK: %[[H:.*]] = nn.matmul %arg0, %arg1
    // CHECK: %[[Y:.*]] = nn.matmul %[[H]], %arg2
    // CHECK: %[[S:.*]] = nn.reduce_sum
    // CHECK: nn.reshape %arg4
    // CHECK: %[[DY:.*]] = nn.broadcast_to
    // CHECK-NEXT: %[[DW:.*]] = nn.matmul %[[H]], %[[DY]] {transpose_a = true}
    // CHECK-NEXT: return %[[S]], %[[DW]]
    %h = nn.matmul %x, %frozen : (!nn.tensor<[batch, 3], f32>, !nn.tensor<[3, 4], f32>) -> !nn.tensor<[batch, 4], f32>
    %y = nn.matmul %h, %w : (!nn.tensor<[batch, 4], f32>, !nn.tensor<[4, 2], f32>) -> !nn.tensor<[batch, 2], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 2], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], i64>
    %c = nn.cast %n : (!nn.tensor<[], i64>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// A tied weight in bf16: both products' gradients are f32, meet in f32, and reach the f32 parameter unrounded.
// CHECK: module
module {
  // CHECK-LABEL: func.func @step
  func.func @graph(%x: !nn.tensor<[batch, 4], bf16> {nn.field = "x"},
                   %w: !nn.tensor<[4, 4], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    // CHECK: %[[A:.*]] = nn.matmul %{{.*}}, %{{.*}} {f32_result = true, transpose_a = true}
    // CHECK: %[[B:.*]] = nn.matmul %{{.*}}, %{{.*}} {f32_result = true, transpose_a = true}
    // CHECK: %[[DW:.*]] = nn.add %[[A]], %[[B]] : (!nn.tensor<[4, 4], f32>
    // CHECK: return %{{.*}}, %[[DW]]
    %b = nn.cast %w : (!nn.tensor<[4, 4], f32>) -> !nn.tensor<[4, 4], bf16>
    %h = nn.matmul %x, %b : (!nn.tensor<[batch, 4], bf16>, !nn.tensor<[4, 4], bf16>) -> !nn.tensor<[batch, 4], bf16>
    %y = nn.matmul %h, %b : (!nn.tensor<[batch, 4], bf16>, !nn.tensor<[4, 4], bf16>) -> !nn.tensor<[batch, 4], bf16>
    %f = nn.cast %y : (!nn.tensor<[batch, 4], bf16>) -> !nn.tensor<[batch, 4], f32>
    %s = nn.reduce_sum %f {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], i64>
    %c = nn.cast %n : (!nn.tensor<[], i64>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// The three gradients of a qkv split are one concatenation.
// CHECK: module
module {
  // CHECK-LABEL: func.func @step
  func.func @graph(%x: !nn.tensor<[batch, 6], f32> {nn.field = "x"},
                   %w: !nn.tensor<[6, 6], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    // CHECK-NOT: nn.add
    // CHECK: nn.concat %{{.*}}, %{{.*}}, %{{.*}} {axis = 1 : i64}
    %h = nn.matmul %x, %w : (!nn.tensor<[batch, 6], f32>, !nn.tensor<[6, 6], f32>) -> !nn.tensor<[batch, 6], f32>
    %q = nn.slice %h {offsets = #nn.dims<[0, 0]>, steps = array<i64: 1, 1>} : (!nn.tensor<[batch, 6], f32>) -> !nn.tensor<[batch, 2], f32>
    %k = nn.slice %h {offsets = #nn.dims<[0, 2]>, steps = array<i64: 1, 1>} : (!nn.tensor<[batch, 6], f32>) -> !nn.tensor<[batch, 2], f32>
    %v = nn.slice %h {offsets = #nn.dims<[0, 4]>, steps = array<i64: 1, 1>} : (!nn.tensor<[batch, 6], f32>) -> !nn.tensor<[batch, 2], f32>
    %p = nn.mul %q, %k : (!nn.tensor<[batch, 2], f32>, !nn.tensor<[batch, 2], f32>) -> !nn.tensor<[batch, 2], f32>
    %y = nn.mul %p, %v : (!nn.tensor<[batch, 2], f32>, !nn.tensor<[batch, 2], f32>) -> !nn.tensor<[batch, 2], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 2], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], i64>
    %c = nn.cast %n : (!nn.tensor<[], i64>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// What arrives over an edge and is only compared gives back zeros.
// CHECK: module
module {
  // CHECK-LABEL: func.func @step
  func.func @graph(%x: !nn.tensor<[batch, 6], f32> {nn.edge = "a_to_b", nn.carries_gradient},
                   %w: !nn.tensor<[6], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    // CHECK: nn.fill {value = 0.000000e+00 : f64} : () -> !nn.tensor<[batch, 6], f32>
    %z = nn.constant dense<0.0> : tensor<f32> : !nn.tensor<[], f32>
    %m = nn.less %x, %z : (!nn.tensor<[batch, 6], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 6], i1>
    %y = nn.where %m, %w, %z : (!nn.tensor<[batch, 6], i1>, !nn.tensor<[6], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 6], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 6], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], i64>
    %c = nn.cast %n : (!nn.tensor<[], i64>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// What is detached is read, and no gradient passes it: x of the product alone.
// CHECK: module
module {
  // CHECK-LABEL: func.func @step
  // CHECK-NOT: nn.detach
  // CHECK: %[[Y:.*]] = nn.mul %arg0, %arg1
  // CHECK: %[[P:.*]] = nn.mul %[[Y]], %arg1
  // CHECK: nn.mul %{{.*}}, %[[Y]]
  // CHECK-NOT: nn.add
  func.func @graph(%x: !nn.tensor<[batch, 6], f32> {nn.field = "x"}, %w: !nn.tensor<[batch, 6], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %y = nn.mul %x, %w : (!nn.tensor<[batch, 6], f32>, !nn.tensor<[batch, 6], f32>) -> !nn.tensor<[batch, 6], f32>
    %d = nn.detach %y : (!nn.tensor<[batch, 6], f32>) -> !nn.tensor<[batch, 6], f32>
    %p = nn.mul %d, %w : (!nn.tensor<[batch, 6], f32>, !nn.tensor<[batch, 6], f32>) -> !nn.tensor<[batch, 6], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 6], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], i64>
    %c = nn.cast %n : (!nn.tensor<[], i64>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// A row that is padding gets nothing from where it is looked up; a value on its bound none either.
// CHECK: module
module {
  // CHECK-LABEL: func.func @step
  func.func @graph(%x: !nn.tensor<[batch], i64> {nn.field = "x"}, %w: !nn.tensor<[9, 4], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    // CHECK: %[[E:.*]] = nn.gather
    // CHECK: nn.maximum %[[E]], %{{.*}} {nn.clamps}
    // CHECK: %[[ABOVE:.*]] = nn.greater %[[E]]
    // CHECK: %[[PASSED:.*]] = nn.where %[[ABOVE]]
    // CHECK: %[[PAD:.*]] = nn.equal
    // CHECK: %[[DY:.*]] = nn.where %[[PAD]], %{{.*}}, %[[PASSED]]
    // CHECK: nn.gather_grad %arg0, %[[DY]]
    %e = nn.gather %w, %x {axis = 0 : i64, nn.padding_index = 3 : i64} : (!nn.tensor<[9, 4], f32>, !nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 4], f32>
    %zero = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[], f32>
    %y = nn.maximum %e, %zero {nn.clamps} : (!nn.tensor<[batch, 4], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 4], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], i64>
    %c = nn.cast %n : (!nn.tensor<[], i64>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}
