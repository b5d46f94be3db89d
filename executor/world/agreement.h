// Sums over the members of what each of them brings, a few numbers a step: losses' counts and sums, norms. What is
// decided from them is decided alike everywhere.
//
//                    0                      records go up, added to in the order of members, and the result comes down:
//        ┌───────────┼─────────┐            O(log n) rounds, and a member's messages do not grow with their number
//        1           6    …
//     ┌──┼──┐     ┌──┼──┐
//     2  3  …     7  8  …                   a member's children are the first ones of neighbouring blocks
//
// With a record goes a key, which all must have: the hash of what they believe to be the same.
//
// A member with children waits in publish() for their records, and further up for the result, which it hands on: none
// of them waits for what another one does between publish() and await(). One buffer of each kind is enough: who sends
// again has read the answer, and so has been read.
//
// By the ranks' host threads. Nothing allocates after creation.
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
  std::string key;             ///< What the key is of, in the plural: "schedules".
  std::vector<uint32_t> ranks; ///< The members' ranks, in member order.
  uint32_t mostValues = 64;    ///< Of a record.
  uint32_t fanOut = 16;        ///< Children of a member, at most.
};

/// Makes `into` what both are together; associative.
using Combine = void (*)(std::span<double> into, std::span<const double> theirs);
void addUp(std::span<double> into, std::span<const double> theirs);

class Agreement {
public:
  /// Reserves words and cells in each member's segment.
  static Result<Agreement> plan(transport::SegmentPlan &plan, const AgreementDescription &description);

  /// One member's view, to be used by one thread at a time.
  class Member {
  public:
    /// Internal where the record is too large, the last one's result was not read, or another member has published
    /// another step, another number of values or another key.
    Status publish(uint64_t step, uint64_t key, std::span<const double> record, const transport::Abort &abort,
                   Combine combine = addUp);
    /// What all have published, combined.
    Status await(uint64_t step, std::span<double> result, const transport::Abort &abort);

  private:
    friend class Agreement;
    struct Cell;
    Member(std::shared_ptr<const struct AgreementState> state, const transport::Segments &segments, uint32_t self);
    Cell &cell(uint32_t index) const;
    Status awaitWord(const transport::WordTarget &word, uint64_t atLeast, uint64_t step, const transport::Abort &abort);
    Status combineChildren(Cell &own, const transport::Abort &abort, Combine combine);
    void send(const Cell &from, const transport::Target &to, const transport::WordTarget &word) const;
    Status failure(uint64_t step, const std::string &text) const;

    std::shared_ptr<const AgreementState> state;
    uint32_t self;
    std::byte *memory;              ///< Its cells.
    std::vector<uint32_t> children; ///< Members.
    // The cell and word at the parent, and those at each child.
    transport::Target up;
    transport::WordTarget upWord;
    std::vector<transport::Target> down;
    std::vector<transport::WordTarget> downWords;
    transport::WordTarget ownUp, ownDown;
    bool hasParent = false;
    uint64_t published = 0, read = 0; ///< Turns.
    transport::Spin spin;
  };

  Member member(const transport::Segments &segments, uint32_t index) const { return Member(state, segments, index); }

private:
  std::shared_ptr<const AgreementState> state;
};

} // namespace maestro::executor
