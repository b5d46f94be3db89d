// RUN: maestro-opt %s --maestro-annotate-answers | FileCheck %s
// One factor rule per operator.

// CHECK-LABEL: @elementwise
func.func @elementwise(%x: !nn.tensor<[b, s, 12], f32>, %row: !nn.tensor<[12], f32>, %column: !nn.tensor<[s, 1], f32>, %scalar: !nn.tensor<[], f32>) {
  // CHECK: nn.add {{.*}}nn.factors = "(i,j,k),(k)->(i,j,k)"
  %0 = nn.add %x, %row : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.mul {{.*}}nn.factors = "(i,1),(j)->(i,j)"
  %1 = nn.mul %column, %row : (!nn.tensor<[s, 1], f32>, !nn.tensor<[12], f32>) -> !nn.tensor<[s, 12], f32>
  // CHECK: nn.pow {{.*}}nn.factors = "(i),()->(i)"
  %2 = nn.pow %row, %scalar : (!nn.tensor<[12], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[12], f32>
  // CHECK: nn.cast {{.*}}nn.factors = "(i,1)->(i,1)"
  %3 = nn.cast %column : (!nn.tensor<[s, 1], f32>) -> !nn.tensor<[s, 1], bf16>
  // CHECK: nn.fill {nn.{{.*}}nn.factors = "->(i)"
  %4 = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[n], f32>
  // CHECK: nn.iota {nn.{{.*}}nn.factors = "->(i) whole i"
  %5 = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[n], i64>
  // CHECK: nn.broadcast_to {{.*}}nn.factors = "(i)->(j,k,i)"
  %6 = nn.broadcast_to %row : (!nn.tensor<[12], f32>) -> !nn.tensor<[b, s, 12], f32>
  return
}

// CHECK-LABEL: @reshape
func.func @reshape(%x: !nn.tensor<[b, s, 768], f32>, %m: !nn.tensor<[6, 4, s], f32>) {
  // CHECK: nn.reshape {{.*}}nn.factors = "(i,j,k)->(i*j,k)"
  %0 = nn.reshape %x : (!nn.tensor<[b, s, 768], f32>) -> !nn.tensor<[b*s, 768], f32>
  // CHECK: nn.reshape {{.*}}nn.factors = "(i,j,k*l)->(i,j,k,l)"
  %1 = nn.reshape %x : (!nn.tensor<[b, s, 768], f32>) -> !nn.tensor<[b, s, 12, 64], f32>
  // CHECK: nn.reshape {{.*}}nn.factors = "(i*j,k*l)->(i,j,1,k,l)"
  %2 = nn.reshape %0 : (!nn.tensor<[b*s, 768], f32>) -> !nn.tensor<[b, s, 1, 12, 64], f32>
  // 6 × 4 and 8 × 3 share no cut; the last dim still does.
  // CHECK: nn.reshape {{.*}}nn.factors = "(i,j,k)->(l,m,k) whole i,j,l,m"
  %3 = nn.reshape %m : (!nn.tensor<[6, 4, s], f32>) -> !nn.tensor<[8, 3, s], f32>
  return
}

// CHECK-LABEL: @movement
func.func @movement(%x: !nn.tensor<[b, s, 12], f32>, %i: !nn.tensor<[b, t], i64>, %table: !nn.tensor<[1000, 64], f32>) {
  // CHECK: nn.transpose {{.*}}nn.factors = "(i,j,k)->(k,i,j)"
  %0 = nn.transpose %x {permutation = array<i64: 2, 0, 1>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[12, b, s], f32>
  // CHECK: nn.concat {{.*}}nn.factors = "(i,j,k),(i,l,k)->(i,m,k) whole j,l,m"
  %1 = nn.concat %x, %x {axis = 1 : i64} : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, 2*s, 12], f32>
  // CHECK: nn.slice {{.*}}nn.factors = "(i,j,k)->(i,l,k) whole j,l"
  %2 = nn.slice %x {offsets = #nn.dims<[0, 1, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s - 1, 12], f32>
  // CHECK: nn.slice_grad {{.*}}nn.factors = "(i,j,k)->(i,l,k) whole j,l"
  %3 = nn.slice_grad %2 {offsets = #nn.dims<[0, 1, 0]>, steps = array<i64: 1, 1, 1>} : (!nn.tensor<[b, s - 1, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.pad {{.*}}nn.factors = "(i,j,k)->(i,l,k) whole j,l"
  %4 = nn.pad %x {low = #nn.dims<[0, 1, 0]>, high = #nn.dims<[0, 0, 0]>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s + 1, 12], f32>
  // CHECK: nn.gather {{.*}}nn.factors = "(i,j),(k,l)->(k,l,j) whole i"
  %5 = nn.gather %table, %i {axis = 0 : i64} : (!nn.tensor<[1000, 64], f32>, !nn.tensor<[b, t], i64>) -> !nn.tensor<[b, t, 64], f32>
  // CHECK: nn.gather_grad {{.*}}nn.factors = "(i,j),(i,j,k)->(l,k) reduce i,j whole l"
  %6 = nn.gather_grad %i, %5 {axis = 0 : i64} : (!nn.tensor<[b, t], i64>, !nn.tensor<[b, t, 64], f32>) -> !nn.tensor<[1000, 64], f32>
  %e = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[b, t, 1], i64>
  // CHECK: nn.gather_nd {{.*}}nn.factors = "(i,j,k),(i,l,1)->(i,l,k) whole j"
  %7 = nn.gather_nd %x, %e {batch_dims = 1 : i64} : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[b, t, 1], i64>) -> !nn.tensor<[b, t, 12], f32>
  // CHECK: nn.gather_nd_grad {{.*}}nn.factors = "(i,j,1),(i,j,k)->(i,l,k) reduce j whole l"
  %8 = nn.gather_nd_grad %e, %7 {batch_dims = 1 : i64} : (!nn.tensor<[b, t, 1], i64>, !nn.tensor<[b, t, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.gather_elements {{.*}}nn.factors = "(i,j),(i,k)->(i,k) whole j"
  %9 = nn.gather_elements %i, %i {axis = 1 : i64} : (!nn.tensor<[b, t], i64>, !nn.tensor<[b, t], i64>) -> !nn.tensor<[b, t], i64>
  // CHECK: nn.cumsum {{.*}}nn.factors = "(i,j,k)->(i,j,k) whole j"
  %10 = nn.cumsum %x {axis = 1 : i64} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.top_k {{.*}}nn.factors = "(i,j,k)->(i,j,l),(i,j,l) whole k,l"
  %11:2 = nn.top_k %x {axis = 2 : i64} : (!nn.tensor<[b, s, 12], f32>) -> (!nn.tensor<[b, s, 3], f32>, !nn.tensor<[b, s, 3], i64>)
  // CHECK: nn.arg_max {{.*}}nn.factors = "(i,j,k)->(i,j,1) whole k"
  %12 = nn.arg_max %x {axis = 2 : i64} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s, 1], i64>
  // CHECK: nn.scatter_nd {{.*}}nn.factors = "(i,j,k),(l,m,1),(l,m,j,k)->(i,j,k) whole i,l,m"
  %u = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[b, t, s, 12], f32>
  %13 = nn.scatter_nd %x, %e, %u : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[b, t, 1], i64>, !nn.tensor<[b, t, s, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  return
}

// CHECK-LABEL: @reductions
func.func @reductions(%x: !nn.tensor<[b, s, 12], f32>) {
  // CHECK: nn.reduce_sum {{.*}}nn.factors = "(i,j,k)->(j) reduce i,k"
  %0 = nn.reduce_sum %x {axes = array<i64: 0, 2>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[s], f32>
  // CHECK: nn.reduce_max {{.*}}nn.factors = "(i,j,k)->(i,j,1) reduce_max k"
  %1 = nn.reduce_max %x {axes = array<i64: 2>, keepdims = true} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s, 1], f32>
  // CHECK: nn.reduce_mean {{.*}}nn.factors = "(i,j,k)->(i,j) whole k"
  %2 = nn.reduce_mean %x {axes = array<i64: 2>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s], f32>
  return
}

// CHECK-LABEL: @products
func.func @products(%a: !nn.tensor<[b, s, 12], f32>, %w: !nn.tensor<[64, 12], f32>, %bias: !nn.tensor<[64], f32>,
                    %image: !nn.tensor<[n, 8, 32, 32], f32>, %filter: !nn.tensor<[16, 4, 3, 3], f32>, %dense: !nn.tensor<[16, 8, 3, 3], f32>) {
  %wt = nn.transpose %w {permutation = array<i64: 1, 0>} : (!nn.tensor<[64, 12], f32>) -> !nn.tensor<[12, 64], f32>
  // CHECK: nn.matmul {{.*}}nn.factors = "(i,j,k),(k,l)->(i,j,l) reduce k"
  %0 = nn.matmul %a, %wt : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[12, 64], f32>) -> !nn.tensor<[b, s, 64], f32>
  // CHECK: nn.matmul {{.*}}nn.factors = "(i,j,k),(l,k),(l)->(i,j,l) whole k"
  %1 = nn.matmul %a, %w, %bias {transpose_b = true} : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[64, 12], f32>, !nn.tensor<[64], f32>) -> !nn.tensor<[b, s, 64], f32>
  // CHECK: nn.matmul_add {{.*}}nn.factors = "(i,j,k),(l,k),(i,j,l),(l)->(i,j,l) whole k"
  %added = nn.matmul_add %a, %w, %1, %bias {transpose_b = true} : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[64, 12], f32>, !nn.tensor<[b, s, 64], f32>, !nn.tensor<[64], f32>) -> !nn.tensor<[b, s, 64], f32>
  // CHECK: nn.glu_grad {{.*}}nn.factors = "(i,j,k),(i,j,k),(i,j,k)->(i,j,k),(i,j,k)"
  %gates:2 = nn.glu_grad %1, %1, %added {activation = "silu"} : (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[b, s, 64], f32>, !nn.tensor<[b, s, 64], f32>) -> (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[b, s, 64], f32>)
  // CHECK: nn.matmul {{.*}}nn.factors = "(i,j,k),(i,j,l)->(i,k,l) reduce j"
  %2 = nn.matmul %a, %1 {transpose_a = true} : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[b, s, 64], f32>) -> !nn.tensor<[b, 12, 64], f32>
  // CHECK: nn.conv {{.*}}nn.factors = "(i,j,k,l),(m,j,n,o)->(i,m,p,q) reduce j whole k,l,n,o,p,q"
  %3 = nn.conv %image, %dense {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (!nn.tensor<[n, 8, 32, 32], f32>, !nn.tensor<[16, 8, 3, 3], f32>) -> !nn.tensor<[n, 16, 32, 32], f32>
  // CHECK: nn.conv {{.*}}nn.factors = "(i,j*k,l,m),(j*n,k,o,p)->(i,j*n,q,r) reduce k whole l,m,o,p,q,r"
  %4 = nn.conv %image, %filter {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (!nn.tensor<[n, 8, 32, 32], f32>, !nn.tensor<[16, 4, 3, 3], f32>) -> !nn.tensor<[n, 16, 32, 32], f32>
  // CHECK: nn.conv_grad_input {{.*}}nn.factors = "(i,j,k,l),(j,m,n,o)->(i,m,p,q) reduce j whole k,l,n,o,p,q"
  %5 = nn.conv_grad_input %3, %dense {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (!nn.tensor<[n, 16, 32, 32], f32>, !nn.tensor<[16, 8, 3, 3], f32>) -> !nn.tensor<[n, 8, 32, 32], f32>
  // CHECK: nn.conv_grad_weight {{.*}}nn.factors = "(i,j,k,l),(i,m,n,o)->(m,j,p,q) reduce i whole k,l,n,o,p,q"
  %6 = nn.conv_grad_weight %image, %3 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (!nn.tensor<[n, 8, 32, 32], f32>, !nn.tensor<[n, 16, 32, 32], f32>) -> !nn.tensor<[16, 8, 3, 3], f32>
  // CHECK: nn.max_pool {{.*}}nn.factors = "(i,j,k,l)->(i,j,m,n) whole k,l,m,n"
  %7 = nn.max_pool %image {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (!nn.tensor<[n, 8, 32, 32], f32>) -> !nn.tensor<[n, 8, 16, 16], f32>
  return
}

// CHECK-LABEL: @normalisation
func.func @normalisation(%x: !nn.tensor<[b, s, 64], f32>, %scale: !nn.tensor<[64], f32>, %q: !nn.tensor<[b, 8, s, 16], f32>,
                         %k: !nn.tensor<[b, 2, t, 16], f32>, %mask: !nn.tensor<[b, 1, s, t], i1>, %cos: !nn.tensor<[s, 16], f32>,
                         %state: !nn.tensor<[2], i64>, %ids: !nn.tensor<[b], i64>) {
  // CHECK: nn.softmax {{.*}}nn.factors = "(i,j,k)->(i,j,k) whole k"
  %0 = nn.softmax %x {axis = 2 : i64} : (!nn.tensor<[b, s, 64], f32>) -> !nn.tensor<[b, s, 64], f32>
  // CHECK: nn.layer_norm {{.*}}nn.factors = "(i,j,k),(k)->(i,j,k),(i,j),(i,j) whole k"
  %1:3 = nn.layer_norm %x scale %scale {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[64], f32>) -> (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  // CHECK: nn.layer_norm_grad {{.*}}nn.factors = "(i,j,k),(i,j,k),(i,j),(i,j),(k)->(i,j,k),(k),(k) reduce i,j whole k"
  %2:3 = nn.layer_norm_grad %x, %x, %1#1, %1#2, %scale {axis = 2 : i64} : (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[b, s, 64], f32>, !nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>, !nn.tensor<[64], f32>) -> (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[64], f32>, !nn.tensor<[64], f32>)
  // CHECK: nn.rms_norm {{.*}}nn.factors = "(i,j,k)->(i,j,k),(i,j) whole k"
  %3:2 = nn.rms_norm %x {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!nn.tensor<[b, s, 64], f32>) -> (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[b, s], f32>)
  // CHECK: nn.rope {{.*}}nn.factors = "(i,j,k,l),(k,l),(k,l)->(i,j,k,l) whole l"
  %4 = nn.rope %q, %cos, %cos : (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[s, 16], f32>, !nn.tensor<[s, 16], f32>) -> !nn.tensor<[b, 8, s, 16], f32>
  // CHECK: nn.attention {{.*}}nn.factors = "(i,j*k,l,m),(i,j,n,m),(i,j,n,o),(i,1,l,n)->(i,j*k,l,o),(i,j*k,l) whole m,n,o"
  %5:2 = nn.attention %q, %k, %k, %mask {scale = 0.25 : f64} : (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 2, t, 16], f32>, !nn.tensor<[b, 2, t, 16], f32>, !nn.tensor<[b, 1, s, t], i1>) -> (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, s], f32>)
  // CHECK: nn.attention_grad {{.*}}nn.factors = "(i,j*k,l,m),(i,j*k,l,n),(i,j,o,n),(i,j,o,m),(i,j*k,l,m),(i,j*k,l)->(i,j*k,l,n),(i,j,o,n),(i,j,o,m) reduce k whole l,m,n,o"
  %6:3 = nn.attention_grad %5#0, %q, %k, %k, %5#0, %5#1 {scale = 0.25 : f64, causal = true} : (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 2, t, 16], f32>, !nn.tensor<[b, 2, t, 16], f32>, !nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 8, s], f32>) -> (!nn.tensor<[b, 8, s, 16], f32>, !nn.tensor<[b, 2, t, 16], f32>, !nn.tensor<[b, 2, t, 16], f32>)
  // CHECK: nn.dropout {{.*}}nn.factors = "(i,j,k),(l),(i)->(i,j,k) whole j,k,l"
  %7 = nn.dropout %x, %state, %ids {ratio = 0.1 : f64, stream = 3 : i64, strides = array<i64: 64, 1>} : (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[2], i64>, !nn.tensor<[b], i64>) -> !nn.tensor<[b, s, 64], f32>
  return
}

// CHECK-LABEL: @losses
func.func @losses(%logits: !nn.tensor<[b, s, 1000], f32>, %labels: !nn.tensor<[b, s], i64>) {
  // CHECK: nn.cross_entropy {{.*}}nn.factors = "(i,j,k),(i,j)->(i,j),(i,j) whole k"
  %0:2 = nn.cross_entropy %logits, %labels : (!nn.tensor<[b, s, 1000], f32>, !nn.tensor<[b, s], i64>) -> (!nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[], f32>
  // CHECK: nn.cross_entropy_grad {{.*}}nn.factors = "(i,j,k),(i,j),(i,j),()->(i,j,k) whole k"
  %1 = nn.cross_entropy_grad %logits, %labels, %0#1, %one : (!nn.tensor<[b, s, 1000], f32>, !nn.tensor<[b, s], i64>, !nn.tensor<[b, s], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[b, s, 1000], f32>
  // CHECK: nn.kl_divergence {{.*}}nn.factors = "(i,j,k),(i,j,k)->(i,j),(i,j),(i,j) whole k"
  %2:3 = nn.kl_divergence %logits, %logits {temperature = 2.0 : f64} : (!nn.tensor<[b, s, 1000], f32>, !nn.tensor<[b, s, 1000], f32>) -> (!nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  return
}

// CHECK-LABEL: @collectives
func.func @collectives(%x: !nn.tensor<[b, 6], f32>) {
  // CHECK: nn.all_reduce {{.*}}nn.factors = "(i,j)->(i,j)"
  %0 = nn.all_reduce %x {axis = "tensor"} : (!nn.tensor<[b, 6], f32>) -> !nn.tensor<[b, 6], f32>
  // CHECK: nn.all_gather {{.*}}nn.factors = "(i,j)->(i,k) whole j,k"
  %1 = nn.all_gather %x {axis = "tensor", dim = 1 : i64, count = 2 : i64} : (!nn.tensor<[b, 6], f32>) -> !nn.tensor<[b, 12], f32>
  return
}
