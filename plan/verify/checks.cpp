// Checks of names, texts and shapes.
#include "plan/verify/checks.h"

namespace maestro::plan {
namespace {

constexpr size_t kMostNameBytes = 4096;
constexpr size_t kMostTextBytes = 64 * 1024;

bool isContinuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

/// Bytes of the UTF-8 character at the start of `text`, 0 when there is none: overlong forms,
/// surrogates and values above U+10FFFF are not characters.
size_t characterLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = byte(0);
  size_t length = first < 0x80                    ? 1
                  : first >= 0xc2 && first < 0xe0 ? 2
                  : (first & 0xf0) == 0xe0        ? 3
                  : first >= 0xf0 && first < 0xf5 ? 4
                                                  : 0;
  if (length == 0 || length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if (!isContinuation(byte(i)))
      return 0;
  bool outside = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                 (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90);
  return outside ? 0 : length;
}

bool isControl(char character) {
  auto byte = static_cast<uint8_t>(character);
  return byte < 0x20 || byte == 0x7f;
}

Status checkCharacters(const Place &place, std::string_view text, bool prose) {
  for (size_t position = 0; position < text.size();) {
    size_t length = characterLength(text.substr(position));
    if (length == 0)
      return wrong(place, "the byte at {} is not UTF-8", position);
    bool allowed = prose && (text[position] == '\n' || text[position] == '\t');
    if (isControl(text[position]) && !allowed)
      return wrong(place, "the byte at {} is a control character", position);
    position += length;
  }
  return {};
}

} // namespace

Status checkName(const Place &place, const flatbuffers::String *name, Work &work) {
  MAESTRO_TRY(work.spend(place, name->size()));
  if (name->size() == 0 || name->size() > kMostNameBytes)
    return wrong(place, "the name has {} bytes, and must have 1 to {}", name->size(), kMostNameBytes);
  return checkCharacters(place, name->string_view(), false);
}

Status checkText(const Place &place, const flatbuffers::String *text, Work &work) {
  if (!text)
    return {};
  MAESTRO_TRY(work.spend(place, text->size()));
  if (text->size() > kMostTextBytes)
    return wrong(place, "the text has {} bytes, more than {}", text->size(), kMostTextBytes);
  return checkCharacters(place, text->string_view(), true);
}

Status checkFileName(const Place &place, const flatbuffers::String *name, Work &work) {
  MAESTRO_TRY(checkName(place, name, work));
  std::string_view text = name->string_view();
  if (text.find('/') != text.npos || text == "." || text == "..")
    return wrong(place, "'{}' cannot name a file of a checkpoint: no '/', '.' or '..'", text);
  return {};
}

Status countElements(const Place &place, const flatbuffers::Vector<int64_t> &shape, uint64_t &elements) {
  constexpr uint64_t kMost = uint64_t{1} << 48;
  MAESTRO_TRY(checkAligned(place, &shape, sizeof(int64_t)));
  if (shape.size() > kMaxRank)
    return wrong(place, "{} dims are more than {}", shape.size(), kMaxRank);
  elements = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(dim), &elements) || elements > kMost)
      return wrong(place, "dim {} is negative, or makes more than {} elements", dim, kMost);
  }
  return {};
}

Status checkCostTerm(const Place &place, const fb::CostTerm &term, size_t symbols) {
  constexpr uint32_t kMostFactors = 16;
  MAESTRO_TRY(checkRange(place / "picoseconds", term.picoseconds(), 0, INT64_MAX / 4));
  if (term.symbols()->size() > kMostFactors)
    return wrong(place / "symbols", "{} factors are more than {}", term.symbols()->size(), kMostFactors);
  for (uint32_t i = 0; i < term.symbols()->size(); ++i)
    MAESTRO_TRY(checkIndex(place.item("symbols", i), term.symbols()->Get(i), "symbols", symbols));
  return {};
}

} // namespace maestro::plan
