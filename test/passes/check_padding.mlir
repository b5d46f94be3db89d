// RUN: maestro-opt %s --split-input-file --maestro-check-padding | FileCheck %s

// A mean over what is padded.
// CHECK: seq = {combine = "max", unpadded = "nn.reduce_mean is a mean over 'seq'"}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %m = nn.reduce_mean %x {axes = array<i64: 1>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %s = nn.reduce_sum %m {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// The same by a mask that is padded with 0: Σ x·mask ÷ Σ mask.
// CHECK: seq = {combine = "max"}}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"}, %mask: !nn.tensor<[batch, seq], i1> {nn.field = "mask"},
                   %w: !nn.tensor<[8, 8], f32> {nn.parameter = "m/w", nn.trainable}, %b: !nn.tensor<[8], f32> {nn.parameter = "m/b", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %h = nn.matmul %x, %w, %b : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 8], f32>, !nn.tensor<[8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %f = nn.cast %mask : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, seq], f32>
    %f1 = nn.reshape %f : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq, 1], f32>
    %p = nn.mul %h, %f1 : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 1], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %n = nn.reduce_sum %p {axes = array<i64: 1>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %d = nn.reduce_sum %f {axes = array<i64: 1>, keepdims = true} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, 1], f32>
    %q = nn.div %n, %d : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 1], f32>) -> !nn.tensor<[batch, 8], f32>
    %s = nn.reduce_sum %q {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// The first position is every sample's own, also after it is put in front; the last one is not.
// CHECK: seq = {combine = "max"}}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"}, %c: !nn.tensor<[batch, 1, 8], f32> {nn.field = "c"}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %j = nn.concat %c, %x {axis = 1 : i64} : (!nn.tensor<[batch, 1, 8], f32>, !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq + 1, 8], f32>
    %f = nn.slice %j {offsets = #nn.dims<[0, 1, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq + 1, 8], f32>) -> !nn.tensor<[batch, 1, 8], f32>
    %s = nn.reduce_sum %f {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, 1, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// CHECK: unpadded = "nn.slice reads positions counted from the end of 'seq'"
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %f = nn.slice %x {offsets = #nn.dims<[0, seq - 1, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, 1, 8], f32>
    %s = nn.reduce_sum %f {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, 1, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// Attention to all positions, and under a mask of positions: what is padded comes later.
// CHECK: unpadded = "nn.attention attends to all of 'seq', and nothing masks the padding there"
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 2, seq, 4], f32> {nn.field = "x"}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %o, %l = nn.attention %x, %x, %x {scale = 0.5 : f64} : (!nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[batch, 2, seq, 4], f32>) -> (!nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[batch, 2, seq], f32>)
    %f = nn.slice %o {offsets = #nn.dims<[0, 0, 0, 0]>, steps = array<i64: 1, 1, 1, 1>} : (!nn.tensor<[batch, 2, seq, 4], f32>) -> !nn.tensor<[batch, 2, 1, 4], f32>
    %s = nn.reduce_sum %f {axes = array<i64: 0, 1, 2, 3>} : (!nn.tensor<[batch, 2, 1, 4], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// CHECK: seq = {combine = "max"}}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 2, seq, 4], f32> {nn.field = "x"}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %p = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
    %q = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[seq, 1], i64>
    %d = nn.sub %q, %p : (!nn.tensor<[seq, 1], i64>, !nn.tensor<[seq], i64>) -> !nn.tensor<[seq, seq], i64>
    %zero = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[], i64>
    %m = nn.greater_equal %d, %zero : (!nn.tensor<[seq, seq], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[seq, seq], i1>
    %m4 = nn.reshape %m : (!nn.tensor<[seq, seq], i1>) -> !nn.tensor<[1, 1, seq, seq], i1>
    %o, %l = nn.attention %x, %x, %x, %m4 {scale = 0.5 : f64} : (!nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[1, 1, seq, seq], i1>) -> (!nn.tensor<[batch, 2, seq, 4], f32>, !nn.tensor<[batch, 2, seq], f32>)
    %f = nn.slice %o {offsets = #nn.dims<[0, 0, 0, 0]>, steps = array<i64: 1, 1, 1, 1>} : (!nn.tensor<[batch, 2, seq, 4], f32>) -> !nn.tensor<[batch, 2, 1, 4], f32>
    %s = nn.reduce_sum %f {axes = array<i64: 0, 1, 2, 3>} : (!nn.tensor<[batch, 2, 1, 4], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// Labels that are padded with a class that counts.
// CHECK: unpadded = "nn.reduce_sum sums over 'seq', and nothing makes the padding there 0"
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"}, %y: !nn.tensor<[batch, seq], i64> {nn.field = "y"}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %l, %e = nn.cross_entropy %x, %y : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq], i64>) -> (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>)
    %s = nn.reduce_sum %l {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// CHECK: seq = {combine = "max"}}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"}, %y: !nn.tensor<[batch, seq], i64> {nn.field = "y", nn.pad = -100.0 : f64}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %p = nn.pad %y {low = #nn.dims<[0, 0]>, high = #nn.dims<[0, 1]>, value = -100.0 : f64} : (!nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, seq + 1], i64>
    %n = nn.slice %p {offsets = #nn.dims<[0, 1]>, steps = array<i64: 1, 1>} : (!nn.tensor<[batch, seq + 1], i64>) -> !nn.tensor<[batch, seq], i64>
    %f = nn.reshape %x : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch*seq, 8], f32>
    %m = nn.reshape %n : (!nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch*seq], i64>
    %l, %e = nn.cross_entropy %f, %m : (!nn.tensor<[batch*seq, 8], f32>, !nn.tensor<[batch*seq], i64>) -> (!nn.tensor<[batch*seq], f32>, !nn.tensor<[batch*seq], f32>)
    %s = nn.reduce_sum %l {axes = array<i64: 0>} : (!nn.tensor<[batch*seq], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// A causal convolution reads no padding; one that looks ahead does, unless it is 0.
// CHECK: seq = {combine = "max"}}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4, seq], f32> {nn.field = "x"}, %m: !nn.tensor<[batch, 1, seq], f32> {nn.field = "m"}, %w: !nn.tensor<[4, 4, 3], f32> {nn.parameter = "m/w", nn.trainable}, %b: !nn.tensor<[4], f32> {nn.parameter = "m/b", nn.trainable}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %a = nn.conv %x, %w, %b {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>} : (!nn.tensor<[batch, 4, seq], f32>, !nn.tensor<[4, 4, 3], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %c = nn.conv %a, %w, %b {strides = array<i64: 1>, pads = array<i64: 2, 2>, dilations = array<i64: 1>} : (!nn.tensor<[batch, 4, seq], f32>, !nn.tensor<[4, 4, 3], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[batch, 4, seq + 2], f32>
    %d = nn.slice %c {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, 4, seq + 2], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %p = nn.mul %d, %m : (!nn.tensor<[batch, 4, seq], f32>, !nn.tensor<[batch, 1, seq], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, 4, seq], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// CHECK: unpadded = "nn.conv mixes 'seq' positions with what lies behind a sample's end, where nothing makes the padding 0"
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4, seq], f32> {nn.field = "x"}, %m: !nn.tensor<[batch, 1, seq], f32> {nn.field = "m"}, %w: !nn.tensor<[4, 4, 3], f32> {nn.parameter = "m/w", nn.trainable}, %b: !nn.tensor<[4], f32> {nn.parameter = "m/b", nn.trainable}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %a = nn.conv %x, %w, %b {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>} : (!nn.tensor<[batch, 4, seq], f32>, !nn.tensor<[4, 4, 3], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %d = nn.conv %a, %w, %b {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>} : (!nn.tensor<[batch, 4, seq], f32>, !nn.tensor<[4, 4, 3], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %p = nn.mul %d, %m : (!nn.tensor<[batch, 4, seq], f32>, !nn.tensor<[batch, 1, seq], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, 4, seq], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// What a mask lets into zeros is not the same everywhere.
// CHECK: seq = {combine = "max", unpadded = "nn.reduce_max reduces 'seq', and nothing masks the padding there"}
module attributes {nn.dims = {batch = {combine = "sum"}, images = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%m: !nn.tensor<[batch, seq, 8], i1> {nn.field = "m"}, %f: !nn.tensor<[images, 8], f32> {nn.field = "f"}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %x = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[batch, seq, 8], f32>
    %y = nn.masked_scatter %x, %m, %f : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], i1>, !nn.tensor<[images, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %l = nn.reduce_max %y {axes = array<i64: 1>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %s = nn.reduce_sum %l {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// Where one operand ends sooner, the other's own positions lie behind the end, too.
// CHECK: unpadded = "nn.conv mixes 'seq' positions
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4, seq], f32> {nn.field = "x"}, %m: !nn.tensor<[batch, 1, seq], f32> {nn.field = "m"}, %w: !nn.tensor<[4, 4, 3], f32> {nn.parameter = "m/w", nn.trainable}, %b: !nn.tensor<[4], f32> {nn.parameter = "m/b", nn.trainable}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %e = nn.exp %x : (!nn.tensor<[batch, 4, seq], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %a = nn.conv %e, %w, %b {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>} : (!nn.tensor<[batch, 4, seq], f32>, !nn.tensor<[4, 4, 3], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %p = nn.mul %a, %m : (!nn.tensor<[batch, 4, seq], f32>, !nn.tensor<[batch, 1, seq], f32>) -> !nn.tensor<[batch, 4, seq], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, 4, seq], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// A mask that is a number: a row of which the field masks all is uniform.
// CHECK: unpadded = "nn.softmax weighs equally, padding included, where a number other than -inf masks all of 'seq'"
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, seq], f32> {nn.field = "x"}, %mask: !nn.tensor<[batch, seq], i1> {nn.field = "mask"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %low = nn.constant dense<-1.0e9> : tensor<f32> : !nn.tensor<[], f32>
    %m = nn.reshape %mask : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, 1, seq], i1>
    %s = nn.where %m, %x, %low : (!nn.tensor<[batch, 1, seq], i1>, !nn.tensor<[batch, seq, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %p = nn.softmax %s {axis = 2 : i64} : (!nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %f = nn.slice %p {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[batch, 1, seq], f32>
    %l = nn.reduce_sum %f {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, 1, seq], f32>) -> !nn.tensor<[], f32>
    return %l : !nn.tensor<[], f32>
  }
}

// -----

// By −∞ such a row has no value, padded or not.
// CHECK: seq = {combine = "max"}}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, seq], f32> {nn.field = "x"}, %mask: !nn.tensor<[batch, seq], i1> {nn.field = "mask"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %low = nn.constant dense<0xFF800000> : tensor<f32> : !nn.tensor<[], f32>
    %m = nn.reshape %mask : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, 1, seq], i1>
    %s = nn.where %m, %x, %low : (!nn.tensor<[batch, 1, seq], i1>, !nn.tensor<[batch, seq, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %p = nn.softmax %s {axis = 2 : i64} : (!nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %f = nn.slice %p {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[batch, 1, seq], f32>
    %l = nn.reduce_sum %f {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, 1, seq], f32>) -> !nn.tensor<[], f32>
    return %l : !nn.tensor<[], f32>
  }
}

// -----

// Positions leave each row itself.
// CHECK: seq = {combine = "max"}}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, seq], f32> {nn.field = "x"}, %mask: !nn.tensor<[batch, seq], i1> {nn.field = "mask"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %low = nn.constant dense<-1.0e9> : tensor<f32> : !nn.tensor<[], f32>
    %i = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
    %q = nn.reshape %i : (!nn.tensor<[seq], i64>) -> !nn.tensor<[seq, 1], i64>
    %m = nn.less_equal %i, %q : (!nn.tensor<[seq], i64>, !nn.tensor<[seq, 1], i64>) -> !nn.tensor<[seq, seq], i1>
    %s = nn.where %m, %x, %low : (!nn.tensor<[seq, seq], i1>, !nn.tensor<[batch, seq, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %p = nn.softmax %s {axis = 2 : i64} : (!nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %f = nn.slice %p {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[batch, 1, seq], f32>
    %l = nn.reduce_sum %f {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, 1, seq], f32>) -> !nn.tensor<[], f32>
    return %l : !nn.tensor<[], f32>
  }
}

// -----

// From the first position on a state depends on positions before it alone.
// CHECK: seq = {combine = "max"}}
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 24], f32> {nn.field = "x"}, %m: !nn.tensor<[batch, seq], f32> {nn.field = "mask"},
                   %h: !nn.tensor<[batch, 8], f32> {nn.field = "h"},
                   %w: !nn.tensor<[24, 8], f32> {nn.parameter = "m/w", nn.trainable}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %r:2 = nn.recurrence %x, %w, %h {cell = "gru"} : (!nn.tensor<[batch, seq, 24], f32>, !nn.tensor<[24, 8], f32>, !nn.tensor<[batch, 8], f32>) -> (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 32], f32>)
    %m1 = nn.reshape %m : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq, 1], f32>
    %p = nn.mul %r#0, %m1 : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 1], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// What lies behind the end is unknown, whatever was put there: its sum shows.
// CHECK: unpadded = "nn.reduce_sum sums over 'seq', and nothing makes the padding there 0"
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 24], f32> {nn.field = "x"}, %h: !nn.tensor<[batch, 8], f32> {nn.field = "h"},
                   %w: !nn.tensor<[24, 8], f32> {nn.parameter = "m/w", nn.trainable}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %r:2 = nn.recurrence %x, %w, %h {cell = "gru"} : (!nn.tensor<[batch, seq, 24], f32>, !nn.tensor<[24, 8], f32>, !nn.tensor<[batch, 8], f32>) -> (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 32], f32>)
    %s = nn.reduce_sum %r#0 {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// CHECK: unpadded = "nn.recurrence goes from the end of 'seq' to its start, padding first"
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 24], f32> {nn.field = "x"}, %m: !nn.tensor<[batch, seq], f32> {nn.field = "mask"},
                   %h: !nn.tensor<[batch, 8], f32> {nn.field = "h"},
                   %w: !nn.tensor<[24, 8], f32> {nn.parameter = "m/w", nn.trainable}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %r:2 = nn.recurrence %x, %w, %h {cell = "gru", reverse = true} : (!nn.tensor<[batch, seq, 24], f32>, !nn.tensor<[24, 8], f32>, !nn.tensor<[batch, 8], f32>) -> (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 32], f32>)
    %m1 = nn.reshape %m : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq, 1], f32>
    %p = nn.mul %r#0, %m1 : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 1], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}
