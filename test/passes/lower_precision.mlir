// RUN: maestro-opt %s --maestro-lower-precision=components=m --split-input-file | FileCheck %s
// RUN: maestro-opt %s --maestro-lower-precision=components=n --split-input-file | FileCheck %s --check-prefix=OTHER
// RUN: maestro-opt %s "--maestro-lower-precision=components=t frozen=t" --split-input-file | FileCheck %s --check-prefix=FROZEN

// A product, what follows it, and a softmax, which stays.
// CHECK-LABEL: func.func @graph
// CHECK-DAG: %[[A:.*]] = nn.cast %arg0 : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], bf16>
// CHECK-DAG: %[[B:.*]] = nn.cast %arg1 : (!nn.tensor<[8, 4], f32>) -> !nn.tensor<[8, 4], bf16>
// CHECK: %[[Y:.*]] = nn.matmul %[[A]], %[[B]] : {{.*}} -> !nn.tensor<[batch, 4], bf16>
// CHECK-NEXT: %[[Z:.*]] = nn.relu %[[Y]] : {{.*}} -> !nn.tensor<[batch, 4], bf16>
// CHECK-NEXT: %[[V:.*]] = nn.cast %[[Z]] : {{.*}} -> !nn.tensor<[batch, 4], f32>
// CHECK-NEXT: nn.softmax %[[V]] {{.*}} -> !nn.tensor<[batch, 4], f32>
// OTHER-LABEL: func.func @graph
// OTHER: nn.matmul %arg0, %arg1 : {{.*}} -> !nn.tensor<[batch, 4], f32>
func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                 %w: !nn.tensor<[8, 4], f32> {nn.parameter = "m/w", nn.trainable}) -> !nn.tensor<[batch, 4], f32> {
  %y = nn.matmul %x, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 4], f32>) -> !nn.tensor<[batch, 4], f32>
  %z = nn.relu %y : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 4], f32>
  %s = nn.softmax %z {axis = 1 : i64} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 4], f32>
  return %s : !nn.tensor<[batch, 4], f32>
}

// -----

// A residual meets f32 and stays; a scale that bf16 cannot hold stays; one that it can does not; a parameter is converted
// before it is transposed.
// CHECK-LABEL: func.func @graph
// CHECK: %[[W:.*]] = nn.cast %arg1
// CHECK: nn.transpose %[[W]] {{.*}} -> !nn.tensor<[8, 8], bf16>
// CHECK: nn.matmul
// CHECK-NEXT: %[[WIDE:.*]] = nn.cast
// CHECK: nn.mul %[[WIDE]], {{.*}} -> !nn.tensor<[batch, 8], f32>
// CHECK: nn.mul {{.*}} -> !nn.tensor<[batch, 8], bf16>
// CHECK: nn.add %arg0, {{.*}} -> !nn.tensor<[batch, 8], f32>
func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                 %w: !nn.tensor<[8, 8], f32> {nn.parameter = "m/w"})
    -> (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) {
  %t = nn.transpose %w {permutation = array<i64: 1, 0>} : (!nn.tensor<[8, 8], f32>) -> !nn.tensor<[8, 8], f32>
  %y = nn.matmul %x, %t : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %third = nn.fill {value = 0.3 : f64} : () -> !nn.tensor<[], f32>
  %a = nn.mul %y, %third : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 8], f32>
  %half = nn.fill {value = 0.5 : f64} : () -> !nn.tensor<[], f32>
  %b = nn.mul %y, %half : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 8], f32>
  %c = nn.add %x, %b : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %a, %c : !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>
}

// -----

