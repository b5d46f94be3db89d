// Runs what the verifier accepts: the job is made in this process, on devices that hide their memory, and does one step
// on synthetic samples. Nothing may leave its memory, overflow or hang, whatever the plan; that the step fails with a
// message is right.
//
// Plans that would take much memory or time are not run (isSmall()): size is not what is tried here. One input in 32
// each is scheduled by the wavefront scheduler, evaluated, or checked in one piece on grown memory; the others train in
// file order.
#include "base/log.h"
#include "executor/core/job.h"
#include "executor/core/self_check.h"
#include "executor/core/training_data.h"
#include "plan/dims.h"
#include "test/fuzz/plan_mutator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace maestro;
namespace fb = plan::fb;

namespace {

/// What became of the inputs so far.
struct Counts {
  uint64_t inputs = 0, accepted = 0, run = 0, stepped = 0;
  ~Counts() { print(); }
  void print() const {
    std::fprintf(stderr, "plan_run: %llu inputs, %llu accepted, %llu run, %llu of these through a step\n",
                 static_cast<unsigned long long>(inputs), static_cast<unsigned long long>(accepted),
                 static_cast<unsigned long long>(run), static_cast<unsigned long long>(stepped));
  }
};
Counts counts;

constexpr int64_t kMostOfDim = 1024, kMostOfSample = 4096;
constexpr uint64_t kMostMemory = uint64_t{1} << 22, kMostCalls = 512;

bool isSmallData(const plan::Plan &plan) {
  for (const fb::Symbol *symbol : *plan->symbols())
    if (symbol->sample_max() > kMostOfDim || symbol->multiple_of() > kMostOfDim)
      return false;
  for (const fb::Field *field : *plan->fields()) {
    int64_t elements = 1;
    for (uint32_t expr : *field->shape()) {
      const fb::DimExpr &dim = *plan->exprs()->Get(expr);
      elements *= std::max<int64_t>(1, dim.op() == fb::DimOp::Symbol
                                           ? plan->symbols()->Get(static_cast<uint32_t>(dim.a()))->sample_max()
                                           : dim.a());
      if (elements > kMostOfSample)
        return false;
    }
  }
  for (const fb::AttributeList *list : *plan->attribute_lists())
    for (const fb::Attribute *attribute : *list->items())
      for (uint32_t i = 0; attribute->ints() && i < attribute->ints()->size(); ++i)
        if (attribute->ints()->Get(i) > kMostOfDim || attribute->ints()->Get(i) < -kMostOfDim)
          return false;
  for (const fb::Parameter *parameter : *plan->parameters())
    if (parameter->source_file() != plan::kNone)
      return false;
  return plan->training()->global_batch() <= 16 && plan->losses()->size() <= 16;
}

/// Bytes of one executable's memory; a large number where a buffer has a large dim.
uint64_t memoryOf(const plan::Plan &plan, const fb::Executable &executable) {
  std::vector<int64_t> symbols(plan->symbols()->size(), plan::DimTable::kUndefined), dims(plan->exprs()->size());
  for (const fb::Bound *bound : *executable.bounds())
    symbols[bound->symbol()] = bound->value();
  plan::DimTable(*plan).evaluateDefined(symbols, dims);
  for (const fb::Buffer *buffer : *executable.buffers())
    for (uint32_t expr : *buffer->shape())
      if (dims[expr] > kMostOfSample)
        return kMostMemory + 1;
  uint64_t bytes = 0, posts = static_cast<uint64_t>(std::min<int64_t>(executable.samples(), 4096));
  for (const fb::Region *region : *executable.regions())
    bytes += region->copies() * (region->bytes() + (region->kind() == fb::RegionKind::Channel ? 64 * (posts + 1) : 0));
  return bytes;
}

bool isSmall(const plan::Plan &plan) {
  if (plan->ranks()->size() > 4 || plan->stations()->size() > 8 || plan->edges()->size() > 16 || !isSmallData(plan))
    return false;
  for (const fb::Rank *rank : *plan->ranks())
    if (rank->threads() != 1)
      return false;
  uint64_t bytes = 0, calls = 0;
  for (const fb::Station *station : *plan->stations())
    bytes += memoryOf(plan, *plan->executables()->Get(station->executable()));
  for (const fb::Executable *executable : *plan->executables())
    for (const fb::Program *program : *executable->programs())
      calls += program->calls()->size();
  return bytes <= kMostMemory && calls <= kMostCalls;
}

/// A global batch as maestro-run would read it.
Status readBatch(const plan::Plan &plan, data::SampleBatch &batch) {
  executor::RunOptions options;
  MAESTRO_ASSIGN(executor::TrainingData source, executor::openTrainingData(plan, options, 1));
  batch.count = plan->training()->global_batch();
  batch.samples.resize(batch.count);
  batch.storages.resize(batch.count);
  data::ValueReader values;
  for (size_t s = 0; s < batch.count; ++s) {
    data::Sample &sample = batch.samples[s];
    MAESTRO_TRY(source.reader->read(sample));
    std::vector<uint8_t> all(sample.fields.size(), 1);
    MAESTRO_TRY(values.read(sample, all, batch.storages[s]));
  }
  return Status();
}

/// All of a checkpoint's tensors, through the device and away.
Status readValues(const plan::Plan &plan, executor::Job &job) {
  using K = fb::BindingKind;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
    for (K kind : {K::Value, K::Gradient, K::Moment1, K::Moment2})
      if (job.holder(kind, p) != plan::kNone)
        MAESTRO_TRY(job.gatherAtRoot(kind, p, [](std::span<const std::byte> piece) {
          volatile std::byte last = piece.empty() ? std::byte() : piece.back();
          (void)last;
          return Status();
        }));
  return Status();
}

enum class Mode : uint8_t { Wavefront, Evaluate, SelfCheck, Train };

Status run(const plan::Plan &plan, Mode mode) {
  executor::JobOptions options;
  options.lateDeviceSeed = 0;
  options.lateDeviceDelayUs = 0;
  options.fileOrder = mode != Mode::Wavefront;
  options.evaluates = mode == Mode::Evaluate;
  options.validates = mode == Mode::Train;
  data::SampleBatch batch;
  MAESTRO_TRY(readBatch(plan, batch));
  MAESTRO_ASSIGN(auto job, executor::Job::create(plan, options));
  MAESTRO_ASSIGN(auto loaded, executor::loadJob(plan, {}, 1, *job));
  (void)loaded;
  MAESTRO_TRY(job->start());
  if (mode == Mode::Evaluate)
    return job->evaluate(batch).takeStatus();
  job->submit(batch, 1, executor::Job::To::All, mode != Mode::SelfCheck);
  MAESTRO_ASSIGN(const executor::StepResult *result, job->await(1));
  MAESTRO_TRY(job->drain());
  MAESTRO_TRY(job->awaitReleased(1));
  ++counts.stepped;
  if (mode == Mode::SelfCheck)
    return executor::selfCheck(plan, *job, *result, batch, {}, 1, 1);
  if (options.validates)
    MAESTRO_TRY(job->evaluate(batch).takeStatus());
  return readValues(plan, *job);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  setLogQuiet(true);
  if (++counts.inputs % (1 << 16) == 0)
    counts.print();
  auto plan = plan::Plan::fromBytes({bytes, size});
  constexpr int kDoNotKeep = -1; // Mutations of what is refused are refused, most often.
  if (!plan)
    return kDoNotKeep;
  ++counts.accepted;
  if (!isSmall(*plan))
    return kDoNotKeep;
  ++counts.run;
  Status status = run(*plan, static_cast<Mode>(std::min<uint64_t>(plan->hash() % 32, 3)));
  static const bool tells =
      std::getenv("MAESTRO_FUZZ_TELL") != nullptr; // What ends runs, for whoever looks at one input.
  if (tells && !status.isOk())
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 0;
}

#ifdef MAESTRO_FUZZ
extern "C" size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);
#endif

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed) {
  std::mt19937 random(seed);
#ifdef MAESTRO_FUZZ
  if (random() % 64 == 0)
    return LLVMFuzzerMutate(bytes, size, most);
#endif
  size_t mutated = fuzz::mutatePlan(bytes, size, most, random);
  return mutated > 0 ? mutated : size;
}
