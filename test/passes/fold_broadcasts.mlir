// RUN: maestro-opt %s --maestro-fold-broadcasts | FileCheck %s

// CHECK-LABEL: func.func @folds
// CHECK-NEXT: nn.mul %arg0, %arg1 : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[seq], f32>)
func.func @folds(%x: !nn.tensor<[batch, seq], f32>, %mask: !nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32> {
  %b = nn.broadcast_to %mask : (!nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32>
  %y = nn.mul %x, %b : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq], f32>
  return %y : !nn.tensor<[batch, seq], f32>
}

// The result's shape comes from the broadcast: it stays.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: nn.broadcast_to
func.func @stays(%x: !nn.tensor<[seq], f32>, %y: !nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32> {
  %b = nn.broadcast_to %x : (!nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32>
  %z = nn.add %b, %y : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32>
  return %z : !nn.tensor<[batch, seq], f32>
}

// One of two may go.
// CHECK-LABEL: func.func @one
// CHECK-NEXT: %[[B:.*]] = nn.broadcast_to %arg1
// CHECK-NEXT: nn.add %arg0, %[[B]] : (!nn.tensor<[seq], f32>, !nn.tensor<[batch, seq], f32>)
func.func @one(%x: !nn.tensor<[seq], f32>, %y: !nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32> {
  %a = nn.broadcast_to %x : (!nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32>
  %b = nn.broadcast_to %y : (!nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32>
  %z = nn.add %a, %b : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq], f32>
  return %z : !nn.tensor<[batch, seq], f32>
}

// A derivative wants its gradient in full: the mean of a relu.
// CHECK-LABEL: func.func @derivative
// CHECK-NEXT: %[[B:.*]] = nn.broadcast_to %arg1
// CHECK-NEXT: nn.relu_grad %arg0, %[[B]]
func.func @derivative(%y: !nn.tensor<[batch, 8], f32>, %dy: !nn.tensor<[batch, 1], f32>) -> !nn.tensor<[batch, 8], f32> {
  %b = nn.broadcast_to %dy : (!nn.tensor<[batch, 1], f32>) -> !nn.tensor<[batch, 8], f32>
  %dx = nn.relu_grad %y, %b : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
  return %dx : !nn.tensor<[batch, 8], f32>
}

// A cast has nothing else to take its shape from.
// CHECK-LABEL: func.func @cast
// CHECK-NEXT: nn.broadcast_to
// CHECK-NEXT: nn.cast
func.func @cast(%dy: !nn.tensor<[batch, 1], f32>) -> !nn.tensor<[batch, 8], bf16> {
  %b = nn.broadcast_to %dy : (!nn.tensor<[batch, 1], f32>) -> !nn.tensor<[batch, 8], f32>
  %c = nn.cast %b : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], bf16>
  return %c : !nn.tensor<[batch, 8], bf16>
}
