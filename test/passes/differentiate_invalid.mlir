// RUN: maestro-opt %s --split-input-file --verify-diagnostics --maestro-differentiate

// A trainable parameter behind an operator without a gradient.
module {
  func.func @graph(%w: !nn.tensor<[4, 2], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    // expected-error @unknown {{nn.slice_grad (node_Prod in model.norm) has no gradient}}
    %g = nn.slice_grad %w {offsets = #nn.dims<[0, 0]>, steps = array<i64: 1, 1>} : (!nn.tensor<[4, 2], f32>) -> !nn.tensor<[5, 2], f32> loc(fused["node_Prod", "model.norm"])
    %p = nn.reduce_sum %g {axes = array<i64: 0, 1>} : (!nn.tensor<[5, 2], f32>) -> !nn.tensor<[], f32>
    return %p : !nn.tensor<[], f32>
  }
}

// -----

// Nothing to learn.
module {
  // expected-error @below {{no trainable parameter reaches a loss (of 1)}}
  func.func @graph(%x: !nn.tensor<[batch], f32> {nn.field = "x"},
                   %w: !nn.tensor<[4], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
    %s = nn.reduce_sum %x {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %s : !nn.tensor<[], f32>
  }
}
