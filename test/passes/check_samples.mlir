// RUN: maestro-opt %s --split-input-file --verify-diagnostics --maestro-check-samples

// Rows through a product, a reshape that merges them with positions, a transpose, and into a sum.
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"},
                   %w: !nn.tensor<[8, 8], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %h = nn.matmul %x, %w : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %f = nn.reshape %h : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch*seq, 2, 4], f32>
    %t = nn.transpose %f {permutation = array<i64: 1, 0, 2>} : (!nn.tensor<[batch*seq, 2, 4], f32>) -> !nn.tensor<[2, batch*seq, 4], f32>
    %m = nn.softmax %t {axis = 2 : i64} : (!nn.tensor<[2, batch*seq, 4], f32>) -> !nn.tensor<[2, batch*seq, 4], f32>
    %s = nn.reduce_sum %m {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[2, batch*seq, 4], f32>) -> !nn.tensor<[], f32>
    %ones = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %c = nn.reduce_sum %ones {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// An exported mask addresses its own row: (iota(batch), position) into the rows of a field.
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%mask: !nn.tensor<[batch, seq], i1> {nn.field = "mask"},
                   %x: !nn.tensor<[batch, 1, seq, seq], f32> {nn.field = "x"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %b = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[batch], i64>
    %b1 = nn.reshape %b : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1, 1, 1, 1], i64>
    %b2 = nn.broadcast_to %b1 : (!nn.tensor<[batch, 1, 1, 1, 1], i64>) -> !nn.tensor<[batch, 1, seq, seq, 1], i64>
    %p = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[seq], i64>
    %p1 = nn.reshape %p : (!nn.tensor<[seq], i64>) -> !nn.tensor<[1, 1, 1, seq, 1], i64>
    %p2 = nn.broadcast_to %p1 : (!nn.tensor<[1, 1, 1, seq, 1], i64>) -> !nn.tensor<[batch, 1, seq, seq, 1], i64>
    %i = nn.concat %b2, %p2 {axis = 4 : i64} : (!nn.tensor<[batch, 1, seq, seq, 1], i64>, !nn.tensor<[batch, 1, seq, seq, 1], i64>) -> !nn.tensor<[batch, 1, seq, seq, 2], i64>
    %m = nn.gather_nd %mask, %i : (!nn.tensor<[batch, seq], i1>, !nn.tensor<[batch, 1, seq, seq, 2], i64>) -> !nn.tensor<[batch, 1, seq, seq], i1>
    %zero = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[], f32>
    %y = nn.where %m, %x, %zero : (!nn.tensor<[batch, 1, seq, seq], i1>, !nn.tensor<[batch, 1, seq, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, 1, seq, seq], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1, 2, 3>} : (!nn.tensor<[batch, 1, seq, seq], f32>) -> !nn.tensor<[], f32>
    %n = nn.dim_values {values = #nn.dims<[batch]>} : () -> !nn.tensor<[], i64>
    %c = nn.cast %n : (!nn.tensor<[], i64>) -> !nn.tensor<[], f32>
    return %s, %c : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// Every row written to its own place, as exporters write x[:, 0] = 2.
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq], f32> {nn.field = "x"}, %y: !nn.tensor<[batch, seq], f32> {nn.field = "y"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %b = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[batch], i64>
    %b1 = nn.reshape %b : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1], i64>
    %g = nn.scatter_nd %x, %b1, %y : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, 1], i64>, !nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq], f32>
    %s = nn.reduce_sum %g {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// The same with the row's number in the second place reads other samples' rows.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4], f32> {nn.field = "x"}, %p: !nn.tensor<[batch, 1], i64> {nn.field = "p"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %b = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[batch], i64>
    %b1 = nn.reshape %b : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1], i64>
    // expected-error @below {{nn.concat computes with the position of a sample in the batch}}
    %i = nn.concat %p, %b1 {axis = 1 : i64} : (!nn.tensor<[batch, 1], i64>, !nn.tensor<[batch, 1], i64>) -> !nn.tensor<[batch, 2], i64>
    %g = nn.gather_nd %x, %i : (!nn.tensor<[batch, 4], f32>, !nn.tensor<[batch, 2], i64>) -> !nn.tensor<[batch], f32>
    %s = nn.reduce_sum %g {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// Batch statistics, as of BatchNorm in training.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    // expected-error @below {{does not decompose over samples: nn.reduce_mean is a statistic of the whole batch}}
    %m = nn.reduce_mean %x {axes = array<i64: 0>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[8], f32>
    %c = nn.sub %x, %m : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8], f32>) -> !nn.tensor<[batch, 8], f32>
    %s = nn.reduce_sum %c {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// The same written as a sum: the sum alone would be fine, what reads it is not.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %m = nn.reduce_sum %x {axes = array<i64: 0>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[8], f32>
    // expected-error @below {{nn.sub reads a sum over the whole batch}}
    %c = nn.sub %x, %m : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8], f32>) -> !nn.tensor<[batch, 8], f32>
    %s = nn.reduce_sum %c {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// A contrastive product: every sample with every other.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"}, %y: !nn.tensor<[batch, 8], f32> {nn.field = "y"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    // expected-error @below {{nn.matmul combines rows of different samples of the batch}}
    %p = nn.matmul %x, %y {transpose_b = true} : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, batch], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, batch], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    // expected-error @below {{nn.softmax works along the rows of the batch}}
    %p = nn.softmax %x {axis = 0 : i64} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// A penalty on weights is not a sum over samples.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%w: !nn.tensor<[8], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "decay", nn.role = "sum"}) {
    // expected-error @below {{the sum of the loss 'decay' is not a sum over the samples of a batch: nn.reduce_sum gives the same for any batch}}
    %s = nn.reduce_sum %w {axes = array<i64: 0>} : (!nn.tensor<[8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// Rows of two kinds: image features into text, in order.
module attributes {nn.dims = {batch = {combine = "sum"}, images = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"},
                   %mask: !nn.tensor<[batch, seq, 8], i1> {nn.field = "mask"},
                   %f: !nn.tensor<[4*images, 8], f32> {nn.field = "features"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %y = nn.masked_scatter %x, %mask, %f : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], i1>, !nn.tensor<[4*images, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// As kl_div(reduction="batchmean") of flattened logits divides.
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph() -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    // expected-error @below {{nn.dim_values counts batch*seq positions, and 'seq' is padded}}
    %n = nn.dim_values {values = #nn.dims<[batch*seq]>} : () -> !nn.tensor<[], i64>
    %c = nn.cast %n : (!nn.tensor<[], i64>) -> !nn.tensor<[], f32>
    return %c : !nn.tensor<[], f32>
  }
}

// -----

// A table's entries by place in the batch: every micro-batch would begin at the first one again.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 12], f32> {nn.field = "x"}, %t: !nn.tensor<[16, 12], f32> {nn.parameter = "m/table", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %b = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[batch], i64>
    %b1 = nn.reshape %b : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1], i64>
    // expected-error @below {{nn.gather_nd addresses a dim of 16 by the numbers of batch rows, which begin at 0 in every micro-batch}}
    %g = nn.gather_nd %t, %b1 : (!nn.tensor<[16, 12], f32>, !nn.tensor<[batch, 1], i64>) -> !nn.tensor<[batch, 12], f32>
    %y = nn.add %x, %g : (!nn.tensor<[batch, 12], f32>, !nn.tensor<[batch, 12], f32>) -> !nn.tensor<[batch, 12], f32>
    %s = nn.reduce_sum %y {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 12], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// Image i for sample i.
module attributes {nn.dims = {batch = {combine = "sum"}, images = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[images, 4], f32> {nn.field = "x"}, %y: !nn.tensor<[batch, 4], f32> {nn.field = "y"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %b = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[batch], i64>
    %b1 = nn.reshape %b : (!nn.tensor<[batch], i64>) -> !nn.tensor<[batch, 1], i64>
    // expected-error @below {{nn.gather_nd addresses a dim of images by the numbers of batch rows}}
    %g = nn.gather_nd %x, %b1 : (!nn.tensor<[images, 4], f32>, !nn.tensor<[batch, 1], i64>) -> !nn.tensor<[batch, 4], f32>
    %p = nn.mul %g, %y : (!nn.tensor<[batch, 4], f32>, !nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 4], f32>
    %s = nn.reduce_sum %p {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// What is dropped is keyed by sample: rows in another place than dim 0 are not the samples'.
module attributes {nn.dims = {batch = {combine = "sum", own}, samples = {combine = "sum", max = 1 : i64}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 4], f32> {nn.field = "x"}, %r: !nn.tensor<[2], i64> {nn.special = "rng_state"},
                   %i: !nn.tensor<[samples], i64> {nn.special = "sample_ids"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %t = nn.transpose %x {permutation = array<i64: 1, 0, 2>} : (!nn.tensor<[batch, seq, 4], f32>) -> !nn.tensor<[seq, batch, 4], f32>
    // expected-error @below {{nn.dropout drops elements of '!nn.tensor<[seq, batch, 4], f32>': dim 0 must hold the rows of the samples (batch, one a sample)}}
    %d = nn.dropout %t, %r, %i {ratio = 0.5 : f64, stream = 0 : i64, strides = array<i64: 4, 1>} : (!nn.tensor<[seq, batch, 4], f32>, !nn.tensor<[2], i64>, !nn.tensor<[samples], i64>) -> !nn.tensor<[seq, batch, 4], f32>
    %s = nn.reduce_sum %d {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[seq, batch, 4], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

module attributes {nn.dims = {batch = {combine = "sum", own}, samples = {combine = "sum", max = 1 : i64}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 4], f32> {nn.field = "x"}, %r: !nn.tensor<[2], i64> {nn.special = "rng_state"},
                   %i: !nn.tensor<[samples], i64> {nn.special = "sample_ids"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %f = nn.reshape %x : (!nn.tensor<[batch, seq, 4], f32>) -> !nn.tensor<[batch*seq, 4], f32>
    %d = nn.dropout %f, %r, %i {ratio = 0.5 : f64, stream = 0 : i64, strides = array<i64: 1>} : (!nn.tensor<[batch*seq, 4], f32>, !nn.tensor<[2], i64>, !nn.tensor<[samples], i64>) -> !nn.tensor<[batch*seq, 4], f32>
    %s = nn.reduce_sum %d {axes = array<i64: 0, 1>} : (!nn.tensor<[batch*seq, 4], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// Sums of truncated quotients are no truncated quotient of a sum.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4], i64> {nn.field = "x"}) -> (!nn.tensor<[], i64> {nn.loss = "loss", nn.role = "sum"}) {
    %n = nn.reduce_sum %x {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], i64>) -> !nn.tensor<[], i64>
    %two = nn.fill {value = 2.0 : f64} : () -> !nn.tensor<[], i64>
    // expected-error @below {{nn.div reads a sum over the whole batch}}
    %h = nn.div %n, %two : (!nn.tensor<[], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[], i64>
    return %h : !nn.tensor<[], i64>
  }
}

// -----

module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4], f32> {nn.field = "x"}) -> (!nn.tensor<[], i64> {nn.loss = "loss", nn.role = "sum"}) {
    %n = nn.reduce_sum %x {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[], f32>
    // expected-error @below {{nn.cast reads a sum over the whole batch}}
    %h = nn.cast %n : (!nn.tensor<[], f32>) -> !nn.tensor<[], i64>
    return %h : !nn.tensor<[], i64>
  }
}

// -----

// A sum over the batch given back to every row.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch], f32> {nn.field = "x"}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %n = nn.reduce_sum %x {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    // expected-error @below {{nn.broadcast_to reads a sum over the whole batch}}
    %b = nn.broadcast_to %n : (!nn.tensor<[], f32>) -> !nn.tensor<[batch], f32>
    %s = nn.reduce_sum %b {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}

// -----

// Every micro-batch would count from 0 again.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph() -> (!nn.tensor<[], i64> {nn.loss = "loss", nn.role = "sum"}) {
    %b = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[batch], i64>
    // expected-error @below {{nn.reduce_sum computes with the position of a sample in the batch}}
    %s = nn.reduce_sum %b {axes = array<i64: 0>} : (!nn.tensor<[batch], i64>) -> !nn.tensor<[], i64>
    return %s : !nn.tensor<[], i64>
  }
}

// -----

// A table's first entries, one a sample.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%t: !nn.tensor<[16], f32> {nn.parameter = "m/table", nn.trainable}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    // expected-error @below {{nn.slice works along the rows of the batch}}
    %r = nn.slice %t {offsets = #nn.dims<[0]>, steps = array<i64: 1>} : (!nn.tensor<[16], f32>) -> !nn.tensor<[batch], f32>
    %s = nn.reduce_sum %r {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}
