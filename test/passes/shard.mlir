// RUN: maestro-opt %s --split-input-file --maestro-differentiate --maestro-shard --canonicalize --cse | FileCheck %s

// A gated MLP (Llama's): gate and up by columns, down by rows; everything between is split, one all-reduce forward and,
// for the input's gradient, one backward: partial gradients are added first. The norm and the head stay whole.
// CHECK-LABEL: module @gated
module @gated attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}, nn.tensor = 2 : i64} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                   %scale: !nn.tensor<[8], f32> {nn.parameter = "m/norm", nn.trainable},
                   %gate: !nn.tensor<[32, 8], f32> {nn.parameter = "m/gate", nn.trainable},
                   %up: !nn.tensor<[32, 8], f32> {nn.parameter = "m/up", nn.trainable},
                   %down: !nn.tensor<[8, 32], f32> {nn.parameter = "m/down", nn.trainable},
                   %head: !nn.tensor<[3, 8], f32> {nn.parameter = "m/head", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %n:2 = nn.rms_norm %x, %scale {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8], f32>) -> (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch], f32>)
    %g = nn.matmul %n#0, %gate {transpose_b = true} : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[32, 8], f32>) -> !nn.tensor<[batch, 32], f32>
    %u = nn.matmul %n#0, %up {transpose_b = true} : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[32, 8], f32>) -> !nn.tensor<[batch, 32], f32>
    %s = nn.silu %g : (!nn.tensor<[batch, 32], f32>) -> !nn.tensor<[batch, 32], f32>
    %h = nn.mul %s, %u : (!nn.tensor<[batch, 32], f32>, !nn.tensor<[batch, 32], f32>) -> !nn.tensor<[batch, 32], f32>
    %d = nn.matmul %h, %down {transpose_b = true} : (!nn.tensor<[batch, 32], f32>, !nn.tensor<[8, 32], f32>) -> !nn.tensor<[batch, 8], f32>
    %r = nn.add %x, %d : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %l = nn.matmul %r, %head {transpose_b = true} : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[3, 8], f32>) -> !nn.tensor<[batch, 3], f32>
    %p = nn.softmax %l {axis = 1 : i64} : (!nn.tensor<[batch, 3], f32>) -> !nn.tensor<[batch, 3], f32>
    %sum = nn.reduce_sum %p {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 3], f32>) -> !nn.tensor<[], f32>
    %count = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
  // CHECK: func.func @step
  // CHECK-SAME: !nn.tensor<[8], f32> {nn.parameter = "m/norm", nn.trainable}
  // CHECK-SAME: !nn.tensor<[16, 8], f32> {nn.parameter = "m/gate", nn.split = 0 : i64, nn.trainable}
  // CHECK-SAME: !nn.tensor<[16, 8], f32> {nn.parameter = "m/up", nn.split = 0 : i64, nn.trainable}
  // CHECK-SAME: !nn.tensor<[8, 16], f32> {nn.parameter = "m/down", nn.split = 1 : i64, nn.trainable}
  // CHECK-SAME: !nn.tensor<[8], f32> {nn.gradient = "m/norm", nn.over_data = "partial"}
  // CHECK-SAME: !nn.tensor<[16, 8], f32> {nn.gradient = "m/gate", nn.over_data = "partial"}
  // CHECK-SAME: !nn.tensor<[8, 16], f32> {nn.gradient = "m/down", nn.over_data = "partial"}
  // CHECK: nn.silu {{.*}} -> !nn.tensor<[batch, 16], f32>
  // CHECK: %[[PART:.*]] = nn.matmul {{.*}}(!nn.tensor<[batch, 16], f32>, !nn.tensor<[8, 16], f32>) -> !nn.tensor<[batch, 8], f32>
  // CHECK: nn.all_reduce %[[PART]] {axis = "tensor"}
  // CHECK-NOT: nn.all_reduce
  // CHECK: nn.silu_grad {{.*}} -> !nn.tensor<[batch, 16], f32>
  // CHECK: %[[BOTH:.*]] = nn.add %{{.*}}, %{{.*}} : (!nn.tensor<[batch, 8], f32>
  // CHECK: nn.all_reduce %[[BOTH]] {axis = "tensor"}
  // CHECK-NOT: nn.all_reduce
  // CHECK-NOT: nn.all_gather
  // CHECK: return
}

// -----

// GPT-2's: products with biases. The first bias is split with its columns; the second would be added on every device, and is
// taken out of the product.
// CHECK-LABEL: module @biased
module @biased attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}, nn.tensor = 4 : i64} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                   %w0: !nn.tensor<[8, 32], f32> {nn.parameter = "m/fc.weight", nn.trainable},
                   %b0: !nn.tensor<[32], f32> {nn.parameter = "m/fc.bias", nn.trainable},
                   %w1: !nn.tensor<[32, 8], f32> {nn.parameter = "m/proj.weight", nn.trainable},
                   %b1: !nn.tensor<[8], f32> {nn.parameter = "m/proj.bias", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %h = nn.matmul %x, %w0, %b0 : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 32], f32>, !nn.tensor<[32], f32>) -> !nn.tensor<[batch, 32], f32>
    %g = nn.gelu %h : (!nn.tensor<[batch, 32], f32>) -> !nn.tensor<[batch, 32], f32>
    %y = nn.matmul %g, %w1, %b1 : (!nn.tensor<[batch, 32], f32>, !nn.tensor<[32, 8], f32>, !nn.tensor<[8], f32>) -> !nn.tensor<[batch, 8], f32>
    %p = nn.softmax %y {axis = 1 : i64} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %sum = nn.reduce_sum %p {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    %count = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
  // CHECK: func.func @step
  // CHECK-SAME: !nn.tensor<[8, 8], f32> {nn.parameter = "m/fc.weight", nn.split = 1 : i64
  // CHECK-SAME: !nn.tensor<[8], f32> {nn.parameter = "m/fc.bias", nn.split = 0 : i64
  // CHECK-SAME: !nn.tensor<[8, 8], f32> {nn.parameter = "m/proj.weight", nn.split = 0 : i64
  // CHECK-SAME: !nn.tensor<[8], f32> {nn.parameter = "m/proj.bias", nn.trainable}
  // CHECK: %[[BARE:.*]] = nn.matmul %{{.*}}, %{{.*}} : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  // CHECK-NEXT: %[[SUM:.*]] = nn.all_reduce %[[BARE]] {axis = "tensor"}
  // CHECK-NEXT: nn.add %[[SUM]], %arg4
}

