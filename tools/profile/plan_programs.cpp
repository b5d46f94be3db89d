#include "tools/profile/plan_programs.h"

#include "base/machine_memory.h"
#include "cost_models/compound.h"
#include "plan/capacity.h"
#include "plan/dims.h"
#include "plan/plan_generated.h"
#include "tools/profile/call_reader.h"
#include "tools/profile/stand.h"
#include "tools/profile/stopwatch.h"
#include "tools/profile/subjects.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

namespace maestro::profile {
namespace {

namespace fb = plan::fb;
using cost_models::CallSample;

/// Of a micro-batch's programs, so often at least and at most.
constexpr size_t kFewestRounds = 3, kMostRounds = 24;
/// Threads that run less of the time than this waited for processors.
constexpr double kOwnProcessors = 0.9;
/// Which part of the machine's memory may be used.
constexpr uint64_t kPartOfMemory = 4;
/// This and the numbers behind it: of rounds that are not collected.
constexpr int32_t kUnknownTask = -1'000'000;
/// Longer calls are likely to be interrupted where other programs run.
constexpr int64_t kLongNs = 500'000;

/// The largest micro-batches of the longest samples, of the shortest and between, and of fewer samples.
std::vector<std::vector<int64_t>> sizesOf(const plan::Plan &plan, const fb::Executable &executable) {
  std::vector<std::vector<int64_t>> largest = plan::largestMicroBatches(plan::capacityOf(*plan, executable));
  std::vector<std::vector<int64_t>> sizes{largest.front(), largest[largest.size() / 2], largest.back()};
  for (int64_t part : {2, 4}) {
    sizes.push_back(largest.front());
    for (uint32_t symbol = 0; symbol < sizes.back().size(); ++symbol)
      if (int64_t &size = sizes.back()[symbol];
          size != plan::DimTable::kUndefined && plan->symbols()->Get(symbol)->combine() == fb::Combine::Sum)
        size = std::max<int64_t>(1, size / part);
  }
  for (std::vector<int64_t> &own : sizes)
    std::replace(own.begin(), own.end(), plan::DimTable::kUndefined, int64_t{1});
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

uint64_t bytesOf(const fb::Executable &executable) {
  uint64_t bytes = 0;
  for (const fb::Region *region : *executable.regions())
    bytes += region->bytes() * std::max(region->copies(), 1u);
  return bytes;
}

/// What its norm and optimizer move.
double updateBytesOf(const fb::Executable &executable) {
  cost_models::ParameterBytes parameters;
  for (const fb::Region *region : *executable.regions()) {
    parameters.gradients += region->kind() == fb::RegionKind::Gradients ? region->bytes() : 0;
    parameters.state += region->kind() == fb::RegionKind::OptimizerState ? region->bytes() : 0;
  }
  return static_cast<double>(parameters.moved());
}

bool fits(const fb::Executable &executable, int groups) {
  return bytesOf(executable) < usableMemoryBytes() / kPartOfMemory / static_cast<uint64_t>(groups);
}

bool sharesTensors(const plan::Plan &plan, const fb::Executable &executable) {
  return plan->sections()->Get(executable.section())->layout()->tensor_parallel() > 1;
}

struct Collected {
  using Key = std::tuple<std::string, double, double, double, double>;
  struct Kind {
    CallSample work;
    std::vector<double> pulses; ///< Of all calls of a kind.
  };
  std::map<Key, Kind> kinds;
  std::vector<double> pulses;
  std::vector<double> togetherShares, aloneShares; ///< As TimedCalls has them.
  std::vector<TimedUpdate> updates;                ///< Likewise.
};

/// The number of the first update program behind a round of so many sizes.
int32_t updateTask(size_t sizes) { return static_cast<int32_t>(sizes * Stand::kKinds.size()); }

/// A round of each size and the update, and how long all took.
Status runSizes(Stand &stand, const std::vector<std::vector<int64_t>> &sizes, int32_t task,
                std::vector<double> &seconds) {
  double begin = now();
  for (size_t size = 0; size < sizes.size(); ++size)
    MAESTRO_TRY(stand.round(sizes[size], task + static_cast<int32_t>(size * Stand::kKinds.size())));
  MAESTRO_TRY(stand.update(task + updateTask(sizes.size())));
  seconds.push_back(now() - begin);
  return Status();
}

/// Seconds that this process's threads ran.
double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The same, and whether so many threads had processors of their own meanwhile: other programs take
/// them away, and more from many than from few.
Status runSizes(Stand &stand, const std::vector<std::vector<int64_t>> &sizes, int32_t task,
                std::vector<double> &seconds, int threads, bool &isUndisturbed) {
  double before = processorSeconds();
  MAESTRO_TRY(runSizes(stand, sizes, task, seconds));
  isUndisturbed = processorSeconds() - before > kOwnProcessors * threads * seconds.back();
  return Status();
}

/// Stands that do the same as the first, each on a thread of its own, but while they are asked to
/// rest.
class OtherStands {
public:
  OtherStands(std::span<const std::unique_ptr<Stand>> stands, const std::vector<std::vector<int64_t>> &sizes)
      : seconds(stands.size()) {
    for (size_t i = 0; i < stands.size(); ++i)
      threads.emplace_back([&, i, stand = stands[i].get()] {
        // Where one fails, the first does, too, and says so.
        while (state != State::Ends && runSizes(*stand, sizes, kUnknownTask, seconds[i]).isOk())
          rest();
        resting.fetch_add(1);
        resting.notify_all();
      });
  }
  ~OtherStands() { end(); }

  void end() {
    set(State::Ends);
    for (std::thread &thread : threads)
      thread.join();
    threads.clear();
  }
  /// Returns once they do nothing.
  void sendToRest() {
    set(State::Rests);
    for (size_t count = resting; count < threads.size(); count = resting)
      resting.wait(count);
  }
  void callBack() { set(State::Works); }

  std::vector<std::vector<double>> seconds; ///< By stand, of each time of all sizes. Once ended.

private:
  enum class State : uint8_t { Works, Rests, Ends };

  void set(State next) {
    state = next;
    state.notify_all();
  }
  void rest() {
    if (state != State::Rests)
      return;
    resting.fetch_add(1);
    resting.notify_all();
    state.wait(State::Rests);
    resting.fetch_sub(1);
  }

  std::atomic<State> state{State::Works};
  std::atomic<size_t> resting{0}; ///< Or failed.
  std::vector<std::thread> threads;
};

/// By group and time: each beside those that the others had then.
void compare(const std::vector<std::vector<double>> &seconds, Collected &collected) {
  size_t count = seconds.front().size();
  for (const std::vector<double> &own : seconds)
    count = std::min(count, own.size());
  for (size_t i = 0; i < count && seconds.size() > 1; ++i) {
    double most = 0, all = 0;
    for (const std::vector<double> &own : seconds) {
      most = std::max(most, own[i]);
      all += own[i];
    }
    collected.togetherShares.push_back(most * static_cast<double>(seconds.size()) / all);
  }
}

/// Rounds' pulses and calls: times of the calls, in pulses, are added by kind. Of update programs, from `firstUpdate`
/// on, each round's pulses from the first call's beginning to the last one's end.
std::vector<double> collect(std::span<const executor::TraceSpan> spans,
                            const std::map<int32_t, std::vector<CallKind>> &kinds, int32_t firstUpdate,
                            Collected &collected) {
  std::vector<double> updates;
  double pulse = 0;
  for (size_t i = 0; i < spans.size();) {
    size_t end = i;
    while (end < spans.size() && spans[end].task == spans[i].task)
      ++end;
    // What other programs take of a long call is left out; of short ones few are interrupted.
    auto seconds = [&](size_t span) {
      const executor::TraceSpan &own = spans[span];
      int64_t ns = own.endNs - own.startNs;
      return static_cast<double>(ns > kLongNs && own.ownNs > 0 ? own.ownNs : ns) * 1e-9;
    };
    if (spans[i].task == Stand::kPulseTask) {
      pulse = seconds(i + 1); // The first brings code and operands near. What interrupts the thread
                              // is no slow processor.
      for (size_t span = i + 2; span < std::min(end, i + Stand::kPulseCalls); ++span)
        pulse = std::min(pulse, seconds(span));
      collected.pulses.push_back(pulse);
    } else if (int32_t kind = spans[i].task - firstUpdate; kind >= 0 && pulse > 0) {
      if (kind == 0)
        updates.push_back(0);
      updates.back() += static_cast<double>(spans[end - 1].endNs - spans[i].startNs) * 1e-9 / pulse;
    } else if (auto program = kinds.find(spans[i].task);
               program != kinds.end() && program->second.size() == end - i && pulse > 0) {
      for (size_t span = i; span < end; ++span) {
        const CallKind &kind = program->second[span - i];
        Collected::Kind &own = collected.kinds[{kind.name, kind.work.m, kind.work.n, kind.work.k, kind.work.bytes}];
        own.work = kind.work;
        own.pulses.push_back(seconds(span) / kind.products / pulse);
      }
    }
    i = end;
  }
  return updates;
}

} // namespace

PlanPrograms::PlanPrograms(plan::Plan loaded, std::string path)
    : plan(std::make_unique<plan::Plan>(std::move(loaded))), path(std::move(path)) {}
PlanPrograms::PlanPrograms(PlanPrograms &&) noexcept = default;
PlanPrograms::~PlanPrograms() = default;

Result<PlanPrograms> PlanPrograms::load(const std::string &path) {
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  return PlanPrograms(std::move(plan), path);
}

size_t PlanPrograms::leftOut(int groups) const {
  size_t count = 0;
  for (const fb::Executable *executable : *(*plan)->executables())
    count += !fits(*executable, groups) || sharesTensors(*plan, *executable);
  return count;
}

namespace {

/// Of one executable. The other groups do the same until the first is done.
Status timeExecutable(const plan::Plan &plan, uint32_t index, int threads, int groups, double secondsEach,
                      bool withAlone, Collected &collected) {
  const fb::Executable &table = *plan->executables()->Get(index);
  std::vector<std::unique_ptr<Stand>> stands;
  for (int group = 0; group < groups; ++group) {
    MAESTRO_ASSIGN(std::unique_ptr<Stand> stand, Stand::make(plan, index, threads));
    stands.push_back(std::move(stand));
  }
  Stand &first = *stands.front();
  if (first.isEmpty())
    return Status();
  constexpr auto kTasksEach = static_cast<int32_t>(Stand::kKinds.size());
  std::vector<std::vector<int64_t>> sizes = sizesOf(plan, table);
  std::map<int32_t, std::vector<CallKind>> kinds;
  for (size_t size = 0; size < sizes.size(); ++size) {
    for (auto &stand : stands)
      MAESTRO_TRY(stand->round(sizes[size], kUnknownTask)); // Kernels are prepared.
    MAESTRO_ASSIGN(executor::BoundShapes * shapes, first.shapes(sizes[size]));
    CallReader reader(plan, shapes->dims);
    for (size_t kind = 0; kind < Stand::kKinds.size(); ++kind)
      if (const fb::Program *program = first.program(kind))
        for (const fb::Call *call : *program->calls())
          kinds[static_cast<int32_t>(size) * kTasksEach + static_cast<int32_t>(kind)].push_back(
              reader.read(table, *call));
  }
  for (auto &stand : stands) {
    MAESTRO_TRY(stand->update(kUnknownTask));
    stand->trace((stand->calls() * sizes.size() + stand->updateCalls()) * kMostRounds *
                 2); // All, so that none is slower for it.
  }
  OtherStands company(std::span(stands).subspan(1), sizes);
  std::vector<double> together, alone;
  // Sizes take turns, so that none has a slow moment to itself, and so do company and none.
  for (double begin = now();;) {
    bool isOwn = false, isOwnAlone = false;
    MAESTRO_TRY(runSizes(first, sizes, 0, together, groups * threads, isOwn));
    if (withAlone && groups > 1) {
      company.sendToRest();
      MAESTRO_TRY(runSizes(first, sizes, kUnknownTask, alone, threads, isOwnAlone));
      company.callBack();
      if (isOwn && isOwnAlone)
        collected.aloneShares.push_back(alone.back() / together.back());
    }
    bool isLong = now() - begin >= secondsEach * static_cast<double>(sizes.size());
    if (together.size() >= kMostRounds || (together.size() >= kFewestRounds && isLong))
      break;
  }
  company.end();
  company.seconds.insert(company.seconds.begin(), std::move(together));
  compare(company.seconds, collected);
  if (std::vector<double> updates = collect(first.traced(), kinds, updateTask(sizes.size()), collected);
      !updates.empty())
    collected.updates.push_back({updateBytesOf(table), median(std::move(updates))});
  return Status();
}

} // namespace

Result<TimedCalls> PlanPrograms::time(int threads, int groups, double secondsEach, bool withAlone) const {
  Collected collected;
  for (uint32_t index = 0; index < (*plan)->executables()->size(); ++index) {
    const fb::Executable &executable = *(*plan)->executables()->Get(index);
    if (!fits(executable, groups) || sharesTensors(*plan, executable))
      continue;
    Status status = timeExecutable(*plan, index, threads, groups, secondsEach, withAlone, collected);
    if (!status.isOk())
      return std::move(status).withContext("plan '" + path + "'");
  }
  TimedCalls calls{{},
                   std::move(collected.pulses),
                   std::move(collected.togetherShares),
                   std::move(collected.aloneShares),
                   std::move(collected.updates)};
  for (auto &[key, own] : collected.kinds)
    calls.kernels[std::get<0>(key)].push_back({own.work, middleMean(std::move(own.pulses))});
  return calls;
}

} // namespace maestro::profile
