// Bounds, regions and buffers of one executable.
#include "plan/capacity.h"
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <algorithm>
#include <tuple>

namespace maestro::plan {
namespace {

constexpr int64_t kMostOfBound = (int64_t{1} << 40);

/// Values of Plan.exprs in each of the largest micro-batches.
using Largest = std::vector<std::vector<int64_t>>;

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
    for (auto [name, symbol, combine] : {std::tuple("rows", area.rows(), fb::Combine::Sum), {"padded", area.padded(), fb::Combine::Max}}) {
      MAESTRO_TRY(checkIndex(place / name, symbol, "symbols", bounds.size()));
      if (executable.plan.symbols()->Get(symbol)->combine() != combine || bounds[symbol] == DimTable::kUndefined)
        return wrong(place / name, "symbols[{}] does not combine by {}, or has no bound here", symbol, fb::EnumNameCombine(combine));
    }
    if (area.rows() != areas.Get(0)->rows())
      return wrong(place / "rows", "symbols[{}] is not the {} of the first area", area.rows(), areas.Get(0)->rows());
    if (padded[area.padded()]++)
      return wrong(place / "padded", "symbols[{}] has an area already", area.padded());
    auto most = static_cast<__int128>(bounds[area.rows()]) * bounds[area.padded()];
    if (area.value() < bounds[area.padded()] || area.value() > most)
      return wrong(place / "value", "{} is not in [{}, {} · {}]: one row of the greatest length, and the product of the bounds",
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

Status verifyRegions(const BoundedExecutable &executable) {
  uint32_t slots = 0; // Of the first Slot region.
  unsigned __int128 total = 0;
  for (uint32_t i = 0; i < executable.table.regions()->size(); ++i) {
    const fb::Region &region = *executable.table.regions()->Get(i);
    Place place = executable.place.item("regions", i);
    MAESTRO_TRY(checkEnum(place / "kind", region.kind()));
    bool isSlot = region.kind() == fb::RegionKind::Slot;
    bool isChannel = region.kind() == fb::RegionKind::Channel;
    if (region.copies() == 0 || (region.copies() > 1 && !isSlot && !isChannel))
      return wrong(place / "copies", "{} is not 1{}", region.copies(),
                   isSlot || isChannel ? " or more" : "; only slots have copies");
    MAESTRO_TRY(checkChannel(executable, region, place));
    if (isSlot && slots != 0 && slots != region.copies())
      return wrong(place / "copies", "{} are not the {} of the other slot region", region.copies(), slots);
    slots = isSlot ? region.copies() : slots;
    if (region.copies() > 1 && region.bytes() % kAlignment != 0)
      return wrong(place / "bytes", "{} is not a multiple of {}, as copies need", region.bytes(), kAlignment);
    total += static_cast<unsigned __int128>(region.bytes()) * region.copies();
  }
  if (total > executable.table.peak_bytes())
    return wrong(executable.place / "peak_bytes", "{} is less than the regions need",
                 executable.table.peak_bytes());
  return {};
}

/// Bytes of a buffer's shape with these values of Plan.exprs.
Status bytesAt(const BoundedExecutable &executable, std::span<const int64_t> dims, const fb::Buffer &buffer, const Place &place,
               uint64_t &bytes) {
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

/// In any micro-batch.
Status neededBytes(const BoundedExecutable &executable, const Largest &largest, const fb::Buffer &buffer, const Place &place,
                   uint64_t &bytes) {
  const auto &shape = *buffer.shape();
  if (shape.size() > kMaxRank)
    return wrong(place / "shape", "{} dims are more than {}", shape.size(), kMaxRank);
  for (uint32_t i = 0; i < shape.size(); ++i)
    MAESTRO_TRY(checkIndex(place.item("shape", i), shape.Get(i), "expressions", executable.dims.size()));
  bytes = 0;
  for (const std::vector<int64_t> &dims : largest) {
    uint64_t own = 0;
    MAESTRO_TRY(bytesAt(executable, dims, buffer, place, own));
    bytes = std::max(bytes, own);
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
  for (uint32_t i = 0; i < buffer.shape()->size(); ++i)
    if (executable.plan.exprs()->Get(buffer.shape()->Get(i))->op() != fb::DimOp::Constant)
      return wrong(place.item("shape", i), "a constant's dims are constant, and exprs[{}] is not",
                   buffer.shape()->Get(i));
  return {};
}

Status verifyBuffer(const BoundedExecutable &executable, const Largest &largest, const fb::Buffer &buffer, const Place &place,
                    uint64_t &needed) {
  if (buffer.name())
    MAESTRO_TRY(checkText(place / "name", buffer.name()));
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
  MAESTRO_TRY(neededBytes(executable, largest, buffer, place, needed));
  if (needed > buffer.bytes())
    return wrong(place / "bytes", "{} are less than the {} of its shape at the executable's bounds", buffer.bytes(),
                 needed);
  return verifyConstant(executable, buffer, place);
}

} // namespace

const fb::Program *BoundedExecutable::program(fb::ProgramKind kind) const {
  for (const fb::Program *program : *table.programs())
    if (program->kind() == kind)
      return program;
  return nullptr;
}

Status verifyBuffers(BoundedExecutable &executable) {
  std::vector<int64_t> symbols;
  MAESTRO_TRY(boundsOf(executable, symbols));
  MAESTRO_TRY(checkAreas(executable, symbols));
  std::vector<std::vector<int64_t>> sizes = largestMicroBatches(capacityOf(executable.plan, executable.table));
  MAESTRO_TRY(executable.work.spend(executable.place, (sizes.size() + 1) * (executable.plan.exprs()->size() + symbols.size() +
                                                                            executable.table.buffers()->size())));
  executable.dims.resize(executable.plan.exprs()->size());
  DimTable(executable.plan).evaluateDefined(symbols, executable.dims);
  Largest largest(sizes.size(), executable.dims);
  for (size_t i = 0; i < sizes.size(); ++i)
    DimTable(executable.plan).evaluateDefined(sizes[i], largest[i]);
  MAESTRO_TRY(verifyRegions(executable));
  executable.neededBytes.resize(executable.table.buffers()->size());
  for (uint32_t i = 0; i < executable.table.buffers()->size(); ++i)
    MAESTRO_TRY(verifyBuffer(executable, largest, executable.buffer(i), executable.place.item("buffers", i),
                             executable.neededBytes[i]));
  return {};
}

} // namespace maestro::plan
