// Attention on the layout that products write, and what of it stays as it is.
// RUN: maestro-opt %s --maestro-raise-sequence-major --canonicalize | FileCheck %s

// Rotary embeddings on the way: cos broadcasts over heads, sin over positions, and each gains the other order.
// CHECK-LABEL: func.func @rotated
// CHECK-DAG: %[[COS:.*]] = nn.reshape %arg3 : (!nn.tensor<[seq, 16], f32>) -> !nn.tensor<[1, seq, 1, 16], f32>
// CHECK-DAG: %[[SIN:.*]] = nn.reshape %arg4 : (!nn.tensor<[batch, 4, 1, 16], f32>) -> !nn.tensor<[batch, 1, 4, 16], f32>
// CHECK: %[[Q:.*]] = nn.rope %arg0, %[[COS]], %[[SIN]]
// CHECK: %[[O:.*]], %{{.*}} = nn.attention %[[Q]], %arg1, %arg2 {{.*}}sequence_major = true
// CHECK-NOT: nn.transpose
// CHECK: return %[[O]]
func.func @rotated(%q: !nn.tensor<[batch, seq, 4, 16], f32>, %k: !nn.tensor<[batch, seq, 2, 16], f32>,
                   %v: !nn.tensor<[batch, seq, 2, 16], f32>, %cos: !nn.tensor<[seq, 16], f32>,
                   %sin: !nn.tensor<[batch, 4, 1, 16], f32>) -> !nn.tensor<[batch, seq, 4, 16], f32> {
  %q1 = nn.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (!nn.tensor<[batch, seq, 4, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  %k1 = nn.transpose %k {permutation = array<i64: 0, 2, 1, 3>} : (!nn.tensor<[batch, seq, 2, 16], f32>) -> !nn.tensor<[batch, 2, seq, 16], f32>
  %v1 = nn.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (!nn.tensor<[batch, seq, 2, 16], f32>) -> !nn.tensor<[batch, 2, seq, 16], f32>
  %q2 = nn.rope %q1, %cos, %sin : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[seq, 16], f32>, !nn.tensor<[batch, 4, 1, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  %o, %lse = nn.attention %q2, %k1, %v1 {scale = 2.5e-01 : f64, causal = true} : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>) -> (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq], f32>)
  %back = nn.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (!nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, seq, 4, 16], f32>
  return %back : !nn.tensor<[batch, seq, 4, 16], f32>
}

// Keys that come as attention takes them would be turned instead.
// CHECK-LABEL: func.func @keys_come_by_heads
// CHECK: nn.transpose
// CHECK-NOT: sequence_major = true
// CHECK: return
func.func @keys_come_by_heads(%q: !nn.tensor<[batch, seq, 4, 16], f32>, %k: !nn.tensor<[batch, 2, seq, 16], f32>)
    -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %q1 = nn.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (!nn.tensor<[batch, seq, 4, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  %o, %lse = nn.attention %q1, %k, %k {scale = 2.5e-01 : f64} : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>) -> (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq], f32>)
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}
