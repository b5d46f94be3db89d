// Operators that move data: gradients_test.cpp differentiates each function.
module attributes {test.symbols = {b = 2, s = 3}} {
  func.func @reshape(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b*s, 2, 2], f64> {
    %0 = nn.reshape %x : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b*s, 2, 2], f64>
    return %0 : !nn.tensor<[b*s, 2, 2], f64>
  }
  func.func @transpose(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[4, b, s], f64> {
    %0 = nn.transpose %x {permutation = array<i64: 2, 0, 1>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[4, b, s], f64>
    return %0 : !nn.tensor<[4, b, s], f64>
  }
  func.func @broadcast_to(%x: !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.broadcast_to %x : (!nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @concat(%x: !nn.tensor<[b, s], f64>, %y: !nn.tensor<[b, 2], f64>, %z: !nn.tensor<[b, s], f64>) -> !nn.tensor<[b, 2*s + 2], f64> {
    %0 = nn.concat %x, %y, %z {axis = 1 : i64} : (!nn.tensor<[b, s], f64>, !nn.tensor<[b, 2], f64>, !nn.tensor<[b, s], f64>) -> !nn.tensor<[b, 2*s + 2], f64>
    return %0 : !nn.tensor<[b, 2*s + 2], f64>
  }
  func.func @slice(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 2, 2], f64> {
    %0 = nn.slice %x {offsets = #nn.dims<[0, s - 2, 1]>, steps = array<i64: 1, 1, 2>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, 2, 2], f64>
    return %0 : !nn.tensor<[b, 2, 2], f64>
  }
  func.func @slice_backwards(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 2], f64> {
    %0 = nn.slice %x {offsets = #nn.dims<[0, s - 1, 3]>, steps = array<i64: 1, -1, -2>} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 2], f64>
    return %0 : !nn.tensor<[b, s, 2], f64>
  }
  // A qkv split: the three gradients are joined.
  func.func @slices_that_tile(%x: !nn.tensor<[b, s, 12], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.slice %x {offsets = #nn.dims<[0, 0, 4]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[b, s, 12], f64>) -> !nn.tensor<[b, s, 4], f64>
    %1 = nn.slice %x {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[b, s, 12], f64>) -> !nn.tensor<[b, s, 4], f64>
    %2 = nn.slice %x {offsets = #nn.dims<[0, 0, 8]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[b, s, 12], f64>) -> !nn.tensor<[b, s, 4], f64>
    %3 = nn.mul %0, %1 : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    %4 = nn.mul %3, %2 : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %4 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @pad(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b + 1, s + 1, 7], f64> {
    %0 = nn.pad %x {low = #nn.dims<[0, 1, 2]>, high = #nn.dims<[1, 0, 1]>, value = 3.0 : f64} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b + 1, s + 1, 7], f64>
    return %0 : !nn.tensor<[b + 1, s + 1, 7], f64>
  }
  func.func @gather_embedding(%w: !nn.tensor<[5, 4], f64>, %i: !nn.tensor<[2, s], i64> {test.range = [-5, 4]}) -> !nn.tensor<[2, s, 4], f64> {
    %0 = nn.gather %w, %i {axis = 0 : i64} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[2, s], i64>) -> !nn.tensor<[2, s, 4], f64>
    return %0 : !nn.tensor<[2, s, 4], f64>
  }
  func.func @gather_inner(%w: !nn.tensor<[b, 5, 4], f64>, %i: !nn.tensor<[2, s], i64> {test.range = [0, 4]}) -> !nn.tensor<[b, 2, s, 4], f64> {
    %0 = nn.gather %w, %i {axis = 1 : i64} : (!nn.tensor<[b, 5, 4], f64>, !nn.tensor<[2, s], i64>) -> !nn.tensor<[b, 2, s, 4], f64>
    return %0 : !nn.tensor<[b, 2, s, 4], f64>
  }
  func.func @gather_elements(%x: !nn.tensor<[5, 4], f64>, %i: !nn.tensor<[3, 4], i64> {test.range = [0, 4]}) -> !nn.tensor<[3, 4], f64> {
    %0 = nn.gather_elements %x, %i {axis = 0 : i64} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[3, 4], i64>) -> !nn.tensor<[3, 4], f64>
    return %0 : !nn.tensor<[3, 4], f64>
  }
  func.func @scatter_elements_none(%x: !nn.tensor<[5, 4], f64>, %u: !nn.tensor<[2, 4], f64>) -> !nn.tensor<[5, 4], f64> {
    %i = nn.constant dense<[[0, 4, 1, 2], [3, 0, 2, 1]]> : tensor<2x4xi64> : !nn.tensor<[2, 4], i64>
    %0 = nn.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "none"} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[2, 4], i64>, !nn.tensor<[2, 4], f64>) -> !nn.tensor<[5, 4], f64>
    return %0 : !nn.tensor<[5, 4], f64>
  }
  func.func @scatter_nd_none(%x: !nn.tensor<[5, 4], f64>, %u: !nn.tensor<[3, 4], f64>) -> !nn.tensor<[5, 4], f64> {
    %i = nn.constant dense<[[4], [0], [2]]> : tensor<3x1xi64> : !nn.tensor<[3, 1], i64>
    %0 = nn.scatter_nd %x, %i, %u {reduction = "none"} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[3, 1], i64>, !nn.tensor<[3, 4], f64>) -> !nn.tensor<[5, 4], f64>
    return %0 : !nn.tensor<[5, 4], f64>
  }
  func.func @scatter_elements_add(%x: !nn.tensor<[5, 4], f64>, %u: !nn.tensor<[2, 4], f64>) -> !nn.tensor<[5, 4], f64> {
    %i = nn.constant dense<[[0, 4, 1, 2], [0, 0, 1, 1]]> : tensor<2x4xi64> : !nn.tensor<[2, 4], i64>
    %0 = nn.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "add"} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[2, 4], i64>, !nn.tensor<[2, 4], f64>) -> !nn.tensor<[5, 4], f64>
    return %0 : !nn.tensor<[5, 4], f64>
  }
  func.func @scatter_nd_add(%x: !nn.tensor<[5, 4], f64>, %u: !nn.tensor<[3, 4], f64>) -> !nn.tensor<[5, 4], f64> {
    %i = nn.constant dense<[[4], [0], [4]]> : tensor<3x1xi64> : !nn.tensor<[3, 1], i64>
    %0 = nn.scatter_nd %x, %i, %u {reduction = "add"} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[3, 1], i64>, !nn.tensor<[3, 4], f64>) -> !nn.tensor<[5, 4], f64>
    return %0 : !nn.tensor<[5, 4], f64>
  }
  func.func @scatter_elements_max(%x: !nn.tensor<[5, 4], f64>, %u: !nn.tensor<[2, 4], f64>) -> !nn.tensor<[5, 4], f64> {
    %i = nn.constant dense<[[0, 4, 1, 2], [0, 0, 1, 1]]> : tensor<2x4xi64> : !nn.tensor<[2, 4], i64>
    %0 = nn.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "max"} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[2, 4], i64>, !nn.tensor<[2, 4], f64>) -> !nn.tensor<[5, 4], f64>
    return %0 : !nn.tensor<[5, 4], f64>
  }
  func.func @scatter_nd_max(%x: !nn.tensor<[5, 4], f64>, %u: !nn.tensor<[3, 4], f64>) -> !nn.tensor<[5, 4], f64> {
    %i = nn.constant dense<[[4], [0], [4]]> : tensor<3x1xi64> : !nn.tensor<[3, 1], i64>
    %0 = nn.scatter_nd %x, %i, %u {reduction = "max"} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[3, 1], i64>, !nn.tensor<[3, 4], f64>) -> !nn.tensor<[5, 4], f64>
    return %0 : !nn.tensor<[5, 4], f64>
  }
  func.func @scatter_elements_min(%x: !nn.tensor<[5, 4], f64>, %u: !nn.tensor<[2, 4], f64>) -> !nn.tensor<[5, 4], f64> {
    %i = nn.constant dense<[[0, 4, 1, 2], [0, 0, 1, 1]]> : tensor<2x4xi64> : !nn.tensor<[2, 4], i64>
    %0 = nn.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "min"} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[2, 4], i64>, !nn.tensor<[2, 4], f64>) -> !nn.tensor<[5, 4], f64>
    return %0 : !nn.tensor<[5, 4], f64>
  }
  func.func @scatter_nd_min(%x: !nn.tensor<[5, 4], f64>, %u: !nn.tensor<[3, 4], f64>) -> !nn.tensor<[5, 4], f64> {
    %i = nn.constant dense<[[4], [0], [4]]> : tensor<3x1xi64> : !nn.tensor<[3, 1], i64>
    %0 = nn.scatter_nd %x, %i, %u {reduction = "min"} : (!nn.tensor<[5, 4], f64>, !nn.tensor<[3, 1], i64>, !nn.tensor<[3, 4], f64>) -> !nn.tensor<[5, 4], f64>
    return %0 : !nn.tensor<[5, 4], f64>
  }
  func.func @gather_nd(%x: !nn.tensor<[5, 4, 2], f64>, %i: !nn.tensor<[6, 2], i64> {test.range = [0, 3]}) -> !nn.tensor<[6, 2], f64> {
    %0 = nn.gather_nd %x, %i : (!nn.tensor<[5, 4, 2], f64>, !nn.tensor<[6, 2], i64>) -> !nn.tensor<[6, 2], f64>
    return %0 : !nn.tensor<[6, 2], f64>
  }
  func.func @gather_nd_batched(%x: !nn.tensor<[b, 5, 4], f64>, %i: !nn.tensor<[b, 3, 1], i64> {test.range = [0, 4]}) -> !nn.tensor<[b, 3, 4], f64> {
    %0 = nn.gather_nd %x, %i {batch_dims = 1 : i64} : (!nn.tensor<[b, 5, 4], f64>, !nn.tensor<[b, 3, 1], i64>) -> !nn.tensor<[b, 3, 4], f64>
    return %0 : !nn.tensor<[b, 3, 4], f64>
  }
  func.func @masked_scatter(%x: !nn.tensor<[b, s, 4], f64>, %y: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %i = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[s], i64>
    %r = nn.reshape %i : (!nn.tensor<[s], i64>) -> !nn.tensor<[1, s, 1], i64>
    %w = nn.broadcast_to %r : (!nn.tensor<[1, s, 1], i64>) -> !nn.tensor<[b, s, 4], i64>
    %one = nn.constant dense<1> : tensor<i64> : !nn.tensor<[], i64>
    %m = nn.equal %w, %one : (!nn.tensor<[b, s, 4], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[b, s, 4], i1>
    %0 = nn.masked_scatter %x, %m, %y : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], i1>, !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @cumsum(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.cumsum %x {axis = 1 : i64} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @cumsum_exclusive(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.cumsum %x {axis = 1 : i64, exclusive = true} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @cumsum_reverse(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.cumsum %x {axis = 1 : i64, reverse = true} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @cumsum_exclusive_reverse(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.cumsum %x {axis = 1 : i64, exclusive = true, reverse = true} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @top_k(%x: !nn.tensor<[b, 3, 6], f64>) -> !nn.tensor<[b, 3, 2], f64> {
    %0:2 = nn.top_k %x {axis = 2 : i64} : (!nn.tensor<[b, 3, 6], f64>) -> (!nn.tensor<[b, 3, 2], f64>, !nn.tensor<[b, 3, 2], i64>)
    return %0#0 : !nn.tensor<[b, 3, 2], f64>
  }
  func.func @bottom_k(%x: !nn.tensor<[b, 3, 6], f64>) -> !nn.tensor<[b, 3, 2], f64> {
    %0:2 = nn.top_k %x {axis = 2 : i64, largest = false} : (!nn.tensor<[b, 3, 6], f64>) -> (!nn.tensor<[b, 3, 2], f64>, !nn.tensor<[b, 3, 2], i64>)
    return %0#0 : !nn.tensor<[b, 3, 2], f64>
  }
}
