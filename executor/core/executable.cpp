#include "executor/core/executable.h"

#include "base/kept_kernels.h"
#include "kernels/signature.h"
#include "plan/capacity.h"
#include "plan/collectives.h"
#include "plan/dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

/// Prepared programs are kept, whatever the shapes, up to the limits of base/kept_kernels.h. Large programs are kept
/// for a few shapes at least.
constexpr size_t kFewestShapes = 4;

uint64_t bindingKey(fb::BindingKind kind, uint32_t index) { return static_cast<uint64_t>(kind) << 32 | index; }

/// Regions whose size follows from the micro-batch.
bool growsWithSamples(fb::RegionKind kind) {
  return kind == fb::RegionKind::Slot || kind == fb::RegionKind::Workspace || kind == fb::RegionKind::Channel;
}

/// Of dims that are not negative; UINT64_MAX where there would be more. A dim of 0 anywhere is none.
uint64_t bytesOf(const fb::Buffer &buffer, std::span<const int64_t> dims) {
  uint64_t bytes = byteSize(static_cast<DType>(buffer.dtype()));
  bool isEmpty = false, overflows = false;
  for (uint32_t expr : *buffer.shape()) {
    isEmpty |= dims[expr] == 0;
    overflows |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(dims[expr]), &bytes);
  }
  return isEmpty ? 0 : overflows ? UINT64_MAX : bytes;
}

kernels::TensorType tensorType(const fb::Buffer &buffer, std::span<const int64_t> dims) {
  std::array<int64_t, kernels::TensorType::kMaxRank> shape{};
  size_t rank = 0;
  for (uint32_t expr : *buffer.shape())
    shape[rank++] = dims[expr];
  return kernels::TensorType(static_cast<DType>(buffer.dtype()), {shape.data(), rank});
}

void describe(const fb::Attribute &source, std::span<const int64_t> dims, kernels::Attribute &result) {
  using Kind = kernels::Attribute::Kind;
  result.name.assign(source.name()->string_view());
  result.kind = source.floats() ? Kind::Floats : source.text() ? Kind::Text : Kind::Ints;
  result.floats.clear();
  result.text.clear();
  result.ints.clear();
  if (source.floats())
    result.floats.assign(source.floats()->begin(), source.floats()->end());
  else if (source.text())
    result.text.assign(source.text()->string_view());
  else if (source.exprs())
    for (uint32_t expr : *source.exprs())
      result.ints.push_back(dims[expr]);
  else if (source.ints())
    result.ints.assign(source.ints()->begin(), source.ints()->end());
}

} // namespace

Result<std::unique_ptr<ExecutableInstance>> ExecutableInstance::create(const plan::Plan &plan, uint32_t index,
                                                                       Device &device, uint64_t growth,
                                                                       const SharedRegions &shared,
                                                                       const TensorGroup &group) {
  std::unique_ptr<ExecutableInstance> instance(
      new ExecutableInstance(plan, *plan->executables()->Get(index), device, growth, group));
  instance->boundSymbols = plan::largestMicroBatches(plan::capacityOf(*plan, *instance->executable)).front();
  std::replace(instance->boundSymbols.begin(), instance->boundSymbols.end(), plan::DimTable::kUndefined, int64_t{1});
  for (const fb::Binding *binding : *instance->executable->bindings())
    instance->bound.emplace(bindingKey(binding->kind(), binding->index()), binding->buffer());
  MAESTRO_TRY(instance->allocateRegions(shared));
  MAESTRO_TRY(instance->writeConstants());
  return instance;
}

bool ExecutableInstance::grows(uint32_t region) const {
  return growsWithSamples(executable->regions()->Get(region)->kind());
}

Status ExecutableInstance::allocateRegions(const SharedRegions &shared) {
  uint32_t regionCount = executable->regions()->size();
  for (uint32_t r = 0; r < regionCount; ++r) {
    const fb::Region &region = *executable->regions()->Get(r);
    uint64_t stride = region.bytes() * (grows(r) ? growth : 1);
    uint32_t copies = std::max(region.copies(), 1u);
    Address block;
    if (auto given = shared.find(r); given != shared.end()) {
      block = given->second.base;
      stride = given->second.stride;
    } else if (stride > 0) {
      MAESTRO_ASSIGN(block,
                     device.allocate(stride * copies, fmt::format("{} of {}", fb::EnumNameRegionKind(region.kind()),
                                                                  executable->name()->string_view())));
    }
    regionBlocks.push_back(block);
    regionStride.push_back(stride);
    if (region.kind() == fb::RegionKind::Slot)
      slotCount = copies;
  }
  selected.assign(regionCount, 0);
  bases.resize(regionCount);
  return Status();
}

