// Which replica takes a section's next micro-batch.
#pragma once

#include "wavefront/sample_work.h"

namespace maestro::wavefront {

/// Sections are dealt out one after the other. Replicas get equal shares of a section, or, where some of its devices
/// have more to do for others, what evens that out. Keeps its memory.
class ReplicaLoads {
public:
  /// Every section is spread evenly over its replicas.
  void begin(const Problem &problem, const SampleWork &work);
  /// Deals out a section anew; `workNs` is of all its micro-batches.
  void beginSection(const Problem &problem, uint32_t section, int64_t workNs);
  /// The replica that is least far through its share, with so much more work.
  uint32_t take(int64_t workNs);
  /// How far through its share the replica was before what it took last, of kWhole.
  int64_t progress(uint32_t replica, int64_t lastNs) const {
    return fraction(loads[replica] - lastNs, (*shares)[replica]);
  }

private:
  void addToDevices(const Problem &problem, uint32_t section, int64_t sign);

  std::vector<std::vector<int64_t>> sharesOf; ///< section × replica: the work of it that the replica has or will have.
  std::vector<int64_t> deviceNs;              ///< By device: what sections make it work.
  std::vector<int64_t> loads;                 ///< By replica of the section that is dealt out: what it has,
  std::vector<int64_t> *shares = nullptr;     ///< its share,
  bool isEven = true;                         ///< and whether all shares are alike.
};

} // namespace maestro::wavefront
