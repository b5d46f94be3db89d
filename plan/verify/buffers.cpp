// Bounds, regions and buffers of one executable.
#include "plan/capacity.h"
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace maestro::plan {
namespace {

constexpr int64_t kMostOfBound = (int64_t{1} << 40);
constexpr uint32_t kMaxRegions = 1024; ///< Of one executable: its kinds, and the rings of some five hundred edges.
constexpr uint32_t kMaxCopies = 1 << 20;
constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 46; ///< Copies included.

/// Values of Plan.symbols at the bounds; kUndefined for symbols without.
Status boundsOf(const BoundedExecutable &executable, std::vector<int64_t> &values) {
  const fb::Plan &plan = executable.plan;
  values.assign(plan.symbols()->size(), DimTable::kUndefined);
  for (uint32_t i = 0; i < executable.table.bounds()->size(); ++i) {
    const fb::Bound &bound = *executable.table.bounds()->Get(i);
    Place place = executable.place.item("bounds", i);
    MAESTRO_TRY(checkIndex(place / "symbol", bound.symbol(), "symbols", plan.symbols()->size()));
    if (values[bound.symbol()] != DimTable::kUndefined)
      return wrong(place / "symbol", "symbols[{}] has a bound already", bound.symbol());
    const fb::Symbol &symbol = *plan.symbols()->Get(bound.symbol());
    if (bound.value() < symbol.sample_max() || bound.value() > kMostOfBound)
      return wrong(place / "value", "{} is not in [{} (sample_max of symbols[{}], '{}'), {}]", bound.value(),
                   symbol.sample_max(), bound.symbol(), symbol.name()->string_view(), kMostOfBound);
    if (symbol.combine() == fb::Combine::Max && bound.value() % symbol.multiple_of() != 0)
      return wrong(place / "value", "{} is not a multiple of {} (symbols[{}], '{}')", bound.value(),
                   symbol.multiple_of(), bound.symbol(), symbol.name()->string_view());
    values[bound.symbol()] = bound.value();
  }
  return {};
}

Status checkAreas(const BoundedExecutable &executable, std::span<const int64_t> bounds) {
  if (!executable.table.areas())
    return {};
  const auto &areas = *executable.table.areas();
  std::vector<uint8_t> padded(bounds.size(), 0);
  for (uint32_t i = 0; i < areas.size(); ++i) {
    const fb::Area &area = *areas.Get(i);
    Place place = executable.place.item("areas", i);
    for (auto [name, symbol, combine] :
         {std::tuple("rows", area.rows(), fb::Combine::Sum), {"padded", area.padded(), fb::Combine::Max}}) {
      MAESTRO_TRY(checkIndex(place / name, symbol, "symbols", bounds.size()));
      if (executable.plan.symbols()->Get(symbol)->combine() != combine || bounds[symbol] == DimTable::kUndefined)
        return wrong(place / name, "symbols[{}] does not combine by {}, or has no bound here", symbol,
                     fb::EnumNameCombine(combine));
    }
    if (area.rows() != areas.Get(0)->rows())
      return wrong(place / "rows", "symbols[{}] is not the {} of the first area", area.rows(), areas.Get(0)->rows());
    if (padded[area.padded()]++)
      return wrong(place / "padded", "symbols[{}] has an area already", area.padded());
    auto most = static_cast<__int128>(bounds[area.rows()]) * bounds[area.padded()];
    if (area.value() < bounds[area.padded()] || area.value() > most)
      return wrong(place / "value",
                   "{} is not in [{}, {} · {}]: one row of the greatest length, and the product of the bounds",
                   area.value(), bounds[area.padded()], bounds[area.rows()], bounds[area.padded()]);
  }
  return {};
}

/// A ring belongs to one end of one edge: the consumer's for the tensor, the producer's for its gradient.
Status checkChannel(const BoundedExecutable &executable, const fb::Region &region, const Place &place) {
  if (region.kind() != fb::RegionKind::Channel)
    return region.edge() == kNone ? Status() : wrong(place / "edge", "the region is no Channel");
  MAESTRO_TRY(checkIndex(place / "edge", region.edge(), "edges", executable.plan.edges()->size()));
  const fb::Edge &edge = *executable.plan.edges()->Get(region.edge());
  if (region.gradient() && !edge.carries_gradient())
    return wrong(place / "gradient", "edges[{}] carries no gradient", region.edge());
  uint32_t section = region.gradient() ? edge.producer() : edge.consumer();
  uint32_t stage = region.gradient() ? edge.producer_stage() : edge.consumer_stage();
  if (executable.table.section() != section || executable.table.stage() != stage)
    return wrong(place / "edge", "edges[{}] ends at stage {} of sections[{}], not here", region.edge(), stage, section);
  return {};
}

/// One region of a kind; of Channels one of each end of each edge.
class RegionKinds {
public:
  bool add(const fb::Region &region) {
    auto kind = static_cast<size_t>(region.kind());
    if (region.kind() == fb::RegionKind::Channel)
      return channels.insert(uint64_t{region.edge()} * 2 + region.gradient()).second;
    return !std::exchange(seen[kind], true);
  }

private:
  std::array<bool, static_cast<size_t>(fb::RegionKind::MAX) + 1> seen{};
  std::unordered_set<uint64_t> channels;
};

Status verifyRegion(const BoundedExecutable &executable, const fb::Region &region, const Place &place) {
  MAESTRO_TRY(checkEnum(place / "kind", region.kind()));
  bool hasCopies = region.kind() == fb::RegionKind::Slot || region.kind() == fb::RegionKind::Channel;
  if (region.copies() == 0 || region.copies() > (hasCopies ? kMaxCopies : 1))
    return wrong(place / "copies", "{} is not in [1, {}]{}", region.copies(), hasCopies ? kMaxCopies : 1,
                 hasCopies ? "" : "; slots and rings alone have copies");
  MAESTRO_TRY(checkChannel(executable, region, place));
  if (region.copies() > 1 && region.bytes() % kAlignment != 0)
    return wrong(place / "bytes", "{} is not a multiple of {}, as copies need", region.bytes(), kAlignment);
  return {};
}

Status verifyRegions(const BoundedExecutable &executable) {
  const auto &regions = *executable.table.regions();
  if (regions.size() > kMaxRegions)
    return wrong(executable.place / "regions", "{} are more than {}", regions.size(), kMaxRegions);
  RegionKinds kinds;
  unsigned __int128 total = 0;
  for (uint32_t i = 0; i < regions.size(); ++i) {
    const fb::Region &region = *regions.Get(i);
    Place place = executable.place.item("regions", i);
    MAESTRO_TRY(verifyRegion(executable, region, place));
    if (!kinds.add(region))
      return wrong(place / "kind", "an earlier region is of kind {}{}, too", fb::EnumNameRegionKind(region.kind()),
                   region.kind() == fb::RegionKind::Channel ? " and of this end of the edge" : "");
    total += static_cast<unsigned __int128>(region.bytes()) * region.copies();
  }
  if (total > kMaxRegionBytes)
    return wrong(executable.place / "regions", "they take more than {} bytes together", kMaxRegionBytes);
  if (total > executable.table.peak_bytes())
    return wrong(executable.place / "peak_bytes", "{} is less than the regions need", executable.table.peak_bytes());
  return {};
}

/// Bytes of a buffer's shape with these values of Plan.exprs.
Status bytesAt(const BoundedExecutable &executable, std::span<const int64_t> dims, const fb::Buffer &buffer,
               const Place &place, uint64_t &bytes) {
  const auto &shape = *buffer.shape();
  bytes = byteSize(static_cast<DType>(buffer.dtype()));
  for (uint32_t i = 0; i < shape.size(); ++i) {
    Place dim = place.item("shape", i);
    int64_t value = dims[shape.Get(i)];
    if (value == DimTable::kUndefined)
      return wrong(dim, "has no value at the executable's bounds: {}",
                   DimTable(executable.plan).explain(shape.Get(i), dims));
    if (value < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(value), &bytes))
      return wrong(dim, "{} is negative at the executable's bounds, or makes the bytes overflow", value);
  }
  return {};
}

Status verifyConstant(const BoundedExecutable &executable, const fb::Buffer &buffer, const Place &place) {
  if (!buffer.constant())
    return {};
  MAESTRO_TRY(checkAligned(place / "constant", buffer.constant(), kAlignment));
  if (executable.table.regions()->Get(buffer.region())->kind() != fb::RegionKind::Constants)
    return wrong(place / "constant", "region {} is not of kind Constants", buffer.region());
  if (buffer.constant()->size() != buffer.bytes())
    return wrong(place / "constant", "{} bytes are not the buffer's {}", buffer.constant()->size(), buffer.bytes());
  return isFixed(executable.plan, *buffer.shape()) ? Status()
                                                   : wrong(place / "shape", "a constant's dims are constant");
}

/// All of a buffer but how much it holds.
Status verifyBuffer(const BoundedExecutable &executable, const fb::Buffer &buffer, const Place &place) {
  if (buffer.name())
    MAESTRO_TRY(checkText(place / "name", buffer.name(), executable.work));
  MAESTRO_TRY(checkDType(place / "dtype", buffer.dtype()));
  MAESTRO_TRY(checkIndex(place / "region", buffer.region(), "regions", executable.table.regions()->size()));
  uint64_t limit = executable.table.regions()->Get(buffer.region())->bytes();
  if (buffer.offset() % kAlignment != 0)
    return wrong(place / "offset", "{} is not a multiple of {}", buffer.offset(), kAlignment);
  if (buffer.offset() > limit)
    return wrong(place / "offset", "{} exceeds region {}'s {} bytes", buffer.offset(), buffer.region(), limit);
  if (buffer.bytes() > limit - buffer.offset())
    return wrong(place / "bytes", "{} from offset {} exceed region {}'s {} bytes", buffer.bytes(), buffer.offset(),
                 buffer.region(), limit);
  const auto &shape = *buffer.shape();
  if (shape.size() > kMaxRank)
    return wrong(place / "shape", "{} dims are more than {}", shape.size(), kMaxRank);
  for (uint32_t i = 0; i < shape.size(); ++i)
    MAESTRO_TRY(checkIndex(place.item("shape", i), shape.Get(i), "expressions", executable.dims.size()));
  return verifyConstant(executable, buffer, place);
}

/// In one of the largest micro-batches. A fixed shape takes exactly its bytes; others may be given more, since what a
/// dim like `seq mod 8` makes of the largest sizes is not its own largest value. bind() holds every micro-batch against
/// them.
Status verifyBytes(const BoundedExecutable &executable, std::span<const int64_t> dims, const fb::Buffer &buffer,
                   const Place &place) {
  uint64_t needed = 0;
  MAESTRO_TRY(bytesAt(executable, dims, buffer, place, needed));
  if (needed > buffer.bytes())
    return wrong(place / "bytes", "{} are less than the {} of its shape at the executable's bounds", buffer.bytes(),
                 needed);
  if (needed < buffer.bytes() && isFixed(executable.plan, *buffer.shape()))
    return wrong(place / "bytes", "{} are more than the {} of its shape, which is fixed", buffer.bytes(), needed);
  return {};
}

/// Each buffer in all of the largest micro-batches, one of these after the other: no more memory than for one.
Status verifyAllBytes(BoundedExecutable &executable, std::span<const int64_t> bounds) {
  const auto &buffers = *executable.table.buffers();
  Capacity capacity = capacityOf(executable.plan, executable.table);
  size_t each = executable.plan.exprs()->size() + bounds.size() + kMaxRank * size_t{buffers.size()};
  MAESTRO_TRY(executable.work.spend(executable.place, countLargestMicroBatches(capacity), each));
  std::vector<int64_t> dims(executable.dims.size());
  return forEachLargestMicroBatch(capacity, [&](std::span<const int64_t> sizes) -> Status {
    DimTable(executable.plan).evaluateDefined(sizes, dims);
    for (uint32_t i = 0; i < buffers.size(); ++i)
      MAESTRO_TRY(verifyBytes(executable, dims, *buffers.Get(i), executable.place.item("buffers", i)));
    return {};
  });
}

} // namespace