// Positions times a buffer, and an outer product: no products of activations. A product without weights follows those
// that its operands come from; weights of another component decide for themselves.
// CHECK-LABEL: func.func @graph
// CHECK: nn.matmul %arg0, %arg2 : {{.*}} -> !nn.tensor<[batch, 8], f32>
// CHECK: nn.matmul {{.*}} -> !nn.tensor<[batch, 8], bf16>
// CHECK: nn.matmul {{.*}} {transpose_b = true} : {{.*}} -> !nn.tensor<[batch, batch], bf16>
// CHECK: nn.matmul {{.*}}, %arg3 : {{.*}} -> !nn.tensor<[batch, 8], f32>
func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                 %w: !nn.tensor<[8, 8], f32> {nn.parameter = "m/w"},
                 %buffer: !nn.tensor<[8, 8], f32> {nn.parameter = "m/inv_freq", nn.kind = "buffer"},
                 %other: !nn.tensor<[8, 8], f32> {nn.parameter = "n/w"})
    -> (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, batch], f32>, !nn.tensor<[batch, 8], f32>) {
  %p = nn.matmul %x, %buffer : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %h = nn.matmul %x, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %s = nn.matmul %h, %h {transpose_b = true} : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, batch], f32>
  %o = nn.matmul %h, %other : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %p, %s, %o : !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, batch], f32>, !nn.tensor<[batch, 8], f32>
}

// -----

// A norm whose result products alone read writes it in bf16; its gradient arrives so. One that is read in f32, too, stays.
// CHECK-LABEL: func.func @graph
// CHECK: %[[N:.*]], %{{.*}} = nn.rms_norm %arg0 {axis = 1 : i64, bf16_result = true, {{.*}} -> (!nn.tensor<[batch, 8], bf16>
// CHECK: nn.matmul %[[N]], %{{.*}} -> !nn.tensor<[batch, 8], bf16>
// CHECK: nn.rms_norm %{{.*}} {axis = 1 : i64, epsilon = {{.*}} -> (!nn.tensor<[batch, 8], f32>
func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"}, %w: !nn.tensor<[8, 8], f32> {nn.parameter = "m/w", nn.trainable})
    -> (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) {
  %n:2 = nn.rms_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (!nn.tensor<[batch, 8], f32>) -> (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch], f32>)
  %y = nn.matmul %n#0, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %m:2 = nn.rms_norm %y {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (!nn.tensor<[batch, 8], f32>) -> (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch], f32>)
  %z = nn.matmul %m#0, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %y, %m#0, %z : !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>
}

// -----

// Logits are read as they are: the loss computes in f32 whatever it reads.
// CHECK-LABEL: func.func @graph
// CHECK: %[[L:.*]] = nn.matmul {{.*}} -> !nn.tensor<[batch, 8], bf16>
// CHECK-NEXT: nn.cross_entropy %[[L]], %arg1 : {{.*}} -> (!nn.tensor<[batch], f32>, !nn.tensor<[batch], f32>)
func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"}, %labels: !nn.tensor<[batch], i64> {nn.field = "labels"},
                 %w: !nn.tensor<[8, 8], f32> {nn.parameter = "m/w", nn.trainable}) -> !nn.tensor<[batch], f32> {
  %y = nn.matmul %x, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %l:2 = nn.cross_entropy %y, %labels : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch], i64>) -> (!nn.tensor<[batch], f32>, !nn.tensor<[batch], f32>)
  return %l#0 : !nn.tensor<[batch], f32>
}

// -----

// Of a component that is frozen as a whole, what only products read is held in bf16. An embedding is read as it is.
// FROZEN-LABEL: func.func @graph(%arg0: {{.*}}, %arg1: !nn.tensor<[8, 8], bf16> {nn.parameter = "t/w"}, %arg2: !nn.tensor<[32, 8], f32> {nn.parameter = "t/e"})
// FROZEN: %[[X:.*]] = nn.gather %arg2
// FROZEN: %[[A:.*]] = nn.cast %[[X]]
// FROZEN: nn.matmul %[[A]], %arg1
func.func @graph(%ids: !nn.tensor<[batch], i64> {nn.field = "ids"}, %w: !nn.tensor<[8, 8], f32> {nn.parameter = "t/w"},
                 %e: !nn.tensor<[32, 8], f32> {nn.parameter = "t/e"}) -> !nn.tensor<[batch, 8], f32> {
  %x = nn.gather %e, %ids {axis = 0 : i64} : (!nn.tensor<[32, 8], f32>, !nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 8], f32>
  %y = nn.matmul %x, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %y : !nn.tensor<[batch, 8], f32>
}
