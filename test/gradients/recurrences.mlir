// Recurrences: gradients_test.cpp differentiates each function.
module attributes {test.symbols = {b = 2, s = 4}} {
  func.func @lstm(%x: !nn.tensor<[b, s, 12], f64>, %w: !nn.tensor<[12, 3], f64>, %h: !nn.tensor<[b, 6], f64>)
      -> !nn.tensor<[b, s, 6], f64> {
    %0:2 = nn.recurrence %x, %w, %h {cell = "lstm"} : (!nn.tensor<[b, s, 12], f64>, !nn.tensor<[12, 3], f64>, !nn.tensor<[b, 6], f64>) -> (!nn.tensor<[b, s, 6], f64>, !nn.tensor<[b, s, 12], f64>)
    return %0#0 : !nn.tensor<[b, s, 6], f64>
  }
  func.func @lstm_lengths(%x: !nn.tensor<[b, s, 12], f64>, %w: !nn.tensor<[12, 3], f64>, %h: !nn.tensor<[b, 6], f64>, %l: !nn.tensor<[b], i64> {test.range = [1, 4]})
      -> !nn.tensor<[b, s, 6], f64> {
    %0:2 = nn.recurrence %x, %w, %h lengths %l {cell = "lstm"} : (!nn.tensor<[b, s, 12], f64>, !nn.tensor<[12, 3], f64>, !nn.tensor<[b, 6], f64>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 6], f64>, !nn.tensor<[b, s, 12], f64>)
    return %0#0 : !nn.tensor<[b, s, 6], f64>
  }
  func.func @lstm_reverse(%x: !nn.tensor<[b, s, 12], f64>, %w: !nn.tensor<[12, 3], f64>, %h: !nn.tensor<[b, 6], f64>)
      -> !nn.tensor<[b, s, 6], f64> {
    %0:2 = nn.recurrence %x, %w, %h {cell = "lstm", reverse = true} : (!nn.tensor<[b, s, 12], f64>, !nn.tensor<[12, 3], f64>, !nn.tensor<[b, 6], f64>) -> (!nn.tensor<[b, s, 6], f64>, !nn.tensor<[b, s, 12], f64>)
    return %0#0 : !nn.tensor<[b, s, 6], f64>
  }
  func.func @lstm_reverse_lengths(%x: !nn.tensor<[b, s, 12], f64>, %w: !nn.tensor<[12, 3], f64>, %h: !nn.tensor<[b, 6], f64>, %l: !nn.tensor<[b], i64> {test.range = [1, 4]})
      -> !nn.tensor<[b, s, 6], f64> {
    %0:2 = nn.recurrence %x, %w, %h lengths %l {cell = "lstm", reverse = true} : (!nn.tensor<[b, s, 12], f64>, !nn.tensor<[12, 3], f64>, !nn.tensor<[b, 6], f64>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 6], f64>, !nn.tensor<[b, s, 12], f64>)
    return %0#0 : !nn.tensor<[b, s, 6], f64>
  }
  func.func @gru(%x: !nn.tensor<[b, s, 9], f64>, %w: !nn.tensor<[9, 3], f64>, %h: !nn.tensor<[b, 3], f64>, %bias: !nn.tensor<[3], f64>)
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h bias %bias {cell = "gru"} : (!nn.tensor<[b, s, 9], f64>, !nn.tensor<[9, 3], f64>, !nn.tensor<[b, 3], f64>, !nn.tensor<[3], f64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 12], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @gru_lengths(%x: !nn.tensor<[b, s, 9], f64>, %w: !nn.tensor<[9, 3], f64>, %h: !nn.tensor<[b, 3], f64>, %bias: !nn.tensor<[3], f64>, %l: !nn.tensor<[b], i64> {test.range = [1, 4]})
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h bias %bias lengths %l {cell = "gru"} : (!nn.tensor<[b, s, 9], f64>, !nn.tensor<[9, 3], f64>, !nn.tensor<[b, 3], f64>, !nn.tensor<[3], f64>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 12], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @gru_reverse(%x: !nn.tensor<[b, s, 9], f64>, %w: !nn.tensor<[9, 3], f64>, %h: !nn.tensor<[b, 3], f64>, %bias: !nn.tensor<[3], f64>)
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h bias %bias {cell = "gru", reverse = true} : (!nn.tensor<[b, s, 9], f64>, !nn.tensor<[9, 3], f64>, !nn.tensor<[b, 3], f64>, !nn.tensor<[3], f64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 12], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @gru_reverse_lengths(%x: !nn.tensor<[b, s, 9], f64>, %w: !nn.tensor<[9, 3], f64>, %h: !nn.tensor<[b, 3], f64>, %bias: !nn.tensor<[3], f64>, %l: !nn.tensor<[b], i64> {test.range = [1, 4]})
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h bias %bias lengths %l {cell = "gru", reverse = true} : (!nn.tensor<[b, s, 9], f64>, !nn.tensor<[9, 3], f64>, !nn.tensor<[b, 3], f64>, !nn.tensor<[3], f64>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 12], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @rnn_tanh(%x: !nn.tensor<[b, s, 3], f64>, %w: !nn.tensor<[3, 3], f64>, %h: !nn.tensor<[b, 3], f64>)
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h {cell = "rnn_tanh"} : (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[3, 3], f64>, !nn.tensor<[b, 3], f64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 3], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @rnn_tanh_lengths(%x: !nn.tensor<[b, s, 3], f64>, %w: !nn.tensor<[3, 3], f64>, %h: !nn.tensor<[b, 3], f64>, %l: !nn.tensor<[b], i64> {test.range = [1, 4]})
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h lengths %l {cell = "rnn_tanh"} : (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[3, 3], f64>, !nn.tensor<[b, 3], f64>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 3], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @rnn_tanh_reverse(%x: !nn.tensor<[b, s, 3], f64>, %w: !nn.tensor<[3, 3], f64>, %h: !nn.tensor<[b, 3], f64>)
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h {cell = "rnn_tanh", reverse = true} : (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[3, 3], f64>, !nn.tensor<[b, 3], f64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 3], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @rnn_tanh_reverse_lengths(%x: !nn.tensor<[b, s, 3], f64>, %w: !nn.tensor<[3, 3], f64>, %h: !nn.tensor<[b, 3], f64>, %l: !nn.tensor<[b], i64> {test.range = [1, 4]})
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h lengths %l {cell = "rnn_tanh", reverse = true} : (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[3, 3], f64>, !nn.tensor<[b, 3], f64>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 3], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @rnn_relu(%x: !nn.tensor<[b, s, 3], f64>, %w: !nn.tensor<[3, 3], f64>, %h: !nn.tensor<[b, 3], f64>)
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h {cell = "rnn_relu"} : (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[3, 3], f64>, !nn.tensor<[b, 3], f64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 3], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @rnn_relu_lengths(%x: !nn.tensor<[b, s, 3], f64>, %w: !nn.tensor<[3, 3], f64>, %h: !nn.tensor<[b, 3], f64>, %l: !nn.tensor<[b], i64> {test.range = [1, 4]})
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h lengths %l {cell = "rnn_relu"} : (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[3, 3], f64>, !nn.tensor<[b, 3], f64>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 3], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @rnn_relu_reverse(%x: !nn.tensor<[b, s, 3], f64>, %w: !nn.tensor<[3, 3], f64>, %h: !nn.tensor<[b, 3], f64>)
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h {cell = "rnn_relu", reverse = true} : (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[3, 3], f64>, !nn.tensor<[b, 3], f64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 3], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  func.func @rnn_relu_reverse_lengths(%x: !nn.tensor<[b, s, 3], f64>, %w: !nn.tensor<[3, 3], f64>, %h: !nn.tensor<[b, 3], f64>, %l: !nn.tensor<[b], i64> {test.range = [1, 4]})
      -> !nn.tensor<[b, s, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h lengths %l {cell = "rnn_relu", reverse = true} : (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[3, 3], f64>, !nn.tensor<[b, 3], f64>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 3], f64>, !nn.tensor<[b, s, 3], f64>)
    return %0#0 : !nn.tensor<[b, s, 3], f64>
  }
  // The last state alone, of one position.
  func.func @one_position(%x: !nn.tensor<[b, 1, 12], f64>, %w: !nn.tensor<[12, 3], f64>, %h: !nn.tensor<[b, 6], f64>) -> !nn.tensor<[b, 1, 3], f64> {
    %0:2 = nn.recurrence %x, %w, %h {cell = "lstm"} : (!nn.tensor<[b, 1, 12], f64>, !nn.tensor<[12, 3], f64>, !nn.tensor<[b, 6], f64>) -> (!nn.tensor<[b, 1, 6], f64>, !nn.tensor<[b, 1, 12], f64>)
    %1 = nn.slice %0#0 {offsets = #nn.dims<[0, 0, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[b, 1, 6], f64>) -> !nn.tensor<[b, 1, 3], f64>
    return %1 : !nn.tensor<[b, 1, 3], f64>
  }
}
