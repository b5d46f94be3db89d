// A small record of every member for every member, once per step and kind: norms, loss sums and schedule hashes travel
// this way, and what is decided from them is decided alike everywhere.
//
// Who publishes a record writes it into every member's segment and counts it there; who reads waits for all. Whoever
// publishes a kind also reads it from all before it publishes the next: so everybody has read turn n when somebody
// writes turn n + 2, and two halves are enough.
//
// One write to each other member, by the ranks' host threads. Nothing allocates after creation.
#pragma once

#include "transport/segments.h"
#include "transport/word.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::executor {

struct AgreementDescription {
  std::string name;            ///< For errors.
  std::vector<uint32_t> ranks; ///< The members' ranks, in member order.
  uint32_t kinds = 1;
  uint32_t recordBytes = 512; ///< At most, each.
};

class Agreement {
public:
  /// Reserves words and cells in each member's segment.
  static Result<Agreement> plan(transport::SegmentPlan &plan, const AgreementDescription &description);

  /// One member's view, to be used by one thread at a time.
  class Member {
  public:
    /// Internal where the record is too large, or the kind's last one was not read.
    Status publish(uint64_t step, uint32_t kind, std::span<const std::byte> record, const transport::Abort &abort);
    /// From every member, this one included, in member order: `into` has room for as many equal records. Internal where
    /// a member has published another step, or a record of another size.
    Status awaitAll(uint64_t step, uint32_t kind, std::span<std::byte> into, const transport::Abort &abort);

    template <typename T>
    Status publish(uint64_t step, uint32_t kind, std::span<const T> record, const transport::Abort &abort) {
      return publish(step, kind, std::as_bytes(record), abort);
    }
    template <typename T>
    Status awaitAll(uint64_t step, uint32_t kind, std::span<T> into, const transport::Abort &abort) {
      return awaitAll(step, kind, std::as_writable_bytes(into), abort);
    }

  private:
    friend class Agreement;
    struct Cell;
    Member(std::shared_ptr<const struct AgreementState> state, const transport::Segments &segments, uint32_t self);
    uint64_t cellOffset(uint32_t kind, uint64_t turn, uint32_t from) const;
    /// In this member's segment: the record that another has written, or its own.
    Cell &cell(uint32_t kind, uint64_t turn, uint32_t from) const;
    const transport::WordTarget &word(uint32_t member, uint32_t kind, uint64_t turn) const;
    Status failure(uint64_t step, uint32_t kind, const std::string &text) const;

    std::shared_ptr<const AgreementState> state;
    uint32_t self;
    std::vector<transport::Target> cells;     ///< By member: kind × half × sender.
    std::vector<transport::WordTarget> words; ///< Member × kind × half.
    std::vector<uint64_t> published, read;    ///< By kind: turns.
    transport::Spin spin;
  };

  Member member(const transport::Segments &segments, uint32_t index) const { return Member(state, segments, index); }

private:
  std::shared_ptr<const AgreementState> state;
};

} // namespace maestro::executor
