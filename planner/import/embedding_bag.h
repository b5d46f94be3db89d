// EmbeddingBag as PyTorch's exporter writes it: a loop over the bags, of a length that data say. The text of the call
// says what is meant; where all bags have one size, it is an embedding and a reduction.
#pragma once

#include "planner/import/node_context.h"

#include <unordered_map>

namespace maestro::planner {

class EmbeddingBags {
public:
  /// Nodes are looked at, and must live as long as this.
  template <typename Nodes> explicit EmbeddingBags(const Nodes &nodes) {
    for (const onnx::NodeProto &node : nodes)
      add(node);
    for (const onnx::NodeProto &node : nodes)
      keepWhatOthersRead(node);
  }
  /// The bag that the node, its last one, stands for; null for others.
  const onnx::NodeProto *endingAt(const onnx::NodeProto &node) const;
  /// Whether the node is part of a bag.
  bool contains(const onnx::NodeProto &node) const;

private:
  struct Bag {
    onnx::NodeProto standIn; ///< weight, indices, offsets -> y; attribute `mode` as in the call.
    const onnx::NodeProto *last = nullptr;
    bool isRead = false; ///< Before its end, by others: it stays as it is.
  };
  const Bag *bagOf(const onnx::NodeProto &node) const;
  void add(const onnx::NodeProto &node);
  void keepWhatOthersRead(const onnx::NodeProto &node);

  std::unordered_map<std::string_view, Bag> bags;                ///< By the text of the call.
  std::unordered_map<std::string_view, std::string_view> madeBy; ///< Values of bags; the text of the call.
};

bool isEmbeddingBag(const onnx::NodeProto &node);
/// Of a stand-in.
Status importEmbeddingBag(NodeContext &n);

} // namespace maestro::planner
