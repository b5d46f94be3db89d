// The cells of recurrent networks: what of a step's input they read, what they carry on, and what their gradients keep.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace maestro {

enum class RecurrentCell : uint8_t { Lstm, Gru, RnnTanh, RnnRelu };

inline constexpr std::array kRecurrentCells = {RecurrentCell::Lstm, RecurrentCell::Gru, RecurrentCell::RnnTanh,
                                               RecurrentCell::RnnRelu};
inline constexpr std::array<std::string_view, kRecurrentCells.size()> kRecurrentCellNames = {"lstm", "gru", "rnn_tanh",
                                                                                             "rnn_relu"};

/// Nothing for other text.
inline constexpr std::optional<RecurrentCell> recurrentCellFromName(std::string_view name) {
  for (RecurrentCell cell : kRecurrentCells)
    if (kRecurrentCellNames[static_cast<size_t>(cell)] == name)
      return cell;
  return std::nullopt;
}

/// In blocks of `hidden` elements.
struct CellBlocks {
  int64_t inputs; ///< lstm: i, o, f, g; gru: z, r, n
  int64_t states; ///< lstm: h, c; others: h
  int64_t gates;  ///< lstm: i, o, f, g; gru: z, r, n, and what r multiplies; rnn: h
};
inline constexpr CellBlocks blocksOf(RecurrentCell cell) {
  switch (cell) {
  case RecurrentCell::Lstm:
    return {4, 2, 4};
  case RecurrentCell::Gru:
    return {3, 1, 4};
  case RecurrentCell::RnnTanh:
  case RecurrentCell::RnnRelu:
    return {1, 1, 1};
  }
  return {1, 1, 1};
}

} // namespace maestro
