// Parses the input as a .npy file and decodes its values.
#include "executor/data/npy.h"

#include <vector>

using namespace maestro;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  std::span<const std::byte> file(reinterpret_cast<const std::byte *>(bytes), size);
  Result<data::NpyHeader> header = data::parseNpyHeader(file, size);
  if (!header)
    return 0;
  std::vector<std::byte> values(header->decodedBytes());
  data::decodeNpy(*header, file.data() + header->dataOffset, values.data());
  return 0;
}
