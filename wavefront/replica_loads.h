// Which replica takes a section's next micro-batch.
#pragma once

#include "wavefront/sample_work.h"

namespace maestro::wavefront {

/// Sections are dealt out one after the other. Replicas get equal shares of a section, or, where some of its devices
/// have more to do for others, what evens that out. Keeps its memory.
class ReplicaLoads {
public:
  /// Nothing is dealt out: every section is spread evenly over its replicas.
  void begin(const Problem &problem, const SampleWork &work);
  void beginSection(const Problem &problem, const SampleWork &work, uint32_t section);
  /// The replica that is least far through its share, with so much more work.
  uint32_t take(int64_t workNs);
  void endSection(const Problem &problem, const SampleWork &work, uint32_t section);

  /// How far through the step the replica was before what it took last: of kWhole, where it has `evenNs` by default.
  int64_t progress(uint32_t replica, int64_t lastNs, int64_t evenNs) const {
    return fraction(loads[replica] - lastNs, shares.empty() ? evenNs : shares[replica]);
  }

private:
  void spread(const Problem &problem, const SampleWork &work, uint32_t section, int64_t sign);

  std::vector<int64_t> loads;       ///< By replica of the section: what it was dealt.
  std::vector<int64_t> shares;      ///< By replica: what its devices have time for; all alike: empty.
  std::vector<int64_t> deviceNs;    ///< By device: what sections make it work, by what was dealt out and else evenly.
  std::vector<uint32_t> firstStage; ///< By section: into
  std::vector<int64_t> stageParts;  ///< what each stage has of the section's longest sample's work, of kWhole.
};

} // namespace maestro::wavefront
