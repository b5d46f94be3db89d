// RUN: maestro-opt %s --split-input-file --verify-diagnostics
// What each operator refuses, and how it says so.

func.func @f(%x: !nn.tensor<[n, 4], f32>, %y: !nn.tensor<[n, 5], f32>) {
  // expected-error@+2 {{nn.add: shapes [n, 4] and [n, 5] do not broadcast: dims must be the same expression or 1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.add %x, %y : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 5], f32>) -> !nn.tensor<[n, 4], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>, %y: !nn.tensor<[m], f32>) {
  // expected-error@+2 {{nn.add: shapes [n] and [m] do not broadcast}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.add %x, %y : (!nn.tensor<[n], f32>, !nn.tensor<[m], f32>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>, %y: !nn.tensor<[n], bf16>) {
  // expected-error@+2 {{nn.mul: operands differ in element type}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.mul %x, %y : (!nn.tensor<[n], f32>, !nn.tensor<[n], bf16>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>) {
  // expected-error@+2 {{inferred type(s) '!nn.tensor<[n, 4], f32>' are incompatible with return type(s) of operation '!nn.tensor<[n], f32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.exp %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], i64>) {
  // expected-error@+2 {{nn.exp: x must be floating point}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.exp %x : (!nn.tensor<[n], i64>) -> !nn.tensor<[n], i64>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], i1>) {
  // expected-error@+2 {{nn.neg: x must be numbers, is i1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.neg %x : (!nn.tensor<[n], i1>) -> !nn.tensor<[n], i1>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], i8>) {
  // expected-error@+2 {{nn.not: x must have element type i1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.not %x : (!nn.tensor<[n], i8>) -> !nn.tensor<[n], i8>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>) {
  // expected-error@+2 {{nn.gelu: approximate must be "none" or "tanh", is "fast"}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.gelu %x {approximate = "fast"} : (!nn.tensor<[n], f32>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>) {
  // expected-error@+2 {{nn.where: condition must have element type i1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.where %x, %x, %x : (!nn.tensor<[n], f32>, !nn.tensor<[n], f32>, !nn.tensor<[n], f32>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>) {
  // expected-error@+1 {{nn.cast: y must have shape [n], is !nn.tensor<[m], f64>}}
  %0 = nn.cast %x : (!nn.tensor<[n], f32>) -> !nn.tensor<[m], f64>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{nn.constant: the result must have shape [2]}}
  %0 = nn.constant dense<1.0> : tensor<2xf32> : !nn.tensor<[3], f32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{nn.constant: value and result differ in element type}}
  %0 = nn.constant dense<1.0> : tensor<2xf32> : !nn.tensor<[2], f64>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{nn.fill: value 1.500000 is no integer}}
  %0 = nn.fill {value = 1.5 : f64} : () -> !nn.tensor<[2], i64>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{nn.dim_values: the result must have shape [2]}}
  %0 = nn.dim_values {values = #nn.dims<[a, b]>} : () -> !nn.tensor<[], i64>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{nn.iota: the result must have rank 1}}
  %0 = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[n, 1], i64>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 6], f32>) {
  // expected-error@+1 {{nn.reshape: [n, 6] has 6*n elements, [n, 3] has 3*n}}
  %0 = nn.reshape %x : (!nn.tensor<[n, 6], f32>) -> !nn.tensor<[n, 3], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 6], f32>) {
  // expected-error@+2 {{nn.transpose: permutation must name each of the 2 dims of x once}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.transpose %x {permutation = array<i64: 0, 0>} : (!nn.tensor<[n, 6], f32>) -> !nn.tensor<[n, n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 6], f32>) {
  // expected-error@+1 {{nn.broadcast_to: x must broadcast to [n, 3]}}
  %0 = nn.broadcast_to %x : (!nn.tensor<[n, 6], f32>) -> !nn.tensor<[n, 3], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 6], f32>, %y: !nn.tensor<[m, 6], f32>) {
  // expected-error@+2 {{nn.concat: an operand joined along axis 1 must have shape [n, 6]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.concat %x, %y {axis = 1 : i64} : (!nn.tensor<[n, 6], f32>, !nn.tensor<[m, 6], f32>) -> !nn.tensor<[n, 12], f32>
  return
}

