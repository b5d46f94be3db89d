// Softmaxes, norms, rotary embedding, dropout and attention: gradients_test.cpp differentiates each function.
module attributes {test.symbols = {b = 2, s = 3}} {
  func.func @softmax(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.softmax %x {axis = 2 : i64} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @softmax_middle(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.softmax %x {axis = 1 : i64} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @log_softmax(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.log_softmax %x {axis = 2 : i64} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @log_softmax_middle(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0 = nn.log_softmax %x {axis = 1 : i64} : (!nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64>
    return %0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @layer_norm(%x: !nn.tensor<[b, s, 4], f64>, %w: !nn.tensor<[4], f64>, %c: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0:3 = nn.layer_norm %x scale %w bias %c {axis = 2 : i64, epsilon = 1.0e-02 : f64} : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>, !nn.tensor<[4], f64>) -> (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>)
    return %0#0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @layer_norm_scale(%x: !nn.tensor<[b, s, 4], f64>, %w: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0:3 = nn.layer_norm %x scale %w {axis = 2 : i64, epsilon = 1.0e-02 : f64} : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>)
    return %0#0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @layer_norm_plain(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0:3 = nn.layer_norm %x {axis = 2 : i64, epsilon = 1.0e-02 : f64} : (!nn.tensor<[b, s, 4], f64>) -> (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>)
    return %0#0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @layer_norm_bias(%x: !nn.tensor<[b, s, 4], f64>, %c: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0:3 = nn.layer_norm %x bias %c {axis = 2 : i64, epsilon = 1.0e-02 : f64} : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s], f64>, !nn.tensor<[b, s], f64>)
    return %0#0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @layer_norm_two_dims(%x: !nn.tensor<[b, s, 4], f64>, %w: !nn.tensor<[s, 4], f64>, %c: !nn.tensor<[s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0:3 = nn.layer_norm %x scale %w bias %c {axis = 1 : i64, epsilon = 1.0e-02 : f64} : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[s, 4], f64>, !nn.tensor<[s, 4], f64>) -> (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b], f64>, !nn.tensor<[b], f64>)
    return %0#0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @rms_norm(%x: !nn.tensor<[b, s, 4], f64>, %w: !nn.tensor<[4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0:2 = nn.rms_norm %x, %w {axis = 2 : i64, epsilon = 1.0e-02 : f64} : (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[4], f64>) -> (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s], f64>)
    return %0#0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @rms_norm_plain(%x: !nn.tensor<[b, s, 4], f64>) -> !nn.tensor<[b, s, 4], f64> {
    %0:2 = nn.rms_norm %x {axis = 2 : i64, epsilon = 1.0e-02 : f64} : (!nn.tensor<[b, s, 4], f64>) -> (!nn.tensor<[b, s, 4], f64>, !nn.tensor<[b, s], f64>)
    return %0#0 : !nn.tensor<[b, s, 4], f64>
  }
  func.func @rope(%x: !nn.tensor<[b, 2, s, 4], f64>, %c: !nn.tensor<[b, 1, s, 4], f64>, %n: !nn.tensor<[b, 1, s, 4], f64>) -> !nn.tensor<[b, 2, s, 4], f64> {
    %0 = nn.rope %x, %c, %n : (!nn.tensor<[b, 2, s, 4], f64>, !nn.tensor<[b, 1, s, 4], f64>, !nn.tensor<[b, 1, s, 4], f64>) -> !nn.tensor<[b, 2, s, 4], f64>
    return %0 : !nn.tensor<[b, 2, s, 4], f64>
  }
  func.func @rope_interleaved(%x: !nn.tensor<[b, 2, s, 4], f64>, %c: !nn.tensor<[b, 1, s, 4], f64>, %n: !nn.tensor<[b, 1, s, 4], f64>) -> !nn.tensor<[b, 2, s, 4], f64> {
    %0 = nn.rope %x, %c, %n {interleaved = true} : (!nn.tensor<[b, 2, s, 4], f64>, !nn.tensor<[b, 1, s, 4], f64>, !nn.tensor<[b, 1, s, 4], f64>) -> !nn.tensor<[b, 2, s, 4], f64>
    return %0 : !nn.tensor<[b, 2, s, 4], f64>
  }
  func.func @rope_adjoint(%x: !nn.tensor<[b, 2, s, 4], f64>, %c: !nn.tensor<[b, 1, s, 4], f64>, %n: !nn.tensor<[b, 1, s, 4], f64>) -> !nn.tensor<[b, 2, s, 4], f64> {
    %0 = nn.rope %x, %c, %n {adjoint = true} : (!nn.tensor<[b, 2, s, 4], f64>, !nn.tensor<[b, 1, s, 4], f64>, !nn.tensor<[b, 1, s, 4], f64>) -> !nn.tensor<[b, 2, s, 4], f64>
    return %0 : !nn.tensor<[b, 2, s, 4], f64>
  }
  func.func @rope_interleaved_adjoint(%x: !nn.tensor<[b, 2, s, 4], f64>, %c: !nn.tensor<[b, 1, s, 4], f64>, %n: !nn.tensor<[b, 1, s, 4], f64>) -> !nn.tensor<[b, 2, s, 4], f64> {
    %0 = nn.rope %x, %c, %n {adjoint = true, interleaved = true} : (!nn.tensor<[b, 2, s, 4], f64>, !nn.tensor<[b, 1, s, 4], f64>, !nn.tensor<[b, 1, s, 4], f64>) -> !nn.tensor<[b, 2, s, 4], f64>
    return %0 : !nn.tensor<[b, 2, s, 4], f64>
  }
  func.func @dropout(%x: !nn.tensor<[2*b, s, 4], f64>, %t: !nn.tensor<[2], i64> {test.range = [1, 9]}, %i: !nn.tensor<[b], i64> {test.range = [0, 99]}) -> !nn.tensor<[2*b, s, 4], f64> {
    %0 = nn.dropout %x, %t, %i {ratio = 4.0e-01 : f64, stream = 3 : i64, strides = array<i64: 4, 1>} : (!nn.tensor<[2*b, s, 4], f64>, !nn.tensor<[2], i64>, !nn.tensor<[b], i64>) -> !nn.tensor<[2*b, s, 4], f64>
    return %0 : !nn.tensor<[2*b, s, 4], f64>
  }
  func.func @attention(%q: !nn.tensor<[b, 4, s, 5], f64>, %k: !nn.tensor<[b, 4, s + 1, 5], f64>, %v: !nn.tensor<[b, 4, s + 1, 3], f64>) -> !nn.tensor<[b, 4, s, 3], f64> {
    %0:2 = nn.attention %q, %k, %v {scale = 7.0e-01 : f64} : (!nn.tensor<[b, 4, s, 5], f64>, !nn.tensor<[b, 4, s + 1, 5], f64>, !nn.tensor<[b, 4, s + 1, 3], f64>) -> (!nn.tensor<[b, 4, s, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, 4, s, 3], f64>
  }
  func.func @attention_grouped(%q: !nn.tensor<[b, 4, s, 5], f64>, %k: !nn.tensor<[b, 2, s + 1, 5], f64>, %v: !nn.tensor<[b, 2, s + 1, 3], f64>) -> !nn.tensor<[b, 4, s, 3], f64> {
    %0:2 = nn.attention %q, %k, %v {scale = 7.0e-01 : f64} : (!nn.tensor<[b, 4, s, 5], f64>, !nn.tensor<[b, 2, s + 1, 5], f64>, !nn.tensor<[b, 2, s + 1, 3], f64>) -> (!nn.tensor<[b, 4, s, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, 4, s, 3], f64>
  }
  func.func @attention_causal(%q: !nn.tensor<[b, 4, s, 5], f64>, %k: !nn.tensor<[b, 2, s + 1, 5], f64>, %v: !nn.tensor<[b, 2, s + 1, 3], f64>) -> !nn.tensor<[b, 4, s, 3], f64> {
    %0:2 = nn.attention %q, %k, %v {scale = 7.0e-01 : f64, causal = true, causal_offset = 1 : i64} : (!nn.tensor<[b, 4, s, 5], f64>, !nn.tensor<[b, 2, s + 1, 5], f64>, !nn.tensor<[b, 2, s + 1, 3], f64>) -> (!nn.tensor<[b, 4, s, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, 4, s, 3], f64>
  }
  func.func @attention_mask(%q: !nn.tensor<[b, 4, s, 5], f64>, %k: !nn.tensor<[b, 4, s + 1, 5], f64>, %v: !nn.tensor<[b, 4, s + 1, 3], f64>, %m: !nn.tensor<[b, 1, s, s + 1], i1> {test.range = [0, 1]}) -> !nn.tensor<[b, 4, s, 3], f64> {
    %0:2 = nn.attention %q, %k, %v, %m {scale = 7.0e-01 : f64} : (!nn.tensor<[b, 4, s, 5], f64>, !nn.tensor<[b, 4, s + 1, 5], f64>, !nn.tensor<[b, 4, s + 1, 3], f64>, !nn.tensor<[b, 1, s, s + 1], i1>) -> (!nn.tensor<[b, 4, s, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, 4, s, 3], f64>
  }
  func.func @attention_cap(%q: !nn.tensor<[b, 4, s, 5], f64>, %k: !nn.tensor<[b, 4, s + 1, 5], f64>, %v: !nn.tensor<[b, 4, s + 1, 3], f64>) -> !nn.tensor<[b, 4, s, 3], f64> {
    %0:2 = nn.attention %q, %k, %v {scale = 7.0e-01 : f64, softcap = 1.5 : f64} : (!nn.tensor<[b, 4, s, 5], f64>, !nn.tensor<[b, 4, s + 1, 5], f64>, !nn.tensor<[b, 4, s + 1, 3], f64>) -> (!nn.tensor<[b, 4, s, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, 4, s, 3], f64>
  }
  func.func @attention_trained_mask(%q: !nn.tensor<[b, 4, s, 5], f64>, %k: !nn.tensor<[b, 4, s + 1, 5], f64>, %v: !nn.tensor<[b, 4, s + 1, 3], f64>, %m: !nn.tensor<[1, 4, s, s + 1], f64>) -> !nn.tensor<[b, 4, s, 3], f64> {
    %0:2 = nn.attention %q, %k, %v, %m {scale = 7.0e-01 : f64} : (!nn.tensor<[b, 4, s, 5], f64>, !nn.tensor<[b, 4, s + 1, 5], f64>, !nn.tensor<[b, 4, s + 1, 3], f64>, !nn.tensor<[1, 4, s, s + 1], f64>) -> (!nn.tensor<[b, 4, s, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, 4, s, 3], f64>
  }
  func.func @attention_trained_mask_grouped_causal(%q: !nn.tensor<[b, 4, s, 5], f64>, %k: !nn.tensor<[b, 2, s + 1, 5], f64>, %v: !nn.tensor<[b, 2, s + 1, 3], f64>, %m: !nn.tensor<[s, s + 1], f64>) -> !nn.tensor<[b, 4, s, 3], f64> {
    %0:2 = nn.attention %q, %k, %v, %m {scale = 7.0e-01 : f64, causal = true, softcap = 1.5 : f64} : (!nn.tensor<[b, 4, s, 5], f64>, !nn.tensor<[b, 2, s + 1, 5], f64>, !nn.tensor<[b, 2, s + 1, 3], f64>, !nn.tensor<[s, s + 1], f64>) -> (!nn.tensor<[b, 4, s, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, 4, s, 3], f64>
  }
  func.func @attention_sequence_major(%q: !nn.tensor<[b, s, 4, 5], f64>, %k: !nn.tensor<[b, s + 1, 2, 5], f64>, %v: !nn.tensor<[b, s + 1, 2, 3], f64>) -> !nn.tensor<[b, s, 4, 3], f64> {
    %0:2 = nn.attention %q, %k, %v {scale = 7.0e-01 : f64, sequence_major = true, causal = true} : (!nn.tensor<[b, s, 4, 5], f64>, !nn.tensor<[b, s + 1, 2, 5], f64>, !nn.tensor<[b, s + 1, 2, 3], f64>) -> (!nn.tensor<[b, s, 4, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, s, 4, 3], f64>
  }
  func.func @attention_sequence_major_trained_mask(%q: !nn.tensor<[b, s, 4, 5], f64>, %k: !nn.tensor<[b, s + 1, 2, 5], f64>, %v: !nn.tensor<[b, s + 1, 2, 3], f64>, %m: !nn.tensor<[b, 1, 1, s + 1], f64>) -> !nn.tensor<[b, s, 4, 3], f64> {
    %0:2 = nn.attention %q, %k, %v, %m {scale = 7.0e-01 : f64, sequence_major = true} : (!nn.tensor<[b, s, 4, 5], f64>, !nn.tensor<[b, s + 1, 2, 5], f64>, !nn.tensor<[b, s + 1, 2, 3], f64>, !nn.tensor<[b, 1, 1, s + 1], f64>) -> (!nn.tensor<[b, s, 4, 3], f64>, !nn.tensor<[b, 4, s], f64>)
    return %0#0 : !nn.tensor<[b, s, 4, 3], f64>
  }
}
