// Bounds, regions and buffers of one executable.
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

namespace maestro::plan {
namespace {

constexpr int64_t kMostOfBound = (int64_t{1} << 40);

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

/// Bytes of a buffer's shape at the bounds.
Status neededBytes(const BoundedExecutable &executable, const fb::Buffer &buffer, const Place &place,
                   uint64_t &bytes) {
  const auto &shape = *buffer.shape();
  if (shape.size() > kMaxRank)
    return wrong(place / "shape", "{} dims are more than {}", shape.size(), kMaxRank);
  bytes = byteSize(static_cast<DType>(buffer.dtype()));
  for (uint32_t i = 0; i < shape.size(); ++i) {
    Place dim = place.item("shape", i);
    MAESTRO_TRY(checkIndex(dim, shape.Get(i), "expressions", executable.dims.size()));
    int64_t value = executable.dims[shape.Get(i)];
    if (value == DimTable::kUndefined)
      return wrong(dim, "has no value at the executable's bounds: {}",
                   DimTable(executable.plan).explain(shape.Get(i), executable.dims));
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
  for (uint32_t i = 0; i < buffer.shape()->size(); ++i)
    if (executable.plan.exprs()->Get(buffer.shape()->Get(i))->op() != fb::DimOp::Constant)
      return wrong(place.item("shape", i), "a constant's dims are constant, and exprs[{}] is not",
                   buffer.shape()->Get(i));
  return {};
}

Status verifyBuffer(const BoundedExecutable &executable, const fb::Buffer &buffer, const Place &place,
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
  MAESTRO_TRY(neededBytes(executable, buffer, place, needed));
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
  MAESTRO_TRY(executable.work.spend(executable.place, executable.plan.exprs()->size() + symbols.size()));
  executable.dims.resize(executable.plan.exprs()->size());
  DimTable(executable.plan).evaluateDefined(symbols, executable.dims);
  MAESTRO_TRY(verifyRegions(executable));
  executable.neededBytes.resize(executable.table.buffers()->size());
  for (uint32_t i = 0; i < executable.table.buffers()->size(); ++i)
    MAESTRO_TRY(verifyBuffer(executable, executable.buffer(i), executable.place.item("buffers", i),
                             executable.neededBytes[i]));
  return {};
}

} // namespace maestro::plan