Address ExecutableInstance::base(uint32_t region, uint32_t slot) const {
  bool isSlot = executable->regions()->Get(region)->kind() == fb::RegionKind::Slot;
  return regionBlocks[region] + (isSlot ? slot : selected[region]) * regionStride[region];
}

Status ExecutableInstance::writeConstants() {
  for (uint32_t b = 0; b < executable->buffers()->size(); ++b) {
    const fb::Buffer &buffer = *executable->buffers()->Get(b);
    if (buffer.constant())
      device.write(Queue::Copy, address(b, 0), buffer.constant()->data(), buffer.constant()->size());
  }
  return device.drain();
}

const fb::Program *ExecutableInstance::program(fb::ProgramKind kind) const {
  for (const fb::Program *candidate : *executable->programs())
    if (candidate->kind() == kind)
      return candidate;
  return nullptr;
}

bool ExecutableInstance::hasProgram(fb::ProgramKind kind) const { return program(kind) != nullptr; }

uint32_t ExecutableInstance::boundBuffer(fb::BindingKind kind, uint32_t index) const {
  auto found = bound.find(bindingKey(kind, index));
  return found == bound.end() ? kNone : found->second;
}

Address ExecutableInstance::address(uint32_t buffer, uint32_t slot) const {
  const fb::Buffer &table = *executable->buffers()->Get(buffer);
  return base(table.region(), slot) + table.offset() * (grows(table.region()) ? growth : 1);
}

uint64_t ExecutableInstance::bytes(uint32_t buffer, const BoundShapes &shapes) const {
  return bytesOf(*executable->buffers()->Get(buffer), shapes.dims);
}

uint64_t ExecutableInstance::mostBytes(uint32_t buffer) const {
  const fb::Buffer &table = *executable->buffers()->Get(buffer);
  return table.bytes() * (grows(table.region()) ? growth : 1);
}

Result<BoundShapes *> ExecutableInstance::bind(std::span<const int64_t> symbols) {
  for (auto &seen : shapesSeen)
    if (std::equal(seen->symbols.begin(), seen->symbols.end(), symbols.begin(), symbols.end())) {
      seen->lastUse = ++useCounter;
      return seen.get();
    }

  auto fresh = std::make_unique<BoundShapes>();
  fresh->symbols.assign(symbols.begin(), symbols.end());
  fresh->dims.resize(plan->exprs()->size());
  plan::DimTable(*plan).evaluateDefined(symbols, fresh->dims);
  for (uint32_t b = 0; b < executable->buffers()->size(); ++b) {
    const fb::Buffer &buffer = *executable->buffers()->Get(b);
    for (uint32_t expr : *buffer.shape())
      if (fresh->dims[expr] < 0)
        return Status::invalidInput(fmt::format(
            "{}: the dim {} is {} for this micro-batch; the model cannot take samples of this size",
            executable->name()->string_view(), plan::DimTable(*plan).text(expr),
            fresh->dims[expr] == plan::DimTable::kUndefined ? "undefined" : std::to_string(fresh->dims[expr])));
    uint64_t planned = mostBytes(b);
    if (bytes(b, *fresh) > planned)
      return Status::invalidInput(
          fmt::format("{}: a buffer{} needs {} bytes for this micro-batch, the plan allows {}; raise the dims' "
                      "max in the workload and plan again",
                      executable->name()->string_view(),
                      buffer.name() ? " (" + buffer.name()->str() + ")" : std::string(), bytes(b, *fresh), planned));
  }
  MAESTRO_TRY(dropOldShapes());
  fresh->lastUse = ++useCounter;
  shapesSeen.push_back(std::move(fresh));
  return shapesSeen.back().get();
}

/// Makes room for the programs of one more set of shapes.
Status ExecutableInstance::dropOldShapes() {
  bool isFirst = true;
  while ((preparedCalls > kMostKeptCalls || device.preparedBytes() > kMostKeptBytes) &&
         shapesSeen.size() >= kFewestShapes) {
    if (std::exchange(isFirst, false))
      MAESTRO_TRY(
          device.wait(device.record(Queue::Compute))); // The device may still be running the oldest shapes' programs.
    auto oldest = std::min_element(shapesSeen.begin(), shapesSeen.end(),
                                   [](auto &a, auto &b) { return a->lastUse < b->lastUse; });
    preparedCalls -= (*oldest)->calls;
    shapesSeen.erase(oldest);
  }
  return Status();
}

