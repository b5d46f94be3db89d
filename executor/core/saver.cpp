#include "executor/core/saver.h"

#include "base/finite.h"
#include "base/log.h"
#include "base/system_failure.h"
#include "executor/checkpoint/file_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

/// What training changes is finite in every checkpoint.
bool mustBeFinite(const plan::Plan &plan, const SavedTensor &tensor) {
  return tensor.info.dtype == DType::F32 && tensor.kind != fb::BindingKind::Gradient &&
         plan->parameters()->Get(tensor.parameter)->trainable();
}

Status notFinite(const plan::Plan &plan, const SavedTensor &tensor) {
  const fb::Component &component = *plan->components()->Get(plan->parameters()->Get(tensor.parameter)->component());
  return Status::invalidInput(
      fmt::format("'{}' of component '{}' holds a value that is not finite; no checkpoint is written: look at "
                  "the initial values, or lower train.optimizer's lr",
                  tensor.info.name, component.name()->string_view()));
}

template <typename Source>
Status writeFile(const plan::Plan &plan, const SavedFile &file, const std::string &path, const Source &source) {
  std::vector<checkpoint::TensorInfo> infos;
  for (const SavedTensor &tensor : file.tensors)
    infos.push_back(tensor.info);
  MAESTRO_ASSIGN(auto writer, checkpoint::SafetensorsWriter::create(path, infos, file.metadata));
  for (const SavedTensor &tensor : file.tensors) {
    bool checks = mustBeFinite(plan, tensor);
    MAESTRO_TRY(source(tensor, [&](std::span<const std::byte> piece) {
      return checks && !areFinite(piece) ? notFinite(plan, tensor) : writer.append(piece);
    }));
  }
  return writer.finish();
}

constexpr int kNiceness = 10; ///< A tenth of what others get (sched(7)).

Gathering gatheringOf(const SavedTensor &tensor, uint32_t taker) {
  return {tensor.kind, tensor.parameter, tensor.source, taker};
}

} // namespace

Saver::Saver(const plan::Plan &plan, Job &job, Options given)
    : plan(plan), job(job), options(std::move(given)),
      sets(checkpointSets(plan, job.topology(), job.worldOfRanks().root())) {
  for (const SavedSet &set : sets)
    for (const SavedFile &file : set.files) {
      writers.push_back(file.writer);
      bytesHere += isHere(file) && options.copies ? file.bytes() : 0;
    }
  std::sort(writers.begin(), writers.end());
  writers.erase(std::unique(writers.begin(), writers.end()), writers.end());
  thread = std::thread([this] { serve(); });
}

bool Saver::copiesFit(const plan::Plan &plan, const Topology &topology, std::span<const MachineShare> machines) {
  std::vector<SavedSet> sets = checkpointSets(plan, topology, 0);
  for (const MachineShare &machine : machines) {
    uint64_t bytes = 0, needed = neededBytes(plan, machine);
    for (const SavedSet &set : sets)
      for (const SavedFile &file : set.files)
        bytes += machine.has(file.writer) ? file.bytes() : 0;
    uint64_t left = machine.availableBytes - std::min(machine.availableBytes, needed);
    if (bytes <= left)
      continue;
    logWarning(
        fmt::format("steps wait while checkpoints are written: beside the run, which needs {} bytes of memory, a "
                    "copy of {} bytes does not fit into the {} that are free{}",
                    needed, bytes, machine.availableBytes, machine.onItsName()));
    return false;
  }
  return true;
}

Saver::~Saver() {
  {
    std::lock_guard lock(mutex);
    ends = true;
  }
  changed.notify_all();
  thread.join();
}

Status Saver::save(checkpoint::TrainingState state, uint64_t best) {
  job.drives("saving");
  MAESTRO_TRY(finish());
  for (const fb::Component *component : *plan->components())
    if (component->frozen() || component->saves_trained())
      state.frozen.emplace(component->name()->str(), component->model_path() ? component->model_path()->str() : "");
  ++saved;
  if (!options.copies) {
    return write({std::move(state), best}, [this](const SavedTensor &tensor, const TakePiece &take) {
      return job.gather(gatheringOf(tensor, job.topology().stations[tensor.source].rank), take);
    });
  }
  MAESTRO_TRY(copy());
  {
    std::lock_guard lock(mutex);
    pending.emplace(std::move(state), best);
  }
  changed.notify_all();
  return Status();
}

Status Saver::finish() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return !pending; });
  return failure.isOk() ? Status() : Status(failure.code(), std::string(failure.message()));
}

/// In the order of files, which all processes keep to: where a rank holds a part of what another one's process takes,
/// it sends it now.
Status Saver::copy() {
  if (copied.size() < bytesHere)
    copied.resize(bytesHere);
  std::byte *next = copied.data();
  for (const SavedSet &set : sets)
    for (const SavedFile &file : set.files)
      for (const SavedTensor &tensor : file.tensors)
        MAESTRO_TRY(job.gather(gatheringOf(tensor, file.writer), [&](std::span<const std::byte> piece) {
          std::memcpy(next, piece.data(), piece.size());
          next += piece.size();
          return Status();
        }));
  return Status();
}

