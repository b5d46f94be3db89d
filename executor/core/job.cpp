#include "executor/core/job.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {

namespace fb = plan::fb;

namespace {
/// Results kept per rank: more than steps that can be under way.
constexpr size_t kResultRing = 8;
} // namespace

std::vector<data::SymbolSpec> symbolSpecs(const plan::Plan &plan) {
  std::vector<data::SymbolSpec> specs;
  for (const fb::Symbol *symbol : *plan->symbols()) {
    data::SymbolSpec spec;
    spec.name = symbol->name()->str();
    spec.combine = static_cast<data::Combine>(symbol->combine());
    spec.sampleMax = symbol->sample_max();
    spec.multipleOf = symbol->multiple_of();
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<data::FieldSpec> fieldSpecs(const plan::Plan &plan) {
  std::vector<data::FieldSpec> specs;
  for (const fb::Field *field : *plan->fields()) {
    data::FieldSpec spec;
    spec.name = field->name()->str();
    spec.dtype = static_cast<DType>(field->dtype());
    for (uint32_t expr : *field->shape()) {
      const fb::DimExpr *node = plan->exprs()->Get(expr);
      spec.dims.push_back(node->op() == fb::DimOp::Symbol
                              ? data::DimSpec::of(static_cast<int>(node->a()))
                              : data::DimSpec::fixed(node->a()));
    }
    spec.pad = field->pad();
    spec.indexLimit = field->index_limit();
    if (field->has_ignore_index())
      spec.ignoreIndex = field->ignore_index();
    spec.optional = field->optional();
    specs.push_back(std::move(spec));
  }
  return specs;
}

Job::Job(const plan::Plan &plan, const JobOptions &options) : plan(plan), options(options), facts(plan) {}

Result<std::unique_ptr<Job>> Job::create(const plan::Plan &plan, const JobOptions &options) {
  std::unique_ptr<Job> job(new Job(plan, options));
  MAESTRO_ASSIGN(job->batcher, data::Batcher::create(symbolSpecs(plan), fieldSpecs(plan)));
  MAESTRO_ASSIGN(job->wiring, makeWiring(plan, job->facts, {options.evaluates, options.growth, 1}));
  MAESTRO_TRY(job->createWorkers());
  return job;
}

Status Job::createWorkers() {
  std::shared_ptr<const kernels::Library> library = kernels::createCpuLibrary();
  mailboxes.resize(facts.ranks);
  for (uint32_t rank = 0; rank < facts.ranks; ++rank) {
    CpuDeviceOptions deviceOptions;
    uint32_t threadCount = plan->ranks()->Get(rank)->threads();
    deviceOptions.threads = static_cast<int>(threadCount ? threadCount : std::max(1u, std::thread::hardware_concurrency()));
    deviceOptions.name = fmt::format("cpu{}", plan->ranks()->Get(rank)->device());
    deviceOptions.onFailure = [this, rank](const Status &status) { noteFailure(rank, status); };
    auto device = options.lateDeviceSeed >= 0
                      ? createLateCpuDevice(library, deviceOptions, static_cast<uint64_t>(options.lateDeviceSeed) + rank)
                      : createCpuDevice(library, deviceOptions);
    if (options.traceCapacity > 0)
      device->enableTrace(options.traceCapacity);
    WorkerOptions own;
    own.seed = options.seed;
    own.evaluates = options.evaluates;
    own.onePiece = options.onePiece;
    own.growth = options.growth;
    workers.emplace_back();
    MAESTRO_ASSIGN(workers.back(), Worker::create({plan, facts, *wiring, *batcher}, rank, std::move(device), own));
    workers.back()->collectSpans(options.traceCapacity);
    mailboxes[rank].results.resize(kResultRing);
    anyFrozenRank |= !trains(rank);
  }
  return Status();
}

Job::~Job() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (!threads.empty() && wiring->abort) // A rank that ran ahead may wait for somebody who has ended.
    wiring->abort->raise(transport::Abort::kSupervisor, "the run has ended");
  for (std::thread &thread : threads)
    thread.join();
}

bool Job::trains(uint32_t rank) const {
  const auto &members = wiring->trainingRanks;
  return std::find(members.begin(), members.end(), rank) != members.end();
}

uint32_t Job::holder(fb::BindingKind kind, uint32_t parameter) const {
  for (uint32_t s = 0; s < facts.stations.size(); ++s)
    for (const fb::Binding *binding : *facts.executable(s).bindings())
      if (binding->kind() == kind && binding->index() == parameter)
        return s;
  return kNone;
}

Status Job::start() {
  for (auto &worker : workers)
    MAESTRO_TRY(worker->prepareParameters());
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    threads.emplace_back([this, rank] { serve(rank); });
  return Status();
}

void Job::post(uint32_t rank, const Command &command) {
  std::lock_guard lock(mutex);
  mailboxes[rank].commands.push_back(command);
  ++mailboxes[rank].submitted;
  changed.notify_all();
}

void Job::submit(const data::SampleBatch &batch, uint64_t step, bool updates) {
  Command::Kind kind = options.evaluates ? Command::Kind::Evaluate : updates ? Command::Kind::Step : Command::Kind::Gradients;
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    post(rank, {kind, &batch, step, 0});
}

Status Job::update(uint64_t step, double gradientNorm) {
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    if (trains(rank))
      post(rank, {Command::Kind::Update, nullptr, step, gradientNorm});
  return drain();
}

/// The first failure is the job's; everybody else stops because of it.
void Job::noteFailure(uint32_t rank, const Status &status) {
  {
    std::lock_guard lock(mutex);
    if (failure.isOk() && !stopping && !wiring->abort->isRaised())
      failure = Status(status.code(), std::string(status.message()));
  }
  wiring->abort->raise(rank, status);
  changed.notify_all();
}

Status Job::failureStatus() {
  if (!failure.isOk())
    return Status(failure.code(), std::string(failure.message()));
  return wiring->abort->status();
}

void Job::serve(uint32_t rank) {
  Mailbox &box = mailboxes[rank];
  while (true) {
    Command command;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !box.commands.empty() || stopping; });
      if (stopping)
        return;
      command = box.commands.front();
      box.commands.pop_front();
    }
    auto &[resultStep, result] = box.results[command.step % kResultRing];
    Status status = execute(rank, command, result);
    resultStep = command.step;
    if (!status.isOk())
      noteFailure(rank, status);
    {
      std::lock_guard lock(mutex);
      box.lastStep = command.step;
      ++box.finished;
    }
    changed.notify_all();
    if (!status.isOk())
      return;
  }
}

