// The `section` dialect: coarse parts of a compound graph, and the tensors that pass between them
// (level 2 of the IR, ir/README.md).
#ifndef MAESTRO_SECTION_OPS
#define MAESTRO_SECTION_OPS

include "mlir/IR/OpBase.td"

def Section_Dialect : Dialect {
  let name = "section";
  let cppNamespace = "::maestro::section";
  let summary = "Sections of a compound training job, and the edges between them";
}

def Section_SectionOp : Op<Section_Dialect, "section"> {
  let summary = "A part of the job that is laid out by itself, or one pipeline stage of it";
  let description = [{
    Its functions are in the nested module of the same name: `@graph` at first, its programs in the end. Arguments
    with `nn.edge` arrive over the edge of that name, results with it leave over it. What the search decides about
    programs is said by that module's attributes (passes/attributes.h): what is computed again, what is split.

    ```mlir
    section.section "vision" {active_dims = ["images"], components = ["vision"], trains}
    section.section "language" {components = ["language"], trains}
    section.edge "vision_to_language" from "vision" to "language" gradient : !nn.tensor<[images, 64], f32>
    module @vision {
      func.func @graph(%pixels: … {nn.field = "pixels"}, %w: … {nn.parameter = "vision/w", nn.trainable})
          -> (… {nn.carries_gradient, nn.edge = "vision_to_language"}) { … }
    }
    ```

    `stage` numbers the pipeline `stages` of the section `of`; a section that is not cut has none of them.
    `active_dims`: a sample takes part iff all of them are above 0 for it.
  }];
  let arguments = (ins StrAttr:$name, StrArrayAttr:$components, UnitAttr:$trains, OptionalAttr<StrAttr>:$of,
                       DefaultValuedAttr<I64Attr, "0">:$stage, DefaultValuedAttr<I64Attr, "1">:$stages,
                       OptionalAttr<StrArrayAttr>:$active_dims);
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
