// What the raising passes find, one function each, and what only looks like it. That raised graphs compute the same as what
// they came from is judged here (raise_test.cpp), and by PyTorch (test/parity), since every exported model goes through them.
// RUN: maestro-opt %s --maestro-raise-gathers --maestro-raise-products --maestro-raise-norms --maestro-raise-activations --maestro-raise-glu \
// RUN:   --maestro-raise-rope --maestro-raise-masks --maestro-raise-attention | FileCheck %s

// CHECK-LABEL: func.func @linear
// CHECK: nn.matmul %arg0, %arg1, %arg2 {transpose_b = true}
func.func @linear(%x: !nn.tensor<[batch, seq, 64], f32>, %w: !nn.tensor<[128, 64], f32>, %b: !nn.tensor<[128], f32>)
    -> !nn.tensor<[batch, seq, 128], f32> {
  %t = nn.transpose %w {permutation = array<i64: 1, 0>} : (!nn.tensor<[128, 64], f32>) -> !nn.tensor<[64, 128], f32>
  %p = nn.matmul %x, %t : (!nn.tensor<[batch, seq, 64], f32>, !nn.tensor<[64, 128], f32>) -> !nn.tensor<[batch, seq, 128], f32>
  %y = nn.add %b, %p : (!nn.tensor<[128], f32>, !nn.tensor<[batch, seq, 128], f32>) -> !nn.tensor<[batch, seq, 128], f32>
  return %y : !nn.tensor<[batch, seq, 128], f32>
}

// A bias of another length than the product's last dim is no bias.
// CHECK-LABEL: func.func @row_bias_stays
// CHECK: nn.add
func.func @row_bias_stays(%x: !nn.tensor<[batch, 64], f32>, %w: !nn.tensor<[64, 128], f32>, %b: !nn.tensor<[batch, 1], f32>)
    -> !nn.tensor<[batch, 128], f32> {
  %p = nn.matmul %x, %w : (!nn.tensor<[batch, 64], f32>, !nn.tensor<[64, 128], f32>) -> !nn.tensor<[batch, 128], f32>
  %y = nn.add %p, %b : (!nn.tensor<[batch, 128], f32>, !nn.tensor<[batch, 1], f32>) -> !nn.tensor<[batch, 128], f32>
  return %y : !nn.tensor<[batch, 128], f32>
}

// CHECK-LABEL: func.func @rms_norm
// CHECK: nn.rms_norm %arg0, %arg1 {axis = 2 : i64, epsilon = 9.99{{.*}}E-6 : f64}
// CHECK-NOT: nn.mul
func.func @rms_norm(%x: !nn.tensor<[batch, seq, 64], f32>, %w: !nn.tensor<[64], f32>) -> !nn.tensor<[batch, seq, 64], f32> {
  %two = nn.constant dense<2.0> : tensor<f32> : !nn.tensor<[], f32>
  %eps = nn.constant dense<1.0e-5> : tensor<f32> : !nn.tensor<[], f32>
  %s = nn.pow %x, %two : (!nn.tensor<[batch, seq, 64], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq, 64], f32>
  %m = nn.reduce_mean %s {axes = array<i64: 2>, keepdims = true} : (!nn.tensor<[batch, seq, 64], f32>) -> !nn.tensor<[batch, seq, 1], f32>
  %v = nn.add %m, %eps : (!nn.tensor<[batch, seq, 1], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq, 1], f32>
  %q = nn.sqrt %v : (!nn.tensor<[batch, seq, 1], f32>) -> !nn.tensor<[batch, seq, 1], f32>
  %r = nn.reciprocal %q : (!nn.tensor<[batch, seq, 1], f32>) -> !nn.tensor<[batch, seq, 1], f32>
  %n = nn.mul %x, %r : (!nn.tensor<[batch, seq, 64], f32>, !nn.tensor<[batch, seq, 1], f32>) -> !nn.tensor<[batch, seq, 64], f32>
  %y = nn.mul %w, %n : (!nn.tensor<[64], f32>, !nn.tensor<[batch, seq, 64], f32>) -> !nn.tensor<[batch, seq, 64], f32>
  return %y : !nn.tensor<[batch, seq, 64], f32>
}

