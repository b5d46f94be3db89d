// LSTM, GRU and RNN. What they make of all inputs at once is one product; what goes from position to position is
// nn.recurrence, batch first.
#include "base/recurrent_cell.h"
#include "planner/import/node_context.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

enum RecurrentInput { kX, kWeight, kRecurrent, kBias, kLengths, kInitialH, kInitialC, kPeepholes };

/// What the cell's activations are called in ONNX, in their order.
std::vector<std::string> activationsOf(RecurrentCell cell) {
  switch (cell) {
  case RecurrentCell::Lstm:
    return {"Sigmoid", "Tanh", "Tanh"};
  case RecurrentCell::Gru:
    return {"Sigmoid", "Tanh"};
  case RecurrentCell::RnnTanh:
    return {"Tanh"};
  case RecurrentCell::RnnRelu:
    return {"Relu"};
  }
  return {};
}

/// The directions of a node: whether each runs from the end.
Result<std::vector<bool>> directionsOf(NodeContext &n) {
  std::string direction = n.textAttribute("direction", "forward");
  if (direction == "forward")
    return std::vector{false};
  if (direction == "reverse")
    return std::vector{true};
  if (direction == "bidirectional")
    return std::vector{false, true};
  return Status::invalidInput(fmt::format("direction '{}' is none of forward, reverse, bidirectional", direction));
}

Status checkActivations(NodeContext &n, RecurrentCell cell) {
  const onnx::AttributeProto *given = n.attribute("activations");
  std::vector<std::string> expected = activationsOf(cell);
  for (int i = 0; given && i < given->strings_size(); ++i)
    if (given->strings(i) != expected[static_cast<size_t>(i) % expected.size()])
      return Status::invalidInput(fmt::format("activation '{}' at place {}, where only {} is supported",
                                              given->strings(i), i,
                                              expected[static_cast<size_t>(i) % expected.size()]));
  return {};
}

/// What changes a cell's meaning and is not supported.
Status checkVariant(NodeContext &n, RecurrentCell cell) {
  MAESTRO_TRY(checkActivations(n, cell));
  if (n.attribute("clip"))
    return Status::invalidInput("clip is not supported; export the module without it");
  if (n.intAttribute("input_forget", 0) != 0)
    return Status::invalidInput("input_forget (coupled gates) is not supported");
  if (n.has(kPeepholes))
    return Status::invalidInput("peepholes are not supported; use an LSTM without them");
  if (cell == RecurrentCell::Gru && n.intAttribute("linear_before_reset", 0) == 0)
    return Status::invalidInput("linear_before_reset=0 is not supported: the gate must multiply what the state was "
                                "multiplied to, as PyTorch's GRU does (linear_before_reset=1)");
  return {};
}

class Recurrence {
public:
  Recurrence(NodeContext &n, RecurrentCell cell) : n(n), cell(cell), blocks(blocksOf(cell)) {}

