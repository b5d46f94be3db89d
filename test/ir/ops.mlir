// RUN: maestro-opt %s | maestro-opt | FileCheck %s
// RUN: maestro-opt %s --mlir-print-op-generic | maestro-opt | FileCheck %s
// Every operator, printed and parsed; inferred result types are checked by the verifier on the way.

// CHECK-LABEL: @elementwise
func.func @elementwise(%x: !nn.tensor<[n, 4], f32>, %row: !nn.tensor<[4], f32>, %i: !nn.tensor<[n, 4], i64>,
                       %p: !nn.tensor<[n, 1], i1>) {
  // CHECK: nn.neg %{{.*}} : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  %0 = nn.neg %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.abs
  %1 = nn.abs %i : (!nn.tensor<[n, 4], i64>) -> !nn.tensor<[n, 4], i64>
  // CHECK: nn.exp
  %2 = nn.exp %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.log
  %3 = nn.log %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.sqrt
  %4 = nn.sqrt %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.rsqrt
  %5 = nn.rsqrt %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.reciprocal
  %6 = nn.reciprocal %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.sin
  %7 = nn.sin %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.cos
  %8 = nn.cos %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.asin
  %arcsine = nn.asin %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.acos
  %arccosine = nn.acos %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.atan
  %arctangent = nn.atan %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.tanh
  %9 = nn.tanh %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.sigmoid
  %10 = nn.sigmoid %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.erf
  %11 = nn.erf %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.relu
  %12 = nn.relu %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.silu
  %13 = nn.silu %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.softplus
  %14 = nn.softplus %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.floor
  %15 = nn.floor %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.detach
  %detached = nn.detach %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.ceil
  %16 = nn.ceil %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.round
  %17 = nn.round %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.sign
  %18 = nn.sign %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.not
  %19 = nn.not %p : (!nn.tensor<[n, 1], i1>) -> !nn.tensor<[n, 1], i1>
  // CHECK: nn.isnan %{{.*}} -> !nn.tensor<[n, 4], i1>
  %20 = nn.isnan %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], i1>
  // CHECK: nn.isinf
  %21 = nn.isinf %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], i1>
  // CHECK: nn.gelu %{{.*}} {approximate = "tanh"}
  %22 = nn.gelu %x {approximate = "tanh"} : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.tanh_grad
  %23 = nn.tanh_grad %x, %x : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.sigmoid_grad
  %24 = nn.sigmoid_grad %x, %x : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.relu_grad
  %25 = nn.relu_grad %x, %x : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.glu %{{.*}} {activation = "gelu_tanh"}
  %gated = nn.glu %x, %x {activation = "gelu_tanh"} : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.glu_grad %{{.*}} {activation = "silu"}
  %gates:2 = nn.glu_grad %x, %x, %gated {activation = "silu"} : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>)
  // CHECK: nn.silu_grad
  %26 = nn.silu_grad %x, %x : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.gelu_grad
  %27 = nn.gelu_grad %x, %x : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.add
  %28 = nn.add %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.sub
  %29 = nn.sub %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.mul
  %30 = nn.mul %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.div
  %31 = nn.div %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.pow %{{.*}} -> !nn.tensor<[n, 4], f32>
  %32 = nn.pow %x, %i : (!nn.tensor<[n, 4], f32>, !nn.tensor<[n, 4], i64>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.maximum
  %33 = nn.maximum %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.minimum
  %34 = nn.minimum %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.mod %{{.*}} {fmod = true}
  %35 = nn.mod %x, %row {fmod = true} : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.and %{{.*}} -> !nn.tensor<[n, 4], i1>
  %36 = nn.and %p, %20 : (!nn.tensor<[n, 1], i1>, !nn.tensor<[n, 4], i1>) -> !nn.tensor<[n, 4], i1>
  // CHECK: nn.or
  %37 = nn.or %p, %p : (!nn.tensor<[n, 1], i1>, !nn.tensor<[n, 1], i1>) -> !nn.tensor<[n, 1], i1>
  // CHECK: nn.xor
  %38 = nn.xor %p, %p : (!nn.tensor<[n, 1], i1>, !nn.tensor<[n, 1], i1>) -> !nn.tensor<[n, 1], i1>
  // CHECK: nn.equal %{{.*}} -> !nn.tensor<[n, 4], i1>
  %39 = nn.equal %i, %i : (!nn.tensor<[n, 4], i64>, !nn.tensor<[n, 4], i64>) -> !nn.tensor<[n, 4], i1>
  // CHECK: nn.less
  %40 = nn.less %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], i1>
  // CHECK: nn.less_equal
  %41 = nn.less_equal %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], i1>
  // CHECK: nn.greater
  %42 = nn.greater %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], i1>
  // CHECK: nn.greater_equal
  %43 = nn.greater_equal %x, %row : (!nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], i1>
  // CHECK: nn.where %{{.*}} -> !nn.tensor<[n, 4], f32>
  %44 = nn.where %p, %x, %row : (!nn.tensor<[n, 1], i1>, !nn.tensor<[n, 4], f32>, !nn.tensor<[4], f32>) -> !nn.tensor<[n, 4], f32>
  // CHECK: nn.cast %{{.*}} : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], bf16>
  %45 = nn.cast %x : (!nn.tensor<[n, 4], f32>) -> !nn.tensor<[n, 4], bf16>
  return
}

