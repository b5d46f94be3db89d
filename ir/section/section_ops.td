// The `section` dialect: coarse parts of a compound graph, each with a layout and devices of its own, and the
// tensors that pass between them (level 2 of the IR, ir/README.md).
#ifndef MAESTRO_SECTION_OPS
#define MAESTRO_SECTION_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Section_Dialect : Dialect {
  let name = "section";
  let cppNamespace = "::maestro::section";
  let summary = "Sections of a compound training job, and the edges between them";
  let useDefaultAttributePrinterParser = 1;
}

def Section_LayoutAttr : AttrDef<Section_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "How a section is spread over devices";
  let description = [{
    `#section.layout<data_parallel = 2, stages = 1, micro_batch = 4, recompute = false>`: replicas, pipeline
    stages along the depth, the most samples of a micro-batch, and whether the backward tasks compute
    elementwise results again; `, tensor = 2`: the devices of each stage of each replica. What the search decides is an attribute here; passes apply it.
  }];
  let parameters = (ins "int64_t":$dataParallel, "int64_t":$stages, "int64_t":$microBatch, "bool":$recompute,
                       DefaultValuedParameter<"int64_t", "1">:$tensor);
  let assemblyFormat = [{
    `<` `data_parallel` `=` $dataParallel `,` `stages` `=` $stages `,` `micro_batch` `=` $microBatch `,`
        `recompute` `=` $recompute (`,` `tensor` `=` $tensor^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Section_SectionOp : Op<Section_Dialect, "section"> {
  let summary = "A part of the job that gets a layout of its own, or one pipeline stage of it";
  let description = [{
    Its functions are in the nested module of the same name: `@graph` at first, its programs in the end. Arguments
    with `nn.edge` arrive over the edge of that name, results with it leave over it.

    ```mlir
    section.section "vision" {active_dims = ["images"], components = ["vision"], trains}
    section.section "language" {components = ["language"], trains}
    section.edge "vision_to_language" from "vision" to "language" gradient : !nn.tensor<[images, 64], f32>
    module @vision {
      func.func @graph(%pixels: … {nn.field = "pixels"}, %w: … {nn.parameter = "vision/w", nn.trainable})
          -> (… {nn.carries_gradient, nn.edge = "vision_to_language"}) { … }
    }
    ```

    `stage` numbers the pipeline stages of the section `of`; a section that is not cut has neither. `active_dims`: a
    sample takes part iff all of them are above 0 for it. `devices` lists, replica by replica, the device that runs
    this stage.
  }];
  let arguments = (ins StrAttr:$name, StrArrayAttr:$components, UnitAttr:$trains, OptionalAttr<StrAttr>:$of,
                       DefaultValuedAttr<I64Attr, "0">:$stage, OptionalAttr<StrArrayAttr>:$active_dims,
                       OptionalAttr<Section_LayoutAttr>:$layout, OptionalAttr<DenseI64ArrayAttr>:$devices);
  let assemblyFormat = "$name attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The section that this is a stage of, or itself.
    ::llvm::StringRef getSectionName() { return getOf() ? *getOf() : getName(); }
    /// The module of its functions, or null.
    ::mlir::ModuleOp getBody();
  }];
}

def Section_EdgeOp : Op<Section_Dialect, "edge"> {
  let summary = "One tensor that passes from a section, or stage, to another";
  let description = [{
    Of each sample the rows that it has. With `gradient`, the consumer sends the tensor's gradient back.
    Exactly one result of the producer's @graph and one argument of the consumer's carry its name.
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$producer, StrAttr:$consumer, UnitAttr:$gradient, TypeAttr:$type);
  let assemblyFormat = "$name `from` $producer `to` $consumer (`gradient` $gradient^)? `:` $type attr-dict";
}

#endif // MAESTRO_SECTION_OPS
