// Losses: gradients_test.cpp differentiates each function.
module attributes {test.symbols = {b = 2, s = 3}} {
  func.func @cross_entropy(%x: !nn.tensor<[b, s, 5], f64>, %l: !nn.tensor<[b, s], i64> {test.range = [-1, 4]}) -> !nn.tensor<[b, s], f64> {
    %0:2 = nn.cross_entropy %x, %l {ignore_index = -1 : i64} : (!nn.tensor<[b, s, 5], f64>, !nn.tensor<[b, s], i64>) -> (!nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>)
    return %0#0 : !nn.tensor<[b, s], f64>
  }
  // The gradient that arrives is one scalar.
  func.func @cross_entropy_sum(%x: !nn.tensor<[b, s, 5], f64>, %l: !nn.tensor<[b, s], i64> {test.range = [-1, 4]}) -> !nn.tensor<[], f64> {
    %0:2 = nn.cross_entropy %x, %l {ignore_index = -1 : i64} : (!nn.tensor<[b, s, 5], f64>, !nn.tensor<[b, s], i64>) -> (!nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>)
    %1 = nn.reduce_sum %0#0 {axes = array<i64: 0, 1>} : (!nn.tensor<[b, s], f64>) -> !nn.tensor<[], f64>
    return %1 : !nn.tensor<[], f64>
  }
  func.func @cross_entropy_flat(%x: !nn.tensor<[b, s, 5], f64>, %l: !nn.tensor<[b, s], i64> {test.range = [-1, 4]}) -> !nn.tensor<[], f64> {
    %2 = nn.reshape %x : (!nn.tensor<[b, s, 5], f64>) -> !nn.tensor<[b*s, 5], f64>
    %3 = nn.reshape %l : (!nn.tensor<[b, s], i64>) -> !nn.tensor<[b*s], i64>
    %0:2 = nn.cross_entropy %2, %3 {ignore_index = -1 : i64} : (!nn.tensor<[b*s, 5], f64>, !nn.tensor<[b*s], i64>) -> (!nn.tensor<[b*s], f64>, !nn.tensor<[b*s], f64>)
    %1 = nn.reduce_sum %0#0 {axes = array<i64: 0>} : (!nn.tensor<[b*s], f64>) -> !nn.tensor<[], f64>
    return %1 : !nn.tensor<[], f64>
  }
  func.func @kl_divergence(%x: !nn.tensor<[b, s, 5], f64>, %y: !nn.tensor<[b, s, 5], f64>) -> !nn.tensor<[b, s], f64> {
    %0:3 = nn.kl_divergence %x, %y {temperature = 2.0 : f64} : (!nn.tensor<[b, s, 5], f64>, !nn.tensor<[b, s, 5], f64>) -> (!nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>)
    return %0#0 : !nn.tensor<[b, s], f64>
  }
  func.func @kl_divergence_masked(%x: !nn.tensor<[b, s, 5], f64>, %y: !nn.tensor<[b, s, 5], f64> {test.constant}, %m: !nn.tensor<[b, s], f64> {test.constant}) -> !nn.tensor<[], f64> {
    %0:3 = nn.kl_divergence %x, %y {temperature = 0.5 : f64} : (!nn.tensor<[b, s, 5], f64>, !nn.tensor<[b, s, 5], f64>) -> (!nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>)
    %1 = nn.mul %0#0, %m : (!nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>) -> !nn.tensor<[b, s], f64>
    %2 = nn.reduce_sum %1 {axes = array<i64: 0, 1>} : (!nn.tensor<[b, s], f64>) -> !nn.tensor<[], f64>
    return %2 : !nn.tensor<[], f64>
  }
}
