#include "transport/network/card.h"

#include "base/bytes.h"

namespace maestro::transport {
namespace {

constexpr uint16_t kVersion = 1;

} // namespace

std::vector<std::byte> encode(const FabricCard &card) {
  ByteWriter writer;
  writer.number(kVersion).block(card.endpoint).number(static_cast<uint32_t>(card.segments.size()));
  for (const FabricCard::Segment &segment : card.segments)
    writer.number(segment.rank)
        .number(segment.base)
        .number(segment.key)
        .number(segment.bytes)
        .number(segment.firstWord);
  return writer.take();
}

Result<FabricCard> decodeCard(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (auto version = reader.number<uint16_t>(); version != kVersion)
    return Status::invalidInput("the address is of version " + std::to_string(version) + " instead of " +
                                std::to_string(kVersion));
  FabricCard card;
  std::span<const std::byte> endpoint = reader.block();
  card.endpoint.assign(endpoint.begin(), endpoint.end());
  auto count = reader.number<uint32_t>();
  for (uint32_t i = 0; i < count && reader.isOk(); ++i) {
    FabricCard::Segment segment;
    segment.rank = reader.number<uint32_t>();
    segment.base = reader.number<uint64_t>();
    segment.key = reader.number<uint64_t>();
    segment.bytes = reader.number<uint64_t>();
    segment.firstWord = reader.number<uint32_t>();
    card.segments.push_back(segment);
  }
  if (!reader.isWhole() || endpoint.empty())
    return Status::invalidInput("the address is cut off, or has bytes behind its end");
  return card;
}

std::vector<std::byte> encode(std::span<const FabricCard::Bulk> bulks) {
  ByteWriter writer;
  writer.number(kVersion).number(static_cast<uint32_t>(bulks.size()));
  for (const FabricCard::Bulk &bulk : bulks)
    writer.number(bulk.rank).number(bulk.base).number(bulk.key);
  return writer.take();
}

Result<std::vector<FabricCard::Bulk>> decodeBulks(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  auto version = reader.number<uint16_t>();
  auto count = reader.number<uint32_t>();
  std::vector<FabricCard::Bulk> bulks;
  for (uint32_t i = 0; i < count && reader.isOk(); ++i) {
    FabricCard::Bulk bulk;
    bulk.rank = reader.number<uint32_t>();
    bulk.base = reader.number<uint64_t>();
    bulk.key = reader.number<uint64_t>();
    bulks.push_back(bulk);
  }
  if (version != kVersion || !reader.isWhole())
    return Status::invalidInput(
        "what was told of memory of devices is of another version, cut off, or has bytes behind "
        "its end");
  return bulks;
}

} // namespace maestro::transport
