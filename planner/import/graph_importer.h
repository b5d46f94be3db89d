// Walks a graph's nodes, and the bodies of functions that stand for operators without an import of their own.
#pragma once

#include "planner/import/embedding_bag.h"
#include "planner/import/import_state.h"

namespace onnx {
class OpSchema;
}

namespace maestro::planner {

class GraphImporter {
public:
  GraphImporter(ImportState &state, Emitter &emitter) : state(state), emitter(emitter) {}

  /// Imports nodes in order into `scope`. `opset` is the version of the default domain's operator set that
  /// the nodes refer to. Messages carry node, operator and module.
  template <typename Nodes> Status importNodes(const Nodes &nodes, int64_t opset, Scope &scope) {
    EmbeddingBags bags(nodes);
    for (const onnx::NodeProto &node : nodes) {
      if (const onnx::NodeProto *bag = bags.endingAt(node))
        MAESTRO_TRY(importNode(*bag, opset, scope));
      else if (!bags.contains(node))
        MAESTRO_TRY(importNode(node, opset, scope));
    }
    return {};
  }

private:
  Status importNode(const onnx::NodeProto &node, int64_t opset, Scope &scope);
  Status dispatch(const onnx::NodeProto &node, int64_t opset, Scope &scope);
  Status inlineFunction(const onnx::FunctionProto &function, const onnx::NodeProto &node, int64_t opset,
                        const onnx::OpSchema *schema, Scope &scope);
  const onnx::GraphProto *knownBranch(const onnx::NodeProto &node, Scope &scope) const;
  Status inlineBranch(const onnx::GraphProto &branch, const onnx::NodeProto &node, int64_t opset, Scope &scope);
  Status inlineSchemaFunction(const onnx::OpSchema &schema, const onnx::NodeProto &node, int64_t opset, Scope &scope,
                              bool &found);
  Status unsupported(const onnx::NodeProto &node, int64_t opset) const;

  ImportState &state;
  Emitter &emitter;
  int depth = 0;
};

} // namespace maestro::planner
