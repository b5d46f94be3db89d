// RUN: maestro-opt %s --split-input-file --verify-diagnostics --maestro-decompose-loss

// The number of padded positions is a matter of grouping.
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq], f32> {nn.field = "x"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "mean"}) {
    // expected-error @below {{the loss 'loss' is a mean over batch*seq positions (nn.reduce_mean), and 'seq' is padded}}
    %m = nn.reduce_mean %x {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
    return %m : !nn.tensor<[], f32>
  }
}

// -----

// A count that is learned.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4], f32> {nn.field = "x"},
                   %w: !nn.tensor<[4], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "mean"}) {
    %g = nn.mul %x, %w : (!nn.tensor<[batch, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[batch, 4], f32>
    %s = nn.reduce_sum %x {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[], f32>
    %c = nn.reduce_sum %g {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[], f32>
    // expected-error @below {{divides by a count that depends on the parameter 'm/w'}}
    %m = nn.div %s, %c : (!nn.tensor<[], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[], f32>
    return %m : !nn.tensor<[], f32>
  }
}

// -----

// A sum is no mean; a square root of one neither. The importer's names are said.
module attributes {nn.dims = {batch = {combine = "sum"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4], f32> {nn.field = "x"})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "mean"}) {
    %m = nn.reduce_mean %x {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[], f32>
    // expected-error @unknown {{does not decompose over samples: nn.sqrt (node_Sqrt_7 in model.head) stands between it and a mean}}
    %r = nn.sqrt %m : (!nn.tensor<[], f32>) -> !nn.tensor<[], f32> loc(fused["node_Sqrt_7", "model.head"])
    return %r : !nn.tensor<[], f32>
  }
}

// -----

// expected-error @below {{nn.dims: 'batch' needs combine = "sum" or "max"}}
module attributes {nn.dims = {batch = {combine = "add"}}} {
  func.func @graph(%x: !nn.tensor<[batch, 4], f32> {nn.field = "x"})
      -> (!nn.tensor<[batch, 4], f32> {nn.output = "x"}) {
    return %x : !nn.tensor<[batch, 4], f32>
  }
}
