#include "planner/import/op_table.h"

#include <unordered_map>

namespace maestro::planner {

const OpEntry *findOp(std::string_view domain, std::string_view name, int64_t version) {
  static const auto *table = [] {
    auto *all = new std::unordered_map<std::string_view, const OpEntry *>();
    for (auto group :
         {elementwiseOps(), composedOps(), shapeOps(), partsOps(), paddingOps(), indexingOps(), reductionOps(),
          productOps(), einsumOps(), fourierOps(), gridSampleOps(), recurrentOps(), resamplingOps(), networkOps()})
      for (const OpEntry &entry : group)
        all->emplace(entry.name, &entry);
    return all;
  }();
  if (!domain.empty() && domain != "ai.onnx")
    return nullptr;
  auto found = table->find(name);
  return found == table->end() || version < found->second->since ? nullptr : found->second;
}

} // namespace maestro::planner
