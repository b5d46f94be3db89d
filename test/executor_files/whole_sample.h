// Samples with all their values, one after the other.
#pragma once

#include "executor/data/source.h"

#include <vector>

namespace maestro::test {

struct WholeSample : data::Sample {
  data::ByteBuffer storage;
};

inline Status readWhole(data::SampleReader &reader, WholeSample &sample) {
  MAESTRO_TRY(reader.read(sample));
  std::vector<uint8_t> all(sample.fields.size(), 1);
  return data::ValueReader().read(sample, all, sample.storage);
}

} // namespace maestro::test