Result<BoundShapes *> ExecutableInstance::bindBounds() { return bind(boundSymbols); }

namespace {

/// As growthFor(), of one executable; where a dim has no value, bind() says which.
uint64_t growthOf(const fb::Executable &executable, std::span<const int64_t> dims) {
  uint64_t least = 1;
  for (const fb::Buffer *buffer : *executable.buffers()) {
    bool isDefined =
        std::all_of(buffer->shape()->begin(), buffer->shape()->end(), [&](uint32_t expr) { return dims[expr] >= 0; });
    if (!growsWithSamples(executable.regions()->Get(buffer->region())->kind()) || buffer->bytes() == 0 || !isDefined)
      continue;
    uint64_t needed = bytesOf(*buffer, dims);
    least = std::max(least, needed / buffer->bytes() + (needed % buffer->bytes() != 0));
  }
  return least;
}

} // namespace

Result<uint64_t> growthFor(const plan::Plan &plan, std::span<const int64_t> symbols) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 46; // Of an executable; as planned, the verifier promises no more.
  std::vector<int64_t> dims(plan->exprs()->size());
  plan::DimTable(*plan).evaluateDefined(symbols, dims);
  uint64_t least = 1, planned = 1;
  for (const fb::Executable *executable : *plan->executables()) {
    uint64_t own = 0;
    for (const fb::Region *region : *executable->regions())
      own += region->bytes() * region->copies();
    planned = std::max(planned, own);
    least = std::max(least, growthOf(*executable, dims));
  }
  if (least > kMostBytes / planned)
    return Status::invalidInput(
        fmt::format("a batch in one piece needs {} times a micro-batch's memory, more than {} bytes; use a "
                    "smaller train.global_batch",
                    least, kMostBytes));
  return least;
}

void ExecutableInstance::describeCall(const fb::Call &call, const BoundShapes &shapes, CallDescription &result) const {
  result.kernel = plan->kernels()->Get(call.kernel())->string_view();
  result.scope = call.scope() != kNone ? plan->scopes()->Get(call.scope())->string_view() : std::string_view();
  const auto *attributes =
      call.attributes() != kNone ? plan->attribute_lists()->Get(call.attributes())->items() : nullptr;
  result.attributes.resize(attributes ? attributes->size() : 0);
  for (uint32_t i = 0; i < result.attributes.size(); ++i)
    describe(*attributes->Get(i), shapes.dims, result.attributes[i]);

  auto addOperands = [&](const flatbuffers::Vector<uint32_t> &buffers, auto &types, auto &operands) {
    types.assign(buffers.size(), {});
    operands.assign(buffers.size(), {});
    for (uint32_t i = 0; i < buffers.size(); ++i) {
      if (buffers.Get(i) == kNone)
        continue;
      const fb::Buffer &table = *executable->buffers()->Get(buffers.Get(i));
      types[i] = tensorType(table, shapes.dims);
      operands[i] = {table.region(), table.offset() * (grows(table.region()) ? growth : 1)};
    }
  };
  addOperands(*call.inputs(), result.inputTypes, result.inputs);
  addOperands(*call.outputs(), result.outputTypes, result.outputs);
}

/// Where a result lies over an operand (exactly, and in the same shape: the verifier's part), its kernel must be one
/// that can do that.
Status ExecutableInstance::checkOverwritten(const CallDescription &call) const {
  for (size_t i = 0; i < call.inputs.size(); ++i)
    for (const OperandRef &output : call.outputs) {
      bool same = output.region != OperandRef::kAbsent && output.region == call.inputs[i].region &&
                  output.offset == call.inputs[i].offset && call.inputTypes[i].bytes() > 0;
      if (same && !kernels::mayOverwrite(call.kernel, i))
        return Status::invalidInput(fmt::format(
            "{}: {}{}{} writes a result over its operand {}, which it reads again; plan again",
            executable->name()->string_view(), call.kernel, call.scope.empty() ? "" : " of ", call.scope, i));
    }
  return Status();
}

