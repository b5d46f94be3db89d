// Reductions: gradients_test.cpp differentiates each function.
module attributes {test.symbols = {b = 2, s = 3}} {
  func.func @reduce_sum(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64> {
    %0 = nn.reduce_sum %x {axes = array<i64: 0, 2>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64>
    return %0 : !nn.tensor<[s], f64>
  }
  func.func @reduce_sum_keep(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 1, 4], f64> {
    %0 = nn.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 1, 4], f64>
    return %0 : !nn.tensor<[b, 1, 4], f64>
  }
  func.func @reduce_mean(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64> {
    %0 = nn.reduce_mean %x {axes = array<i64: 0, 2>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64>
    return %0 : !nn.tensor<[s], f64>
  }
  func.func @reduce_mean_keep(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 1, 4], f64> {
    %0 = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 1, 4], f64>
    return %0 : !nn.tensor<[b, 1, 4], f64>
  }
  func.func @reduce_max(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64> {
    %0 = nn.reduce_max %x {axes = array<i64: 0, 2>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64>
    return %0 : !nn.tensor<[s], f64>
  }
  func.func @reduce_max_keep(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 1, 4], f64> {
    %0 = nn.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 1, 4], f64>
    return %0 : !nn.tensor<[b, 1, 4], f64>
  }
  func.func @reduce_min(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64> {
    %0 = nn.reduce_min %x {axes = array<i64: 0, 2>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64>
    return %0 : !nn.tensor<[s], f64>
  }
  func.func @reduce_min_keep(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 1, 4], f64> {
    %0 = nn.reduce_min %x {axes = array<i64: 1>, keepdims = true} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 1, 4], f64>
    return %0 : !nn.tensor<[b, 1, 4], f64>
  }
  func.func @reduce_mean_fixed(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s], f64> {
    %0 = nn.reduce_mean %x {axes = array<i64: 2>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s], f64>
    return %0 : !nn.tensor<[b, s], f64>
  }
  func.func @reduce_sum_nothing(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.reduce_sum %x {axes = array<i64>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @reduce_prod(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64> {
    %0 = nn.reduce_prod %x {axes = array<i64: 0, 2>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[s], f64>
    return %0 : !nn.tensor<[s], f64>
  }
  // Rows with no zero, with one and with several.
  func.func @reduce_prod_zeros(%x: !nn.tensor<[8, 4], f64> {test.range = [-2.0, 2.0], test.step = 1.0 : f64}) -> !nn.tensor<[8, 1], f64> {
    %0 = nn.reduce_prod %x {axes = array<i64: 1>, keepdims = true} : (!nn.tensor<[8, 4], f64>) -> !nn.tensor<[8, 1], f64>
    return %0 : !nn.tensor<[8, 1], f64>
  }
}
