"builtin.module"() ({
  %none = "plan.none"() : () -> none
  "plan.symbol"() {name = "batch", combine = "Sum", sample_max = 4 : i64, multiple_of = 1 : i64} : () -> ()
  "plan.symbol"() {name = "seq", combine = "Max", sample_max = 20 : i64, multiple_of = 8 : i64} : () -> ()
  "plan.symbol"() {name = "images", combine = "Sum", sample_max = 2 : i64, multiple_of = 1 : i64} : () -> ()
  "plan.executable"() ({
    "plan.region"() {kind = "Parameters", bytes = 512 : ui64, copies = 1 : i64} : () -> ()
    "plan.region"() {kind = "Slot", bytes = 3840 : ui64, copies = 1 : i64} : () -> ()
    "plan.bound"() {symbol = "batch", value = 4 : i64} : () -> ()
    "plan.bound"() {symbol = "seq", value = 24 : i64} : () -> ()
    "plan.bound"() {symbol = "images", value = 8 : i64} : () -> ()
    %b0 = "plan.buffer"() {name = "embed.weight", region = "Parameters", offset = 0 : ui64, bytes = 512 : ui64, shape = ["16", "8"]} : () -> tensor<16x8xf32>
    %b1 = "plan.buffer"() {name = "input_ids", region = "Slot", offset = 0 : ui64, bytes = 768 : ui64, shape = ["batch", "seq"]} : () -> tensor<?x?xi64>
    %b2 = "plan.buffer"() {name = "hidden", region = "Slot", offset = 768 : ui64, bytes = 3072 : ui64, shape = ["batch", "seq", "8"]} : () -> tensor<?x?x8xf32>
    "plan.binding"(%b0) {kind = "Value", to = "teacher.embed.weight"} : (tensor<16x8xf32>) -> ()
    "plan.binding"(%b1) {kind = "Field", to = "input_ids"} : (tensor<?x?xi64>) -> ()
    "plan.binding"(%b2) {kind = "EdgeOutput", to = "teacher.hidden"} : (tensor<?x?x8xf32>) -> ()
    "plan.program"() ({
      "plan.call"(%b0, %b1, %b2) {kernel = "embedding", inputs = 2 : i64, scope = "teacher.embed"} : (tensor<16x8xf32>, tensor<?x?xi64>, tensor<?x?x8xf32>) -> ()
    }) {kind = "Forward", fields = ["input_ids"], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
    "plan.program"() ({
      "plan.call"(%b0, %b1, %b2) {kernel = "embedding", inputs = 2 : i64, scope = "teacher.embed"} : (tensor<16x8xf32>, tensor<?x?xi64>, tensor<?x?x8xf32>) -> ()
    }) {kind = "Evaluate", fields = ["input_ids"], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
  }) {name = "teacher", section = "teacher", stage = 0 : i64, samples = 4 : i64, peak_bytes = 65536 : ui64} : () -> ()
  "plan.executable"() ({
    "plan.region"() {kind = "Parameters", bytes = 896 : ui64, copies = 1 : i64} : () -> ()
    "plan.region"() {kind = "Gradients", bytes = 576 : ui64, copies = 1 : i64} : () -> ()
    "plan.region"() {kind = "OptimizerState", bytes = 1152 : ui64, copies = 1 : i64} : () -> ()
    "plan.region"() {kind = "Constants", bytes = 64 : ui64, copies = 1 : i64} : () -> ()
    "plan.region"() {kind = "Step", bytes = 192 : ui64, copies = 1 : i64} : () -> ()
    "plan.region"() {kind = "Slot", bytes = 11008 : ui64, copies = 2 : i64} : () -> ()
    "plan.region"() {kind = "Workspace", bytes = 6144 : ui64, copies = 1 : i64} : () -> ()
    "plan.region"() {kind = "Channel", bytes = 3072 : ui64, copies = 2 : i64} : () -> ()
    "plan.bound"() {symbol = "batch", value = 4 : i64} : () -> ()
    "plan.bound"() {symbol = "seq", value = 24 : i64} : () -> ()
    "plan.bound"() {symbol = "images", value = 8 : i64} : () -> ()
    %b0 = "plan.buffer"() {name = "embed.weight", region = "Parameters", offset = 0 : ui64, bytes = 512 : ui64, shape = ["16", "8"]} : () -> tensor<16x8xf32>
    %b1 = "plan.buffer"() {name = "lm_head.bias", region = "Parameters", offset = 512 : ui64, bytes = 64 : ui64, shape = ["16"]} : () -> tensor<16xf32>
    %b2 = "plan.buffer"() {name = "positions", region = "Parameters", offset = 576 : ui64, bytes = 8 : ui64, shape = []} : () -> tensor<i64>
    %b3 = "plan.buffer"() {name = "embed.weight (bf16)", region = "Parameters", offset = 640 : ui64, bytes = 256 : ui64, shape = ["16", "8"]} : () -> tensor<16x8xbf16>
    %b4 = "plan.buffer"() {name = "embed.weight", region = "Gradients", offset = 0 : ui64, bytes = 512 : ui64, shape = ["16", "8"]} : () -> tensor<16x8xf32>
    %b5 = "plan.buffer"() {name = "lm_head.bias", region = "Gradients", offset = 512 : ui64, bytes = 64 : ui64, shape = ["16"]} : () -> tensor<16xf32>
    %b6 = "plan.buffer"() {region = "Gradients", offset = 0 : ui64, bytes = 576 : ui64, shape = ["144"]} : () -> tensor<144xf32>
    %b7 = "plan.buffer"() {region = "OptimizerState", offset = 0 : ui64, bytes = 512 : ui64, shape = ["16", "8"]} : () -> tensor<16x8xf32>
    %b8 = "plan.buffer"() {region = "OptimizerState", offset = 512 : ui64, bytes = 512 : ui64, shape = ["16", "8"]} : () -> tensor<16x8xf32>
    %b9 = "plan.buffer"() {region = "OptimizerState", offset = 1024 : ui64, bytes = 64 : ui64, shape = ["16"]} : () -> tensor<16xf32>
    %b10 = "plan.buffer"() {region = "OptimizerState", offset = 1088 : ui64, bytes = 64 : ui64, shape = ["16"]} : () -> tensor<16xf32>
    %b11 = "plan.buffer"() {name = "scale", region = "Constants", offset = 0 : ui64, bytes = 8 : ui64, shape = ["2"], constant = "0x0000803f00000040"} : () -> tensor<2xf32>
    %b12 = "plan.buffer"() {region = "Step", offset = 0 : ui64, bytes = 4 : ui64, shape = []} : () -> tensor<f32>
    %b13 = "plan.buffer"() {region = "Step", offset = 64 : ui64, bytes = 32 : ui64, shape = ["8"]} : () -> tensor<8xf32>
    %b14 = "plan.buffer"() {region = "Step", offset = 128 : ui64, bytes = 8 : ui64, shape = ["1"]} : () -> tensor<1xf64>
    %b15 = "plan.buffer"() {name = "input_ids", region = "Slot", offset = 0 : ui64, bytes = 768 : ui64, shape = ["batch", "seq"]} : () -> tensor<?x?xi64>
    %b16 = "plan.buffer"() {name = "labels", region = "Slot", offset = 768 : ui64, bytes = 768 : ui64, shape = ["batch", "seq"]} : () -> tensor<?x?xi64>
    %b17 = "plan.buffer"() {region = "Slot", offset = 1536 : ui64, bytes = 16 : ui64, shape = ["2"]} : () -> tensor<2xi64>
    %b18 = "plan.buffer"() {region = "Slot", offset = 1600 : ui64, bytes = 32 : ui64, shape = ["batch"]} : () -> tensor<?xi64>
    %b19 = "plan.buffer"() {region = "Slot", offset = 1664 : ui64, bytes = 4 : ui64, shape = []} : () -> tensor<f32>
    %b20 = "plan.buffer"() {region = "Slot", offset = 1728 : ui64, bytes = 4 : ui64, shape = []} : () -> tensor<f32>
    %b21 = "plan.buffer"() {name = "hidden", region = "Slot", offset = 1792 : ui64, bytes = 3072 : ui64, shape = ["batch", "seq", "8"]} : () -> tensor<?x?x8xf32>
    %b22 = "plan.buffer"() {region = "Slot", offset = 1792 : ui64, bytes = 3072 : ui64, shape = ["batch*seq", "8"]} : () -> tensor<?x8xf32>
    %b23 = "plan.buffer"() {name = "logits", region = "Slot", offset = 4864 : ui64, bytes = 6144 : ui64, shape = ["batch*seq", "16"]} : () -> tensor<?x16xf32>
    %b24 = "plan.buffer"() {region = "Workspace", offset = 0 : ui64, bytes = 6144 : ui64, shape = ["batch*seq", "16"]} : () -> tensor<?x16xf32>
    %b25 = "plan.buffer"() {name = "teacher.hidden", region = "Channel", offset = 0 : ui64, bytes = 3072 : ui64, shape = ["batch", "seq", "8"]} : () -> tensor<?x?x8xf32>
    %b26 = "plan.buffer"() {region = "Slot", offset = 768 : ui64, bytes = 768 : ui64, shape = ["batch*seq"]} : () -> tensor<?xi64>
    "plan.binding"(%b15) {kind = "Field", to = "input_ids"} : (tensor<?x?xi64>) -> ()
    "plan.binding"(%b16) {kind = "Field", to = "labels"} : (tensor<?x?xi64>) -> ()
    "plan.binding"(%b19) {kind = "LossSum", to = "cross_entropy"} : (tensor<f32>) -> ()
    "plan.binding"(%b20) {kind = "LossCount", to = "cross_entropy"} : (tensor<f32>) -> ()
    "plan.binding"(%b12) {kind = "LossScale", to = "cross_entropy"} : (tensor<f32>) -> ()
    "plan.binding"(%b13) {kind = "HyperParameters", to = ""} : (tensor<8xf32>) -> ()
    "plan.binding"(%b14) {kind = "NormSquares", to = ""} : (tensor<1xf64>) -> ()
    "plan.binding"(%b17) {kind = "RandomState", to = ""} : (tensor<2xi64>) -> ()
    "plan.binding"(%b18) {kind = "SampleIds", to = ""} : (tensor<?xi64>) -> ()
    "plan.binding"(%b0) {kind = "Value", to = "student.embed.weight"} : (tensor<16x8xf32>) -> ()
    "plan.binding"(%b1) {kind = "Value", to = "student.lm_head.bias"} : (tensor<16xf32>) -> ()
    "plan.binding"(%b2) {kind = "Value", to = "student.positions"} : (tensor<i64>) -> ()
    "plan.binding"(%b4) {kind = "Gradient", to = "student.embed.weight"} : (tensor<16x8xf32>) -> ()
    "plan.binding"(%b5) {kind = "Gradient", to = "student.lm_head.bias"} : (tensor<16xf32>) -> ()
    "plan.binding"(%b7) {kind = "Moment1", to = "student.embed.weight"} : (tensor<16x8xf32>) -> ()
    "plan.binding"(%b8) {kind = "Moment2", to = "student.embed.weight"} : (tensor<16x8xf32>) -> ()
    "plan.binding"(%b9) {kind = "Moment1", to = "student.lm_head.bias"} : (tensor<16xf32>) -> ()
    "plan.binding"(%b10) {kind = "Moment2", to = "student.lm_head.bias"} : (tensor<16xf32>) -> ()
    "plan.binding"(%b25) {kind = "EdgeInput", to = "teacher.hidden"} : (tensor<?x?x8xf32>) -> ()
    "plan.program"() ({
      "plan.call"(%b0, %b3) {kernel = "cast", inputs = 1 : i64} : (tensor<16x8xf32>, tensor<16x8xbf16>) -> ()
    }) {kind = "Prepare", fields = [], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
    "plan.program"() ({
      "plan.call"(%b26, %b20) {kernel = "count_not_equal", inputs = 1 : i64, attributes = {"ignore_index" = [-100 : i64]}, scope = "loss"} : (tensor<?xi64>, tensor<f32>) -> ()
    }) {kind = "Count", fields = ["labels"], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
    "plan.program"() ({
      "plan.call"(%b3, %b15, %b21) {kernel = "embedding", inputs = 2 : i64, scope = "student.embed"} : (tensor<16x8xbf16>, tensor<?x?xi64>, tensor<?x?x8xf32>) -> ()
      "plan.call"(%b21, %b17, %b18, %b11, %b21) {kernel = "dropout", inputs = 4 : i64, attributes = {"p" = [1.000000e-01 : f64], "mode" = "train", "shape" = ["batch", "seq ceildiv 2"]}, scope = "student.drop"} : (tensor<?x?x8xf32>, tensor<2xi64>, tensor<?xi64>, tensor<2xf32>, tensor<?x?x8xf32>) -> ()
      "plan.call"(%b21, %b25, %b21) {kernel = "add", inputs = 2 : i64, scope = "student.join"} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> ()
      "plan.call"(%b22, %b0, %b1, %b23) {kernel = "matmul", inputs = 3 : i64, attributes = {"transpose_b" = [1 : i64]}, scope = "student.lm_head"} : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<?x16xf32>) -> ()
      "plan.call"(%b23, %b26, %none, %b19, %none) {kernel = "softmax_cross_entropy", inputs = 3 : i64, attributes = {"ignore_index" = [-100 : i64]}, scope = "loss"} : (tensor<?x16xf32>, tensor<?xi64>, none, tensor<f32>, none) -> ()
    }) {kind = "Forward", fields = ["input_ids", "labels"], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
    "plan.program"() ({
      "plan.call"(%b3, %b15, %b21) {kernel = "embedding", inputs = 2 : i64, scope = "student.embed"} : (tensor<16x8xbf16>, tensor<?x?xi64>, tensor<?x?x8xf32>) -> ()
      "plan.call"(%b21, %b17, %b18, %b11, %b21) {kernel = "dropout", inputs = 4 : i64, attributes = {"p" = [1.000000e-01 : f64], "mode" = "train", "shape" = ["batch", "seq ceildiv 2"]}, scope = "student.drop"} : (tensor<?x?x8xf32>, tensor<2xi64>, tensor<?xi64>, tensor<2xf32>, tensor<?x?x8xf32>) -> ()
      "plan.call"(%b21, %b25, %b21) {kernel = "add", inputs = 2 : i64, scope = "student.join"} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> ()
      "plan.call"(%b22, %b0, %b1, %b23) {kernel = "matmul", inputs = 3 : i64, attributes = {"transpose_b" = [1 : i64]}, scope = "student.lm_head"} : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<?x16xf32>) -> ()
      "plan.call"(%b23, %b26, %none, %b19, %none) {kernel = "softmax_cross_entropy", inputs = 3 : i64, attributes = {"ignore_index" = [-100 : i64]}, scope = "loss"} : (tensor<?x16xf32>, tensor<?xi64>, none, tensor<f32>, none) -> ()
    }) {kind = "Evaluate", fields = ["input_ids", "labels"], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
    "plan.program"() ({
      "plan.call"(%b21, %b25, %b21) {kernel = "add", inputs = 2 : i64, scope = "student.join"} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> ()
      "plan.call"(%b23, %b26, %b12, %b24) {kernel = "softmax_cross_entropy_grad", inputs = 3 : i64, attributes = {"ignore_index" = [-100 : i64]}, scope = "loss"} : (tensor<?x16xf32>, tensor<?xi64>, tensor<f32>, tensor<?x16xf32>) -> ()
      "plan.call"(%b24, %b22, %b4) {kernel = "matmul_grad_weight", inputs = 2 : i64, attributes = {"accumulate" = [1 : i64]}, scope = "student.lm_head"} : (tensor<?x16xf32>, tensor<?x8xf32>, tensor<16x8xf32>) -> ()
      "plan.call"(%b1, %b5) {kernel = "add_into", inputs = 1 : i64, scope = "student.lm_head"} : (tensor<16xf32>, tensor<16xf32>) -> ()
    }) {kind = "Backward", fields = ["labels"], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
    "plan.program"() ({
      "plan.call"(%b6, %b14) {kernel = "sum_squares", inputs = 1 : i64} : (tensor<144xf32>, tensor<1xf64>) -> ()
    }) {kind = "Norm", fields = [], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
    "plan.program"() ({
      "plan.call"(%b0, %b4, %b7, %b8, %b13, %b0, %b4, %b7, %b8) {kernel = "adamw", inputs = 5 : i64, attributes = {"weight_decay" = [1.000000e-01 : f64]}, scope = "embed.weight"} : (tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>) -> ()
      "plan.call"(%b1, %b5, %b9, %b10, %b13, %b1, %b5, %b9, %b10) {kernel = "adamw", inputs = 5 : i64, attributes = {"weight_decay" = [0.000000e+00 : f64]}, scope = "lm_head.bias"} : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> ()
      "plan.call"(%b0, %b3) {kernel = "cast", inputs = 1 : i64} : (tensor<16x8xf32>, tensor<16x8xbf16>) -> ()
    }) {kind = "Update", fields = [], flops = "max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)", memory_bytes = "batch*seq"} : () -> ()
  }) {name = "student", section = "student", stage = 0 : i64, samples = 4 : i64, peak_bytes = 131072 : ui64} : () -> ()
}) {plan.name = "example", plan.producer = "maestro-plan 0.1.0"} : () -> ()
