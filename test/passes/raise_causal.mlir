// Causality out of masks, and what stays a mask. That each computes what it did is judged in raise_test.cpp.
// RUN: maestro-opt %s --maestro-raise-causal | FileCheck %s

// CHECK-LABEL: func.func @positions
// CHECK: nn.attention %arg0, %arg1, %arg1 {
// CHECK-SAME: causal = true
func.func @positions(%q: !nn.tensor<[batch, 4, seq, 16], f32>, %k: !nn.tensor<[batch, 2, seq, 16], f32>)
    -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %p = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
  %i = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, seq, 1], i64>
  %j = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, 1, seq], i64>
  %m = nn.less_equal %j, %i : (!nn.tensor<[1, 1, 1, seq], i64>, !nn.tensor<[1, 1, seq, 1], i64>) -> !nn.tensor<[1, 1, seq, seq], i1>
  %b = nn.broadcast_to %m : (!nn.tensor<[1, 1, seq, seq], i1>) -> !nn.tensor<[batch, 1, seq, seq], i1>
  %o, %lse = nn.attention %q, %k, %k, %b {scale = 0.25 : f64} : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>, !nn.tensor<[batch, 1, seq, seq], i1>) -> (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq], f32>)
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}

// A window is causality and a mask; the queries are the last of the keys.
// CHECK-LABEL: func.func @window
// CHECK: %[[WINDOW:.*]] = nn.less
// CHECK: nn.attention %arg0, %arg1, %arg1, %[[WINDOW]] {
// CHECK-SAME: causal = true, causal_offset = 3
func.func @window(%q: !nn.tensor<[batch, 4, 5, 16], f32>, %k: !nn.tensor<[batch, 2, 8, 16], f32>)
    -> !nn.tensor<[batch, 4, 5, 16], f32> {
  %p = nn.iota {start = #nn.dims<[3]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[5], i64>
  %r = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[8], i64>
  %i = nn.reshape %p : (!nn.tensor<[5], i64>) -> !nn.tensor<[1, 1, 5, 1], i64>
  %j = nn.reshape %r : (!nn.tensor<[8], i64>) -> !nn.tensor<[1, 1, 1, 8], i64>
  %two = nn.fill {value = 2.0 : f64} : () -> !nn.tensor<[], i64>
  %end = nn.add %j, %two : (!nn.tensor<[1, 1, 1, 8], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[1, 1, 1, 8], i64>
  %w = nn.less %i, %end : (!nn.tensor<[1, 1, 5, 1], i64>, !nn.tensor<[1, 1, 1, 8], i64>) -> !nn.tensor<[1, 1, 5, 8], i1>
  %c = nn.greater_equal %i, %j : (!nn.tensor<[1, 1, 5, 1], i64>, !nn.tensor<[1, 1, 1, 8], i64>) -> !nn.tensor<[1, 1, 5, 8], i1>
  %m = nn.and %w, %c : (!nn.tensor<[1, 1, 5, 8], i1>, !nn.tensor<[1, 1, 5, 8], i1>) -> !nn.tensor<[1, 1, 5, 8], i1>
  %o, %lse = nn.attention %q, %k, %k, %m {scale = 0.25 : f64} : (!nn.tensor<[batch, 4, 5, 16], f32>, !nn.tensor<[batch, 2, 8, 16], f32>, !nn.tensor<[batch, 2, 8, 16], f32>, !nn.tensor<[1, 1, 5, 8], i1>) -> (!nn.tensor<[batch, 4, 5, 16], f32>, !nn.tensor<[batch, 4, 5], f32>)
  return %o : !nn.tensor<[batch, 4, 5, 16], f32>
}

// Documents that are told apart by jumps of positions, of which there are none: positions count up.
// CHECK-LABEL: func.func @documents
// CHECK: nn.attention %arg0, %arg1, %arg1 {
// CHECK-SAME: causal = true
func.func @documents(%q: !nn.tensor<[batch, 4, seq, 16], f32>, %k: !nn.tensor<[batch, 2, seq, 16], f32>)
    -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %p = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
  %row = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, seq], i64>
  %rows = nn.broadcast_to %row : (!nn.tensor<[1, seq], i64>) -> !nn.tensor<[batch, seq], i64>
  %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[], i64>
  %first = nn.slice %rows {offsets = #nn.dims<[0, 0]>, steps = array<i64: 1, 1>} : (!nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, 1], i64>
  %before = nn.sub %first, %one : (!nn.tensor<[batch, 1], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[batch, 1], i64>
  %longer = nn.concat %before, %rows {axis = 1 : i64} : (!nn.tensor<[batch, 1], i64>, !nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, seq + 1], i64>
  %here = nn.slice %longer {offsets = #nn.dims<[0, 1]>, steps = array<i64: 1, 1>} : (!nn.tensor<[batch, seq + 1], i64>) -> !nn.tensor<[batch, seq], i64>
  %there = nn.slice %longer {offsets = #nn.dims<[0, 0]>, steps = array<i64: 1, 1>} : (!nn.tensor<[batch, seq + 1], i64>) -> !nn.tensor<[batch, seq], i64>
  %jump = nn.sub %here, %there : (!nn.tensor<[batch, seq], i64>, !nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, seq], i64>
  %goesOn = nn.equal %jump, %one : (!nn.tensor<[batch, seq], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[batch, seq], i1>
  %begins = nn.not %goesOn : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, seq], i1>
  %number = nn.cast %begins : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, seq], i64>
  %document = nn.cumsum %number {axis = 1 : i64} : (!nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, seq], i64>
  %a = nn.reshape %document : (!nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, 1, seq, 1], i64>
  %b = nn.reshape %document : (!nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, 1, 1, seq], i64>
  %same = nn.equal %a, %b : (!nn.tensor<[batch, 1, seq, 1], i64>, !nn.tensor<[batch, 1, 1, seq], i64>) -> !nn.tensor<[batch, 1, seq, seq], i1>
  %i = nn.reshape %rows : (!nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, 1, seq, 1], i64>
  %j = nn.reshape %rows : (!nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, 1, 1, seq], i64>
  %c = nn.less_equal %j, %i : (!nn.tensor<[batch, 1, 1, seq], i64>, !nn.tensor<[batch, 1, seq, 1], i64>) -> !nn.tensor<[batch, 1, seq, seq], i1>
  %m = nn.and %same, %c : (!nn.tensor<[batch, 1, seq, seq], i1>, !nn.tensor<[batch, 1, seq, seq], i1>) -> !nn.tensor<[batch, 1, seq, seq], i1>
  %o, %lse = nn.attention %q, %k, %k, %m {scale = 0.25 : f64} : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>, !nn.tensor<[batch, 1, seq, seq], i1>) -> (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq], f32>)
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}

// What data say stays, and so does the other half.
// CHECK-LABEL: func.func @from_data
// CHECK: nn.attention %arg0, %arg1, %arg1, %arg2 {
// CHECK-SAME: causal = true
// CHECK-LABEL: func.func @upper_half
// CHECK: %[[UPPER:.*]] = nn.greater_equal
// CHECK: nn.attention %arg0, %arg0, %arg0, %[[UPPER]] {scale
func.func @from_data(%q: !nn.tensor<[batch, 4, seq, 16], f32>, %k: !nn.tensor<[batch, 2, seq, 16], f32>,
                     %d: !nn.tensor<[batch, 1, 1, seq], i1>) -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %p = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
  %i = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, seq, 1], i64>
  %j = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, 1, seq], i64>
  %c = nn.greater_equal %i, %j : (!nn.tensor<[1, 1, seq, 1], i64>, !nn.tensor<[1, 1, 1, seq], i64>) -> !nn.tensor<[1, 1, seq, seq], i1>
  %m = nn.and %c, %d : (!nn.tensor<[1, 1, seq, seq], i1>, !nn.tensor<[batch, 1, 1, seq], i1>) -> !nn.tensor<[batch, 1, seq, seq], i1>
  %o, %lse = nn.attention %q, %k, %k, %m {scale = 0.25 : f64} : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>, !nn.tensor<[batch, 2, seq, 16], f32>, !nn.tensor<[batch, 1, seq, seq], i1>) -> (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq], f32>)
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}
func.func @upper_half(%q: !nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %p = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
  %i = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, seq, 1], i64>
  %j = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, 1, seq], i64>
  %m = nn.greater_equal %j, %i : (!nn.tensor<[1, 1, 1, seq], i64>, !nn.tensor<[1, 1, seq, 1], i64>) -> !nn.tensor<[1, 1, seq, seq], i1>
  %o, %lse = nn.attention %q, %q, %q, %m {scale = 0.25 : f64} : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[1, 1, seq, seq], i1>) -> (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq], f32>)
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}

// Nothing that kernels would take: a position does not attend to itself.
// CHECK-LABEL: func.func @strictly_before
// CHECK: %[[BEFORE:.*]] = nn.less
// CHECK: nn.attention %arg0, %arg0, %arg0, %[[BEFORE]] {scale
func.func @strictly_before(%q: !nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %p = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
  %i = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, seq, 1], i64>
  %j = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, 1, seq], i64>
  %m = nn.less %j, %i : (!nn.tensor<[1, 1, 1, seq], i64>, !nn.tensor<[1, 1, seq, 1], i64>) -> !nn.tensor<[1, 1, seq, seq], i1>
  %o, %lse = nn.attention %q, %q, %q, %m {scale = 0.25 : f64} : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[1, 1, seq, seq], i1>) -> (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq], f32>)
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}