// -----

// In bf16 the parts are added in f32. A residual stream in bf16 must be whole before anything but a sum reads it.
// CHECK-LABEL: module @narrow
module @narrow attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}, nn.tensor = 2 : i64} {
  func.func @graph(%x: !nn.tensor<[batch, 8], bf16> {nn.field = "x"},
                   %w0: !nn.tensor<[8, 32], f32> {nn.parameter = "m/fc", nn.trainable},
                   %w1: !nn.tensor<[32, 8], f32> {nn.parameter = "m/proj", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %n0 = nn.cast %w0 : (!nn.tensor<[8, 32], f32>) -> !nn.tensor<[8, 32], bf16>
    %n1 = nn.cast %w1 : (!nn.tensor<[32, 8], f32>) -> !nn.tensor<[32, 8], bf16>
    %h = nn.matmul %x, %n0 : (!nn.tensor<[batch, 8], bf16>, !nn.tensor<[8, 32], bf16>) -> !nn.tensor<[batch, 32], bf16>
    %g = nn.relu %h : (!nn.tensor<[batch, 32], bf16>) -> !nn.tensor<[batch, 32], bf16>
    %y = nn.matmul %g, %n1 : (!nn.tensor<[batch, 32], bf16>, !nn.tensor<[32, 8], bf16>) -> !nn.tensor<[batch, 8], bf16>
    %t = nn.tanh %y : (!nn.tensor<[batch, 8], bf16>) -> !nn.tensor<[batch, 8], bf16>
    %f = nn.cast %t : (!nn.tensor<[batch, 8], bf16>) -> !nn.tensor<[batch, 8], f32>
    %sum = nn.reduce_sum %f {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    %count = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
  // CHECK: func.func @step
  // CHECK: %[[Y:.*]] = nn.matmul {{.*}} -> !nn.tensor<[batch, 8], bf16>
  // CHECK: %[[WIDE:.*]] = nn.cast %[[Y]] : {{.*}} -> !nn.tensor<[batch, 8], f32>
  // CHECK: %[[SUM:.*]] = nn.all_reduce %[[WIDE]]
  // CHECK: nn.cast %[[SUM]] : {{.*}} -> !nn.tensor<[batch, 8], bf16>
}

// -----

// Nothing is split where a class of dims is no block: an embedding's rows, a normed dim, a size that does not divide.
// CHECK-LABEL: module @none
// CHECK-SAME: nn.indivisible = array<i64: 7>
module @none attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}, nn.tensor = 2 : i64} {
  func.func @graph(%ids: !nn.tensor<[batch], i64> {nn.field = "ids"},
                   %table: !nn.tensor<[100, 8], f32> {nn.parameter = "m/table", nn.trainable},
                   %w0: !nn.tensor<[8, 7], f32> {nn.parameter = "m/fc", nn.trainable},
                   %w1: !nn.tensor<[7, 8], f32> {nn.parameter = "m/proj", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %x = nn.gather %table, %ids {axis = 0 : i64} : (!nn.tensor<[100, 8], f32>, !nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 8], f32>
    %h = nn.matmul %x, %w0 : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 7], f32>) -> !nn.tensor<[batch, 7], f32>
    %y = nn.matmul %h, %w1 : (!nn.tensor<[batch, 7], f32>, !nn.tensor<[7, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %p = nn.softmax %y {axis = 1 : i64} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %sum = nn.reduce_sum %p {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    %count = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
  // CHECK: func.func @step
  // CHECK-SAME: nn.gradient = "m/table", nn.over_data = "partial"
  // CHECK-NOT: nn.split
  // CHECK-NOT: nn.all_reduce
}

// -----

// A weight computed from parameters alone: over replicas the sum passes through its gradient, which is linear in what
// arrives (a selection beside zeros, a scatter into zeros).
// CHECK-LABEL: module @weights_alone
module @weights_alone attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4], f32> {nn.field = "x"},
                   %v: !nn.tensor<[6], f32> {nn.parameter = "m/v", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %two = nn.fill {value = 2.0 : f64} : () -> !nn.tensor<[], f32>
    %at = nn.constant dense<[5, 0, 3, 5]> : tensor<4xi64> : !nn.tensor<[4], i64>
    %small = nn.minimum %v, %two : (!nn.tensor<[6], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[6], f32>
    %e = nn.exp %small : (!nn.tensor<[6], f32>) -> !nn.tensor<[6], f32>
    %g = nn.gather_elements %e, %at {axis = 0 : i64} : (!nn.tensor<[6], f32>, !nn.tensor<[4], i64>) -> !nn.tensor<[4], f32>
    %y = nn.mul %x, %g : (!nn.tensor<[batch, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[batch, 4], f32>
    %t = nn.tanh %y : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 4], f32>
    %sum = nn.reduce_sum %t {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[], f32>
    %count = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
  // CHECK: func.func @step
  // CHECK-SAME: nn.gradient = "m/v", nn.over_data = "partial"
}
