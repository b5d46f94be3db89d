// The two ends of a ring in shared memory.
#pragma once

#include "transport/local/ring.h"
#include "transport/wait.h"

namespace maestro::transport::local {

class LocalSender : public Sender {
public:
  LocalSender(const Ring &ring, const ChannelDescription &description, uint32_t producer);

  bool hasCredit(uint64_t sequence) const override {
    return protocol::mayWrite(sequence, ring.released(), ring.slots());
  }
  Status awaitCredit(uint64_t sequence, const Abort &abort) override;
  Status write(uint64_t sequence, std::span<const Box> boxes) override;
  void *direct(uint64_t sequence) override { return ring.payload(protocol::slotOf(sequence, ring.slots())); }
  Status post(uint64_t sequence, const Message &message) override;

private:
  /// Posts made into a slot for its latest sequence.
  struct Open {
    uint64_t sequence = 0;
    uint32_t posts = 0;
  };

  Status requireCredit(uint64_t sequence, const char *what) const;
  Status failure(uint64_t sequence, const std::string &text) const;

  Ring ring;
  uint64_t slotBytes;
  uint32_t edge, epoch, producer, rank, postsPerProducer;
  LaneKind waits;
  std::vector<Open> open; ///< By slot.
  Spin spin;
};

class LocalReceiver : public Receiver {
public:
  LocalReceiver(const Ring &ring, const ChannelDescription &description);

  bool arrived(uint64_t sequence, const Expected &expected) override;
  Status awaitArrivals(uint64_t sequence, const Expected &expected, const Abort &abort) override;
  uint32_t headerCount(uint64_t sequence) const override { return found[slotOf(sequence)].count; }
  const Header &header(uint64_t sequence, uint32_t index) const override {
    return *cells[slotOf(sequence) * cellsPerSlot + index];
  }
  void *slot(uint64_t sequence) override { return ring.payload(slotOf(sequence)); }
  Status release(uint64_t sequence) override;

private:
  struct Found {
    uint64_t sequence = ~uint64_t{0}; ///< Whose headers were checked last.
    uint32_t count = 0;
  };

  uint64_t slotOf(uint64_t sequence) const { return protocol::slotOf(sequence, ring.slots()); }
  /// Finds the headers of `sequence` and holds them against what is expected.
  Status checkHeaders(uint64_t sequence, const Expected &expected);
  Status checkHeader(const Header &header, uint32_t producer, uint64_t sequence, const Expected &expected) const;
  std::string postsByProducer(uint64_t sequence) const;
  Status failure(uint64_t sequence, const std::string &text) const;

  Ring ring;
  uint32_t edge, epoch, rank, postsPerProducer;
  LaneKind waits;
  std::vector<uint32_t> producerRanks;
  uint64_t cellsPerSlot;
  std::vector<Found> found;          ///< By slot.
  std::vector<const Header *> cells; ///< By slot, then as found.
  Spin spin;
};

} // namespace maestro::transport::local
