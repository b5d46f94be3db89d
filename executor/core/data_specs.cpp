#include "executor/core/data_specs.h"

#include "plan/plan_generated.h"

namespace maestro::executor {

namespace fb = plan::fb;

std::vector<data::SymbolSpec> symbolSpecs(const plan::Plan &plan) {
  std::vector<data::SymbolSpec> specs;
  for (const fb::Symbol *symbol : *plan->symbols()) {
    data::SymbolSpec spec;
    spec.name = symbol->name()->str();
    spec.combine = static_cast<data::Combine>(symbol->combine());
    spec.sampleMax = symbol->sample_max();
    spec.multipleOf = symbol->multiple_of();
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<data::FieldSpec> fieldSpecs(const plan::Plan &plan) {
  std::vector<data::FieldSpec> specs;
  for (const fb::Field *field : *plan->fields()) {
    data::FieldSpec spec;
    spec.name = field->name()->str();
    spec.dtype = static_cast<DType>(field->dtype());
    for (uint32_t expr : *field->shape()) {
      const fb::DimExpr *node = plan->exprs()->Get(expr);
      spec.dims.push_back(node->op() == fb::DimOp::Symbol ? data::DimSpec::of(static_cast<int>(node->a()))
                                                          : data::DimSpec::fixed(node->a()));
    }
    spec.pad = field->pad();
    spec.indexLimit = field->index_limit();
    if (field->has_ignore_index())
      spec.ignoreIndex = field->ignore_index();
    spec.optional = field->optional();
    spec.ownPositions = field->own_positions();
    for (uint32_t i = 0; field->marks() && i < field->marks()->size(); ++i) {
      const fb::Mark &mark = *field->marks()->Get(i);
      spec.marks.push_back({mark.value(), static_cast<int>(mark.symbol()), mark.per_row()});
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

} // namespace maestro::executor