Status Job::execute(uint32_t rank, const Command &command, StepResult &result) {
  Worker &worker = *workers[rank];
  if (command.kind == Command::Kind::Update)
    return worker.update(command.step, command.norm);
  if (command.kind == Command::Kind::Evaluate) {
    result.totals.sums.assign(plan->losses()->size(), 0);
    result.totals.counts.assign(plan->losses()->size(), 0);
    MAESTRO_TRY(worker.evaluate(*command.batch, command.step, result.totals));
  } else {
    MAESTRO_TRY(worker.computeGradients(*command.batch, command.step, result.totals));
    if (trains(rank)) {
      MAESTRO_ASSIGN(result.gradientNorm, worker.gradientNorm(command.step));
      if (command.kind == Command::Kind::Step)
        MAESTRO_TRY(worker.update(command.step, result.gradientNorm));
    }
  }
  result.tokens = worker.tokens();
  result.predictedNs = worker.predictedNs();
  result.microBatches.resize(plan->sections()->size());
  for (uint32_t s = 0; s < result.microBatches.size(); ++s)
    result.microBatches[s] = worker.microBatches(s);
  return Status();
}

/// Sums of all ranks' losses, in rank order; the rest is the same on all that train.
void Job::combine(uint64_t step) {
  size_t losses = plan->losses()->size();
  combined.totals.sums.assign(losses, 0);
  combined.totals.counts.assign(losses, 0);
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    if (!trains(rank))
      continue;
    const StepResult &own = mailboxes[rank].results[step % kResultRing].second;
    for (size_t k = 0; k < losses; ++k) {
      combined.totals.sums[k] += own.totals.sums[k];
      if (options.evaluates)
        combined.totals.counts[k] += own.totals.counts[k];
      else
        combined.totals.counts[k] = own.totals.counts[k];
    }
    combined.gradientNorm = own.gradientNorm;
    combined.tokens = own.tokens;
    combined.predictedNs = own.predictedNs;
    combined.microBatches = own.microBatches;
  }
}

Result<const StepResult *> Job::await(uint64_t step) {
  std::unique_lock lock(mutex);
  auto ended = [&] {
    for (uint32_t rank = 0; rank < workers.size(); ++rank)
      if (trains(rank) && mailboxes[rank].lastStep < step)
        return false;
    return true;
  };
  changed.wait(lock, [&] { return ended() || wiring->abort->isRaised(); });
  if (!ended() || !failure.isOk())
    return failureStatus();
  combine(step);
  return &combined;
}

Status Job::drain() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] {
    return wiring->abort->isRaised() || std::all_of(mailboxes.begin(), mailboxes.end(), [](const Mailbox &box) {
             return box.finished == box.submitted;
           });
  });
  return wiring->abort->isRaised() ? failureStatus() : Status();
}

bool Job::isDone(uint64_t step) {
  std::lock_guard lock(mutex);
  return std::all_of(mailboxes.begin(), mailboxes.end(), [&](const Mailbox &box) { return box.lastStep >= step; });
}

int64_t Job::busyNs(uint32_t section) const {
  int64_t total = 0;
  for (uint32_t s = 0; s < facts.stations.size(); ++s)
    if (facts.stations[s].section == section)
      total += workers[facts.stations[s].rank]->busyNs(s);
  return total;
}

} // namespace maestro::executor
