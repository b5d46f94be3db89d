// RUN: maestro-opt %s | maestro-opt | FileCheck %s
// The tensor type and the dims attribute print in canonical form and parse again.

// CHECK-LABEL: @dims
func.func private @dims(
  // CHECK-SAME: !nn.tensor<[], f32>
  !nn.tensor<[], f32>,
  // CHECK-SAME: !nn.tensor<[batch, 4*images, 768], bf16>
  !nn.tensor<[batch, images*4, 700 + 68], bf16>,
  // CHECK-SAME: !nn.tensor<[seq - 1, (seq + 3) floordiv 4], i1>
  !nn.tensor<[seq - 1, seq ceildiv 4], i1>,
  // CHECK-SAME: !nn.tensor<[a*a - b*b, min(a, b), 3*(a mod 2)], ui8>
  !nn.tensor<[(a + b) * (a - b), min(b, a), 3 * (a mod 2)], ui8>,
  // CHECK-SAME: !nn.tensor<[max(a, min)], f16>
  !nn.tensor<[max(min, a)], f16>,
  // CHECK-SAME: !nn.tensor<[s17, layer.dim_0, x, i32], f64>
  !nn.tensor<[s17, layer.dim_0, x, i32], f64>,
  // CHECK-SAME: !nn.tensor<[0], i8>
  !nn.tensor<[n - n], i8>)

module attributes {
  // CHECK: test.a = #nn.dims<[-n + 3, -9223372036854775808]>
  // CHECK-SAME: test.b = #nn.dims<[]>
  test.a = #nn.dims<[3 - n, -9223372036854775808]>, test.b = #nn.dims<[]>
} {}
