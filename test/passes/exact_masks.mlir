// Not among raise*.mlir, which compute the same before and after: here rows of which nothing is attended become 0.
// RUN: maestro-opt %s --maestro-raise-products --maestro-raise-masks --maestro-raise-attention | FileCheck %s

// What torch's attention leaves out is the lowest finite number in a file, and rows that became NaN are 0: left out for good.
// CHECK-LABEL: func.func @exact_mask
// CHECK-SAME: %[[X:[^:]*]]: {{.*}}, %[[MASK:[^:]*]]:
// CHECK: nn.attention %[[X]], %[[X]], %[[X]], %[[MASK]]
func.func @exact_mask(%x: !nn.tensor<[batch, 2, seq, 4], f32>, %mask: !nn.tensor<[batch, 1, seq, seq], i1>) -> !nn.tensor<[batch, 2, seq, 4], f32> {
  %zero = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[], f32>
  %lowest = nn.fill {value = -3.4028234663852886e+38 : f64} : () -> !nn.tensor<[], f32>
  %m = nn.where %mask, %zero, %lowest : (!nn.tensor<[batch, 1, seq, seq], i1>, !nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 1, seq, seq], f32>
  %t = nn.transpose %x {permutation = array<i64: 0, 1, 3, 2>} : (!nn.tensor<[batch, 2, seq, 4], f32>) -> !nn.tensor<[batch, 2, 4, seq], f32>
  %s = nn.matmul %x, %t : (!nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[batch, 2, 4, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %a = nn.add %s, %m : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 1, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %p = nn.softmax %a {axis = 3 : i64} : (!nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %n = nn.isnan %p : (!nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], i1>
  %g = nn.where %n, %zero, %p : (!nn.tensor<[batch, 2, seq, seq], i1>, !nn.tensor<[], f32>, !nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %o = nn.matmul %g, %x : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 2, seq, 4], f32>) -> !nn.tensor<[batch, 2, seq, 4], f32>
  return %o : !nn.tensor<[batch, 2, seq, 4], f32>
}

// Without the guard the number is the model's own.
// CHECK-LABEL: func.func @own_mask
// CHECK: %[[M:.*]] = nn.where
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[M]]
func.func @own_mask(%x: !nn.tensor<[batch, 2, seq, 4], f32>, %mask: !nn.tensor<[batch, 1, seq, seq], i1>) -> !nn.tensor<[batch, 2, seq, 4], f32> {
  %zero = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[], f32>
  %lowest = nn.fill {value = -3.4028234663852886e+38 : f64} : () -> !nn.tensor<[], f32>
  %m = nn.where %mask, %zero, %lowest : (!nn.tensor<[batch, 1, seq, seq], i1>, !nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 1, seq, seq], f32>
  %t = nn.transpose %x {permutation = array<i64: 0, 1, 3, 2>} : (!nn.tensor<[batch, 2, seq, 4], f32>) -> !nn.tensor<[batch, 2, 4, seq], f32>
  %s = nn.matmul %x, %t : (!nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[batch, 2, 4, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %a = nn.add %s, %m : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 1, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %p = nn.softmax %a {axis = 3 : i64} : (!nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %o = nn.matmul %p, %x : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 2, seq, 4], f32>) -> !nn.tensor<[batch, 2, seq, 4], f32>
  return %o : !nn.tensor<[batch, 2, seq, 4], f32>
}
