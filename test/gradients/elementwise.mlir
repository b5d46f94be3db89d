// Elementwise operators: gradients_test.cpp differentiates each function.
module attributes {test.symbols = {b = 2, s = 3}} {
  func.func @neg(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.neg %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @abs(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.abs %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @exp(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.exp %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @log(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.log %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @sqrt(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.sqrt %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @rsqrt(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.rsqrt %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @reciprocal(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.reciprocal %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @sin(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.sin %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @cos(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.cos %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @asin(%x: !nn.tensor<[b, 4], f64> {test.range = [-0.9, 0.9]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.asin %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @acos(%x: !nn.tensor<[b, 4], f64> {test.range = [-0.9, 0.9]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.acos %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @atan(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.atan %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @mod(%x: !nn.tensor<[b, 4], f64> {test.range = [-5.0, 5.0]}, %y: !nn.tensor<[4], f64> {test.range = [0.8, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.mod %x, %y : (!nn.tensor<[b, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @fmod(%x: !nn.tensor<[b, 4], f64> {test.range = [-5.0, 5.0]}, %y: !nn.tensor<[4], f64> {test.range = [-2.0, -0.8]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.mod %x, %y {fmod = true} : (!nn.tensor<[b, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @tanh(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.tanh %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @sigmoid(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.sigmoid %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @erf(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.erf %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @relu(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.relu %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @silu(%x: !nn.tensor<[b, 4], f64> {test.range = [-3.0, 3.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.silu %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @glu_silu(%x: !nn.tensor<[b, 4], f64> {test.range = [-3.0, 3.0]}, %y: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.glu %x, %y {activation = "silu"} : (!nn.tensor<[b, 4], f64>, !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @glu_gelu(%x: !nn.tensor<[b, 4], f64> {test.range = [-3.0, 3.0]}, %y: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.glu %x, %y {activation = "gelu"} : (!nn.tensor<[b, 4], f64>, !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @glu_gelu_tanh(%x: !nn.tensor<[b, 4], f64> {test.range = [-3.0, 3.0]}, %y: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.glu %x, %y {activation = "gelu_tanh"} : (!nn.tensor<[b, 4], f64>, !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @softplus(%x: !nn.tensor<[b, 4], f64> {test.range = [-3.0, 3.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.softplus %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @gelu(%x: !nn.tensor<[b, 4], f64> {test.range = [-3.0, 3.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.gelu %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @gelu_tanh(%x: !nn.tensor<[b, 4], f64> {test.range = [-3.0, 3.0]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.gelu %x {approximate = "tanh"} : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @add(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.add %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @add_row(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.add %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @add_scalar(%l: !nn.tensor<[], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.add %l, %r : (!nn.tensor<[], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @add_cross(%l: !nn.tensor<[b, 1, 4], f64>, %r: !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.add %l, %r : (!nn.tensor<[b, 1, 4], f64>, !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @sub(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.sub %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @sub_row(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.sub %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @sub_scalar(%l: !nn.tensor<[], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.sub %l, %r : (!nn.tensor<[], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @sub_cross(%l: !nn.tensor<[b, 1, 4], f64>, %r: !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.sub %l, %r : (!nn.tensor<[b, 1, 4], f64>, !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @mul(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.mul %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @mul_row(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.mul %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @mul_scalar(%l: !nn.tensor<[], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.mul %l, %r : (!nn.tensor<[], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @mul_cross(%l: !nn.tensor<[b, 1, 4], f64>, %r: !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.mul %l, %r : (!nn.tensor<[b, 1, 4], f64>, !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @div(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[b, s, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.div %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @div_row(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.div %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @div_scalar(%l: !nn.tensor<[], f64>, %r: !nn.tensor<[b, s, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.div %l, %r : (!nn.tensor<[], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @div_cross(%l: !nn.tensor<[b, 1, 4], f64>, %r: !nn.tensor<[s, 1], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.div %l, %r : (!nn.tensor<[b, 1, 4], f64>, !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @maximum(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.maximum %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @maximum_row(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.maximum %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @maximum_scalar(%l: !nn.tensor<[], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.maximum %l, %r : (!nn.tensor<[], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @maximum_cross(%l: !nn.tensor<[b, 1, 4], f64>, %r: !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.maximum %l, %r : (!nn.tensor<[b, 1, 4], f64>, !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @minimum(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.minimum %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @minimum_row(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.minimum %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @minimum_scalar(%l: !nn.tensor<[], f64>, %r: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.minimum %l, %r : (!nn.tensor<[], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @minimum_cross(%l: !nn.tensor<[b, 1, 4], f64>, %r: !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.minimum %l, %r : (!nn.tensor<[b, 1, 4], f64>, !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @pow(%l: !nn.tensor<[b, s, 4], f64> {test.range = [0.5, 2.0]}, %r: !nn.tensor<[b, s, 4], f64> {test.range = [-2.0, 2.0]}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.pow %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @pow_row(%l: !nn.tensor<[b, s, 4], f64> {test.range = [0.5, 2.0]}, %r: !nn.tensor<[4], f64> {test.range = [-2.0, 2.0]}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.pow %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @pow_scalar(%l: !nn.tensor<[], f64> {test.range = [0.5, 2.0]}, %r: !nn.tensor<[b, s, 4], f64> {test.range = [-2.0, 2.0]}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.pow %l, %r : (!nn.tensor<[], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @pow_cross(%l: !nn.tensor<[b, 1, 4], f64> {test.range = [0.5, 2.0]}, %r: !nn.tensor<[s, 1], f64> {test.range = [-2.0, 2.0]}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.pow %l, %r : (!nn.tensor<[b, 1, 4], f64>, !nn.tensor<[s, 1], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  // Ties share the gradient equally, as the central difference does.
  func.func @maximum_ties(%l: !nn.tensor<[b, s, 4], f64> {test.step = 0.5}, %r: !nn.tensor<[b, s, 4], f64> {test.step = 0.5}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.maximum %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  // Ties share the gradient equally, as the central difference does.
  func.func @minimum_ties(%l: !nn.tensor<[b, s, 4], f64> {test.step = 0.5}, %r: !nn.tensor<[b, s, 4], f64> {test.step = 0.5}) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.minimum %l, %r : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @maximum_clamps(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.maximum %l, %r {nn.clamps} : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @minimum_clamps(%l: !nn.tensor<[b, s, 4], f64>, %r: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.minimum %l, %r {nn.clamps} : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  // A cast of the exponent cuts it off: x to the power 2.
  func.func @pow_cut_off(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %e = nn.fill {value = 2.7 : f64} : () -> !nn.tensor<[], f64>
    %i = nn.cast %e : (!nn.tensor<[], f64>) -> !nn.tensor<[], i64>
    %d = nn.cast %i : (!nn.tensor<[], i64>) -> !nn.tensor<[], f64>
    %0 = nn.pow %x, %d : (!nn.tensor<[b, 4], f64>, !nn.tensor<[], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @pow_square(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %e = nn.fill {value = 2.0 : f64} : () -> !nn.tensor<[], f64>
    %0 = nn.pow %x, %e : (!nn.tensor<[b, 4], f64>, !nn.tensor<[], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @pow_cube(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %e = nn.fill {value = 3.0 : f64} : () -> !nn.tensor<[], f64>
    %0 = nn.pow %x, %e : (!nn.tensor<[b, 4], f64>, !nn.tensor<[], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @pow_half(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %e = nn.fill {value = 0.5 : f64} : () -> !nn.tensor<[], f64>
    %0 = nn.pow %x, %e : (!nn.tensor<[b, 4], f64>, !nn.tensor<[], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @pow_one(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %e = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[], f64>
    %0 = nn.pow %x, %e : (!nn.tensor<[b, 4], f64>, !nn.tensor<[], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @pow_zero(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %e = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[], f64>
    %0 = nn.pow %x, %e : (!nn.tensor<[b, 4], f64>, !nn.tensor<[], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @pow_inverse(%x: !nn.tensor<[b, 4], f64> {test.range = [0.5, 2.0]}) -> !nn.tensor<[b, 4], f64> {
    %e = nn.fill {value = -1.0 : f64} : () -> !nn.tensor<[], f64>
    %0 = nn.pow %x, %e : (!nn.tensor<[b, 4], f64>, !nn.tensor<[], f64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @pow_integer(%x: !nn.tensor<[b, 4], f64>, %e: !nn.tensor<[4], i64> {test.range = [1, 3]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.pow %x, %e : (!nn.tensor<[b, 4], f64>, !nn.tensor<[4], i64>) -> !nn.tensor<[b, 4], f64>
    return %0 : !nn.tensor<[b, 4], f64>
  }
  func.func @where(%c: !nn.tensor<[s, 1], i1> {test.range = [0, 1]}, %t: !nn.tensor<[b, s, 4], f64>, %f: !nn.tensor<[], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.where %c, %t, %f : (!nn.tensor<[s, 1], i1>, !nn.tensor<[b, s, 4], f64>, !nn.tensor<[], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  // Through f32: differences of 1e-5 are far above its resolution only for values near 0.
  func.func @cast(%x: !nn.tensor<[b, 4], f64>, %i: !nn.tensor<[4], i64> {test.range = [-3, 3]}) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.cast %i : (!nn.tensor<[4], i64>) -> !nn.tensor<[4], f64>
    %1 = nn.mul %x, %0 : (!nn.tensor<[b, 4], f64>, !nn.tensor<[4], f64>) -> !nn.tensor<[b, 4], f64>
    %2 = nn.cast %1 : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %2 : !nn.tensor<[b, 4], f64>
  }
  // Step functions pass no gradient; the other path does.
  func.func @floor_beside(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.floor %x : (!nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    %1 = nn.mul %0, %x : (!nn.tensor<[b, 4], f64>, !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %1 : !nn.tensor<[b, 4], f64>
  }
  // A value that is read three times.
  func.func @shared(%x: !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64> {
    %0 = nn.mul %x, %x : (!nn.tensor<[b, 4], f64>, !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    %1 = nn.add %0, %x : (!nn.tensor<[b, 4], f64>, !nn.tensor<[b, 4], f64>) -> !nn.tensor<[b, 4], f64>
    return %1 : !nn.tensor<[b, 4], f64>
  }
}
