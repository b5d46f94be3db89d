// The operations of the `plan` dialect: one for each table of plan/plan.fbs, under its fields' names.
//
// The module of a plan begins with plan.plan. Executables and their programs are nested modules that begin with
// plan.executable and plan.program: regions of our own would need upstream's traits, about whose identity libMLIR and we
// may disagree (ir/section/section.h).
//
// What others refer to by number says it (`plan.parameter 12 = …`), and plan.plan's verifier holds number and place
// together; sections, edges, fields, components and symbols are referred to by name.
#ifndef MAESTRO_PLAN_OPS
#define MAESTRO_PLAN_OPS

include "ir/plan/plan_dialect.td"

class Plan_Op<string mnemonic> : Op<Plan_Dialect, mnemonic>;

def Plan_Exprs : TypedArrayAttrBase<Plan_ExprAttr, "a list of symbolic integers">;

//===----------------------------------------------------------------------===//
// The plan as a whole
//===----------------------------------------------------------------------===//

def Plan_PlanOp : Plan_Op<"plan"> {
  let summary = "The first operation of a plan's module";
  let description = [{
    Its verifier checks what the plan's operations say about each other: that what they name exists, that numbers
    are places, that calls' types are those of their buffers. What only values at the dims' bounds can tell (sizes,
    data flow) is left to the verifier of plan files.

    ```mlir
    module {
      plan.plan "gpt" version(1, 1) producer "maestro-plan 0.1.0" workload_hash 42
      plan.symbol "batch" Sum sample_max 16 multiple_of 1
      plan.dim 0 = batch
      …
      module {
        plan.executable 0 = "gpt" section "gpt" stage 0 samples 4 peak_bytes 65536
        plan.region r0 = Parameters bytes 512 copies 1
        plan.buffer b0 = f32 [16, 8] in r0 at 0 bytes 512
        module {
          plan.program Forward fields ["tokens"] flops 2*batch memory_bytes batch
          plan.call "embedding"(b0, b1) -> (b2) scope "gpt.embed" : (f32, i64) -> f32
        }
      }
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$version_major, I64Attr:$version_minor, StrAttr:$producer,
                       UI64Attr:$workload_hash, OptionalAttr<StrAttr>:$no_synthetic);
  let assemblyFormat = [{
    $name `version` `(` $version_major `,` $version_minor `)` `producer` $producer `workload_hash` $workload_hash
    (`no_synthetic` $no_synthetic^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_MachineOp : Plan_Op<"machine"> {
  let summary = "What the plan was made for";
  let arguments = (ins StrAttr:$name, StrAttr:$device_kind, I64Attr:$devices, UI64Attr:$memory_bytes);
  let assemblyFormat = "$name `kind` $device_kind `devices` $devices `memory_bytes` $memory_bytes attr-dict";
}

def Plan_LinkOp : Plan_Op<"link"> {
  let summary = "One level of the machine's network";
  let arguments = (ins StrAttr:$name, I64Attr:$spans, F64Attr:$bandwidth, F64Attr:$latency);
  let assemblyFormat = "$name `spans` $spans `bandwidth` custom<Number>($bandwidth) `latency` custom<Number>($latency) attr-dict";
}

def Plan_DeviceKindOp : Plan_Op<"device_kind"> {
  let summary = "Neighbouring devices of the machine that are alike";
  let arguments = (ins StrAttr:$name, I64Attr:$devices, UI64Attr:$memory_bytes);
  let assemblyFormat = "$name `devices` $devices `memory_bytes` $memory_bytes attr-dict";
}

def Plan_SymbolOp : Plan_Op<"symbol"> {
  let summary = "A named dim, and how it combines over the samples of a micro-batch";
  let arguments = (ins StrAttr:$name, Plan_Combine:$combine, I64Attr:$sample_max, I64Attr:$multiple_of, OptionalAttr<StrAttr>:$unpadded);
  let assemblyFormat = "$name $combine `sample_max` $sample_max `multiple_of` $multiple_of (`unpadded` $unpadded^)? attr-dict";
}

def Plan_DimOp : Plan_Op<"dim"> {
  let summary = "A node of the table of symbolic integers; its operands are earlier nodes";
  let arguments = (ins I64Attr:$number, Plan_ExprAttr:$value);
  let assemblyFormat = "$number `=` custom<Expr>($value) attr-dict";
}

//===----------------------------------------------------------------------===//
// Data, parameters, training
//===----------------------------------------------------------------------===//

def Plan_FieldOp : Plan_Op<"field"> {
  let summary = "One array that each sample carries";
  let description = [{ `marks`: values, for each row of which symbols, and how many times. }];
  let arguments = (ins StrAttr:$name, TypeAttr:$dtype, Plan_Exprs:$shape, F64Attr:$pad, I64Attr:$index_limit,
                       OptionalAttr<I64Attr>:$ignore_index, UnitAttr:$optional, OptionalAttr<StrAttr>:$synthetic,
                       OptionalAttr<DenseI64ArrayAttr>:$marks, OptionalAttr<StrArrayAttr>:$mark_symbols,
                       OptionalAttr<DenseI64ArrayAttr>:$marks_per_row, UnitAttr:$own_positions);
  let assemblyFormat = [{
    $name $dtype custom<Exprs>($shape) `pad` custom<Number>($pad) `index_limit` $index_limit
    (`ignore_index` $ignore_index^)? (`optional` $optional^)? (`synthetic` $synthetic^)?
    (`own_positions` $own_positions^)? (`marks` $marks^ `each` $mark_symbols `times` $marks_per_row)? attr-dict
  }];
}

def Plan_FileOp : Plan_Op<"file"> {
  let summary = "A file that holds values of parameters";
  let arguments = (ins I64Attr:$number, StrAttr:$path, UI64Attr:$size, I64Attr:$modified_ns);
  let assemblyFormat = "$number `=` $path `size` $size `modified_ns` $modified_ns attr-dict";
}

def Plan_ComponentOp : Plan_Op<"component"> {
  let summary = "A model of the workload";
  let arguments = (ins StrAttr:$name, TypeAttr:$precision, UnitAttr:$frozen, OptionalAttr<StrAttr>:$model_path);
  let assemblyFormat = "$name `precision` $precision (`frozen` $frozen^)? (`model` $model_path^)? attr-dict";
}

def Plan_ParameterOp : Plan_Op<"parameter"> {
  let summary = "A parameter or buffer of a model, and where its value lies";
  let arguments = (ins I64Attr:$number, StrAttr:$component, StrAttr:$name, Plan_ParameterKind:$kind,
                       DenseI64ArrayAttr:$shape, TypeAttr:$dtype, UnitAttr:$trainable,
                       OptionalAttr<StrArrayAttr>:$aliases, F64Attr:$weight_decay, OptionalAttr<I64Attr>:$source_file,
                       UI64Attr:$source_offset, UI64Attr:$source_bytes, TypeAttr:$source_dtype,
                       UnitAttr:$source_transposed, OptionalAttr<StrAttr>:$inline_value, Plan_Initializer:$initializer,
                       F64Attr:$initializer_scale);
  let assemblyFormat = [{
    $number `=` $component $name $kind $dtype $shape (`trainable` $trainable^)? (`aliases` $aliases^)?
    `weight_decay` custom<Number>($weight_decay) `source` $source_dtype (`file` $source_file^)?
    `offset` $source_offset `bytes` $source_bytes (`transposed` $source_transposed^)? (`value` $inline_value^)?
    `initializer` $initializer custom<Number>($initializer_scale) attr-dict
  }];
}

def Plan_LossOp : Plan_Op<"loss"> {
  let summary = "A loss, or one mean of several that make it";
  let arguments = (ins I64Attr:$number, StrAttr:$name, F64Attr:$weight, F64Attr:$term_weight, OptionalAttr<F64Attr>:$count_floor,
                       UnitAttr:$from_graph, OptionalAttr<StrAttr>:$note);
  let assemblyFormat = [{
    $number `=` $name `weight` custom<Number>($weight) `term_weight` custom<Number>($term_weight)
    (`count_floor` custom<Number>($count_floor)^)? (`from_graph` $from_graph^)? (`note` $note^)? attr-dict
  }];
}

def Plan_TrainingOp : Plan_Op<"training"> {
  let summary = "The optimizer and its schedule";
  let arguments = (ins UI64Attr:$global_batch, Plan_Optimizer:$optimizer, F64Attr:$lr, F64Attr:$beta1, F64Attr:$beta2,
                       F64Attr:$eps, F64Attr:$momentum, UnitAttr:$nesterov, F64Attr:$clip_grad_norm, Plan_Decay:$decay,
                       UI64Attr:$warmup_steps, UI64Attr:$total_steps, F64Attr:$min_lr, UI64Attr:$seed,
                       DefaultValuedAttr<UI32Attr, "3">:$bad_steps);
  let assemblyFormat = [{
    $optimizer `global_batch` $global_batch `lr` custom<Number>($lr) `betas` `(` custom<Number>($beta1) `,`
    custom<Number>($beta2) `)` `eps` custom<Number>($eps) `momentum` custom<Number>($momentum)
    (`nesterov` $nesterov^)? `clip_grad_norm` custom<Number>($clip_grad_norm) `decay` $decay `warmup_steps` $warmup_steps
    `total_steps` $total_steps `min_lr` custom<Number>($min_lr) `seed` $seed (`bad_steps` $bad_steps^)? attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Sections, edges, who runs what
//===----------------------------------------------------------------------===//

def Plan_SectionOp : Plan_Op<"section"> {
  let summary = "A part of the job with a layout of its own";
  let arguments = (ins StrAttr:$name, StrArrayAttr:$components, UnitAttr:$trains, I64Attr:$micro_batch_samples,
                       I64Attr:$data_parallel, I64Attr:$stages, I64Attr:$tensor_parallel, I64Attr:$context_parallel,
                       I64Attr:$expert_parallel, I64Attr:$zero_stage, UnitAttr:$recompute, UnitAttr:$full_recompute, OptionalAttr<I64Attr>:$lighter_layers,
                       UnitAttr:$lighter_evenly,
                       OptionalAttr<I64Attr>:$split_backward,
                       OptionalAttr<StrArrayAttr>:$scopes, OptionalAttr<StrArrayAttr>:$active, OptionalAttr<StrArrayAttr>:$unpadded);
  let assemblyFormat = [{
    $name `components` $components (`trains` $trains^)? `micro_batch_samples` $micro_batch_samples
    `data_parallel` $data_parallel `stages` $stages `tensor_parallel` $tensor_parallel
    `context_parallel` $context_parallel `expert_parallel` $expert_parallel `zero_stage` $zero_stage
    (`recompute` $recompute^)? (`full_recompute` $full_recompute^)? (`lighter_layers` $lighter_layers^)? (`lighter_evenly` $lighter_evenly^)?
    (`split_backward` $split_backward^)? (`scopes` $scopes^)? (`active` $active^)? (`unpadded` $unpadded^)? attr-dict
  }];
}

def Plan_EdgeOp : Plan_Op<"edge"> {
  let summary = "A tensor that passes from a section, or stage, to another";
  let arguments = (ins StrAttr:$name, StrAttr:$producer, I64Attr:$producer_stage, StrAttr:$consumer,
                       I64Attr:$consumer_stage, TypeAttr:$dtype, Plan_Exprs:$shape, UnitAttr:$carries_gradient,
                       UnitAttr:$held_until_backward, OptionalAttr<Plan_Exprs>:$cost);
  let assemblyFormat = [{
    $name `from` $producer `stage` $producer_stage `to` $consumer `stage` $consumer_stage `:` $dtype custom<Exprs>($shape)
    (`gradient` $carries_gradient^)? (`held_until_backward` $held_until_backward^)? (`cost` custom<Exprs>($cost)^)?
    attr-dict
  }];
}

def Plan_RankOp : Plan_Op<"rank"> {
  let summary = "A device of the job";
  let arguments = (ins I64Attr:$number, I64Attr:$device, I64Attr:$threads, OptionalAttr<UI64Attr>:$peak_bytes);
  let assemblyFormat = "$number `=` `device` $device `threads` $threads (`peak_bytes` $peak_bytes^)? attr-dict";
}

def Plan_StationOp : Plan_Op<"station"> {
  let summary = "One stage of one replica of a section, at the ranks that run it";
  let arguments = (ins I64Attr:$executable, I64Attr:$replica, DenseI64ArrayAttr:$ranks);
  let assemblyFormat = "`executable` $executable `replica` $replica `ranks` $ranks attr-dict";
}

def Plan_GradientSumOp : Plan_Op<"gradient_sum"> {
  let summary = "Gradients of which stations compute parts, and which they add up";
  let arguments = (ins DenseI64ArrayAttr:$parameters, DenseI64ArrayAttr:$stations);
  let assemblyFormat = "`parameters` $parameters `stations` $stations attr-dict";
}

//===----------------------------------------------------------------------===//
// Executables
//===----------------------------------------------------------------------===//

def Plan_ExecutableOp : Plan_Op<"executable"> {
  let summary = "The first operation of an executable's module: one stage of one section";
  let arguments = (ins I64Attr:$number, StrAttr:$name, StrAttr:$section, I64Attr:$stage, I64Attr:$samples,
                       UI64Attr:$peak_bytes);
  let assemblyFormat = [{
    $number `=` $name `section` $section `stage` $stage `samples` $samples `peak_bytes` $peak_bytes attr-dict
  }];
}

def Plan_BoundOp : Plan_Op<"bound"> {
  let summary = "The largest value of a symbol in one micro-batch";
  let arguments = (ins StrAttr:$symbol, I64Attr:$value);
  let assemblyFormat = "$symbol `=` $value attr-dict";
}

def Plan_AreaOp : Plan_Op<"area"> {
  let summary = "The most padded tokens of one micro-batch: rows times the padded symbol";
  let arguments = (ins StrAttr:$rows, StrAttr:$padded, I64Attr:$value);
  let assemblyFormat = "$rows `by` $padded `=` $value attr-dict";
}

def Plan_RegionOp : Plan_Op<"region"> {
  let summary = "A block of memory; a Channel region is the ring of an edge's end";
  let arguments = (ins I64Attr:$number, Plan_RegionKind:$kind, UI64Attr:$bytes, I64Attr:$copies,
                       OptionalAttr<StrAttr>:$edge, UnitAttr:$gradient);
  let assemblyFormat = [{
    custom<RegionRef>($number) `=` $kind `bytes` $bytes `copies` $copies (`edge` $edge^)? (`gradient` $gradient^)? attr-dict
  }];
}

def Plan_BufferOp : Plan_Op<"buffer"> {
  let summary = "A tensor in a region";
  let description = [{ `constant` is its value, two hexadecimal digits a byte. }];
  let arguments = (ins I64Attr:$number, TypeAttr:$dtype, Plan_Exprs:$shape, I64Attr:$region, UI64Attr:$offset,
                       UI64Attr:$bytes, OptionalAttr<StrAttr>:$name, OptionalAttr<StrAttr>:$constant);
  let assemblyFormat = [{
    custom<BufferRef>($number) `=` $dtype custom<Exprs>($shape) `in` custom<RegionRef>($region) `at` $offset `bytes` $bytes
    (`name` $name^)? (`constant` $constant^)? attr-dict
  }];
}

def Plan_BindingOp : Plan_Op<"binding"> {
  let summary = "What the executor writes into a buffer, or reads from it";
  let description = [{
    `index` is a place in the table that the kind names (fields, losses, parameters, edges), `target` the name there;
    `split_dim`: each rank of the station has an equal part of this dim of the parameter.
  }];
  let arguments = (ins I64Attr:$buffer, Plan_BindingKind:$kind, I64Attr:$index, OptionalAttr<StrAttr>:$target,
                       OptionalAttr<I64Attr>:$split_dim);
  let assemblyFormat = "custom<BufferRef>($buffer) `=` $kind $index ($target^)? (`split_dim` $split_dim^)? attr-dict";
}

def Plan_ProgramOp : Plan_Op<"program"> {
  let summary = "The first operation of a program's module; plan.call operations follow";
  let arguments = (ins Plan_ProgramKind:$kind, StrArrayAttr:$fields, Plan_ExprAttr:$flops, Plan_ExprAttr:$memory_bytes,
                       OptionalAttr<Plan_Exprs>:$cost);
  let description = [{ `cost`: picoseconds times symbols, to be added up. }];
  let assemblyFormat = [{
    $kind `fields` $fields `flops` custom<Expr>($flops) `memory_bytes` custom<Expr>($memory_bytes)
    (`cost` custom<Exprs>($cost)^)? attr-dict
  }];
}

def Plan_CallOp : Plan_Op<"call"> {
  let summary = "A kernel on buffers of the executable";
  let description = [{
    Absent optional operands, and results that nobody reads, are −1 and written `none`. `names` and `values` are the
    kernel's attributes in their order: integers, floating point numbers, text, or symbolic integers.
    `types` are the element types of the buffers, again.
  }];
  let arguments = (ins StrAttr:$kernel, DenseI64ArrayAttr:$inputs, DenseI64ArrayAttr:$outputs,
                       OptionalAttr<StrArrayAttr>:$names, OptionalAttr<ArrayAttr>:$values, OptionalAttr<StrAttr>:$scope,
                       TypeAttrOf<FunctionType>:$types);
  let assemblyFormat = [{
    $kernel `` custom<BufferRefs>($inputs) `->` custom<BufferRefs>($outputs)
    (`attributes` custom<CallAttributes>($names, $values)^)? (`scope` $scope^)? `:` $types attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

def Plan_PredictionOp : Plan_Op<"prediction"> {
  let summary = "What a step will take";
  let arguments = (ins F64Attr:$step_seconds, F64Attr:$step_flops, F64Attr:$tokens_per_second);
  let assemblyFormat = [{
    `step_seconds` custom<Number>($step_seconds) `step_flops` custom<Number>($step_flops)
    `tokens_per_second` custom<Number>($tokens_per_second) attr-dict
  }];
}

def Plan_StepSamplesOp : Plan_Op<"step_samples"> {
  let summary = "The sizes of a step's samples that the plan was made for: by sample, of each symbol";
  let arguments = (ins DenseI64ArrayAttr:$sizes);
  let assemblyFormat = "$sizes attr-dict";
}

def Plan_DecisionOp : Plan_Op<"decision"> {
  let summary = "A choice of the planner";
  let arguments = (ins StrAttr:$subject, StrAttr:$choice, StrAttr:$reason, UnitAttr:$is_default);
  let assemblyFormat = "$subject `=` $choice `because` $reason (`default` $is_default^)? attr-dict";
}

def Plan_CandidateOp : Plan_Op<"candidate"> {
  let summary = "What a step takes under another layout, another choice, or more of a machine";
  let arguments = (ins Plan_CandidateKind:$kind, StrAttr:$subject, StrAttr:$choice, F64Attr:$step_seconds,
                       UI64Attr:$missing_bytes, UnitAttr:$in_file_order, StrAttr:$reason);
  let assemblyFormat = [{
    $kind $subject `=` $choice `step_seconds` custom<Number>($step_seconds) `missing_bytes` $missing_bytes
    (`in_file_order` $in_file_order^)? `because` $reason attr-dict
  }];
}

def Plan_LimitOp : Plan_Op<"limit"> {
  let summary = "What keeps the step from being shorter, or the plan from another layout";
  let arguments = (ins Plan_LimitKind:$kind, StrAttr:$place, F64Attr:$used, F64Attr:$limit, StrAttr:$reason);
  let assemblyFormat = [{
    $kind $place `used` custom<Number>($used) `limit` custom<Number>($limit) `because` $reason attr-dict
  }];
}

def Plan_QuantityOp : Plan_Op<"quantity"> {
  let summary = "A number that the planner reckoned with or found, and where it is from";
  let arguments = (ins StrAttr:$name, F64Attr:$value, StrAttr:$unit, StrAttr:$source);
  let assemblyFormat = "$name `=` custom<Number>($value) `unit` $unit `source` $source attr-dict";
}

#endif // MAESTRO_PLAN_OPS
