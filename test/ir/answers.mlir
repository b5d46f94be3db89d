// RUN: maestro-opt %s --maestro-annotate-answers | FileCheck %s
// Costs, kernels, and what gradients use.

// CHECK-LABEL: @costs
func.func @costs(%a: !nn.tensor<[b, s, 12], bf16>, %w: !nn.tensor<[64, 12], bf16>, %table: !nn.tensor<[1000, 64], f32>,
                 %i: !nn.tensor<[b, t], i64>, %q: !nn.tensor<[b, 8, s, 16], f32>, %image: !nn.tensor<[n, 8, 32, 32], f32>, %filter: !nn.tensor<[16, 4, 3, 3], f32>) {
  // CHECK: nn.matmul {{.*}}nn.accumulate = "0", nn.bytes = "152*b*s + 1536", {{.*}}nn.flops = "1536*b*s", nn.kernel = "matmul", nn.saves = "operands 0,1 (24*b*s + 1536 bytes)"
  %0 = nn.matmul %a, %w {transpose_b = true} : (!nn.tensor<[b, s, 12], bf16>, !nn.tensor<[64, 12], bf16>) -> !nn.tensor<[b, s, 64], bf16>
  // CHECK: nn.conv {{.*}}nn.flops = "1179648*n"
  %1 = nn.conv %image, %filter {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (!nn.tensor<[n, 8, 32, 32], f32>, !nn.tensor<[16, 4, 3, 3], f32>) -> !nn.tensor<[n, 16, 32, 32], f32>
  // CHECK: nn.attention {{.*}}nn.flops = "608*b*s*s"{{.*}}nn.saves = "operands 0,1,2 results 0,1 (1056*b*s bytes)"
  %2:2 = nn.attention %q, %q, %q {scale = 0.25 : f64} : (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, s, 16], f32>) -> (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, s], f32>)
  // An embedding reads the rows that it returns, not the table.
  // CHECK: nn.gather {{.*}}nn.bytes = "520*b*t"{{.*}}nn.flops = "0"{{.*}}nn.saves = "operands 1 (8*b*t bytes)"
  %3 = nn.gather %table, %i {axis = 0 : i64} : (!nn.tensor<[1000, 64], f32>, !nn.tensor<[b, t], i64>) -> !nn.tensor<[b, t, 64], f32>
  // A view costs nothing and has no kernel.
  // CHECK: nn.reshape %{{[^}]*}}nn.bytes = "0"{{[^}]*}}nn.flops = "0", nn.saves = "nothing"
  %4 = nn.reshape %3 : (!nn.tensor<[b, t, 64], f32>) -> !nn.tensor<[b*t, 64], f32>
  return
}

// CHECK-LABEL: @reuse
func.func @reuse(%x: !nn.tensor<[n, 4], f32>, %row: !nn.tensor<[4], f32>, %labels: !nn.tensor<[n], i64>) {
  // CHECK: nn.add {{.*}}nn.reuse = "0->0", nn.saves = "nothing"
  %0 = nn.add %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.mul {{.*}}nn.reuse = "0->0,1->0", nn.saves = "operands 0,1 (16*n bytes)"
  %1 = nn.mul %x, %x : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.cast
  // CHECK-NOT: nn.reuse
  // CHECK: nn.softmax {{.*}}nn.reuse = "0->0", nn.saves = "results 0 (16*n bytes)"
  %2 = nn.cast %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], i32>
  %3 = nn.softmax %x {axis = 1 : i64} : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.cross_entropy
  %4:2 = nn.cross_entropy %x, %labels : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n], i64>) -> (!nn.tensor<[n], f32>, !nn.tensor<[n], f32>)
  // CHECK: nn.cross_entropy_grad {{.*}}nn.reuse = "0->0"
  %5 = nn.cross_entropy_grad %x, %labels, %4#1, %4#0 : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n], i64>, !nn.tensor<[n], f32>, !nn.tensor<[n], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.rms_norm
  // CHECK: nn.rms_norm_grad {{.*}}nn.accumulate = "1"
  %6:2 = nn.rms_norm %x, %row {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> (!nn.tensor<[n, 4], f32>, !nn.tensor<[n], f32>)
  %7:2 = nn.rms_norm_grad %x, %x, %6#1, %row {axis = 1 : i64} : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>, !nn.tensor<[n], f32>, !nn.tensor<[4], f32>) -> (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>)
  // Of the table, as much as is added.
  // CHECK: nn.gather_grad {{.*}}nn.bytes = "40*n"
  %8 = nn.gather_grad %labels, %x {axis = 0 : i64} : (!nn.tensor<[n], i64>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[1000, 4], f32>
  // CHECK: nn.glu_grad {{.*}}nn.reuse
  %9:2 = nn.glu_grad %x, %3, %5 {activation = "silu"} : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>)
  return
}
