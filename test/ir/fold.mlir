// RUN: maestro-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: @nothing_to_do
// CHECK-SAME: %[[X:.*]]: !nn.tensor<[n, 4], f32>
func.func @nothing_to_do(%x: !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32> {
  %0 = nn.cast %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  %1 = nn.reshape %0 : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  %2 = nn.broadcast_to %1 : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  %3 = nn.transpose %2 {permutation = array<i64: 0, 1>} : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: return %[[X]]
  return %3 : !nn.tensor<[n, 4], f32>
}

// CHECK-LABEL: @neutral_elements
// CHECK-SAME: %[[X:.*]]: !nn.tensor<[n, 4], f32>
func.func @neutral_elements(%x: !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32> {
  %zero = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[], f32>
  %one = nn.constant dense<1.0> : tensor<4xf32> : !nn.tensor<[4], f32>
  %0 = nn.add %x, %zero : (!nn.tensor<[n, 4], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[n, 4], f32>
  %1 = nn.add %zero, %0 : (!nn.tensor<[], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  %2 = nn.sub %1, %zero : (!nn.tensor<[n, 4], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[n, 4], f32>
  %3 = nn.mul %one, %2 : (!nn.tensor<[4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  %4 = nn.mul %3, %one : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  %5 = nn.div %4, %one : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: return %[[X]]
  return %5 : !nn.tensor<[n, 4], f32>
}

// What casts, broadcasts and reshapes make of a constant is one: anything but 0 is true, and true is 1.
// CHECK-LABEL: @neutral_behind_casts
// CHECK-SAME: %[[X:.*]]: !nn.tensor<[n, 4], f32>
func.func @neutral_behind_casts(%x: !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32> {
  %two = nn.fill {value = 2.0 : f64} : () -> !nn.tensor<[], f32>
  %true = nn.cast %two : (!nn.tensor<[], f32>) -> !nn.tensor<[], i1>
  %one = nn.cast %true : (!nn.tensor<[], i1>) -> !nn.tensor<[], f32>
  %ones = nn.broadcast_to %one : (!nn.tensor<[], f32>) -> !nn.tensor<[4, n], f32>
  %turned = nn.transpose %ones {permutation = array<i64: 1, 0>} : (!nn.tensor<[4, n], f32>) -> !nn.tensor<[n, 4], f32>
  %0 = nn.mul %x, %turned : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: return %[[X]]
  return %0 : !nn.tensor<[n, 4], f32>
}

// A neutral element that broadcasts the other operand is not dropped.
// CHECK-LABEL: @neutral_but_larger
func.func @neutral_but_larger(%x: !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32> {
  %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[n, 4], f32>
  // CHECK: %[[Y:.*]] = nn.mul
  %0 = nn.mul %x, %one : (!nn.tensor<[4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: return %[[Y]]
  return %0 : !nn.tensor<[n, 4], f32>
}

// CHECK-LABEL: @not_not
// CHECK-SAME: %[[X:.*]]: !nn.tensor<[n], i1>
func.func @not_not(%x: !nn.tensor<[n], i1>) -> !nn.tensor<[n], i1> {
  %0 = nn.not %x : (!nn.tensor<[n], i1>) -> !nn.tensor<[n], i1>
  %1 = nn.not %0 : (!nn.tensor<[n], i1>) -> !nn.tensor<[n], i1>
  // CHECK: return %[[X]]
  return %1 : !nn.tensor<[n], i1>
}

// CHECK-LABEL: @reshape_of_reshape
func.func @reshape_of_reshape(%x: !nn.tensor<[n, 4], f32>) -> !nn.tensor<[2*n, 2], f32> {
  // CHECK-NEXT: nn.reshape %{{.*}} : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[2*n, 2], f32>
  // CHECK-NEXT: return
  %0 = nn.reshape %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[4*n], f32>
  %1 = nn.reshape %0 : (!nn.tensor<[4*n], f32>) -> !nn.tensor<[2*n, 2], f32>
  return %1 : !nn.tensor<[2*n, 2], f32>
}

// CHECK-LABEL: @transposes_join
func.func @transposes_join(%x: !nn.tensor<[a, b, c], f32>) -> (!nn.tensor<[c, a, b], f32>, !nn.tensor<[a, b, c], f32>) {
  // CHECK-NEXT: %[[Y:.*]] = nn.transpose %[[X:.*]] {permutation = array<i64: 2, 0, 1>}
  // CHECK-NEXT: return %[[Y]], %[[X]]
  %0 = nn.transpose %x {permutation = array<i64: 1, 2, 0>} : (!nn.tensor<[a, b, c], f32>) -> !nn.tensor<[b, c, a], f32>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 2, 0>} : (!nn.tensor<[b, c, a], f32>) -> !nn.tensor<[c, a, b], f32>
  %2 = nn.transpose %1 {permutation = array<i64: 1, 2, 0>} : (!nn.tensor<[c, a, b], f32>) -> !nn.tensor<[a, b, c], f32>
  return %1, %2 : !nn.tensor<[c, a, b], f32>, !nn.tensor<[a, b, c], f32>
}

// Operators are pure: what nobody uses goes, what is the same is computed once.
// CHECK-LABEL: @dead
func.func @dead(%x: !nn.tensor<[n], f32>) {
  // CHECK-NEXT: return
  %0 = nn.exp %x : (!nn.tensor<[n], f32>) -> !nn.tensor<[n], f32>
  return
}
