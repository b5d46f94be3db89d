// Calls that the exporter's optimizer (optimize=True, the default) took out of the graph. Every
// node carries the text of the call that it came from, and the text names the calls whose results
// it reads. A plain export has a node for each of them; a name that nothing in the file stands for
// is of a call that was taken out:
//
//   h * sigmoid(h.detach())        sigmoid's text reads %detach, its node h: an Identity between the two is missing
//   a(x), b(x), two equal norms,   a reader's text says %layer_norm_1, its node reads a(x)
//   or x.dropout() twice
//   y = gate * x, a gate of 1.0    the text of y's reader says %mul, its node reads x
//   x / (y + 1e-9)                 the division's text says %add, its node reads y
//
// A stop of gradients is put back where its place is certain. Everything else cannot be seen in
// full: a call may hide behind another one that was taken out, so that it can only be told whether
// any were. Of h.detach().split(8), and of h.detach().clone() in lines of their own, a file says
// nothing that it does not say of h.split(8) and of h.clone().
#pragma once

#include "planner/import/metadata.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace maestro::planner {

class LostCalls {
public:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  LostCalls(const onnx::GraphProto &graph, const GraphSignature &signature);

  /// Whether a node reads another floating point value than that of the call that its text names.
  bool any() const { return !readers.empty(); }
  /// A reader of such a value between which and the value's own call a parameter of `module` may
  /// have been read; "" when there is none. What is lost between two modules ran in the innermost
  /// one around both: it read parameters of that, of what is inside, or of what is around it.
  std::string whereHidden(std::string_view module) const;
  /// Whether a call is lost right before the node's call or right behind it.
  bool isBesideLost(const onnx::NodeProto &node) const;
  /// Random draws that became one draw are refused.
  Status checkRandom() const;
  /// x / (y + 1e-9): a number so small that the optimizer took it for 0, where something divides by it.
  Status checkGuards() const;
  /// Whether the text of a call is lost that computed a floating point value: a Split's, of which the optimizer makes
  /// another node.
  bool hasNodeWithoutText() const;
  /// Appends `node` to `to`, behind Identities that stand for the calls of detach() that it reads.
  Status addWithDetached(const onnx::NodeProto &node, Nodes &to) const;
  /// A line of code calls detach(), and no node that came from it shows that.
  Status checkDetachedLines() const;

private:
  /// The nodes of one call.
  struct Call {
    std::string_view text;
    std::vector<std::string> operands;
    std::vector<const onnx::NodeProto *> nodes;
    std::set<std::string> outputs;
  };
  void collectCalls();
  void collectReaders();
  std::set<std::string> modulesAround(const Call &call) const;
  bool isKnown(const std::string &operand) const { return known.count(operand) != 0; }
  bool standsFor(const std::string &value, const std::string &operand) const;
  bool isFloatValue(const std::string &value) const;
  bool dependsOnParameter(const std::string &value, std::set<std::string> &seen) const;
  bool isSharedStep(const Call &call, const std::string &value) const;
  /// Values that the call's nodes read from outside it and that none of its known operands is.
  std::set<std::string> unexplained(const Call &call) const;
  /// The addition that the call lacks; "" where it lacks none.
  std::string lostSum(const Call &call) const;
  bool hasOneNodeInOrder(const Call &call) const;
  std::set<int> detachedInputs(const Call &call, const onnx::NodeProto &node) const;

  const onnx::GraphProto &graph;
  const GraphSignature &signature;
  std::map<std::string, Call> calls;                        ///< By name.
  std::map<std::string, const onnx::NodeProto *> producers; ///< Of values.
  std::set<std::string> known;                              ///< Calls and placeholders that the file has.
  std::map<std::string, std::string> placeholders; ///< Parameters' and inputs' names in the graph to those in texts.
  std::map<std::string, std::string> parameters;   ///< Those of them that are parameters or buffers.
  std::map<std::string, int32_t> types;            ///< Of values, where the file says.
  std::set<std::string> constants;
  std::map<std::string, std::set<std::string>>
      readers;                     ///< Calls that read what another call was to give; in which modules.
  std::set<std::string> displaced; ///< What they read in its place.
};

} // namespace maestro::planner
