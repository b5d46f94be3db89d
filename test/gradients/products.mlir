// Products, convolutions and pools: gradients_test.cpp differentiates each function.
module attributes {test.symbols = {b = 2, s = 3}} {
  func.func @matmul_nn(%a: !nn.tensor<[s, 4], f64>, %b: !nn.tensor<[4, 5], f64>) -> !nn.tensor<[s, 5], f64> {
    %0 = nn.matmul %a, %b : (!nn.tensor<[s, 4], f64>, !nn.tensor<[4, 5], f64>) -> !nn.tensor<[s, 5], f64>
    return %0 : !nn.tensor<[s, 5], f64>
  }
  func.func @matmul_batched_nn(%a: !nn.tensor<[b, 2, s, 4], f64>, %b: !nn.tensor<[b, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b : (!nn.tensor<[b, 2, s, 4], f64>, !nn.tensor<[b, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_weight_nn(%a: !nn.tensor<[b, 2, s, 4], f64>, %b: !nn.tensor<[4, 5], f64>, %c: !nn.tensor<[5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b, %c : (!nn.tensor<[b, 2, s, 4], f64>, !nn.tensor<[4, 5], f64>, !nn.tensor<[5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_left_weight_nn(%a: !nn.tensor<[s, 4], f64>, %b: !nn.tensor<[b, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b : (!nn.tensor<[s, 4], f64>, !nn.tensor<[b, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_nt(%a: !nn.tensor<[s, 4], f64>, %b: !nn.tensor<[5, 4], f64>) -> !nn.tensor<[s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_b = true} : (!nn.tensor<[s, 4], f64>, !nn.tensor<[5, 4], f64>) -> !nn.tensor<[s, 5], f64>
    return %0 : !nn.tensor<[s, 5], f64>
  }
  func.func @matmul_batched_nt(%a: !nn.tensor<[b, 2, s, 4], f64>, %b: !nn.tensor<[b, 2, 5, 4], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_b = true} : (!nn.tensor<[b, 2, s, 4], f64>, !nn.tensor<[b, 2, 5, 4], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_weight_nt(%a: !nn.tensor<[b, 2, s, 4], f64>, %b: !nn.tensor<[5, 4], f64>, %c: !nn.tensor<[5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b, %c {transpose_b = true} : (!nn.tensor<[b, 2, s, 4], f64>, !nn.tensor<[5, 4], f64>, !nn.tensor<[5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_left_weight_nt(%a: !nn.tensor<[s, 4], f64>, %b: !nn.tensor<[b, 2, 5, 4], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_b = true} : (!nn.tensor<[s, 4], f64>, !nn.tensor<[b, 2, 5, 4], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_tn(%a: !nn.tensor<[4, s], f64>, %b: !nn.tensor<[4, 5], f64>) -> !nn.tensor<[s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_a = true} : (!nn.tensor<[4, s], f64>, !nn.tensor<[4, 5], f64>) -> !nn.tensor<[s, 5], f64>
    return %0 : !nn.tensor<[s, 5], f64>
  }
  func.func @matmul_batched_tn(%a: !nn.tensor<[b, 2, 4, s], f64>, %b: !nn.tensor<[b, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_a = true} : (!nn.tensor<[b, 2, 4, s], f64>, !nn.tensor<[b, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_weight_tn(%a: !nn.tensor<[b, 2, 4, s], f64>, %b: !nn.tensor<[4, 5], f64>, %c: !nn.tensor<[5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b, %c {transpose_a = true} : (!nn.tensor<[b, 2, 4, s], f64>, !nn.tensor<[4, 5], f64>, !nn.tensor<[5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_left_weight_tn(%a: !nn.tensor<[4, s], f64>, %b: !nn.tensor<[b, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_a = true} : (!nn.tensor<[4, s], f64>, !nn.tensor<[b, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_tt(%a: !nn.tensor<[4, s], f64>, %b: !nn.tensor<[5, 4], f64>) -> !nn.tensor<[s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_a = true, transpose_b = true} : (!nn.tensor<[4, s], f64>, !nn.tensor<[5, 4], f64>) -> !nn.tensor<[s, 5], f64>
    return %0 : !nn.tensor<[s, 5], f64>
  }
  func.func @matmul_batched_tt(%a: !nn.tensor<[b, 2, 4, s], f64>, %b: !nn.tensor<[b, 2, 5, 4], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_a = true, transpose_b = true} : (!nn.tensor<[b, 2, 4, s], f64>, !nn.tensor<[b, 2, 5, 4], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_weight_tt(%a: !nn.tensor<[b, 2, 4, s], f64>, %b: !nn.tensor<[5, 4], f64>, %c: !nn.tensor<[5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b, %c {transpose_a = true, transpose_b = true} : (!nn.tensor<[b, 2, 4, s], f64>, !nn.tensor<[5, 4], f64>, !nn.tensor<[5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_left_weight_tt(%a: !nn.tensor<[4, s], f64>, %b: !nn.tensor<[b, 2, 5, 4], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b {transpose_a = true, transpose_b = true} : (!nn.tensor<[4, s], f64>, !nn.tensor<[b, 2, 5, 4], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @matmul_stretched(%a: !nn.tensor<[b, 1, s, 4], f64>, %b: !nn.tensor<[1, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64> {
    %0 = nn.matmul %a, %b : (!nn.tensor<[b, 1, s, 4], f64>, !nn.tensor<[1, 2, 4, 5], f64>) -> !nn.tensor<[b, 2, s, 5], f64>
    return %0 : !nn.tensor<[b, 2, s, 5], f64>
  }
  func.func @conv_1d(%x: !nn.tensor<[b, 2, 9], f64>, %w: !nn.tensor<[4, 2, 3], f64>, %c: !nn.tensor<[4], f64>) -> !nn.tensor<[b, 4, 5], f64> {
    %0 = nn.conv %x, %w, %c {strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 1 : i64} : (!nn.tensor<[b, 2, 9], f64>, !nn.tensor<[4, 2, 3], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, 4, 5], f64>
    return %0 : !nn.tensor<[b, 4, 5], f64>
  }
  func.func @conv_2d(%x: !nn.tensor<[b, 4, 7, 6], f64>, %w: !nn.tensor<[6, 2, 3, 2], f64>, %c: !nn.tensor<[6], f64>) -> !nn.tensor<[b, 6, 5, 4], f64> {
    %0 = nn.conv %x, %w, %c {strides = array<i64: 1, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 2, 1>, group = 2 : i64} : (!nn.tensor<[b, 4, 7, 6], f64>, !nn.tensor<[6, 2, 3, 2], f64>, !nn.tensor<[6], f64>) -> !nn.tensor<[b, 6, 5, 4], f64>
    return %0 : !nn.tensor<[b, 6, 5, 4], f64>
  }
  func.func @conv_depthwise(%x: !nn.tensor<[b, 3, 5, 5], f64>, %w: !nn.tensor<[3, 1, 3, 3], f64>) -> !nn.tensor<[b, 3, 5, 5], f64> {
    %0 = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 3 : i64} : (!nn.tensor<[b, 3, 5, 5], f64>, !nn.tensor<[3, 1, 3, 3], f64>) -> !nn.tensor<[b, 3, 5, 5], f64>
    return %0 : !nn.tensor<[b, 3, 5, 5], f64>
  }
  func.func @conv_3d(%x: !nn.tensor<[b, 2, 4, 4, 4], f64>, %w: !nn.tensor<[2, 2, 2, 3, 2], f64>) -> !nn.tensor<[b, 2, 3, 2, 4], f64> {
    %0 = nn.conv %x, %w {strides = array<i64: 1, 2, 1>, pads = array<i64: 0, 0, 0, 0, 1, 1>, dilations = array<i64: 1, 1, 1>, group = 1 : i64} : (!nn.tensor<[b, 2, 4, 4, 4], f64>, !nn.tensor<[2, 2, 2, 3, 2], f64>) -> !nn.tensor<[b, 2, 3, 2, 4], f64>
    return %0 : !nn.tensor<[b, 2, 3, 2, 4], f64>
  }
  func.func @conv_patches(%x: !nn.tensor<[b, 3, 8, 8], f64>, %w: !nn.tensor<[5, 3, 4, 4], f64>, %c: !nn.tensor<[5], f64>) -> !nn.tensor<[b, 5, 2, 2], f64> {
    %0 = nn.conv %x, %w, %c {strides = array<i64: 4, 4>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (!nn.tensor<[b, 3, 8, 8], f64>, !nn.tensor<[5, 3, 4, 4], f64>, !nn.tensor<[5], f64>) -> !nn.tensor<[b, 5, 2, 2], f64>
    return %0 : !nn.tensor<[b, 5, 2, 2], f64>
  }
  func.func @conv_transposed(%g: !nn.tensor<[b, 4, 5], f64>, %w: !nn.tensor<[4, 2, 3], f64>) -> !nn.tensor<[b, 2, 9], f64> {
    %0 = nn.conv_grad_input %g, %w {strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 1 : i64} : (!nn.tensor<[b, 4, 5], f64>, !nn.tensor<[4, 2, 3], f64>) -> !nn.tensor<[b, 2, 9], f64>
    return %0 : !nn.tensor<[b, 2, 9], f64>
  }
  func.func @conv_transposed_2d(%g: !nn.tensor<[b, 6, 5, 4], f64>, %w: !nn.tensor<[6, 2, 3, 2], f64>) -> !nn.tensor<[b, 4, 7, 6], f64> {
    %0 = nn.conv_grad_input %g, %w {strides = array<i64: 1, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 2, 1>, group = 2 : i64} : (!nn.tensor<[b, 6, 5, 4], f64>, !nn.tensor<[6, 2, 3, 2], f64>) -> !nn.tensor<[b, 4, 7, 6], f64>
    return %0 : !nn.tensor<[b, 4, 7, 6], f64>
  }
  func.func @max_pool(%x: !nn.tensor<[b, 3, 7, 6], f64>) -> !nn.tensor<[b, 3, 4, 3], f64> {
    %0 = nn.max_pool %x {kernel = array<i64: 3, 2>, strides = array<i64: 2, 2>, pads = array<i64: 1, 0, 1, 0>, dilations = array<i64: 1, 1>} : (!nn.tensor<[b, 3, 7, 6], f64>) -> !nn.tensor<[b, 3, 4, 3], f64>
    return %0 : !nn.tensor<[b, 3, 4, 3], f64>
  }
  func.func @max_pool_ceil(%x: !nn.tensor<[b, 2, 6], f64>) -> !nn.tensor<[b, 2, 3], f64> {
    %0 = nn.max_pool %x {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = true} : (!nn.tensor<[b, 2, 6], f64>) -> !nn.tensor<[b, 2, 3], f64>
    return %0 : !nn.tensor<[b, 2, 3], f64>
  }
  func.func @max_pool_1d_dilated(%x: !nn.tensor<[b, 2, 9], f64>) -> !nn.tensor<[b, 2, 7], f64> {
    %0 = nn.max_pool %x {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 2>} : (!nn.tensor<[b, 2, 9], f64>) -> !nn.tensor<[b, 2, 7], f64>
    return %0 : !nn.tensor<[b, 2, 7], f64>
  }
  func.func @avg_pool(%x: !nn.tensor<[b, 3, 7, 6], f64>) -> !nn.tensor<[b, 3, 4, 3], f64> {
    %0 = nn.avg_pool %x {kernel = array<i64: 3, 2>, strides = array<i64: 2, 2>, pads = array<i64: 1, 0, 1, 0>, dilations = array<i64: 1, 1>} : (!nn.tensor<[b, 3, 7, 6], f64>) -> !nn.tensor<[b, 3, 4, 3], f64>
    return %0 : !nn.tensor<[b, 3, 4, 3], f64>
  }
  func.func @avg_pool_ceil(%x: !nn.tensor<[b, 2, 6], f64>) -> !nn.tensor<[b, 2, 3], f64> {
    %0 = nn.avg_pool %x {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = true} : (!nn.tensor<[b, 2, 6], f64>) -> !nn.tensor<[b, 2, 3], f64>
    return %0 : !nn.tensor<[b, 2, 3], f64>
  }
  func.func @avg_pool_1d_dilated(%x: !nn.tensor<[b, 2, 9], f64>) -> !nn.tensor<[b, 2, 7], f64> {
    %0 = nn.avg_pool %x {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 2>} : (!nn.tensor<[b, 2, 9], f64>) -> !nn.tensor<[b, 2, 7], f64>
    return %0 : !nn.tensor<[b, 2, 7], f64>
  }
  func.func @avg_pool_counting_padding(%x: !nn.tensor<[b, 3, 7, 6], f64>) -> !nn.tensor<[b, 3, 4, 3], f64> {
    %0 = nn.avg_pool %x {kernel = array<i64: 3, 2>, strides = array<i64: 2, 2>, pads = array<i64: 1, 0, 1, 0>, dilations = array<i64: 1, 1>, count_include_pad = true} : (!nn.tensor<[b, 3, 7, 6], f64>) -> !nn.tensor<[b, 3, 4, 3], f64>
    return %0 : !nn.tensor<[b, 3, 4, 3], f64>
  }
}