/// With less of a processor than the steps have, where both want one.
void Saver::serve() {
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness);
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return pending || ends; });
    if (!pending)
      return;
    lock.unlock();
    const std::byte *next = copied.data();
    Status status = write(*pending, [&](const SavedTensor &tensor, const TakePiece &take) {
      uint64_t bytes = byteCount(tensor.info);
      const transport::Abort &abort = job.worldOfRanks().abort();
      for (uint64_t done = 0; done < bytes; done += kPieceBytes) {
        if (job.seats().processes > 1 && abort.isRaised()) // Nobody will commit it.
          return abort.status();
        MAESTRO_TRY(take({next + done, std::min<uint64_t>(kPieceBytes, bytes - done)}));
      }
      next += bytes;
      return Status();
    });
    if (!status.isOk())
      job.worldOfRanks().raise(job.seats().here().first, status);
    lock.lock();
    if (failure.isOk())
      failure = std::move(status);
    pending.reset();
    changed.notify_all();
  }
}

Status Saver::write(const Pending &pending, const Source &source) {
  const World &world = job.worldOfRanks();
  transport::RankRange here = job.seats().here();
  auto own = std::find_if(writers.begin(), writers.end(), [&](uint32_t rank) { return here.has(rank); });
  if (!job.isRoot()) {
    if (own == writers.end()) { // Others' parts of tensors may be here.
      return writeFiles("", source);
    }
    MAESTRO_TRY(await(world.checkpointBegun(*own), saved));
    std::string folder = checkpoint::PendingCheckpoint::folderOf(options.out, pending.state.step);
    MAESTRO_TRY(writeFiles(folder, source));
    MAESTRO_TRY(checkpoint::syncFolder(folder));
    auto count = std::count_if(writers.begin(), writers.end(), [&](uint32_t rank) { return here.has(rank); });
    transport::signal(world.reach().target(world.filesWritten()), static_cast<uint64_t>(count));
    return Status();
  }
  MAESTRO_ASSIGN(auto folder, checkpoint::PendingCheckpoint::begin(options.out, pending.state.step));
  uint64_t others = 0;
  for (uint32_t rank : writers)
    if (!here.has(rank)) {
      transport::signal(world.reach().target(world.checkpointBegun(rank)), 1);
      ++others;
    }
  MAESTRO_TRY(writeFiles(folder.folder(), source));
  MAESTRO_TRY(await(world.filesWritten(), saved * others));
  return commit(folder, pending);
}

/// In the order of files: see copy().
Status Saver::writeFiles(const std::string &folder, const Source &source) {
  for (const SavedSet &set : sets)
    for (const SavedFile &file : set.files) {
      if (isHere(file)) {
        MAESTRO_TRY(writeFile(plan, file, folder + "/" + file.name, source));
      } else if (!options.copies) {
        for (const SavedTensor &tensor : file.tensors)
          MAESTRO_TRY(source(tensor, {}));
      }
    }
  return Status();
}

Status Saver::commit(checkpoint::PendingCheckpoint &folder, const Pending &pending) {
  for (const SavedSet &set : sets) {
    for (const SavedFile &file : set.files)
      if (std::error_code error; !std::filesystem::exists(folder.file(file.name), error))
        return Status::invalidInput(
            fmt::format("'{}', which rank {} has written, is not there for rank {}; --out must be "
                        "a folder that all machines see",
                        folder.file(file.name), file.writer, job.worldOfRanks().root()));
    if (set.hasIndex())
      MAESTRO_TRY(checkpoint::writeText(folder.file(set.indexName()), set.index()));
  }
  MAESTRO_TRY(folder.commit(pending.state));
  if (!options.folder)
    return Status();
  if (pending.best == pending.state.step)
    MAESTRO_TRY(options.folder->markBest(pending.best));
  return options.keepLast > 0 ? options.folder->keepNewest(options.keepLast, pending.best) : Status();
}

/// Others' disks may take long; what ends the job ends the wait.
Status Saver::await(const transport::WordPlace &place, uint64_t count) const {
  const World &world = job.worldOfRanks();
  const transport::Word &word = *world.reach().word(place);
  while (word.count() < count) {
    if (world.abort().isRaised())
      return world.abort().status();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Status();
}

Status saveGradients(const plan::Plan &plan, Job &job, const std::string &path) {
  SavedFile file = gradientsFile(plan, job.topology(), job.worldOfRanks().root());
  auto source = [&](const SavedTensor &tensor, const TakePiece &take) {
    return job.gather(gatheringOf(tensor, file.writer), take);
  };
  if (!job.isRoot()) { // Hands over what it holds.
    for (const SavedTensor &tensor : file.tensors)
      MAESTRO_TRY(source(tensor, {}));
    return Status();
  }
  std::string partial = path + ".partial";
  Status status = writeFile(plan, file, partial, source);
  if (status.isOk() && std::rename(partial.c_str(), path.c_str()) != 0)
    status = systemFailure("write", path, errno);
  if (!status.isOk())
    std::remove(partial.c_str());
  return status.isOk() ? checkpoint::syncFolder(std::filesystem::path(path).parent_path()) : std::move(status);
}

} // namespace maestro::executor
