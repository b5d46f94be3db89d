// RUN: maestro-opt %s --split-input-file | FileCheck %s --match-full-lines --strict-whitespace
// RUN: maestro-opt %s --split-input-file | maestro-opt --split-input-file | FileCheck %s --match-full-lines --strict-whitespace
// What the plan dialect writes in ways of its own: symbolic integers, numbers, absent operands, kernels' attributes. Whole
// plans are in plan_text.py.

//      CHECK:module {
module {
// CHECK-NEXT:  plan.plan "small \22plan\22 \\ \E2\80\A6" version(1, 1) producer "a test" workload_hash 18446744073709551615
  plan.plan "small \22plan\22 \\ \E2\80\A6" version(1, 1) producer "a test" workload_hash 18446744073709551615
// CHECK-NEXT:  plan.machine "here" kind "cpu" devices 1 memory_bytes 0
  plan.machine "here" kind "cpu" devices 1 memory_bytes 0
// CHECK-NEXT:  plan.symbol "batch" Sum sample_max 4 multiple_of 1
  plan.symbol "batch" Sum sample_max 4 multiple_of 1
// CHECK-NEXT:  plan.symbol "max" Max sample_max 16 multiple_of 8
  plan.symbol "max" Max sample_max 16 multiple_of 8
// CHECK-NEXT:  plan.symbol "a b" Max sample_max 2 multiple_of 1
  plan.symbol "a b" Max sample_max 2 multiple_of 1

  // Trees are kept as they are: parentheses stand where reading from left to right means another tree.
// CHECK-NEXT:  plan.dim 0 = batch
  plan.dim 0 = batch
// CHECK-NEXT:  plan.dim 1 = "max"
  plan.dim 1 = "max"
// CHECK-NEXT:  plan.dim 2 = "a b"
  plan.dim 2 = "a b"
// CHECK-NEXT:  plan.dim 3 = batch*"max"
  plan.dim 3 = ((batch) * ("max"))
// CHECK-NEXT:  plan.dim 4 = batch*"max"*"a b"
  plan.dim 4 = batch*"max"*"a b"
// CHECK-NEXT:  plan.dim 5 = batch*(batch*"max")
  plan.dim 5 = batch*(batch*"max")
// CHECK-NEXT:  plan.dim 6 = -3
  plan.dim 6 = -3
// CHECK-NEXT:  plan.dim 7 = batch + -3
  plan.dim 7 = batch + -3
// CHECK-NEXT:  plan.dim 8 = (batch + -3)*"max"
  plan.dim 8 = (batch + -3)*"max"
// CHECK-NEXT:  plan.dim 9 = "max" floordiv (batch*"max")
  plan.dim 9 = "max" floordiv (batch*"max")
// CHECK-NEXT:  plan.dim 10 = min("max" floordiv (batch*"max"), batch + -3)
  plan.dim 10 = min("max" floordiv (batch*"max"), batch + -3)
// CHECK-NEXT:  plan.dim 11 = batch ceildiv batch
  plan.dim 11 = batch ceildiv batch
// CHECK-NEXT:  plan.dim 12 = batch ceildiv batch mod batch
  plan.dim 12 = batch ceildiv batch mod batch
// CHECK-NEXT:  plan.dim 13 = 0
  plan.dim 13 = 0

  // A second node of the same meaning has its number only.
// CHECK-NEXT:  plan.dim 14 = 0
  plan.dim 14 = 0
// CHECK-NEXT:  plan.dim 15 = max(node(14), batch)
  plan.dim 15 = max(node(14), batch)

  // Numbers have the digits that give them back.
// CHECK-NEXT:  plan.loss 0 = "a" weight 1.0e-01 term_weight -0.0e+00
  plan.loss 0 = "a" weight 1.0e-01 term_weight -0.0e+00
// CHECK-NEXT:  plan.loss 1 = "b" weight nan(0x7FF8000000000001) term_weight -inf
  plan.loss 1 = "b" weight nan(0x7FF8000000000001) term_weight -inf
// CHECK-NEXT:  plan.loss 2 = "c" weight 1.0e-01 term_weight 3.333333333333333e-01
  plan.loss 2 = "c" weight 0.100 term_weight 3.3333333333333331e-01
// CHECK-NEXT:  plan.training Sgd global_batch 8 lr 1.0e+300 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 9.0e-01 nesterov clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 18446744073709551615
  plan.training Sgd global_batch 8 lr 1.0e+300 betas(0.0e+00, 0.0e+00) eps 0.0e+00 momentum 9.0e-01 nesterov clip_grad_norm 0.0e+00 decay Constant warmup_steps 0 total_steps 0 min_lr 0.0e+00 seed 18446744073709551615
// CHECK-NEXT:}
}

// -----

// Operations by themselves: without plan.plan nobody asks whether what they name exists.
//      CHECK:module {
module {
// CHECK-NEXT:  plan.call "matmul"(b0, b1, none) -> (b2) : (f32, bf16, none) -> f32
  plan.call "matmul"(b0, b1, none) -> (b2) : (f32, bf16, none) -> f32
// CHECK-NEXT:  plan.call "sgd"(b0, none) -> (b0, none) attributes {momentum = f64[9.0e-01], nesterov = [1]} scope "gpt/h.0" : (f32, none) -> (f32, none)
  plan.call "sgd"(b0, none) -> (b0, none) attributes {momentum = f64[9.0e-01], nesterov = [1]} scope "gpt/h.0" : (f32, none) -> (f32, none)
// CHECK-NEXT:  plan.call "odd"() -> () attributes {"a b" = [], empty = f64[], mode = "say \22it\22", to = dims[batch, 4*batch + 1], axes = [-1, 0]} : () -> ()
  plan.call "odd"() -> () attributes {"a b" = [], empty = f64[], mode = "say \22it\22", to = dims[batch, 4*batch + 1], axes = [-1, 0]} : () -> ()
// CHECK-NEXT:  plan.buffer b7 = ui8 [batch, 16] in r3 at 64 bytes 128 name "x" constant "00ff"
  plan.buffer b7 = ui8 [batch, 16] in r3 at 64 bytes 128 name "x" constant "00ff"
// CHECK-NEXT:  plan.region r7 = Channel bytes 4096 copies 2 edge "hidden" gradient
  plan.region r7 = Channel bytes 4096 copies 2 edge "hidden" gradient
// CHECK-NEXT:  plan.binding b7 = EdgeInput 0 "hidden"
  plan.binding b7 = EdgeInput 0 "hidden"
// CHECK-NEXT:  plan.binding b8 = SampleIds 0
  plan.binding b8 = SampleIds 0
// CHECK-NEXT:  plan.edge "hidden" from "a" stage 0 to "a" stage 1 : bf16 [batch, 8] gradient held_until_backward cost [1500, 12*batch*"a b"]
  plan.edge "hidden" from "a" stage 0 to "a" stage 1 : bf16 [batch, 8] gradient held_until_backward cost [1500, 12*batch*"a b"]
// CHECK-NEXT:  plan.field "labels" i64 [batch] pad -1.0e+02 index_limit 16 ignore_index -100 optional synthetic "seq=uniform(1, 2)"
  plan.field "labels" i64 [batch] pad -1.0e+02 index_limit 16 ignore_index -100 optional synthetic "seq=uniform(1, 2)"
// CHECK-NEXT:  plan.field "own positions [batch]" f32 [batch] pad 0.0e+00 index_limit 0 own_positions
  plan.field "own positions [batch]" f32 [batch] pad 0.0e+00 index_limit 0 own_positions
// CHECK-NEXT:}
}
