module {
  plan.plan "example" version(1, 1) producer "maestro-plan 0.1.0" workload_hash 81985529216486895
  plan.machine "two cores" kind "cpu" devices 2 memory_bytes 1073741824
  plan.link "bus" spans 2 bandwidth 1.0e+10 latency 1.0e-06
  plan.device_kind "fast core" devices 1 memory_bytes 1073741824
  plan.device_kind "slow core" devices 1 memory_bytes 1073741824
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.symbol "seq" Max sample_max 20 multiple_of 8
  plan.symbol "images" Sum sample_max 2 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = seq
  plan.dim 2 = images
  plan.dim 3 = batch*seq
  plan.dim 4 = 2
  plan.dim 5 = 8
  plan.dim 6 = 16
  plan.dim 7 = seq ceildiv 2
  plan.dim 8 = seq floordiv 2
  plan.dim 9 = seq ceildiv 2 + seq floordiv 2
  plan.dim 10 = seq mod 8
  plan.dim 11 = min(seq ceildiv 2 + seq floordiv 2, seq mod 8)
  plan.dim 12 = 256
  plan.dim 13 = batch*seq*256
  plan.dim 14 = max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256)
  plan.dim 15 = 3
  plan.dim 16 = 144
  plan.dim 17 = 1
  plan.field "input_ids" i64 [batch, seq] pad 0.0e+00 index_limit 16 synthetic "seq=lognormal(12, 0.6)" marks [3] each ["images"] times [2]
  plan.field "labels" i64 [batch, seq] pad -1.0e+02 index_limit 16 ignore_index -100
  plan.field "pixel_values" f32 [images, 3] pad 0.0e+00 index_limit 0 optional
  plan.file 0 = "../models/student.onnx.data" size 8192 modified_ns 1700000000000000000
  plan.component "teacher" precision bf16 frozen model "teacher.onnx"
  plan.component "student" precision f32 model "student.onnx"
  plan.parameter 0 = "student" "embed.weight" Parameter f32 [16, 8] trainable aliases ["lm_head.weight"] weight_decay 1.0e-01 source f32 file 0 offset 4096 bytes 512 transposed initializer None 0.0e+00
  plan.parameter 1 = "student" "lm_head.bias" Parameter f32 [16] trainable weight_decay 0.0e+00 source bf16 offset 0 bytes 0 value "003f000000000000000000000000000000000000000000000000000000000000" initializer None 0.0e+00
  plan.parameter 2 = "student" "positions" NonPersistentBuffer i64 [] weight_decay 0.0e+00 source i64 offset 0 bytes 0 initializer Zeros 0.0e+00
  plan.parameter 3 = "teacher" "embed.weight" Parameter f32 [16, 8] weight_decay 0.0e+00 source f32 offset 0 bytes 0 initializer Normal 2.0e-02
  plan.loss 0 = "cross_entropy" weight 5.0e-01 term_weight 1.0e+00 count_floor 1.0e+00 note "over the labels that count"
  plan.training AdamW global_batch 8 lr 3.0e-04 betas(9.0e-01, 9.5e-01) eps 1.0e-08 momentum 0.0e+00 clip_grad_norm 1.0e+00 decay Cosine warmup_steps 10 total_steps 100 min_lr 3.0e-05 seed 7 bad_steps 5
  plan.section "teacher" components ["teacher"] micro_batch_samples 4 data_parallel 1 stages 1 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0 scopes ["teacher"] active ["batch"]
  plan.section "student" components ["student"] trains micro_batch_samples 4 data_parallel 1 stages 1 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0 recompute scopes ["student"] active ["batch"]
  plan.edge "teacher.hidden" from "teacher" stage 0 to "student" stage 0 : f32 [batch, seq, 8] held_until_backward cost [2000*batch]
  module {
    plan.executable 0 = "teacher" section "teacher" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.bound "seq" = 24
    plan.bound "images" = 8
    plan.area "batch" by "seq" = 72
    plan.region r0 = Parameters bytes 512 copies 1
    plan.region r1 = Slot bytes 3840 copies 1
    plan.buffer b0 = f32 [16, 8] in r0 at 0 bytes 512 name "embed.weight"
    plan.buffer b1 = i64 [batch, seq] in r1 at 0 bytes 768 name "input_ids"
    plan.buffer b2 = f32 [batch, seq, 8] in r1 at 768 bytes 3072 name "hidden"
    plan.binding b0 = Value 3 "embed.weight"
    plan.binding b1 = Field 0 "input_ids"
    plan.binding b2 = EdgeOutput 0 "teacher.hidden"
    module {
      plan.program Forward fields ["input_ids"] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "embedding"(b0, b1) -> (b2) scope "teacher.embed" : (f32, i64) -> f32
    }
    module {
      plan.program Evaluate fields ["input_ids"] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "embedding"(b0, b1) -> (b2) scope "teacher.embed" : (f32, i64) -> f32
    }
  }
  module {
    plan.executable 1 = "student" section "student" stage 0 samples 4 peak_bytes 131072
    plan.bound "batch" = 4
    plan.bound "seq" = 24
    plan.bound "images" = 8
    plan.area "batch" by "seq" = 72
    plan.region r0 = Parameters bytes 896 copies 1
    plan.region r1 = Gradients bytes 576 copies 1
    plan.region r2 = OptimizerState bytes 1152 copies 1
    plan.region r3 = Constants bytes 64 copies 1
    plan.region r4 = Step bytes 192 copies 1
    plan.region r5 = Slot bytes 11008 copies 2
    plan.region r6 = Workspace bytes 6144 copies 1
    plan.region r7 = Channel bytes 3072 copies 2 edge "teacher.hidden"
    plan.buffer b0 = f32 [16, 8] in r0 at 0 bytes 512 name "embed.weight"
    plan.buffer b1 = f32 [16] in r0 at 512 bytes 64 name "lm_head.bias"
    plan.buffer b2 = i64 [] in r0 at 576 bytes 8 name "positions"
    plan.buffer b3 = bf16 [16, 8] in r0 at 640 bytes 256 name "embed.weight (bf16)"
    plan.buffer b4 = f32 [16, 8] in r1 at 0 bytes 512 name "embed.weight"
    plan.buffer b5 = f32 [16] in r1 at 512 bytes 64 name "lm_head.bias"
    plan.buffer b6 = f32 [144] in r1 at 0 bytes 576
    plan.buffer b7 = f32 [16, 8] in r2 at 0 bytes 512
    plan.buffer b8 = f32 [16, 8] in r2 at 512 bytes 512
    plan.buffer b9 = f32 [16] in r2 at 1024 bytes 64
    plan.buffer b10 = f32 [16] in r2 at 1088 bytes 64
    plan.buffer b11 = f32 [2] in r3 at 0 bytes 8 name "scale" constant "0000803f00000040"
    plan.buffer b12 = f32 [] in r4 at 0 bytes 4
    plan.buffer b13 = f32 [8] in r4 at 64 bytes 32
    plan.buffer b14 = f64 [1] in r4 at 128 bytes 8
    plan.buffer b15 = i64 [batch, seq] in r5 at 0 bytes 768 name "input_ids"
    plan.buffer b16 = i64 [batch, seq] in r5 at 768 bytes 768 name "labels"
    plan.buffer b17 = i64 [2] in r5 at 1536 bytes 16
    plan.buffer b18 = i64 [batch] in r5 at 1600 bytes 32
    plan.buffer b19 = f32 [] in r5 at 1664 bytes 4
    plan.buffer b20 = f32 [] in r5 at 1728 bytes 4
    plan.buffer b21 = f32 [batch, seq, 8] in r5 at 1792 bytes 3072 name "hidden"
    plan.buffer b22 = f32 [batch*seq, 8] in r5 at 1792 bytes 3072
    plan.buffer b23 = f32 [batch*seq, 16] in r5 at 4864 bytes 6144 name "logits"
    plan.buffer b24 = f32 [batch*seq, 16] in r6 at 0 bytes 6144
    plan.buffer b25 = f32 [batch, seq, 8] in r7 at 0 bytes 3072 name "teacher.hidden"
    plan.buffer b26 = i64 [batch*seq] in r5 at 768 bytes 768
    plan.binding b15 = Field 0 "input_ids"
    plan.binding b16 = Field 1 "labels"
    plan.binding b19 = LossSum 0 "cross_entropy"
    plan.binding b20 = LossCount 0 "cross_entropy"
    plan.binding b12 = LossScale 0 "cross_entropy"
    plan.binding b13 = HyperParameters 0
    plan.binding b14 = NormSquares 0
    plan.binding b17 = RandomState 0
    plan.binding b18 = SampleIds 0
    plan.binding b0 = Value 0 "embed.weight"
    plan.binding b1 = Value 1 "lm_head.bias"
    plan.binding b2 = Value 2 "positions"
    plan.binding b4 = Gradient 0 "embed.weight"
    plan.binding b5 = Gradient 1 "lm_head.bias"
    plan.binding b7 = Moment1 0 "embed.weight"
    plan.binding b8 = Moment2 0 "embed.weight"
    plan.binding b9 = Moment1 1 "lm_head.bias"
    plan.binding b10 = Moment2 1 "lm_head.bias"
    plan.binding b25 = EdgeInput 0 "teacher.hidden"
    module {
      plan.program Prepare fields [] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "cast"(b0) -> (b3) : (f32) -> bf16
    }
    module {
      plan.program Count fields ["labels"] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "count_not_equal"(b26) -> (b20) attributes {ignore_index = [-100]} scope "loss" : (i64) -> f32
    }
    module {
      plan.program Forward fields ["input_ids", "labels"] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "embedding"(b3, b15) -> (b21) scope "student.embed" : (bf16, i64) -> f32
      plan.call "dropout"(b21, b17, b18, b11) -> (b21) attributes {p = f64[1.0e-01], mode = "train", shape = dims[batch, seq ceildiv 2]} scope "student.drop" : (f32, i64, i64, f32) -> f32
      plan.call "add"(b21, b25) -> (b21) scope "student.join" : (f32, f32) -> f32
      plan.call "matmul"(b22, b0, b1) -> (b23) attributes {transpose_b = [1]} scope "student.lm_head" : (f32, f32, f32) -> f32
      plan.call "softmax_cross_entropy"(b23, b26, none) -> (b19, none) attributes {ignore_index = [-100]} scope "loss" : (f32, i64, none) -> (f32, none)
    }
    module {
      plan.program Evaluate fields ["input_ids", "labels"] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "embedding"(b3, b15) -> (b21) scope "student.embed" : (bf16, i64) -> f32
      plan.call "dropout"(b21, b17, b18, b11) -> (b21) attributes {p = f64[1.0e-01], mode = "train", shape = dims[batch, seq ceildiv 2]} scope "student.drop" : (f32, i64, i64, f32) -> f32
      plan.call "add"(b21, b25) -> (b21) scope "student.join" : (f32, f32) -> f32
      plan.call "matmul"(b22, b0, b1) -> (b23) attributes {transpose_b = [1]} scope "student.lm_head" : (f32, f32, f32) -> f32
      plan.call "softmax_cross_entropy"(b23, b26, none) -> (b19, none) attributes {ignore_index = [-100]} scope "loss" : (f32, i64, none) -> (f32, none)
    }
    module {
      plan.program Backward fields ["labels"] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "add"(b21, b25) -> (b21) scope "student.join" : (f32, f32) -> f32
      plan.call "softmax_cross_entropy_grad"(b23, b26, b12) -> (b24) attributes {ignore_index = [-100]} scope "loss" : (f32, i64, f32) -> f32
      plan.call "matmul_grad_weight"(b24, b22) -> (b4) attributes {accumulate = [1]} scope "student.lm_head" : (f32, f32) -> f32
      plan.call "add_into"(b1) -> (b5) scope "student.lm_head" : (f32) -> f32
    }
    module {
      plan.program Norm fields [] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "sum_squares"(b6) -> (b14) : (f32) -> f64
    }
    module {
      plan.program Update fields [] flops max(min(seq ceildiv 2 + seq floordiv 2, seq mod 8), batch*seq*256) memory_bytes batch*seq cost [1500*batch*seq]
      plan.call "adamw"(b0, b4, b7, b8, b13) -> (b0, b4, b7, b8) attributes {weight_decay = f64[1.0e-01]} scope "embed.weight" : (f32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
      plan.call "adamw"(b1, b5, b9, b10, b13) -> (b1, b5, b9, b10) attributes {weight_decay = f64[0.0e+00]} scope "lm_head.bias" : (f32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
      plan.call "cast"(b0) -> (b3) : (f32) -> bf16
    }
  }
  plan.rank 0 = device 0 threads 1 peak_bytes 67108864
  plan.rank 1 = device 1 threads 1 peak_bytes 68157440
  plan.station executable 0 replica 0 ranks [0]
  plan.station executable 1 replica 0 ranks [1]
  plan.prediction step_seconds 2.5e-01 step_flops 1.0e+09 tokens_per_second 4.0e+03
  plan.step_samples [1, 12, 1, 1, 7, 0]
  plan.decision "student.micro_batch" = "4 samples" because "pinned with --pin student.micro_batch=4"
  plan.decision "train.optimizer" = "adamw" because "the workload names none" default
  plan.candidate Layout "search" = "teacher on 0, student on 1" step_seconds 2.5e-01 missing_bytes 0 because "no layout is faster"
  plan.candidate Layout "static split" = "teacher on 0, student on 1" step_seconds 3.0e-01 missing_bytes 0 in_file_order because "device 1 waits 50 ms longer"
  plan.candidate Layout "all data parallel" = "none" step_seconds 0.0e+00 missing_bytes 3145728 because "device 0 lacks memory"
  plan.candidate Alternative "student.micro_batch" = "2 samples, 72 padded tokens" step_seconds 2.8e-01 missing_bytes 0 because "device 1 works 30 ms longer"
  plan.candidate WhatIf "devices" = "one more" step_seconds 2.0e-01 missing_bytes 0 because "for a second replica of student"
  plan.limit Time "device 1" used 2.4e-01 limit 2.5e-01 because "student: 0.24 s"
  plan.limit Memory "device 1" used 6.815744e+07 limit 1.073741824e+09 because "student: 65 MiB"
  plan.quantity "device.flops_per_second" = 1.0e+11 unit "FLOP/s" source "measured: device.yaml"
  plan.quantity "student.busy_seconds" = 2.4e-01 unit "s" source "simulated"
}