Result<std::unique_ptr<PreparedCollective>> ExecutableInstance::prepareCollective(const fb::Call &call,
                                                                                  const BoundShapes &shapes) const {
  CallDescription description;
  describeCall(call, shapes, description); // The verifier promises an input and an output of one type.
  auto prepared = std::make_unique<PreparedCollective>();
  prepared->kind = plan::kindOf(*plan, call);
  prepared->input = description.inputs[0];
  prepared->output = description.outputs[0];
  bool cuts = prepared->kind == fb::CallKind::OwnPart, sums = prepared->kind == fb::CallKind::AllReduce;
  const kernels::TensorType &part = cuts ? description.outputTypes[0] : description.inputTypes[0];
  const kernels::TensorType &whole = cuts ? description.inputTypes[0] : description.outputTypes[0];
  kernels::Attributes attributes(description.attributes);
  auto dim =
      sums ? 0 : static_cast<int>(attributes.getInt("dim", 0)); // The verifier promises that it is one of the input's.
  uint64_t parts = sums ? 1 : group.count;
  if (group.count < 2 || part.bytes() * parts != whole.bytes())
    return Status::invalidInput(fmt::format("{}: {} of {} bytes into {} between {} ranks",
                                            executable->name()->string_view(), description.kernel, part.bytes(),
                                            whole.bytes(), group.count));
  for (int d = 0; d < dim; ++d)
    prepared->runs *= static_cast<uint64_t>(part.dims[static_cast<size_t>(d)]);
  prepared->runBytes = prepared->runs ? part.bytes() / prepared->runs : 0;
  return prepared;
}

Result<ProgramSteps> ExecutableInstance::prepare(const fb::Program &program, const BoundShapes &shapes) {
  ProgramSteps steps;
  descriptions.resize(std::max<size_t>(descriptions.size(), program.calls()->size()));
  size_t calls = 0; // Since the last step.
  auto endStep = [&](std::unique_ptr<PreparedCollective> collective) -> Status {
    steps.emplace_back();
    MAESTRO_ASSIGN(steps.back().calls, device.prepare({descriptions.data(), calls}));
    steps.back().collective = std::move(collective);
    calls = 0;
    return Status();
  };
  for (const fb::Call *call : *program.calls()) {
    if (plan::kindOf(*plan, *call) == fb::CallKind::Kernel) {
      describeCall(*call, shapes, descriptions[calls]);
      MAESTRO_TRY(checkOverwritten(descriptions[calls++]));
      continue;
    }
    MAESTRO_ASSIGN(auto collective, prepareCollective(*call, shapes));
    MAESTRO_TRY(endStep(std::move(collective)));
  }
  MAESTRO_TRY(endStep(nullptr));
  return steps;
}

/// Behind the calls before it, on the same queue.
void ExecutableInstance::launchCollective(const PreparedCollective &collective) {
  Address input = bases[collective.input.region] + collective.input.offset,
          output = bases[collective.output.region] + collective.output.offset;
  uint64_t runs = collective.runs, runBytes = collective.runBytes;
  switch (collective.kind) {
  case fb::CallKind::AllReduce:
    return group.exchange->sum(Queue::Compute, input, output, runs * runBytes / sizeof(float));
  case fb::CallKind::AllGather:
    return group.exchange->gather(Queue::Compute, input, output, runs, runBytes);
  default: // OwnPart; checkSupported() refuses others.
    Box own = Box::contiguous(group.index * runBytes, 0, runBytes);
    own.rank = 1;
    own.extents[0] = runs;
    own.sourceStrides[0] = static_cast<int64_t>(group.count * runBytes);
    own.destinationStrides[0] = static_cast<int64_t>(runBytes);
    return device.copy(Queue::Compute, output, input, own);
  }
}

Status ExecutableInstance::launch(fb::ProgramKind kind, BoundShapes &shapes, uint32_t slot, int32_t task) {
  ProgramSteps &prepared = shapes.programs[static_cast<size_t>(kind)];
  if (prepared.empty()) {
    const fb::Program *table = program(kind);
    if (!table)
      return Status::internal(
          fmt::format("{} has no {} program", executable->name()->string_view(), fb::EnumNameProgramKind(kind)));
    MAESTRO_ASSIGN(prepared, prepare(*table, shapes));
    shapes.calls += table->calls()->size();
    preparedCalls += table->calls()->size();
  }
  for (uint32_t r = 0; r < bases.size(); ++r)
    bases[r] = base(r, slot);
  for (const ProgramStep &step : prepared) {
    device.launch(*step.calls, bases, task);
    if (step.collective)
      launchCollective(*step.collective);
  }
  return Status();
}

} // namespace maestro::executor