const fb::Program *BoundedExecutable::program(fb::ProgramKind kind) const {
  for (const fb::Program *program : *table.programs())
    if (program->kind() == kind)
      return program;
  return nullptr;
}

bool isFixed(const fb::Plan &plan, const flatbuffers::Vector<uint32_t> &shape) {
  return std::all_of(shape.begin(), shape.end(),
                     [&](uint32_t dim) { return plan.exprs()->Get(dim)->op() == fb::DimOp::Constant; });
}

Status verifyBuffers(BoundedExecutable &executable) {
  const auto &buffers = *executable.table.buffers();
  MAESTRO_TRY(executable.work.spend(executable.place,
                                    executable.plan.exprs()->size() + 4 * size_t{executable.plan.symbols()->size()}));
  std::vector<int64_t> bounds;
  MAESTRO_TRY(boundsOf(executable, bounds));
  MAESTRO_TRY(checkAreas(executable, bounds));
  executable.dims.resize(executable.plan.exprs()->size());
  DimTable(executable.plan).evaluateDefined(bounds, executable.dims);
  MAESTRO_TRY(verifyRegions(executable));
  for (uint32_t i = 0; i < buffers.size(); ++i)
    MAESTRO_TRY(verifyBuffer(executable, *buffers.Get(i), executable.place.item("buffers", i)));
  return verifyAllBytes(executable, bounds);
}

} // namespace maestro::plan