// CHECK-LABEL: @constants
func.func @constants() {
  // CHECK: nn.constant dense<[1, 2]> : tensor<2xi64> : !nn.tensor<[2], i64>
  %0 = nn.constant dense<[1, 2]> : tensor<2xi64> : !nn.tensor<[2], i64>
  // CHECK: nn.fill {value = 1.500000e+00 : f64} : () -> !nn.tensor<[n, 2], f32>
  %1 = nn.fill {value = 1.5 : f64} : () -> !nn.tensor<[n, 2], f32>
  // CHECK: nn.iota {start = #nn.dims<[m]>, step = #nn.dims<[2]>} : () -> !nn.tensor<[n], i64>
  %2 = nn.iota {start = #nn.dims<[m]>, step = #nn.dims<[2]>} : () -> !nn.tensor<[n], i64>
  // CHECK: nn.dim_values {values = #nn.dims<[n, 4*m]>} : () -> !nn.tensor<[2], i64>
  %3 = nn.dim_values {values = #nn.dims<[n, 4*m]>} : () -> !nn.tensor<[2], i64>
  // CHECK: nn.dim_values {values = #nn.dims<[n]>} : () -> !nn.tensor<[], i32>
  %4 = nn.dim_values {values = #nn.dims<[n]>} : () -> !nn.tensor<[], i32>
  return
}

// CHECK-LABEL: @movement
func.func @movement(%x: !nn.tensor<[b, s, 12], f32>, %i: !nn.tensor<[k], i64>, %row: !nn.tensor<[12], f32>) {
  // CHECK: nn.reshape
  %0 = nn.reshape %x : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b*s, 3, 4], f32>
  // CHECK: nn.transpose %{{.*}} {permutation = array<i64: 1, 0, 2>} : {{.*}} -> !nn.tensor<[s, b, 12], f32>
  %1 = nn.transpose %x {permutation = array<i64: 1, 0, 2>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[s, b, 12], f32>
  // CHECK: nn.broadcast_to
  %2 = nn.broadcast_to %row : (!nn.tensor<[12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.concat %{{.*}} {axis = 1 : i64} : {{.*}} -> !nn.tensor<[b, 2*s, 12], f32>
  %3 = nn.concat %x, %2 {axis = 1 : i64} : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, 2*s, 12], f32>
  // CHECK: nn.slice %{{.*}} {offsets = #nn.dims<[0, s - 1, 11]>, steps = array<i64: 1, 1, -2>}
  %4 = nn.slice %x {offsets = #nn.dims<[0, s - 1, 11]>, steps = array<i64: 1, 1, -2>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, 1, 6], f32>
  // CHECK: nn.slice_grad
  %5 = nn.slice_grad %4 {offsets = #nn.dims<[0, s - 1, 11]>, steps = array<i64: 1, 1, -2>} : (!nn.tensor<[b, 1, 6], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.pad
  %6 = nn.pad %x {low = #nn.dims<[0, 0, 1]>, high = #nn.dims<[0, s, 2]>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, 2*s, 15], f32>
  // CHECK: nn.gather %{{.*}} {axis = 1 : i64} : {{.*}} -> !nn.tensor<[b, k, 12], f32>
  %7 = nn.gather %x, %i {axis = 1 : i64} : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[k], i64>) -> !nn.tensor<[b, k, 12], f32>
  // CHECK: nn.gather_grad
  %8 = nn.gather_grad %i, %7 {axis = 1 : i64} : (!nn.tensor<[k], i64>, !nn.tensor<[b, k, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.gather_elements
  %9 = nn.gather_elements %row, %i {axis = 0 : i64} : (!nn.tensor<[12], f32>, !nn.tensor<[k], i64>) -> !nn.tensor<[k], f32>
  // CHECK: nn.scatter_elements %{{.*}} {axis = 0 : i64, reduction = "add"}
  %10 = nn.scatter_elements %row, %i, %9 {axis = 0 : i64, reduction = "add"} : (!nn.tensor<[12], f32>, !nn.tensor<[k], i64>, !nn.tensor<[k], f32>) -> !nn.tensor<[12], f32>
  %indices = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[b, t, 1], i64>
  // CHECK: nn.gather_nd %{{.*}} {batch_dims = 1 : i64} : {{.*}} -> !nn.tensor<[b, t, 12], f32>
  %11 = nn.gather_nd %x, %indices {batch_dims = 1 : i64} : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[b, t, 1], i64>) -> !nn.tensor<[b, t, 12], f32>
  // CHECK: nn.gather_nd_grad
  %12 = nn.gather_nd_grad %indices, %11 {batch_dims = 1 : i64} : (!nn.tensor<[b, t, 1], i64>, !nn.tensor<[b, t, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  %updates = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[b, t, s, 12], f32>
  // CHECK: nn.scatter_nd
  %13 = nn.scatter_nd %x, %indices, %updates : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[b, t, 1], i64>, !nn.tensor<[b, t, s, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  %mask = nn.isnan %x : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s, 12], i1>
  // CHECK: nn.masked_scatter
  %14 = nn.masked_scatter %x, %mask, %row : (!nn.tensor<[b, s, 12], f32>, !nn.tensor<[b, s, 12], i1>, !nn.tensor<[12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.masked_scatter_grad
  %15 = nn.masked_scatter_grad %mask, %x : (!nn.tensor<[b, s, 12], i1>, !nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[12], f32>
  // CHECK: nn.cumsum %{{.*}} {axis = 1 : i64, exclusive = true}
  %16 = nn.cumsum %x {axis = 1 : i64, exclusive = true} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.top_k
  %17:2 = nn.top_k %x {axis = 2 : i64} : (!nn.tensor<[b, s, 12], f32>) -> (!nn.tensor<[b, s, 3], f32>, !nn.tensor<[b, s, 3], i64>)
  // CHECK: nn.arg_max {{.*}} -> !nn.tensor<[b, 1, 12], i64>
  %18 = nn.arg_max %x {axis = 1 : i64} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, 1, 12], i64>
  // CHECK: nn.arg_min
  %19 = nn.arg_min %x {axis = 1 : i64, select_last = true} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, 1, 12], i64>
  return
}

// CHECK-LABEL: @reductions
func.func @reductions(%x: !nn.tensor<[b, s, 12], f32>) {
  // CHECK: nn.reduce_sum %{{.*}} {axes = array<i64: 0, 2>} : {{.*}} -> !nn.tensor<[s], f32>
  %0 = nn.reduce_sum %x {axes = array<i64: 0, 2>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[s], f32>
  // CHECK: nn.reduce_mean %{{.*}} {axes = array<i64: 2>, keepdims = true} : {{.*}} -> !nn.tensor<[b, s, 1], f32>
  %1 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s, 1], f32>
  // CHECK: nn.reduce_max
  %2 = nn.reduce_max %x {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[], f32>
  // CHECK: nn.reduce_min
  %3 = nn.reduce_min %x {axes = array<i64>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, s, 12], f32>
  // CHECK: nn.reduce_prod
  %4 = nn.reduce_prod %x {axes = array<i64: 1>} : (!nn.tensor<[b, s, 12], f32>) -> !nn.tensor<[b, 12], f32>
  return
}

// CHECK-LABEL: @products
func.func @products(%a: !nn.tensor<[b, s, 12], bf16>, %w: !nn.tensor<[64, 12], bf16>, %bias: !nn.tensor<[64], bf16>,
                    %image: !nn.tensor<[n, 8, 32, width], f32>, %filter: !nn.tensor<[16, 4, 3, 3], f32>) {
  // CHECK: nn.matmul %{{.*}} {transpose_b = true} : {{.*}} -> !nn.tensor<[b, s, 64], bf16>
  %0 = nn.matmul %a, %w, %bias {transpose_b = true} : (!nn.tensor<[b, s, 12], bf16>, !nn.tensor<[64, 12], bf16>, !nn.tensor<[64], bf16>) -> !nn.tensor<[b, s, 64], bf16>
  // CHECK: nn.matmul_add %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {transpose_b = true} : {{.*}} -> !nn.tensor<[b, s, 64], bf16>
  %added = nn.matmul_add %a, %w, %0, %bias {transpose_b = true} : (!nn.tensor<[b, s, 12], bf16>, !nn.tensor<[64, 12], bf16>, !nn.tensor<[b, s, 64], bf16>, !nn.tensor<[64], bf16>) -> !nn.tensor<[b, s, 64], bf16>
  // CHECK: nn.matmul %{{.*}} {f32_result = true, transpose_a = true} : {{.*}} -> !nn.tensor<[b, 12, 64], f32>
  %1 = nn.matmul %a, %0 {f32_result = true, transpose_a = true} : (!nn.tensor<[b, s, 12], bf16>, !nn.tensor<[b, s, 64], bf16>) -> !nn.tensor<[b, 12, 64], f32>
  // CHECK: nn.conv {{.*}} -> !nn.tensor<[n, 16, 16, (width + 1) floordiv 2], f32>
  %2 = nn.conv %image, %filter {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (!nn.tensor<[n, 8, 32, width], f32>, !nn.tensor<[16, 4, 3, 3], f32>) -> !nn.tensor<[n, 16, 16, (width + 1) floordiv 2], f32>
  // CHECK: nn.conv_grad_input
  %3 = nn.conv_grad_input %2, %filter {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (!nn.tensor<[n, 16, 16, (width + 1) floordiv 2], f32>, !nn.tensor<[16, 4, 3, 3], f32>) -> !nn.tensor<[n, 8, 32, width], f32>
  // CHECK: nn.conv_grad_weight
  %4 = nn.conv_grad_weight %image, %2 {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (!nn.tensor<[n, 8, 32, width], f32>, !nn.tensor<[n, 16, 16, (width + 1) floordiv 2], f32>) -> !nn.tensor<[16, 4, 3, 3], f32>
  // CHECK: nn.max_pool {{.*}} -> !nn.tensor<[n, 8, 16, width floordiv 2], f32>
  %5 = nn.max_pool %image {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (!nn.tensor<[n, 8, 32, width], f32>) -> !nn.tensor<[n, 8, 16, width floordiv 2], f32>
  // CHECK: nn.avg_pool {{.*}} -> !nn.tensor<[n, 8, 11, 2], f32>
  %square = nn.fill {value = 0.0 : f64} : () -> !nn.tensor<[n, 8, 32, 4], f32>
  %6 = nn.avg_pool %square {kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = true} : (!nn.tensor<[n, 8, 32, 4], f32>) -> !nn.tensor<[n, 8, 11, 2], f32>
  // CHECK: nn.max_pool_grad
  %7 = nn.max_pool_grad %image, %5 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (!nn.tensor<[n, 8, 32, width], f32>, !nn.tensor<[n, 8, 16, width floordiv 2], f32>) -> !nn.tensor<[n, 8, 32, width], f32>
  // CHECK: nn.avg_pool_grad
  %8 = nn.avg_pool_grad %6 {kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = true} : (!nn.tensor<[n, 8, 11, 2], f32>) -> !nn.tensor<[n, 8, 32, 4], f32>
  return
}

// CHECK-LABEL: @normalisation
func.func @normalisation(%x: !nn.tensor<[b, s, 64], bf16>, %scale: !nn.tensor<[64], f32>, %q: !nn.tensor<[b, 8, s, 16], bf16>,
                         %k: !nn.tensor<[b, 2, t, 16], bf16>, %mask: !nn.tensor<[b, 1, s, t], i1>,
                         %in: !nn.tensor<[b, s, 48], f32>, %weight: !nn.tensor<[48, 16], f32>, %initial: !nn.tensor<[b, 16], f32>, %bias: !nn.tensor<[16], f32>,
                         %cos: !nn.tensor<[s, 16], f32>, %state: !nn.tensor<[2], i64>, %ids: !nn.tensor<[b], i64>) {
  // CHECK: nn.softmax
  %0 = nn.softmax %x {axis = 2 : i64} : (!nn.tensor<[b, s, 64], bf16>) -> !nn.tensor<[b, s, 64], bf16>
  // CHECK: nn.log_softmax
  %1 = nn.log_softmax %x {axis = 2 : i64} : (!nn.tensor<[b, s, 64], bf16>) -> !nn.tensor<[b, s, 64], bf16>
  // CHECK: nn.softmax_grad
  %2 = nn.softmax_grad %0, %x {axis = 2 : i64} : (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s, 64], bf16>) -> !nn.tensor<[b, s, 64], bf16>
  // CHECK: nn.log_softmax_grad
  %3 = nn.log_softmax_grad %1, %x {axis = 2 : i64} : (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s, 64], bf16>) -> !nn.tensor<[b, s, 64], bf16>
  // CHECK: nn.layer_norm
  // CHECK-SAME: -> (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  %4:3 = nn.layer_norm %x scale %scale {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[64], f32>) -> (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  // CHECK: nn.layer_norm_grad
  %5:3 = nn.layer_norm_grad %x, %x, %4#1, %4#2, %scale {axis = 2 : i64} : (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>, !nn.tensor<[64], f32>) -> (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[64], f32>, !nn.tensor<[64], f32>)
  // CHECK: nn.rms_norm
  %6:2 = nn.rms_norm %x {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!nn.tensor<[b, s, 64], bf16>) -> (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s], f32>)
  %wide = nn.cast %x : (!nn.tensor<[b, s, 64], bf16>) -> !nn.tensor<[b, s, 64], f32>
  // CHECK: nn.rms_norm %{{.*}} {axis = 2 : i64, bf16_result = true, {{.*}} -> (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s], f32>)
  %narrowed:2 = nn.rms_norm %wide {axis = 2 : i64, epsilon = 1.0e-5 : f64, bf16_result = true} : (!nn.tensor<[b, s, 64], f32>) -> (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s], f32>)
  // CHECK: nn.rms_norm_grad %{{.*}} -> (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[64], f32>)
  %widened:2 = nn.rms_norm_grad %narrowed#0, %wide, %narrowed#1, %scale {axis = 2 : i64} : (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s, 64], f32>, !nn.tensor<[b, s], f32>, !nn.tensor<[64], f32>) -> (!nn.tensor<[b, s, 64], f32>, !nn.tensor<[64], f32>)
  // CHECK: nn.rms_norm_grad
  %7:2 = nn.rms_norm_grad %x, %x, %6#1, %scale {axis = 2 : i64} : (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s, 64], bf16>, !nn.tensor<[b, s], f32>, !nn.tensor<[64], f32>) -> (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[64], f32>)
  // CHECK: nn.rope
  %8 = nn.rope %q, %cos, %cos {adjoint = true} : (!nn.tensor<[b, 8, s, 16], bf16>, !nn.tensor<[s, 16], f32>, !nn.tensor<[s, 16], f32>) -> !nn.tensor<[b, 8, s, 16], bf16>
  // CHECK: nn.attention
  %9:2 = nn.attention %q, %k, %k, %mask {scale = 0.25 : f64} : (!nn.tensor<[b, 8, s, 16], bf16>, !nn.tensor<[b, 2, t, 16], bf16>, !nn.tensor<[b, 2, t, 16], bf16>, !nn.tensor<[b, 1, s, t], i1>) -> (!nn.tensor<[b, 8, s, 16], bf16>, !nn.tensor<[b, 8, s], f32>)
  // CHECK: nn.attention_grad
  %10:3 = nn.attention_grad %9#0, %q, %k, %k, %9#0, %9#1 {scale = 0.25 : f64} : (!nn.tensor<[b, 8, s, 16], bf16>, !nn.tensor<[b, 8, s, 16], bf16>, !nn.tensor<[b, 2, t, 16], bf16>, !nn.tensor<[b, 2, t, 16], bf16>, !nn.tensor<[b, 8, s, 16], bf16>, !nn.tensor<[b, 8, s], f32>) -> (!nn.tensor<[b, 8, s, 16], bf16>, !nn.tensor<[b, 2, t, 16], bf16>, !nn.tensor<[b, 2, t, 16], bf16>)
  // CHECK: nn.attention {{.*}}sequence_major = true
  %major = nn.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (!nn.tensor<[b, 8, s, 16], bf16>) -> !nn.tensor<[b, s, 8, 16], bf16>
  %11:2 = nn.attention %major, %major, %major {scale = 0.25 : f64, causal = true, sequence_major = true} : (!nn.tensor<[b, s, 8, 16], bf16>, !nn.tensor<[b, s, 8, 16], bf16>, !nn.tensor<[b, s, 8, 16], bf16>) -> (!nn.tensor<[b, s, 8, 16], bf16>, !nn.tensor<[b, 8, s], f32>)
  // CHECK: nn.recurrence %{{.*}}, %{{.*}}, %{{.*}} bias %{{.*}} lengths %{{.*}} {cell = "gru", reverse = true}
  // CHECK-SAME: -> (!nn.tensor<[b, s, 16], f32>, !nn.tensor<[b, s, 64], f32>)
  %13:2 = nn.recurrence %in, %weight, %initial bias %bias lengths %ids {cell = "gru", reverse = true} : (!nn.tensor<[b, s, 48], f32>, !nn.tensor<[48, 16], f32>, !nn.tensor<[b, 16], f32>, !nn.tensor<[16], f32>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 16], f32>, !nn.tensor<[b, s, 64], f32>)
  // CHECK: nn.recurrence_grad
  %14:2 = nn.recurrence_grad %13#0, %weight, %initial, %13#0, %13#1, %ids {cell = "gru", reverse = true} : (!nn.tensor<[b, s, 16], f32>, !nn.tensor<[48, 16], f32>, !nn.tensor<[b, 16], f32>, !nn.tensor<[b, s, 16], f32>, !nn.tensor<[b, s, 64], f32>, !nn.tensor<[b], i64>) -> (!nn.tensor<[b, s, 48], f32>, !nn.tensor<[b, 16], f32>)
  // CHECK: nn.dropout
  %12 = nn.dropout %x, %state, %ids {ratio = 0.1 : f64, stream = 3 : i64, strides = array<i64: 64, 1>} : (!nn.tensor<[b, s, 64], bf16>, !nn.tensor<[2], i64>, !nn.tensor<[b], i64>) -> !nn.tensor<[b, s, 64], bf16>
  return
}

// CHECK-LABEL: @losses
func.func @losses(%logits: !nn.tensor<[b, s, 1000], bf16>, %labels: !nn.tensor<[b, s], i64>) {
  // CHECK: nn.cross_entropy
  // CHECK-SAME: -> (!nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  %0:2 = nn.cross_entropy %logits, %labels : (!nn.tensor<[b, s, 1000], bf16>, !nn.tensor<[b, s], i64>) -> (!nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[], f32>
  // CHECK: nn.cross_entropy_grad
  %1 = nn.cross_entropy_grad %logits, %labels, %0#1, %one {ignore_index = -1 : i64} : (!nn.tensor<[b, s, 1000], bf16>, !nn.tensor<[b, s], i64>, !nn.tensor<[b, s], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[b, s, 1000], bf16>
  // CHECK: nn.kl_divergence
  %2:3 = nn.kl_divergence %logits, %logits {temperature = 2.0 : f64} : (!nn.tensor<[b, s, 1000], bf16>, !nn.tensor<[b, s, 1000], bf16>) -> (!nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>)
  // CHECK: nn.kl_divergence_grad
  %3 = nn.kl_divergence_grad %logits, %logits, %2#1, %2#2, %one {temperature = 2.0 : f64} : (!nn.tensor<[b, s, 1000], bf16>, !nn.tensor<[b, s, 1000], bf16>, !nn.tensor<[b, s], f32>, !nn.tensor<[b, s], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[b, s, 1000], bf16>
  return
}

// CHECK-LABEL: @collectives
func.func @collectives(%part: !nn.tensor<[b, 6], f32>, %narrow: !nn.tensor<[b, 6], bf16>) {
  // CHECK: nn.all_reduce %{{.*}} {axis = "tensor"} : (!nn.tensor<[b, 6], f32>) -> !nn.tensor<[b, 6], f32>
  %0 = nn.all_reduce %part {axis = "tensor"} : (!nn.tensor<[b, 6], f32>) -> !nn.tensor<[b, 6], f32>
  // CHECK: nn.all_gather
  %1 = nn.all_gather %narrow {axis = "tensor", dim = 1 : i64, count = 2 : i64} : (!nn.tensor<[b, 6], bf16>) -> !nn.tensor<[b, 12], bf16>
  // CHECK: nn.own_part
  %2 = nn.own_part %part {axis = "tensor", dim = 1 : i64, count = 3 : i64} : (!nn.tensor<[b, 6], f32>) -> !nn.tensor<[b, 2], f32>
  return
}