  Status import() {
    MAESTRO_TRY(checkVariant(n, cell));
    MAESTRO_ASSIGN(std::vector<bool> reverses, directionsOf(n));
    directions = static_cast<int64_t>(reverses.size());
    MAESTRO_TRY(readOperands());
    std::vector<mlir::Value> states;
    for (size_t direction = 0; direction < reverses.size(); ++direction) {
      MAESTRO_ASSIGN(mlir::Value each, run(static_cast<int64_t>(direction), reverses[direction]));
      states.push_back(each);
    }
    MAESTRO_TRY(setSequence(states));
    for (int state = 0; state < blocks.states; ++state)
      MAESTRO_TRY(setLast(1 + state, states, reverses));
    return {};
  }

private:
  Status readOperands() {
    batchFirst = n.intAttribute("layout", 0) != 0;
    MAESTRO_ASSIGN(x, n.tensor(kX));
    MAESTRO_ASSIGN(weight, n.tensor(kWeight));
    MAESTRO_ASSIGN(recurrent, n.tensor(kRecurrent));
    if (Emitter::rankOf(x) != 3 || Emitter::rankOf(weight) != 3 || Emitter::rankOf(recurrent) != 3)
      return Status::invalidInput("X, W and R must have rank 3");
    if (!batchFirst) {
      MAESTRO_ASSIGN(x, n.e.transpose(x, {1, 0, 2}));
    }
    int64_t size = n.intAttribute("hidden_size", 0);
    if (size < 1)
      return Status::invalidInput(fmt::format("hidden_size is {}, and must be at least 1", size));
    hidden = DimExpr(size);
    MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(recurrent)[1], blocks.inputs * hidden, "rows of R, and hidden_size"));
    MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(recurrent)[2], hidden, "columns of R, and hidden_size"));
    if (n.has(kBias)) {
      MAESTRO_ASSIGN(bias, n.tensor(kBias));
      if (Emitter::rankOf(bias) != 2)
        return Status::invalidInput("B must have rank 2");
      MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(bias)[1], 2 * blocks.inputs * hidden, "B, and hidden_size"));
    }
    for (mlir::Value each : {weight, recurrent, bias})
      if (each && !(Emitter::shapeOf(each)[0] == DimExpr(directions)))
        return Status::invalidInput(fmt::format("W, R and B must have {} directions", directions));
    return readLengths();
  }

  /// Lengths that are all the sequence's say nothing.
  Status readLengths() {
    if (!n.has(kLengths))
      return {};
    const FoldedTensor *known = n.folded(kLengths);
    bool isWhole = known != nullptr;
    for (int64_t i = 0; isWhole && i < known->size(); ++i) {
      std::optional<DimExpr> each = known->asDim(i);
      isWhole = each && *each == Emitter::shapeOf(x)[1];
    }
    if (isWhole)
      return {};
    MAESTRO_ASSIGN(lengths, n.tensor(kLengths));
    if (Emitter::rankOf(lengths) != 1)
      return Status::invalidInput("sequence_lens must have rank 1");
    return n.e.requireEqual(Emitter::shapeOf(lengths)[0], Emitter::shapeOf(x)[0], "lengths and rows of X");
  }

  /// Slice `direction` of a tensor with one entry a direction, without that dim.
  mlir::Value ofDirection(mlir::Value all, int64_t axis, int64_t direction) {
    Shape shape(Emitter::shapeOf(all));
    mlir::Value one = n.e.sliceAxis(all, axis, DimExpr(direction), DimExpr(1));
    shape.erase(shape.begin() + axis);
    return n.e.reshape(one, shape);
  }

  /// The states before the first position, [B, S·H].
  Result<mlir::Value> initialStates(int64_t direction) {
    llvm::SmallVector<mlir::Value> states;
    Shape shape{Emitter::shapeOf(x)[0], hidden};
    for (int i = 0; i < blocks.states; ++i) {
      if (!n.has(kInitialH + i)) {
        states.push_back(n.e.fill(0, shape, Emitter::dtypeOf(x)));
        continue;
      }
      MAESTRO_ASSIGN(mlir::Value all, n.tensor(kInitialH + i));
      int64_t axis = batchFirst ? 1 : 0;
      if (Emitter::rankOf(all) != 3 || !(Emitter::shapeOf(all)[axis] == DimExpr(directions)))
        return Status::invalidInput(fmt::format("an initial state must have rank 3, and {} directions", directions));
      mlir::Value state = ofDirection(all, axis, direction);
      MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(state)[0], shape[0], "rows of an initial state and of X"));
      if (Emitter::shapeOf(state)[1] != hidden)
        return Status::invalidInput(fmt::format("an initial state of {} elements beside hidden_size {}: projections "
                                                "(proj_size) are not supported; use an LSTM without them",
                                                Emitter::shapeOf(state)[1].str(), hidden.str()));
      states.push_back(state);
    }
    if (states.size() == 1)
      return states[0];
    return n.e.emit<nn::ConcatOp>(mlir::ValueRange(states), 1);
  }

  mlir::Value part(mlir::Value vector, const DimExpr &offset, const DimExpr &size) {
    return n.e.sliceAxis(vector, Emitter::rankOf(vector) - 1, offset, size);
  }

  /// What is added to x, and to what gru's reset gate multiplies; null where there is none.
  struct Biases {
    mlir::Value input, candidate;
  };
  Result<Biases> biasesOf(int64_t direction) {
    if (!bias)
      return Biases{};
    mlir::Value both = ofDirection(bias, 0, direction);
    DimExpr width = blocks.inputs * hidden, shared = cell == RecurrentCell::Gru ? 2 * hidden : width;
    MAESTRO_ASSIGN(mlir::Value sum, n.e.emit<nn::AddOp>(part(both, DimExpr(0), shared), part(both, width, shared)));
    if (cell != RecurrentCell::Gru)
      return Biases{sum, {}};
    MAESTRO_ASSIGN(mlir::Value input, n.e.emit<nn::ConcatOp>(mlir::ValueRange{sum, part(both, shared, hidden)}, 0));
    return Biases{input, part(both, width + shared, hidden)};
  }

  Result<mlir::Value> run(int64_t direction, bool reverse) {
    MAESTRO_ASSIGN(Biases biases, biasesOf(direction));
    MAESTRO_ASSIGN(mlir::Value initial, initialStates(direction));
    MAESTRO_ASSIGN(mlir::Value product, n.e.emit<nn::MatmulOp>(x, ofDirection(weight, 0, direction), biases.input,
                                                               /*transpose_a=*/false, /*transpose_b=*/true));
    llvm::StringRef name = kRecurrentCellNames[static_cast<size_t>(cell)];
    return n.e.emit<nn::RecurrenceOp>(product, ofDirection(recurrent, 0, direction), initial, biases.candidate, lengths,
                                      name, reverse);
  }

  /// 0 behind each row's length.
  Result<mlir::Value> cutOff(mlir::Value h) {
    if (!lengths)
      return h;
    mlir::Value rows = n.e.cast(n.e.reshape(lengths, {Emitter::shapeOf(lengths)[0], 1, 1}), DType::I64);
    mlir::Value positions = n.e.reshape(n.e.iota(Emitter::shapeOf(h)[1]), {Emitter::shapeOf(h)[1], 1});
    MAESTRO_ASSIGN(mlir::Value within, n.e.emit<nn::LessOp>(positions, rows));
    return n.e.emit<nn::WhereOp>(within, h, n.e.scalar(0, Emitter::dtypeOf(h)));
  }

  /// Y, [T, D, B, H] or, batch first, [B, T, D, H].
  Status setSequence(llvm::ArrayRef<mlir::Value> states) {
    if (!n.wants(0))
      return {};
    llvm::SmallVector<mlir::Value> sequences;
    for (mlir::Value each : states) {
      MAESTRO_ASSIGN(mlir::Value h, cutOff(part(each, DimExpr(0), hidden)));
      sequences.push_back(h);
    }
    Shape shape(Emitter::shapeOf(sequences[0]));
    if (sequences.size() == 1) { // No dim of 1 between two transpositions: they undo each other.
      if (batchFirst)
        return n.set(0, n.e.reshape(sequences[0], {shape[0], shape[1], 1, hidden}));
      MAESTRO_ASSIGN(mlir::Value y, n.e.transpose(sequences[0], {1, 0, 2}));
      return n.set(0, n.e.reshape(y, {shape[1], 1, shape[0], hidden}));
    }
    for (mlir::Value &each : sequences)
      each = n.e.reshape(each, {shape[0], shape[1], 1, hidden});
    MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::ConcatOp>(mlir::ValueRange(sequences), 2));
    return batchFirst ? n.set(0, y) : n.set(0, n.e.transpose(y, {1, 2, 0, 3}));
  }

  /// Y_h (output 1) or Y_c (2), [D, B, H] or, batch first, [B, D, H].
  Status setLast(int output, llvm::ArrayRef<mlir::Value> states, const std::vector<bool> &reverses) {
    if (!n.wants(output))
      return {};
    llvm::SmallVector<mlir::Value> all;
    for (auto [each, reverse] : llvm::zip_equal(states, reverses)) {
      mlir::Value state = part(each, (output - 1) * hidden, hidden);
      Shape shape(Emitter::shapeOf(state));
      mlir::Value last = n.e.sliceAxis(state, 1, reverse ? DimExpr(0) : shape[1] - 1, DimExpr(1));
      all.push_back(batchFirst ? last : n.e.reshape(last, {1, shape[0], hidden}));
    }
    if (all.size() == 1)
      return n.set(output, all[0]);
    return n.set(output, n.e.emit<nn::ConcatOp>(mlir::ValueRange(all), batchFirst ? 1 : 0));
  }

  NodeContext &n;
  RecurrentCell cell;
  CellBlocks blocks;
  bool batchFirst = false;
  int64_t directions = 1;
  DimExpr hidden;
  mlir::Value x; ///< [B, T, …]
  mlir::Value weight, recurrent, bias, lengths;
};

template <RecurrentCell cell> Status importRecurrent(NodeContext &n) { return Recurrence(n, cell).import(); }

Status importRnn(NodeContext &n) {
  const onnx::AttributeProto *given = n.attribute("activations");
  bool isRelu = given && given->strings_size() > 0 && given->strings(0) == "Relu";
  return Recurrence(n, isRelu ? RecurrentCell::RnnRelu : RecurrentCell::RnnTanh).import();
}

} // namespace

std::span<const OpEntry> recurrentOps() {
  static constexpr OpEntry kOps[] = {
      {"GRU", 7, importRecurrent<RecurrentCell::Gru>},
      {"LSTM", 7, importRecurrent<RecurrentCell::Lstm>},
      {"RNN", 7, importRnn},
  };
  return kOps;
}

} // namespace maestro::planner
