// Products that add what would be added to them; see passes/fuse_additions.cpp.
// RUN: maestro-opt %s --maestro-fuse-additions | FileCheck %s

// A residual stream in f32, the product in bf16, a reshape between.
// CHECK-LABEL: func.func @forward
// CHECK: %[[X:.*]] = nn.reshape %arg0 : (!nn.tensor<[2, batch, 8], f32>) -> !nn.tensor<[2*batch, 8], f32>
// CHECK: %[[Y:.*]] = nn.matmul_add %arg1, %arg2, %[[X]], %arg3 {transpose_b = true} : {{.*}} -> !nn.tensor<[2*batch, 8], f32>
// CHECK: %[[R:.*]] = nn.reshape %[[Y]]
// CHECK-NOT: nn.add
// CHECK: return %[[R]]
func.func @forward(%x: !nn.tensor<[2, batch, 8], f32>, %h: !nn.tensor<[2*batch, 4], bf16>, %w: !nn.tensor<[8, 4], bf16>,
                   %b: !nn.tensor<[8], bf16>) -> !nn.tensor<[2, batch, 8], f32> {
  %p = nn.matmul %h, %w, %b {transpose_b = true} : (!nn.tensor<[2*batch, 4], bf16>, !nn.tensor<[8, 4], bf16>, !nn.tensor<[8], bf16>) -> !nn.tensor<[2*batch, 8], bf16>
  %r = nn.reshape %p : (!nn.tensor<[2*batch, 8], bf16>) -> !nn.tensor<[2, batch, 8], bf16>
  %c = nn.cast %r : (!nn.tensor<[2, batch, 8], bf16>) -> !nn.tensor<[2, batch, 8], f32>
  %y = nn.add %x, %c : (!nn.tensor<[2, batch, 8], f32>, !nn.tensor<[2, batch, 8], f32>) -> !nn.tensor<[2, batch, 8], f32>
  return %y : !nn.tensor<[2, batch, 8], f32>
}

// Of three products two add to what there is; what is read again, and what broadcasts, stays a sum.
// CHECK-LABEL: func.func @backward
// CHECK: %[[A:.*]] = nn.matmul %arg0, %arg1
// CHECK: %[[B:.*]] = nn.matmul_add %arg0, %arg1, %[[A]]
// CHECK: %[[C:.*]] = nn.matmul_add %arg0, %arg1, %[[B]]
// CHECK: %[[P:.*]] = nn.matmul %arg0, %arg1
// CHECK: %[[D:.*]] = nn.add %[[C]], %[[P]]
// CHECK: %[[Q:.*]] = nn.matmul %arg0, %arg1
// CHECK: nn.add %[[Q]], %arg2
// CHECK: return %[[D]], %[[P]]
func.func @backward(%a: !nn.tensor<[batch, 8], f32>, %w: !nn.tensor<[8, 8], f32>, %row: !nn.tensor<[8], f32>)
    -> (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) {
  %0 = nn.matmul %a, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %1 = nn.matmul %a, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %2 = nn.matmul %a, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %3 = nn.add %0, %1 : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %4 = nn.add %2, %3 : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %5 = nn.matmul %a, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %6 = nn.add %4, %5 : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %7 = nn.matmul %a, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %8 = nn.add %7, %row : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %6, %5, %8 : !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>
}

// Gradients of parameters are added where they lie.
// CHECK-LABEL: func.func @weight_gradient
// CHECK-COUNT-2: nn.matmul %
// CHECK: nn.add
func.func @weight_gradient(%a: !nn.tensor<[8, 8], f32>, %b: !nn.tensor<[8, 8], f32>)
    -> (!nn.tensor<[64], f32> {nn.gradient = "m/w"}) {
  %0 = nn.matmul %a, %b : (!nn.tensor<[8, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[8, 8], f32>
  %1 = nn.matmul %b, %a : (!nn.tensor<[8, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[8, 8], f32>
  %2 = nn.add %0, %1 : (!nn.tensor<[8, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[8, 8], f32>
  %3 = nn.reshape %2 : (!nn.tensor<[8, 8], f32>) -> !nn.tensor<[64], f32>
  return %3 : !nn.tensor<[64], f32>
}

// The graph is asked for gradients: it has none of these.
// CHECK-LABEL: func.func @graph
// CHECK: nn.matmul %
// CHECK: nn.add
func.func @graph(%x: !nn.tensor<[batch, 8], f32>, %w: !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32> {
  %0 = nn.matmul %x, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %1 = nn.add %0, %x : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %1 : !nn.tensor<[batch, 8], f32>
}
