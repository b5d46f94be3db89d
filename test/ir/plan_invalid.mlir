// RUN: maestro-opt %s --split-input-file --verify-diagnostics
// What the plan dialect refuses, and how it says so.

module {
  plan.rank 0 = device 0 threads 0
  // expected-error@+1 {{is not the first operation of a module}}
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
}

// -----

module {
  // expected-error@+1 {{lacks plan.machine}}
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{has no place in a plan}}
  plan.bound "batch" = 4
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{has the name of an earlier one, 'batch'}}
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{has number 5, and is at place 0}}
  plan.rank 5 = device 0 threads 0
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{of which a part is no earlier node}}
  plan.dim 3 = batch + seq
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{of which a part is no earlier node}}
  plan.dim 3 = node(3) + batch
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{of which a part is no earlier node}}
  plan.dim 3 = node(2)
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{refers to #plan.expr<batch*4>, which no plan.dim computes}}
  plan.field "y" f32 [batch*4] pad 0.0e+00 index_limit 0
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{refers to the component 'd', which does not exist}}
  plan.section "t" components ["d"] micro_batch_samples 4 data_parallel 1 stages 1 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{refers to the symbol 'seq', which does not exist}}
  plan.section "t" components ["c"] micro_batch_samples 4 data_parallel 1 stages 1 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0 active ["seq"]
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{refers to the section 'teacher', which does not exist}}
  plan.edge "e" from "teacher" stage 0 to "s" stage 0 : f32 [batch]
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{refers to stage 2 of 's', which has 2}}
  plan.edge "e" from "s" stage 0 to "s" stage 2 : f32 [batch]
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{which is not picoseconds times symbols}}
  plan.edge "e" from "s" stage 0 to "s" stage 1 : f32 [batch] cost [batch*12]
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{refers to file 0, which does not exist}}
  plan.parameter 0 = "c" "w" Parameter f32 [8] weight_decay 0.0e+00 source f32 file 0 offset 0 bytes 32 initializer None 0.0e+00
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{refers to executable 0, which does not exist}}
  plan.station executable 0 replica 0 ranks []
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+1 {{refers to station 1, which does not exist}}
  plan.gradient_sum parameters [] stations [1]
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  // expected-error@+2 {{expected a symbolic integer such as}}
  plan.dim 3 = batch*
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{has no place in an executable}}
    plan.rank 0 = device 0 threads 0
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{refers to the symbol 'seq', which does not exist}}
    plan.bound "seq" = 4
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{refers to the symbol 'seq', which does not exist}}
    plan.area "batch" by "seq" = 4
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{is the ring of no edge}}
    plan.region r1 = Channel bytes 64 copies 2
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{refers to the edge 'e', which does not exist}}
    plan.region r1 = Channel bytes 64 copies 2 edge "e"
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{refers to region r1, which does not exist}}
    plan.buffer b2 = f32 [8] in r1 at 0 bytes 32
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{has number 3, and is at place 2}}
    plan.buffer b3 = f32 [8] in r0 at 0 bytes 32
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{begins at 32, which is no multiple of 64}}
    plan.buffer b2 = f32 [8] in r0 at 32 bytes 32
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{has 128 bytes from 192 on, beyond the 256 of r0}}
    plan.buffer b2 = f32 [8] in r0 at 192 bytes 128
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{has a constant of 4 digits for 32 bytes}}
    plan.buffer b2 = f32 [8] in r0 at 0 bytes 32 constant "0000"
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{refers to buffer b2, which does not exist}}
    plan.binding b2 = Field 0 "x"
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{refers to Field 1, which does not exist}}
    plan.binding b0 = Field 1 "x"
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{binds Field 0, 'x', and says 'y'}}
    plan.binding b0 = Field 0 "y"
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{expected 'b' and a number}}
    plan.binding r0 = Field 0 "x"
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    module {
      plan.program Forward fields ["x"] flops batch*8 memory_bytes batch
      // expected-error@+1 {{has no place in a program}}
      plan.bound "batch" = 4
    }
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    module {
      plan.program Forward fields ["x"] flops batch*8 memory_bytes batch
      // expected-error@+1 {{refers to buffer b9, which does not exist}}
      plan.call "relu"(b0) -> (b9) : (f32) -> f32
    }
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    module {
      plan.program Forward fields ["x"] flops batch*8 memory_bytes batch
      // expected-error@+1 {{says that it takes and gives '(f32) -> f32', and its buffers are '(f32) -> bf16'}}
      plan.call "relu"(b0) -> (b1) : (f32) -> f32
    }
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    module {
      plan.program Forward fields ["x"] flops batch*8 memory_bytes batch
      // expected-error@+1 {{takes and gives '(f32) -> f32', and its buffers are '(f32, none) -> f32'}}
      plan.call "relu"(b0, none) -> (b0) : (f32) -> f32
    }
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    module {
      plan.program Forward fields ["x"] flops batch*8 memory_bytes batch
      // expected-error@+1 {{refers to #plan.expr<batch*9>, which no plan.dim computes}}
      plan.call "fill"() -> (b0) attributes {shape = dims[batch*9]} : () -> f32
    }
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    module {
      // expected-error@+1 {{refers to the field 'y', which does not exist}}
      plan.program Forward fields ["y"] flops batch*8 memory_bytes batch
    }
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    module {
      plan.program Forward fields [] flops batch memory_bytes batch
    }
    module {
      // expected-error@+1 {{is the executable's second Forward}}
      plan.program Forward fields [] flops batch memory_bytes batch
    }
  }
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  plan.dim 1 = 8
  plan.dim 2 = batch*8
  plan.field "x" f32 [batch, 8] pad 0.0e+00 index_limit 0
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
  plan.section "s" components ["c"] micro_batch_samples 4 data_parallel 1 stages 2 tensor_parallel 1 context_parallel 1 expert_parallel 1 zero_stage 0
  module {
    plan.executable 0 = "s" section "s" stage 0 samples 4 peak_bytes 65536
    plan.bound "batch" = 4
    plan.region r0 = Slot bytes 256 copies 1
    plan.buffer b0 = f32 [batch, 8] in r0 at 0 bytes 128
    plan.buffer b1 = bf16 [batch, 8] in r0 at 128 bytes 64
    // expected-error@+1 {{begins with no plan.program}}
    module {
    }
  }
}

// -----

// expected-error@+1 {{has not one value for each attribute's name}}
"plan.call"() <{inputs = array<i64>, kernel = "relu", names = ["a"], outputs = array<i64: 0>, types = () -> f32, values = []}> : () -> ()

// -----

// expected-error@+1 {{which is no list of numbers or dims, and no text}}
"plan.call"() <{inputs = array<i64>, kernel = "relu", names = ["a"], outputs = array<i64: 0>, types = () -> f32, values = [unit]}> : () -> ()

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  // expected-error@+1 {{refers to the symbol 'images', which does not exist}}
  plan.field "x" i64 [batch] pad 0.0e+00 index_limit 0 marks [1] each ["images"] times [4]
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
}

// -----

module {
  plan.plan "p" version(1, 1) producer "t" workload_hash 0
  plan.machine "m" kind "cpu" devices 1 memory_bytes 0
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.dim 0 = batch
  // expected-error@+1 {{has 2 marks and not as many symbols and times}}
  plan.field "x" i64 [batch] pad 0.0e+00 index_limit 0 marks [1, 2] each ["batch"] times [4, 4]
  plan.component "c" precision f32
  plan.training Sgd global_batch 4 lr 1.0e-01 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 0.0e+00 clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 0
}