// -----

func.func @f() {
  // expected-error@+2 {{nn.concat: needs at least one operand}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.concat {axis = 0 : i64} : () -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 6], f32>) {
  // expected-error@+1 {{nn.slice: index 6 is outside dim 1 of size 6}}
  %0 = nn.slice %x {offsets = #nn.dims<[0, 1]>, steps = array<i64: 1, 1>} : (!nn.tensor<[n, 6], f32>) -> !nn.tensor<[n, 6], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>) {
  // expected-error@+1 {{nn.slice: index n is outside dim 0 of size n}}
  %0 = nn.slice %x {offsets = #nn.dims<[n]>, steps = array<i64: 1>} : (!nn.tensor<[n], f32>) -> !nn.tensor<[1], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>) {
  // expected-error@+1 {{nn.slice: step of dim 0 is 0}}
  %0 = nn.slice %x {offsets = #nn.dims<[0]>, steps = array<i64: 0>} : (!nn.tensor<[n], f32>) -> !nn.tensor<[1], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>) {
  // expected-error@+1 {{nn.pad: y must have shape [n + 2]}}
  %0 = nn.pad %x {low = #nn.dims<[1]>, high = #nn.dims<[1]>} : (!nn.tensor<[n], f32>) -> !nn.tensor<[n + 1], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>) {
  // expected-error@+1 {{nn.pad: mode must be constant, reflect, edge or wrap}}
  %0 = nn.pad %x {low = #nn.dims<[1]>, high = #nn.dims<[1]>, mode = "mirror"} : (!nn.tensor<[n], f32>) -> !nn.tensor<[n + 2], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>) {
  // expected-error@+2 {{nn.gather: indices must be integers}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.gather %x, %x {axis = 0 : i64} : (!nn.tensor<[n], f32>, !nn.tensor<[n], f32>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>, %i: !nn.tensor<[k], i64>) {
  // expected-error@+2 {{nn.gather: axis 2 is outside 0..1 of !nn.tensor<[n, 4], f32>}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.gather %x, %i {axis = 2 : i64} : (!nn.tensor<[n, 4], f32>, !nn.tensor<[k], i64>) -> !nn.tensor<[k], f32>
  return
}

// -----

func.func @f(%y: !nn.tensor<[k, 5], f32>, %i: !nn.tensor<[k], i64>) {
  // expected-error@+1 {{nn.gather_grad: dy must have shape [k, 4]}}
  %0 = nn.gather_grad %i, %y {axis = 0 : i64} : (!nn.tensor<[k], i64>, !nn.tensor<[k, 5], f32>) -> !nn.tensor<[n, 4], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>, %i: !nn.tensor<[b, k], i64>) {
  // expected-error@+2 {{nn.gather_nd: the last dim of indices [b, k] must be a constant}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.gather_nd %x, %i : (!nn.tensor<[n, 4], f32>, !nn.tensor<[b, k], i64>) -> !nn.tensor<[b], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>, %i: !nn.tensor<[b, 3], i64>) {
  // expected-error@+2 {{nn.gather_nd: indices [b, 3] with 0 batch dims do not address data [n, 4]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.gather_nd %x, %i : (!nn.tensor<[n, 4], f32>, !nn.tensor<[b, 3], i64>) -> !nn.tensor<[b], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>, %i: !nn.tensor<[b], i64>, %u: !nn.tensor<[b], f32>) {
  // expected-error@+2 {{nn.scatter_elements: reduction must be none, add, mul, min or max, is "sum"}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "sum"} : (!nn.tensor<[n], f32>, !nn.tensor<[b], i64>, !nn.tensor<[b], f32>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>, %m: !nn.tensor<[n, 1], i1>) {
  // expected-error@+2 {{nn.masked_scatter: mask must have shape [n, 4]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.masked_scatter %x, %m, %x : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 1], i1>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>) {
  // expected-error@+1 {{nn.top_k: k = 5 exceeds the dim's size 4}}
  %0:2 = nn.top_k %x {axis = 1 : i64} : (!nn.tensor<[n, 4], f32>) -> (!nn.tensor<[n, 5], f32>, !nn.tensor<[n, 5], i64>)
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>) {
  // expected-error@+2 {{nn.reduce_sum: axis 1 is named twice}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.reduce_sum %x {axes = array<i64: 1, 1>} : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>) {
  // expected-error@+2 {{nn.reduce_max: axis -1 is outside 0..1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.reduce_max %x {axes = array<i64: -1>} : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>, %y: !nn.tensor<[5, 3], f32>) {
  // expected-error@+2 {{nn.matmul: inner dims 4 and 5 of [n, 4] and [5, 3] differ}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (!nn.tensor<[n, 4], f32>, !nn.tensor<[5, 3], f32>) -> !nn.tensor<[n, 3], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[4], f32>, %y: !nn.tensor<[4, 3], f32>) {
  // expected-error@+2 {{nn.matmul: a must have rank 2 to 8}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (!nn.tensor<[4], f32>, !nn.tensor<[4, 3], f32>) -> !nn.tensor<[3], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, n, 4], f32>, %y: !nn.tensor<[c, 4, 3], f32>) {
  // expected-error@+2 {{nn.matmul: leading dims of [b, n, 4] and [c, 4, 3] do not broadcast}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (!nn.tensor<[b, n, 4], f32>, !nn.tensor<[c, 4, 3], f32>) -> !nn.tensor<[b, n, 3], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 4], f32>, %y: !nn.tensor<[4, 3], f32>, %z: !nn.tensor<[4], f32>) {
  // expected-error@+2 {{nn.matmul: bias must have shape [3]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y, %z : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4, 3], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 3], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 8, 32], f32>, %w: !nn.tensor<[16, 3, 3], f32>) {
  // expected-error@+2 {{nn.conv: w [16, 3, 3] in 2 groups does not fit x [n, 8, 32]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 2 : i64} : (!nn.tensor<[n, 8, 32], f32>, !nn.tensor<[16, 3, 3], f32>) -> !nn.tensor<[n, 16, 30], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 8, 32], f32>, %w: !nn.tensor<[16, 8, 3], f32>) {
  // expected-error@+2 {{nn.conv: wants 1 kernel sizes, strides and dilations and 2 pads}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (!nn.tensor<[n, 8, 32], f32>, !nn.tensor<[16, 8, 3], f32>) -> !nn.tensor<[n, 16, 30], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 8, 8], f32>, %w: !nn.tensor<[16, 8, 5], f32>) {
  // expected-error@+2 {{nn.conv: a window of 5 (dilation 2) does not fit into spatial dim 0 of size 8}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 2>} : (!nn.tensor<[n, 8, 8], f32>, !nn.tensor<[16, 8, 5], f32>) -> !nn.tensor<[n, 16, 1], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 8, 8], f32>, %y: !nn.tensor<[n, 16, 5], f32>) {
  // expected-error@+1 {{nn.conv_grad_weight: dy must have shape [n, 16, 6]}}
  %0 = nn.conv_grad_weight %x, %y {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (!nn.tensor<[n, 8, 8], f32>, !nn.tensor<[n, 16, 5], f32>) -> !nn.tensor<[16, 8, 3], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 8, 8], f32>) {
  // expected-error@+2 {{nn.max_pool: strides and dilations must be positive}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.max_pool %x {kernel = array<i64: 2>, strides = array<i64: 0>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (!nn.tensor<[n, 8, 8], f32>) -> !nn.tensor<[n, 8, 4], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 8], f32>) {
  // expected-error@+2 {{nn.softmax: axis 2 is outside 0..1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.softmax %x {axis = 2 : i64} : (!nn.tensor<[n, 8], f32>) -> !nn.tensor<[n, 8], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 8], f32>, %s: !nn.tensor<[n], f32>) {
  // expected-error@+2 {{nn.layer_norm: scale must have shape [8], is !nn.tensor<[n], f32>}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:3 = nn.layer_norm %x scale %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (!nn.tensor<[n, 8], f32>, !nn.tensor<[n], f32>) -> (!nn.tensor<[n, 8], f32>, !nn.tensor<[n], f32>, !nn.tensor<[n], f32>)
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 8], bf16>, %s: !nn.tensor<[n], bf16>) {
  // expected-error@+2 {{nn.rms_norm_grad: rstd must be f32 (f64 for f64)}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = nn.rms_norm_grad %x, %x, %s {axis = 1 : i64} : (!nn.tensor<[n, 8], bf16>, !nn.tensor<[n, 8], bf16>, !nn.tensor<[n], bf16>) -> (!nn.tensor<[n, 8], bf16>, !nn.tensor<[8], f32>)
  return
}

// -----

func.func @f(%x: !nn.tensor<[n, 7], f32>) {
  // expected-error@+2 {{nn.rope: the last dim of x [n, 7] must be even}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.rope %x, %x, %x : (!nn.tensor<[n, 7], f32>, !nn.tensor<[n, 7], f32>, !nn.tensor<[n, 7], f32>) -> !nn.tensor<[n, 7], f32>
  return
}

// -----

func.func @f(%q: !nn.tensor<[b, 8, s, 16], f32>, %k: !nn.tensor<[b, 3, t, 16], f32>) {
  // expected-error@+2 {{nn.attention: 8 query heads are no multiple of 3 key heads}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = nn.attention %q, %k, %k {scale = 1.0 : f64} : (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 3, t, 16], f32>, !nn.tensor<[b, 3, t, 16], f32>) -> (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, s], f32>)
  return
}

// -----

func.func @f(%q: !nn.tensor<[b, 8, s, 16], f32>, %k: !nn.tensor<[b, 8, t, 16], f32>, %m: !nn.tensor<[b, 8, t, s], i1>) {
  // expected-error@+2 {{nn.attention: mask must broadcast to [b, 8, s, t]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = nn.attention %q, %k, %k, %m {scale = 1.0 : f64} : (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, t, 16], f32>, !nn.tensor<[b, 8, t, 16], f32>, !nn.tensor<[b, 8, t, s], i1>) -> (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, s], f32>)
  return
}

// -----

func.func @f(%x: !nn.tensor<[n], f32>, %s: !nn.tensor<[2], i64>, %i: !nn.tensor<[n], i64>) {
  // expected-error@+2 {{nn.dropout: ratio must lie in [0, 1), is 1.000000}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.dropout %x, %s, %i {ratio = 1.0 : f64, stream = 0 : i64, strides = array<i64>} : (!nn.tensor<[n], f32>, !nn.tensor<[2], i64>, !nn.tensor<[n], i64>) -> !nn.tensor<[n], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, s, 9], f32>, %l: !nn.tensor<[b], i64>) {
  // expected-error@+2 {{nn.cross_entropy: labels must have shape [b, s], is !nn.tensor<[b], i64>}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = nn.cross_entropy %x, %l : (!nn.tensor<[b, s, 9], f32>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, 9], f32>, %l: !nn.tensor<[b], i64>, %e: !nn.tensor<[b], f32>, %d: !nn.tensor<[9], f32>) {
  // expected-error@+2 {{nn.cross_entropy_grad: dloss must broadcast to [b]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.cross_entropy_grad %x, %l, %e, %d : (!nn.tensor<[b, 9], f32>, !nn.tensor<[b], i64>, !nn.tensor<[b], f32>, !nn.tensor<[9], f32>) -> !nn.tensor<[b, 9], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, 9], f32>) {
  // expected-error@+2 {{nn.kl_divergence: temperature must be above 0}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:3 = nn.kl_divergence %x, %x {temperature = 0.0 : f64} : (!nn.tensor<[b, 9], f32>, !nn.tensor<[b, 9], f32>) -> (!nn.tensor<[b], f32>, !nn.tensor<[b], f32>, !nn.tensor<[b], f32>)
  return
}

// -----

func.func @f(%x: !nn.tensor<[2, 2, 2, 2, 2], f32>, %i: !nn.tensor<[2, 2, 2, 2, 2], i64>) {
  // expected-error@+2 {{nn.gather: result rank 9 of [2, 2, 2, 2, 2, 2, 2, 2, 2] is above the limit of 8}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.gather %x, %i {axis = 0 : i64} : (!nn.tensor<[2, 2, 2, 2, 2], f32>, !nn.tensor<[2, 2, 2, 2, 2], i64>) -> !nn.tensor<[2], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, 6], bf16>) {
  // expected-error@+2 {{nn.all_reduce: x must have element type f32}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.all_reduce %x {axis = "tensor"} : (!nn.tensor<[b, 6], bf16>) -> !nn.tensor<[b, 6], bf16>
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, 6], f32>) {
  // expected-error@+2 {{nn.own_part: dim 1 of [b, 6] cannot be cut in 4}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.own_part %x {axis = "tensor", dim = 1 : i64, count = 4 : i64} : (!nn.tensor<[b, 6], f32>) -> !nn.tensor<[b, 2], f32>
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, s, 48], f32>, %w: !nn.tensor<[48, 16], f32>, %h: !nn.tensor<[b, 16], f32>) {
  // expected-error@+2 {{nn.recurrence: cell must be "lstm", "gru", "rnn_tanh" or "rnn_relu", is "mgu"}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = nn.recurrence %x, %w, %h {cell = "mgu"} : (!nn.tensor<[b, s, 48], f32>, !nn.tensor<[48, 16], f32>, !nn.tensor<[b, 16], f32>) -> (!nn.tensor<[b, s, 16], f32>, !nn.tensor<[b, s, 64], f32>)
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, s, 64], f32>, %w: !nn.tensor<[64, 16], f32>, %h: !nn.tensor<[b, 16], f32>) {
  // expected-error@+2 {{nn.recurrence: initial must have shape [b, 32], is}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = nn.recurrence %x, %w, %h {cell = "lstm"} : (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[64, 16], f32>, !nn.tensor<[b, 16], f32>) -> (!nn.tensor<[b, s, 32], f32>, !nn.tensor<[b, s, 64], f32>)
  return
}

// -----

func.func @f(%x: !nn.tensor<[b, s, 16], f32>, %w: !nn.tensor<[16, 16], f32>, %h: !nn.tensor<[b, 16], f32>, %b: !nn.tensor<[16], f32>) {
  // expected-error@+2 {{nn.recurrence: bias is gru's alone; add it to x}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = nn.recurrence %x, %w, %h bias %b {cell = "rnn_tanh"} : (!nn.tensor<[b, s, 16], f32>, !nn.tensor<[16, 16], f32>, !nn.tensor<[b, 16], f32>, !nn.tensor<[16], f32>) -> (!nn.tensor<[b, s, 16], f32>, !nn.tensor<[b, s, 16], f32>)
  return
}

// -----

func.func @glu_activation(%x: !nn.tensor<[n, 4], f32>) {
  // expected-error@+2 {{nn.glu: activation must be "silu", "gelu" or "gelu_tanh", is "tanh"}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.glu %x, %x {activation = "tanh"} : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  return
}

// -----

func.func @matmul_add_shape(%x: !nn.tensor<[n, 4], f32>, %y: !nn.tensor<[4, 3], f32>, %row: !nn.tensor<[3], f32>) {
  // expected-error@+2 {{nn.matmul_add: addend must have shape [n, 3]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul_add %x, %y, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4, 3], f32>, !nn.tensor<[3], f32>) -> !nn.tensor<[n, 3], f32>
  return
}

// -----

func.func @norm_narrows_f32_alone(%x: !nn.tensor<[n, 8], f64>) {
  // expected-error@+2 {{nn.rms_norm: has bf16_result, and x is not f32}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = nn.rms_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64, bf16_result = true} : (!nn.tensor<[n, 8], f64>) -> (!nn.tensor<[n, 8], bf16>, !nn.tensor<[n], f64>)
  return
}
