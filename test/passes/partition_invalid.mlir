// RUN: maestro-opt %s --split-input-file "--maestro-partition-sections=cuts=m.b" --verify-diagnostics
// What cannot cross an edge is refused where it is: a product of rows and positions has no rows of one sample's own.

module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}, seq = {combine = "max", max = 8 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch*seq, 8], f32> {nn.field = "x"},
                   %a: !nn.tensor<[8, 8], f32> {nn.parameter = "m/a.w", nn.trainable},
                   %b: !nn.tensor<[8, 8], f32> {nn.parameter = "m/b.w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    // expected-error@+1 {{would pass from section 'm' to 'm.b', but its rows are not one dim of the samples' own; cut elsewhere}}
    %h = nn.matmul %x, %a : (!nn.tensor<[batch*seq, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch*seq, 8], f32>
    %y = nn.matmul %h, %b : (!nn.tensor<[batch*seq, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch*seq, 8], f32>
    %sum = nn.reduce_sum %y {axes = array<i64: 0, 1>} : (!nn.tensor<[batch*seq, 8], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}
