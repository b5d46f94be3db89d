// RUN: maestro-opt %s --verify-diagnostics --maestro-check-padding

// -inf behind a mask is 0 behind an edge: what the consumer relied on is gone.
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  section.section "a" {components = ["a"]}
  section.section "b" {components = ["b"], trains}
  section.edge "scores" from "a" to "b" : !nn.tensor<[batch, seq], f32>
  module @a attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
    func.func @graph(%x: !nn.tensor<[batch, seq], f32> {nn.field = "x"}, %m: !nn.tensor<[batch, seq], i1> {nn.field = "m"}) -> (!nn.tensor<[batch, seq], f32> {nn.edge = "scores"}) {
      %n = nn.fill {value = 0xFFF0000000000000 : f64} : () -> !nn.tensor<[], f32>
      %s = nn.where %m, %x, %n : (!nn.tensor<[batch, seq], i1>, !nn.tensor<[batch, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq], f32>
      return %s : !nn.tensor<[batch, seq], f32>
    }
  }
  module @b attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
    func.func @graph(%s: !nn.tensor<[batch, seq], f32> {nn.edge = "scores"}, %w: !nn.tensor<[], f32> {nn.parameter = "b/w", nn.trainable}) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}) {
      // expected-error @below {{in section 'b' nn.softmax normalises over 'seq', and nothing masks the padding there, since what arrives from other sections is 0 where 'seq' is padded; write dims: {seq: {pad: never}}}}
      %p = nn.softmax %s {axis = 1 : i64} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq], f32>
      %q = nn.mul %p, %w : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq], f32>
      %l = nn.reduce_sum %q {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[], f32>
      return %l : !nn.tensor<[], f32>
    }
  }
}
