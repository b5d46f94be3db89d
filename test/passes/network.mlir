// RUN: maestro-opt %s --maestro-pipeline | FileCheck %s
// CHECK: func.func @backward

// A small decoder: embedding, norm, rotary attention, gated feed-forward, tied head, two losses. programs_test.cpp
// runs its programs on micro-batches.
module attributes {nn.dims = {batch = {combine = "sum", max = 4 : i64}, seq = {combine = "max", max = 8 : i64}}} {
  func.func @graph(%ids: !nn.tensor<[batch, seq], i64> {nn.field = "ids"},
                   %labels: !nn.tensor<[batch, seq], i64> {nn.field = "labels"},
                   %target: !nn.tensor<[batch], f32> {nn.field = "target"},
                   %e: !nn.tensor<[11, 8], f32> {nn.parameter = "m/e", nn.trainable},
                   %norm: !nn.tensor<[8], f32> {nn.parameter = "m/norm", nn.trainable},
                   %freq: !nn.tensor<[4], f32> {nn.parameter = "m/freq"},
                   %qkv: !nn.tensor<[8, 24], f32> {nn.parameter = "m/qkv", nn.trainable},
                   %bias: !nn.tensor<[24], f32> {nn.parameter = "m/bias", nn.trainable},
                   %up: !nn.tensor<[8, 6], f32> {nn.parameter = "m/up", nn.trainable},
                   %gate: !nn.tensor<[6, 8], f32> {nn.parameter = "m/gate", nn.trainable},
                   %down: !nn.tensor<[6, 8], f32> {nn.parameter = "m/down", nn.trainable},
                   %score: !nn.tensor<[8, 1], f32> {nn.parameter = "m/score", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "mean"}) {
    %x = nn.gather %e, %ids {axis = 0 : i64} : (!nn.tensor<[11, 8], f32>, !nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, seq, 8], f32>
    %n:2 = nn.rms_norm %x, %norm {axis = 2 : i64, epsilon = 1.0e-05 : f64} : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8], f32>) -> (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq], f32>)
    %p = nn.matmul %n#0, %qkv, %bias : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 24], f32>, !nn.tensor<[24], f32>) -> !nn.tensor<[batch, seq, 24], f32>
    %q0 = nn.slice %p {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, 24], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %k0 = nn.slice %p {offsets = #nn.dims<[0, 0, 8]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, 24], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %v0 = nn.slice %p {offsets = #nn.dims<[0, 0, 16]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, 24], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %q1 = nn.reshape %q0 : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 2, 4], f32>
    %k1 = nn.reshape %k0 : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 2, 4], f32>
    %v1 = nn.reshape %v0 : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 2, 4], f32>
    %pos = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
    %pf = nn.cast %pos : (!nn.tensor<[seq], i64>) -> !nn.tensor<[seq], f32>
    %p1 = nn.reshape %pf : (!nn.tensor<[seq], f32>) -> !nn.tensor<[seq, 1, 1], f32>
    %angle = nn.mul %p1, %freq : (!nn.tensor<[seq, 1, 1], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[seq, 1, 4], f32>
    %cos = nn.cos %angle : (!nn.tensor<[seq, 1, 4], f32>) -> !nn.tensor<[seq, 1, 4], f32>
    %sin = nn.sin %angle : (!nn.tensor<[seq, 1, 4], f32>) -> !nn.tensor<[seq, 1, 4], f32>
    %q2 = nn.rope %q1, %cos, %sin : (!nn.tensor<[batch, seq, 2, 4], f32>, !nn.tensor<[seq, 1, 4], f32>, !nn.tensor<[seq, 1, 4], f32>) -> !nn.tensor<[batch, seq, 2, 4], f32>
    %k2 = nn.rope %k1, %cos, %sin : (!nn.tensor<[batch, seq, 2, 4], f32>, !nn.tensor<[seq, 1, 4], f32>, !nn.tensor<[seq, 1, 4], f32>) -> !nn.tensor<[batch, seq, 2, 4], f32>
    %a:2 = nn.attention %q2, %k2, %v1 {scale = 0.5 : f64, causal = true, sequence_major = true} : (!nn.tensor<[batch, seq, 2, 4], f32>, !nn.tensor<[batch, seq, 2, 4], f32>, !nn.tensor<[batch, seq, 2, 4], f32>) -> (!nn.tensor<[batch, seq, 2, 4], f32>, !nn.tensor<[batch, 2, seq], f32>)
    %o = nn.reshape %a#0 : (!nn.tensor<[batch, seq, 2, 4], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %r = nn.add %x, %o : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %u = nn.matmul %r, %up : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 6], f32>) -> !nn.tensor<[batch, seq, 6], f32>
    %g = nn.matmul %r, %gate {transpose_b = true} : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[6, 8], f32>) -> !nn.tensor<[batch, seq, 6], f32>
    %s = nn.silu %g : (!nn.tensor<[batch, seq, 6], f32>) -> !nn.tensor<[batch, seq, 6], f32>
    %m = nn.mul %s, %u : (!nn.tensor<[batch, seq, 6], f32>, !nn.tensor<[batch, seq, 6], f32>) -> !nn.tensor<[batch, seq, 6], f32>
    %d = nn.matmul %m, %down : (!nn.tensor<[batch, seq, 6], f32>, !nn.tensor<[6, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %h = nn.add %r, %d : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %logits = nn.matmul %h, %e {transpose_b = true} : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[11, 8], f32>) -> !nn.tensor<[batch, seq, 11], f32>
    %l:2 = nn.cross_entropy %logits, %labels : (!nn.tensor<[batch, seq, 11], f32>, !nn.tensor<[batch, seq], i64>) -> (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>)
    %sum = nn.reduce_sum %l#0 {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    %ignored = nn.fill {value = -100.0 : f64} : () -> !nn.tensor<[], i64>
    %is = nn.equal %labels, %ignored : (!nn.tensor<[batch, seq], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[batch, seq], i1>
    %not = nn.not %is : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, seq], i1>
    %counted = nn.cast %not : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, seq], f32>
    %count = nn.reduce_sum %counted {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    %mean = nn.div %sum, %count : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    // Beside it a regression from the first position, a mean over rows.
    %first = nn.slice %h {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, 1, 8], f32>
    %f2 = nn.reshape %first : (!nn.tensor<[batch, 1, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %y = nn.matmul %f2, %score : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 1], f32>) -> !nn.tensor<[batch, 1], f32>
    %y1 = nn.reshape %y : (!nn.tensor<[batch, 1], f32>) -> !nn.tensor<[batch], f32>
    %diff = nn.sub %y1, %target : (!nn.tensor<[batch], f32>, !nn.tensor<[batch], f32>) -> !nn.tensor<[batch], f32>
    %two = nn.fill {value = 2.0 : f64} : () -> !nn.tensor<[], f32>
    %square = nn.pow %diff, %two : (!nn.tensor<[batch], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch], f32>
    %mse = nn.reduce_mean %square {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    %half = nn.fill {value = 0.5 : f64} : () -> !nn.tensor<[], f32>
    %weighted = nn.mul %mse, %half : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    %loss = nn.add %mean, %weighted : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    return %loss : !nn.tensor<[], f32>
  }
}
