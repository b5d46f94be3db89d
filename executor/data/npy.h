// Reads NumPy's .npy format, versions 1 to 3, from untrusted bytes: no input crashes, no size is
// trusted before it was compared with the bytes that are there.
//
//   MAESTRO_ASSIGN(NpyHeader header, parseNpyHeader(bytes, bytes.size()));
//   std::vector<std::byte> values(header.decodedBytes());
//   decodeNpy(header, bytes.data() + header.dataOffset, values.data());
//
// Element types: little-endian f2 f4 f8 i1 i2 i4 i8 u1 b1, kept; u2 and u4, widened to i32 and i64.
// Everything else (big endian, complex, text, objects, records, u8 as in uint64) is refused by
// name.
#pragma once

#include "base/status.h"
#include "executor/data/dims.h"

#include "base/dtype.h"

#include <cstddef>
#include <span>

namespace maestro::data {

/// Element types as .npy files store them.
enum class NpyElement : uint8_t { F2, F4, F8, I1, I2, I4, I8, U1, U2, U4, B1 };

size_t storedByteSize(NpyElement element);
/// The type that its values are decoded to.
DType decodedType(NpyElement element);

struct NpyHeader {
  NpyElement element = NpyElement::F4;
  bool fortranOrder = false; ///< Column-major; never set where that makes no difference (rank < 2).
  Dims dims;
  uint64_t dataOffset = 0; ///< Where the values start in the file.

  uint64_t storedBytes() const;  ///< Of the values in the file.
  uint64_t decodedBytes() const; ///< Of the values in decodedType(element).
};

/// Whether all products of its sizes, in bytes of any element type, stay below 2^63.
bool isSoundShape(const Dims &dims);

/// Longest header that is read, in bytes (NumPy's own limit).
inline constexpr uint64_t kMaxNpyHeaderBytes = 10000;

/// Bytes before the values, from the first 12 bytes of a file; fails when it is no .npy file.
Result<uint64_t> npyHeaderBytes(std::span<const std::byte> prefix);

/// Parses the header of a file of `fileBytes` bytes, of which `prefix` holds at least the first
/// npyHeaderBytes(). The values must fill the rest of the file exactly.
Result<NpyHeader> parseNpyHeader(std::span<const std::byte> prefix, uint64_t fileBytes);

/// Writes decodedBytes() of dense row-major values from storedBytes() bytes. Bools become 0 or 1.
void decodeNpy(const NpyHeader &header, const std::byte *stored, std::byte *values);

} // namespace maestro::data
