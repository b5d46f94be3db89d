// Rows of different samples stay apart around a product: dim 1 of a sequence-major model, alone or beside heads.
// RUN: maestro-opt %s --maestro-raise-products | FileCheck %s
module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
  // CHECK-LABEL: func.func @sequence_major
  // CHECK: nn.matmul %{{.*}} : (!nn.tensor<[seq, batch, 8], f32>, !nn.tensor<[8, 3], f32>) -> !nn.tensor<[seq, batch, 3], f32>
  func.func @sequence_major(%x: !nn.tensor<[seq, batch, 8], f32>, %w: !nn.tensor<[8, 3], f32>) -> !nn.tensor<[batch*seq, 3], f32> {
    %f = nn.reshape %x : (!nn.tensor<[seq, batch, 8], f32>) -> !nn.tensor<[batch*seq, 8], f32>
    %y = nn.matmul %f, %w : (!nn.tensor<[batch*seq, 8], f32>, !nn.tensor<[8, 3], f32>) -> !nn.tensor<[batch*seq, 3], f32>
    return %y : !nn.tensor<[batch*seq, 3], f32>
  }

  // nn.MultiheadAttention with weights: [seq, batch·heads, depth].
  // CHECK-LABEL: func.func @beside_heads
  // CHECK: nn.matmul %{{.*}} : (!nn.tensor<[seq, batch, 8], f32>, !nn.tensor<[8, 3], f32>) -> !nn.tensor<[seq, batch, 3], f32>
  func.func @beside_heads(%x: !nn.tensor<[seq, 2*batch, 4], f32>, %w: !nn.tensor<[8, 3], f32>) -> !nn.tensor<[batch*seq, 3], f32> {
    %f = nn.reshape %x : (!nn.tensor<[seq, 2*batch, 4], f32>) -> !nn.tensor<[batch*seq, 8], f32>
    %y = nn.matmul %f, %w : (!nn.tensor<[batch*seq, 8], f32>, !nn.tensor<[8, 3], f32>) -> !nn.tensor<[batch*seq, 3], f32>
    return %y : !nn.tensor<[batch*seq, 3], f32>
  }

  // Batch first, flattening interleaves nothing.
  // CHECK-LABEL: func.func @batch_first
  // CHECK: nn.matmul %{{.*}} : (!nn.tensor<[batch*seq, 8], f32>
  func.func @batch_first(%x: !nn.tensor<[batch, seq, 8], f32>, %w: !nn.tensor<[8, 3], f32>) -> !nn.tensor<[batch*seq, 3], f32> {
    %f = nn.reshape %x : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch*seq, 8], f32>
    %y = nn.matmul %f, %w : (!nn.tensor<[batch*seq, 8], f32>, !nn.tensor<[8, 3], f32>) -> !nn.tensor<[batch*seq, 3], f32>
    return %y : !nn.tensor<[batch*seq, 3], f32>
  }
}
