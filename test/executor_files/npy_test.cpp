#include "executor/data/npy.h"

#include "scratch_folder.h"
#include "tar_builder.h"

#include <gmock/gmock.h>

#include <cstring>

namespace maestro::data {
namespace {
using ::testing::HasSubstr;

std::span<const std::byte> bytes(const std::string &text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string goldenArray(const std::string &name) {
  return test::readFile(std::string(MAESTRO_GOLDEN_FILES) + "/" + name + ".npy");
}

/// The values of a file, or nothing when it is refused.
template <typename T> std::vector<T> decode(const std::string &file, DType expected) {
  auto header = parseNpyHeader(bytes(file), file.size());
  EXPECT_TRUE(header.isOk()) << header.status().message();
  if (!header)
    return {};
  EXPECT_EQ(decodedType(header->element), expected);
  std::vector<T> values(static_cast<size_t>(header->dims.elements()));
  EXPECT_EQ(header->decodedBytes(), values.size() * sizeof(T));
  decodeNpy(*header, bytes(file).data() + header->dataOffset, reinterpret_cast<std::byte *>(values.data()));
  return values;
}

std::string arrayRefusal(const std::string &file) {
  auto header = parseNpyHeader(bytes(file), file.size());
  EXPECT_FALSE(header.isOk());
  return std::string(header.status().message());
}

TEST(NpyTest, readsWhatNumPyWrites) {
  using ::testing::ElementsAre;
  EXPECT_THAT(decode<float>(goldenArray("f4"), DType::F32), ElementsAre(-2, -1, 0, 1, 2, 3));
  EXPECT_THAT(decode<double>(goldenArray("f8"), DType::F64), ElementsAre(-2, -1, 0, 1, 2, 3));
  EXPECT_THAT(decode<uint16_t>(goldenArray("f2"), DType::F16), ElementsAre(0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200));
  EXPECT_THAT(decode<int8_t>(goldenArray("i1"), DType::I8), ElementsAre(-2, -1, 0, 1, 2, 3));
  EXPECT_THAT(decode<int16_t>(goldenArray("i2"), DType::I16), ElementsAre(-2, -1, 0, 1, 2, 3));
  EXPECT_THAT(decode<int32_t>(goldenArray("i4"), DType::I32), ElementsAre(-2, -1, 0, 1, 2, 3));
  EXPECT_THAT(decode<int64_t>(goldenArray("i8"), DType::I64), ElementsAre(-2, -1, 0, 1, 2, 3));
  EXPECT_THAT(decode<uint8_t>(goldenArray("u1"), DType::U8), ElementsAre(250, 251, 252, 253, 254, 255));
  EXPECT_THAT(decode<uint8_t>(goldenArray("b1"), DType::Bool), ElementsAre(1, 0, 1, 0, 0, 1));
  EXPECT_THAT(decode<int64_t>(goldenArray("version2"), DType::I64), ElementsAre(-2, -1, 0, 1, 2, 3));
  EXPECT_THAT(decode<int64_t>(goldenArray("version3"), DType::I64), ElementsAre(-2, -1, 0, 1, 2, 3));
}

TEST(NpyTest, widensUnsignedTypesThatHaveNoCounterpart) {
  EXPECT_THAT(decode<int32_t>(goldenArray("u2"), DType::I32),
              ::testing::ElementsAre(65530, 65531, 65532, 65533, 65534, 65535));
  EXPECT_THAT(decode<int64_t>(goldenArray("u4"), DType::I64),
              ::testing::ElementsAre(4294967290, 4294967291, 4294967292, 4294967293, 4294967294, 4294967295));
}

TEST(NpyTest, readsScalarsAndEmptyArrays) {
  EXPECT_THAT(decode<int64_t>(goldenArray("scalar"), DType::I64), ::testing::ElementsAre(7));
  EXPECT_TRUE(decode<float>(goldenArray("empty"), DType::F32).empty());
  std::string file = goldenArray("empty");
  EXPECT_EQ(toString(parseNpyHeader(bytes(file), file.size())->dims), "[0, 4]");
}

TEST(NpyTest, transposesColumnMajorArrays) {
  std::vector<int32_t> values = decode<int32_t>(goldenArray("fortran"), DType::I32);
  ASSERT_EQ(values.size(), 24u);
  for (int i = 0; i < 24; ++i)
    EXPECT_EQ(values[static_cast<size_t>(i)], i);
}

TEST(NpyTest, refusesOtherElementTypesByName) {
  EXPECT_THAT(arrayRefusal(goldenArray("big_endian")),
              HasSubstr("'>f4' is big-endian; save it with array.astype('<f4')"));
  EXPECT_THAT(arrayRefusal(goldenArray("complex")), HasSubstr("'<c8' is not supported"));
  EXPECT_THAT(arrayRefusal(goldenArray("record")), HasSubstr("record or an object"));
  EXPECT_THAT(arrayRefusal(goldenArray("object")), HasSubstr("'|O' is not supported"));
  EXPECT_THAT(arrayRefusal(test::npy("<u8", "(1,)", std::string(8, '\0'))), HasSubstr("'<u8' is not supported"));
}

TEST(NpyTest, refusesSizesThatDoNotMatch) {
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(3,)", std::string(23, 'x'))),
              HasSubstr("needs 24 bytes, but 23 follow its header: the file is cut off"));
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(3,)", std::string(25, 'x'))), HasSubstr("too long"));
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(4611686018427387904, 4)", "")), HasSubstr("more than 2^63"));
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(4611686018427387904, 4611686018427387904, 0)", "")),
              HasSubstr("[4611686018427387904, "));
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(99999999999999999999,)", "")), HasSubstr("a size from 0 to 2^63"));
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(-1,)", "")), HasSubstr("a size from 0"));
  EXPECT_THAT(arrayRefusal(test::npy("<i1", "(1,1,1,1,1,1,1,1,1)", "x")), HasSubstr("more than 8 dims"));
}

TEST(NpyTest, refusesDamagedHeaders) {
  EXPECT_THAT(arrayRefusal(""), HasSubstr("not an npy file"));
  EXPECT_THAT(arrayRefusal("PK\x03\x04 something else"), HasSubstr("not an npy file"));
  std::string file = goldenArray("i8");
  std::string other = file;
  other[6] = 9;
  EXPECT_THAT(arrayRefusal(other), HasSubstr("version 9"));
  other = file;
  other[9] = '\x7f';
  EXPECT_THAT(arrayRefusal(other), HasSubstr("above the limit of 10000"));
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(1,), 'shape': (1,)", "12345678")),
              HasSubstr("'shape' is unknown or repeated"));
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(1,), 'more': 1", "12345678")), HasSubstr("'more' is unknown"));
  EXPECT_THAT(arrayRefusal(test::npy("<i8", "(1,)", "12345678", "Perhaps")), HasSubstr("expected True or False"));
}

TEST(NpyTest, everyPrefixOfAFileIsRefused) {
  for (std::string name : {"f4", "version2", "fortran", "scalar"}) {
    std::string file = goldenArray(name);
    for (size_t length = 0; length < file.size(); ++length)
      EXPECT_FALSE(parseNpyHeader(bytes(file).first(length), length).isOk()) << name << " " << length;
  }
}

} // namespace
} // namespace maestro::data