// CHECK-LABEL: func.func @silu
// CHECK: nn.silu %arg0
func.func @silu(%x: !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32> {
  %s = nn.sigmoid %x : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %y = nn.mul %s, %x : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %y : !nn.tensor<[batch, 8], f32>
}

// CHECK-LABEL: func.func @gelu
// CHECK: nn.gelu %arg0
// CHECK-NOT: nn.erf
func.func @gelu(%x: !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32> {
  %root = nn.constant dense<1.41421354> : tensor<f32> : !nn.tensor<[], f32>
  %one = nn.constant dense<1.0> : tensor<f32> : !nn.tensor<[], f32>
  %half = nn.constant dense<0.5> : tensor<f32> : !nn.tensor<[], f32>
  %d = nn.div %x, %root : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 8], f32>
  %e = nn.erf %d : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %a = nn.add %e, %one : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 8], f32>
  %m = nn.mul %x, %a : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %y = nn.mul %m, %half : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 8], f32>
  return %y : !nn.tensor<[batch, 8], f32>
}

// CHECK-LABEL: func.func @rope
// CHECK: nn.rope %arg0, %arg1, %arg2
// CHECK-NOT: nn.concat
func.func @rope(%x: !nn.tensor<[batch, 4, seq, 16], f32>, %cos: !nn.tensor<[1, 1, seq, 16], f32>, %sin: !nn.tensor<[1, 1, seq, 16], f32>)
    -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %low = nn.slice %x {offsets = #nn.dims<[0, 0, 0, 0]>, steps = array<i64: 1, 1, 1, 1>} : (!nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 8], f32>
  %high = nn.slice %x {offsets = #nn.dims<[0, 0, 0, 8]>, steps = array<i64: 1, 1, 1, 1>} : (!nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 8], f32>
  %neg = nn.neg %high : (!nn.tensor<[batch, 4, seq, 8], f32>) -> !nn.tensor<[batch, 4, seq, 8], f32>
  %turned = nn.concat %neg, %low {axis = 3 : i64} : (!nn.tensor<[batch, 4, seq, 8], f32>, !nn.tensor<[batch, 4, seq, 8], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  %a = nn.mul %x, %cos : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[1, 1, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  %b = nn.mul %turned, %sin : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[1, 1, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  %y = nn.add %a, %b : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  return %y : !nn.tensor<[batch, 4, seq, 16], f32>
}

// Keys and values repeated for grouped queries are taken before the repetition.
// CHECK-LABEL: func.func @attention
// CHECK: nn.attention %arg0, %arg1, %arg2, %arg3 {{.*}}scale = 2.500000e-01
// CHECK-NOT: nn.softmax
func.func @attention(%q: !nn.tensor<[batch, 4, seq, 16], f32>, %k: !nn.tensor<[batch, 2, seq, 16], f32>,
                     %v: !nn.tensor<[batch, 2, seq, 16], f32>, %mask: !nn.tensor<[batch, 1, seq, seq], f32>)
    -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %scale = nn.constant dense<0.25> : tensor<f32> : !nn.tensor<[], f32>
  %k1 = nn.reshape %k : (!nn.tensor<[batch, 2, seq, 16], f32>) -> !nn.tensor<[batch, 2, 1, seq, 16], f32>
  %k2 = nn.broadcast_to %k1 : (!nn.tensor<[batch, 2, 1, seq, 16], f32>) -> !nn.tensor<[batch, 2, 2, seq, 16], f32>
  %k3 = nn.reshape %k2 : (!nn.tensor<[batch, 2, 2, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  %v1 = nn.reshape %v : (!nn.tensor<[batch, 2, seq, 16], f32>) -> !nn.tensor<[batch, 2, 1, seq, 16], f32>
  %v2 = nn.broadcast_to %v1 : (!nn.tensor<[batch, 2, 1, seq, 16], f32>) -> !nn.tensor<[batch, 2, 2, seq, 16], f32>
  %v3 = nn.reshape %v2 : (!nn.tensor<[batch, 2, 2, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  %kt = nn.transpose %k3 {permutation = array<i64: 0, 1, 3, 2>} : (!nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, 16, seq], f32>
  %s = nn.matmul %q, %kt : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, 16, seq], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %t = nn.mul %s, %scale : (!nn.tensor<[batch, 4, seq, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %m = nn.add %t, %mask : (!nn.tensor<[batch, 4, seq, seq], f32>, !nn.tensor<[batch, 1, seq, seq], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %p = nn.softmax %m {axis = 3 : i64} : (!nn.tensor<[batch, 4, seq, seq], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %o = nn.matmul %p, %v3 : (!nn.tensor<[batch, 4, seq, seq], f32>, !nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}

// A bias that learns needs its gradient, which nn.attention does not give.
// CHECK-LABEL: func.func @learned_bias
// CHECK: nn.softmax
// CHECK-NOT: nn.attention
func.func @learned_bias(%q: !nn.tensor<[batch, 4, seq, 16], f32>, %k: !nn.tensor<[batch, 4, seq, 16], f32>,
                        %bias: !nn.tensor<[1, 4, 1, 1], f32> {nn.parameter = "m/bias", nn.trainable})
    -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %s = nn.matmul %q, %k {transpose_b = true} : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %m = nn.add %s, %bias : (!nn.tensor<[batch, 4, seq, seq], f32>, !nn.tensor<[1, 4, 1, 1], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %p = nn.softmax %m {axis = 3 : i64} : (!nn.tensor<[batch, 4, seq, seq], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %o = nn.matmul %p, %k : (!nn.tensor<[batch, 4, seq, seq], f32>, !nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}

// The same with keys that the product does not turn itself: a match that comes to nothing leaves nothing behind, and ends.
// CHECK-LABEL: func.func @learned_bias_of_turned_keys
// CHECK-COUNT-1: nn.transpose
// CHECK-NOT: nn.transpose
// CHECK: nn.softmax
func.func @learned_bias_of_turned_keys(%q: !nn.tensor<[batch, 4, seq, 16], f32>, %k: !nn.tensor<[batch, seq, 4, 16], f32>,
                                       %v: !nn.tensor<[batch, 4, seq, 16], f32>,
                                       %bias: !nn.tensor<[1, 4, 1, 1], f32> {nn.parameter = "m/bias", nn.trainable})
    -> !nn.tensor<[batch, 4, seq, 16], f32> {
  %turned = nn.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (!nn.tensor<[batch, seq, 4, 16], f32>) -> !nn.tensor<[batch, 4, 16, seq], f32>
  %s = nn.matmul %q, %turned : (!nn.tensor<[batch, 4, seq, 16], f32>, !nn.tensor<[batch, 4, 16, seq], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %m = nn.add %s, %bias : (!nn.tensor<[batch, 4, seq, seq], f32>, !nn.tensor<[1, 4, 1, 1], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %p = nn.softmax %m {axis = 3 : i64} : (!nn.tensor<[batch, 4, seq, seq], f32>) -> !nn.tensor<[batch, 4, seq, seq], f32>
  %o = nn.matmul %p, %v : (!nn.tensor<[batch, 4, seq, seq], f32>, !nn.tensor<[batch, 4, seq, 16], f32>) -> !nn.tensor<[batch, 4, seq, 16], f32>
  return %o : !nn.tensor<[batch, 4, seq, 16], f32>
}

// Sines per head: another layout than cos and sin that all heads share.
// CHECK-LABEL: func.func @rope_per_head
func.func @rope_per_head(%x: !nn.tensor<[batch, seq, 4, 16], f32>, %cos: !nn.tensor<[1, seq, 4, 16], f32>, %sin: !nn.tensor<[seq, 1, 16], f32>)
    -> !nn.tensor<[batch, seq, 4, 16], f32> {
  %low = nn.slice %x {offsets = #nn.dims<[0, 0, 0, 0]>, steps = array<i64: 1, 1, 1, 1>} : (!nn.tensor<[batch, seq, 4, 16], f32>) -> !nn.tensor<[batch, seq, 4, 8], f32>
  %high = nn.slice %x {offsets = #nn.dims<[0, 0, 0, 8]>, steps = array<i64: 1, 1, 1, 1>} : (!nn.tensor<[batch, seq, 4, 16], f32>) -> !nn.tensor<[batch, seq, 4, 8], f32>
  %neg = nn.neg %high : (!nn.tensor<[batch, seq, 4, 8], f32>) -> !nn.tensor<[batch, seq, 4, 8], f32>
  %turned = nn.concat %neg, %low {axis = 3 : i64} : (!nn.tensor<[batch, seq, 4, 8], f32>, !nn.tensor<[batch, seq, 4, 8], f32>) -> !nn.tensor<[batch, seq, 4, 16], f32>
  %a = nn.mul %x, %cos : (!nn.tensor<[batch, seq, 4, 16], f32>, !nn.tensor<[1, seq, 4, 16], f32>) -> !nn.tensor<[batch, seq, 4, 16], f32>
  %b = nn.mul %turned, %sin : (!nn.tensor<[batch, seq, 4, 16], f32>, !nn.tensor<[seq, 1, 16], f32>) -> !nn.tensor<[batch, seq, 4, 16], f32>
  %y = nn.add %a, %b : (!nn.tensor<[batch, seq, 4, 16], f32>, !nn.tensor<[batch, seq, 4, 16], f32>) -> !nn.tensor<[batch, seq, 4, 16], f32>
  return %y : !nn.tensor<[batch, seq, 4, 16], f32>
}

// Halves in the other order turn the other way.
// CHECK-LABEL: func.func @turned_back
// CHECK-NOT: nn.rope
func.func @turned_back(%x: !nn.tensor<[batch, seq, 8], f32>, %cos: !nn.tensor<[seq, 8], f32>, %sin: !nn.tensor<[seq, 8], f32>)
    -> !nn.tensor<[batch, seq, 8], f32> {
  %low = nn.slice %x {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 4], f32>
  %high = nn.slice %x {offsets = #nn.dims<[0, 0, 4]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 4], f32>
  %neg = nn.neg %low : (!nn.tensor<[batch, seq, 4], f32>) -> !nn.tensor<[batch, seq, 4], f32>
  %turned = nn.concat %high, %neg {axis = 2 : i64} : (!nn.tensor<[batch, seq, 4], f32>, !nn.tensor<[batch, seq, 4], f32>) -> !nn.tensor<[batch, seq, 8], f32>
  %a = nn.mul %x, %cos : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
  %b = nn.mul %turned, %sin : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
  %y = nn.add %a, %b : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
  return %y : !nn.tensor<[batch, seq, 8], f32>
}

// CHECK-LABEL: func.func @rms_over_another_axis
// CHECK-NOT: nn.rms_norm
func.func @rms_over_another_axis(%x: !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32> {
  %eps = nn.constant dense<1.0e-5> : tensor<f32> : !nn.tensor<[], f32>
  %s = nn.mul %x, %x : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
  %m = nn.reduce_mean %s {axes = array<i64: 1>, keepdims = true} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, 1, 8], f32>
  %v = nn.add %m, %eps : (!nn.tensor<[batch, 1, 8], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 1, 8], f32>
  %r = nn.rsqrt %v : (!nn.tensor<[batch, 1, 8], f32>) -> !nn.tensor<[batch, 1, 8], f32>
  %y = nn.mul %x, %r : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, 1, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
  return %y : !nn.tensor<[batch, seq, 8], f32>
}

// A scale behind the mask scales the mask, too.
// CHECK-LABEL: func.func @scale_after_mask
func.func @scale_after_mask(%q: !nn.tensor<[batch, 2, seq, 8], f32>, %k: !nn.tensor<[batch, 2, seq, 8], f32>,
                            %v: !nn.tensor<[batch, 2, seq, 8], f32>, %mask: !nn.tensor<[batch, 1, seq, seq], f32>)
    -> !nn.tensor<[batch, 2, seq, 8], f32> {
  %scale = nn.constant dense<0.25> : tensor<f32> : !nn.tensor<[], f32>
  %s = nn.matmul %q, %k {transpose_b = true} : (!nn.tensor<[batch, 2, seq, 8], f32>, !nn.tensor<[batch, 2, seq, 8], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %m = nn.add %s, %mask : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 1, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %t = nn.mul %m, %scale : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %p = nn.softmax %t {axis = 3 : i64} : (!nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %o = nn.matmul %p, %v : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 2, seq, 8], f32>) -> !nn.tensor<[batch, 2, seq, 8], f32>
  return %o : !nn.tensor<[batch, 2, seq, 8], f32>
}

// Weights that are masked behind the softmax do not add up to one.
// CHECK-LABEL: func.func @mask_after_softmax
// CHECK-NOT: nn.attention
func.func @mask_after_softmax(%q: !nn.tensor<[batch, 2, seq, 8], f32>, %v: !nn.tensor<[batch, 2, seq, 8], f32>, %keep: !nn.tensor<[batch, 1, seq, seq], i1>)
    -> !nn.tensor<[batch, 2, seq, 8], f32> {
  %zero = nn.constant dense<0.0> : tensor<f32> : !nn.tensor<[], f32>
  %s = nn.matmul %q, %v {transpose_b = true} : (!nn.tensor<[batch, 2, seq, 8], f32>, !nn.tensor<[batch, 2, seq, 8], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %p = nn.softmax %s {axis = 3 : i64} : (!nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %w = nn.where %keep, %p, %zero : (!nn.tensor<[batch, 1, seq, seq], i1>, !nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %o = nn.matmul %w, %v : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 2, seq, 8], f32>) -> !nn.tensor<[batch, 2, seq, 8], f32>
  return %o : !nn.tensor<[batch, 2, seq, 8], f32>
}

// As exporters guard rows whose keys are all masked: softmax makes them NaN, and they become zeros.
// CHECK-LABEL: func.func @nan_guard
func.func @nan_guard(%q: !nn.tensor<[batch, 2, seq, 8], f32>, %v: !nn.tensor<[batch, 2, seq, 8], f32>, %keep: !nn.tensor<[batch, 1, seq, seq], i1>)
    -> !nn.tensor<[batch, 2, seq, 8], f32> {
  %zero = nn.constant dense<0.0> : tensor<f32> : !nn.tensor<[], f32>
  %hide = nn.constant dense<0xFF800000> : tensor<f32> : !nn.tensor<[], f32>
  %mask = nn.where %keep, %zero, %hide : (!nn.tensor<[batch, 1, seq, seq], i1>, !nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 1, seq, seq], f32>
  %s = nn.matmul %q, %v {transpose_b = true} : (!nn.tensor<[batch, 2, seq, 8], f32>, !nn.tensor<[batch, 2, seq, 8], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %m = nn.add %s, %mask : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 1, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %p = nn.softmax %m {axis = 3 : i64} : (!nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %n = nn.isnan %p : (!nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], i1>
  %w = nn.where %n, %zero, %p : (!nn.tensor<[batch, 2, seq, seq], i1>, !nn.tensor<[], f32>, !nn.tensor<[batch, 2, seq, seq], f32>) -> !nn.tensor<[batch, 2, seq, seq], f32>
  %o = nn.matmul %w, %v : (!nn.tensor<[batch, 2, seq, seq], f32>, !nn.tensor<[batch, 2, seq, 8], f32>) -> !nn.tensor<[batch, 2, seq, 8], f32>
  return %o : !nn.tensor<[batch, 2, seq, 8], f32>
}

// A strided view of pooled features: every position of the row in order.
// CHECK-LABEL: func.func @flat_view
// CHECK-NOT: nn.gather
// CHECK: nn.reshape %{{.*}} -> !nn.tensor<[batch, 4, 1, 1], f32>
func.func @flat_view(%x: !nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 4, 1, 1], f32> {
  %f = nn.reshape %x : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[4*batch], f32>
  %n = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[batch], i64>
  %four = nn.constant dense<4> : tensor<i64> : !nn.tensor<[], i64>
  %m = nn.mul %n, %four : (!nn.tensor<[batch], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[batch], i64>
  %r = nn.reshape %m : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1, 1, 1], i64>
  %c = nn.constant dense<[[[[0]], [[1]], [[2]], [[3]]]]> : tensor<1x4x1x1xi64> : !nn.tensor<[1, 4, 1, 1], i64>
  %i = nn.add %r, %c : (!nn.tensor<[batch, 1, 1, 1], i64>, !nn.tensor<[1, 4, 1, 1], i64>) -> !nn.tensor<[batch, 4, 1, 1], i64>
  %y = nn.gather %f, %i {axis = 0 : i64} : (!nn.tensor<[4*batch], f32>, !nn.tensor<[batch, 4, 1, 1], i64>) -> !nn.tensor<[batch, 4, 1, 1], f32>
  return %y : !nn.tensor<[batch, 4, 1, 1], f32>
}

// Overlapping windows of each row: positions w + k, of a size that depends on a dim.
// CHECK-LABEL: func.func @flat_windows
// CHECK: nn.gather %{{.*}}, %{{.*}} {axis = 1 : i64} : (!nn.tensor<[batch, seq + 1], f32>, !nn.tensor<[seq, 2], i64>) -> !nn.tensor<[batch, seq, 2], f32>
func.func @flat_windows(%x: !nn.tensor<[batch, seq + 1], f32>) -> !nn.tensor<[batch, seq, 2], f32> {
  %f = nn.reshape %x : (!nn.tensor<[batch, seq + 1], f32>) -> !nn.tensor<[batch*seq + batch], f32>
  %n = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[seq + 1]>} : () -> !nn.tensor<[batch], i64>
  %r = nn.reshape %n : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1, 1], i64>
  %s = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
  %w = nn.reshape %s : (!nn.tensor<[seq], i64>) -> !nn.tensor<[seq, 1], i64>
  %k = nn.constant dense<[0, 1]> : tensor<2xi64> : !nn.tensor<[2], i64>
  %p = nn.add %w, %k : (!nn.tensor<[seq, 1], i64>, !nn.tensor<[2], i64>) -> !nn.tensor<[seq, 2], i64>
  %i = nn.add %p, %r : (!nn.tensor<[seq, 2], i64>, !nn.tensor<[batch, 1, 1], i64>) -> !nn.tensor<[batch, seq, 2], i64>
  %y = nn.gather %f, %i {axis = 0 : i64} : (!nn.tensor<[batch*seq + batch], f32>, !nn.tensor<[batch, seq, 2], i64>) -> !nn.tensor<[batch, seq, 2], f32>
  return %y : !nn.tensor<[batch, seq, 2], f32>
}

// Each row's own position, which its data say.
// CHECK-LABEL: func.func @flat_argmax
// CHECK: nn.gather_nd %{{.*}}, %{{.*}} {batch_dims = 1 : i64} : (!nn.tensor<[batch, 4, 3], f32>, !nn.tensor<[batch, 1], i64>) -> !nn.tensor<[batch, 3], f32>
func.func @flat_argmax(%x: !nn.tensor<[batch, 4, 3], f32>, %scores: !nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 3], f32> {
  %f = nn.reshape %x : (!nn.tensor<[batch, 4, 3], f32>) -> !nn.tensor<[4*batch, 3], f32>
  %n = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[4]>} : () -> !nn.tensor<[batch], i64>
  %a = nn.arg_max %scores {axis = 1 : i64} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 1], i64>
  %p = nn.reshape %a : (!nn.tensor<[batch, 1], i64>) -> !nn.tensor<[batch], i64>
  %i = nn.add %n, %p : (!nn.tensor<[batch], i64>, !nn.tensor<[batch], i64>) -> !nn.tensor<[batch], i64>
  %y = nn.gather %f, %i {axis = 0 : i64} : (!nn.tensor<[4*batch, 3], f32>, !nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 3], f32>
  return %y : !nn.tensor<[batch, 3], f32>
}

// A rest of 4 is the next row's, and a stride that is not the row's ends elsewhere.
// CHECK-LABEL: func.func @flat_neighbour_stays
// CHECK-COUNT-2: nn.gather %{{.*}} {axis = 0 : i64}
func.func @flat_neighbour_stays(%x: !nn.tensor<[batch, 4], f32>) -> (!nn.tensor<[batch, 2], f32>, !nn.tensor<[batch, 2], f32>) {
  %f = nn.reshape %x : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[4*batch], f32>
  %n = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[4]>} : () -> !nn.tensor<[batch], i64>
  %r = nn.reshape %n : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1], i64>
  %c = nn.constant dense<[3, -1]> : tensor<2xi64> : !nn.tensor<[2], i64>
  %i = nn.add %r, %c : (!nn.tensor<[batch, 1], i64>, !nn.tensor<[2], i64>) -> !nn.tensor<[batch, 2], i64>
  %y = nn.gather %f, %i {axis = 0 : i64} : (!nn.tensor<[4*batch], f32>, !nn.tensor<[batch, 2], i64>) -> !nn.tensor<[batch, 2], f32>
  %n2 = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[2]>} : () -> !nn.tensor<[batch], i64>
  %r2 = nn.reshape %n2 : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1], i64>
  %c2 = nn.constant dense<[0, 1]> : tensor<2xi64> : !nn.tensor<[2], i64>
  %i2 = nn.add %r2, %c2 : (!nn.tensor<[batch, 1], i64>, !nn.tensor<[2], i64>) -> !nn.tensor<[batch, 2], i64>
  %y2 = nn.gather %f, %i2 {axis = 0 : i64} : (!nn.tensor<[4*batch], f32>, !nn.tensor<[batch, 2], i64>) -> !nn.tensor<[batch, 2], f32>
  return %y, %y2 : !nn.tensor<[batch, 2], f32>, !nn.tensor<[batch, 2], f32>
}

// A gated linear unit, whichever operand is activated; not where the activation is read twice.
// CHECK-LABEL: func.func @gated
// CHECK: nn.glu %arg0, %arg1 {activation = "silu"}
// CHECK: nn.glu %arg1, %arg0 {activation = "gelu_tanh"}
// CHECK: nn.silu
// CHECK-NOT: nn.glu
func.func @gated(%a: !nn.tensor<[batch, 8], f32>, %b: !nn.tensor<[batch, 8], f32>)
    -> (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) {
  %s = nn.silu %a : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %y = nn.mul %s, %b : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %g = nn.gelu %b {approximate = "tanh"} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %z = nn.mul %a, %g : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %t = nn.silu %y : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  %w = nn.mul %t, %b : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %y, %z, %t, %w : !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>
}
