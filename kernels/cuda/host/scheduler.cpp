// The threads of one block as fibers: each runs until it waits at a barrier, gives a value to its warp, or ends.
#include "kernels/cuda/host/context.h"
#include "kernels/cuda/host/grid.h"
#include "kernels/cuda/host/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define MAESTRO_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAESTRO_ASAN 1
#endif
#endif
#ifdef MAESTRO_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace maestro::kernels::cuda::host {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;
constexpr size_t kStackBytes = size_t{128} << 10; ///< Touched only as far as a kernel needs it.
#ifdef MAESTRO_ASAN
constexpr size_t kEntryBytes = 4096; ///< Of frames that never return, and leave their guards behind.
#endif

enum class State : uint8_t { Ready, AtBarrier, AtExchange, Done };

struct Fiber {
  Context context = nullptr;
  State state = State::Done;
  unsigned exchanges = 0;          ///< Made so far; its last bit says which half of `given` is in use.
  std::array<uint64_t, 2> given{}; ///< A slow lane still reads one half while a fast one writes the other.
};

/// A block in progress. A thread of the host has one, and keeps its stacks for the next.
class Block {
public:
  Status run(const KernelEntry &kernel, unsigned threads, const void *params);
  void wait(State state);
  Fiber &current() { return fibers[active]; }
  Fiber &neighbour(unsigned lane) { return fibers[(active & ~(kWarp - 1)) + lane]; }
  std::byte *dynamic() { return shared.data() + (64 - reinterpret_cast<uintptr_t>(shared.data()) % 64) % 64; }
  void reserveShared(size_t bytes) { shared.assign(bytes + 64, std::byte{0xcd}); }

private:
  static void enter();
  void resume(unsigned thread);
  Status runWarp(unsigned first, unsigned lanes);
  unsigned count(unsigned first, unsigned lanes, State state) const;
  char *stack(unsigned thread) { return stacks.get() + thread * kStackBytes; }

  const KernelEntry *kernel = nullptr;
  const void *params = nullptr;
  unsigned threads = 0, active = 0;
  Context scheduler = nullptr;
  std::array<Fiber, kMaxThreads> fibers;
  std::unique_ptr<char[]> stacks;
  std::vector<std::byte> shared;
#ifdef MAESTRO_ASAN
  const void *hostStack = nullptr;
  size_t hostStackBytes = 0;
  void *hostFake = nullptr;
  std::array<void *, kMaxThreads> fakes{};
#endif
};

Block &block() {
  static thread_local auto held = std::make_unique<Block>();
  return *held;
}

void Block::enter() {
  Block &self = block();
#ifdef MAESTRO_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self.hostStack, &self.hostStackBytes);
#endif
  self.kernel->run(self.params);
  self.wait(State::Done);
}

void Block::wait(State state) {
  Fiber &fiber = current();
  fiber.state = state;
#ifdef MAESTRO_ASAN
  unsigned thread = active;
  __sanitizer_start_switch_fiber(state == State::Done ? nullptr : &fakes[thread], hostStack, hostStackBytes);
#endif
  maestroSwitchContext(&fiber.context, scheduler);
#ifdef MAESTRO_ASAN
  __sanitizer_finish_switch_fiber(fakes[thread], nullptr, nullptr);
#endif
}

void Block::resume(unsigned thread) {
  active = thread;
  threadIndex = {thread, 0, 0};
#ifdef MAESTRO_ASAN
  __sanitizer_start_switch_fiber(&hostFake, stack(thread), kStackBytes);
#endif
  maestroSwitchContext(&scheduler, fibers[thread].context);
#ifdef MAESTRO_ASAN
  __sanitizer_finish_switch_fiber(hostFake, nullptr, nullptr);
#endif
}

unsigned Block::count(unsigned first, unsigned lanes, State state) const {
  return static_cast<unsigned>(
      std::count_if(&fibers[first], &fibers[first] + lanes, [&](const Fiber &fiber) { return fiber.state == state; }));
}

/// Until every lane waits at a barrier or has ended.
Status Block::runWarp(unsigned first, unsigned lanes) {
  bool reverse = options().order == ThreadOrder::Reverse;
  for (;;) {
    for (unsigned i = 0; i < lanes; ++i)
      if (unsigned thread = first + (reverse ? lanes - 1 - i : i); fibers[thread].state == State::Ready)
        resume(thread);
    unsigned exchanging = count(first, lanes, State::AtExchange);
    if (exchanging == 0)
      return Status();
    if (exchanging != lanes)
      return Status::internal(
          fmt::format("kernel {}: {} of the {} lanes of a warp are at a shuffle, the others are not; all take part",
                      kernel->name, exchanging, lanes));
    for (unsigned i = 0; i < lanes; ++i)
      fibers[first + i].state = State::Ready;
  }
}

Status Block::run(const KernelEntry &called, unsigned threadCount, const void *arguments) {
  kernel = &called;
  params = arguments;
  threads = threadCount;
  if (!stacks)
    stacks = std::make_unique_for_overwrite<char[]>(kMaxThreads * kStackBytes);
  for (unsigned t = 0; t < threads; ++t) {
#ifdef MAESTRO_ASAN
    __asan_unpoison_memory_region(stack(t) + kStackBytes - kEntryBytes, kEntryBytes);
#endif
    fibers[t] = {makeContext(stack(t), kStackBytes, enter), State::Ready, 0, {}};
  }
  bool reverse = options().order == ThreadOrder::Reverse;
  unsigned warps = (threads + kWarp - 1) / kWarp;
  for (;;) {
    for (unsigned i = 0; i < warps; ++i) {
      unsigned first = (reverse ? warps - 1 - i : i) * kWarp;
      MAESTRO_TRY(runWarp(first, std::min(kWarp, threads - first)));
    }
    unsigned waiting = count(0, threads, State::AtBarrier);
    if (waiting == 0)
      return Status();
    if (waiting != threads)
      return Status::internal(
          fmt::format("kernel {}: {} of the {} threads of a block wait at a barrier, the others have ended",
                      kernel->name, waiting, threads));
    for (unsigned t = 0; t < threads; ++t)
      fibers[t].state = State::Ready;
  }
}

} // namespace

Options &options() {
  static thread_local Options held;
  return held;
}

void barrier(const std::source_location &site) {
  Options &asked = options();
  if (asked.barriers || asked.omitted) {
    BarrierSite here{site.file_name(), site.line()};
    if (asked.barriers)
      asked.barriers->insert(here);
    if (asked.omitted == here)
      return;
  }
  block().wait(State::AtBarrier);
}

uint64_t exchange(uint64_t bits, unsigned source) {
  Block &here = block();
  Fiber &fiber = here.current();
  unsigned half = fiber.exchanges++ & 1;
  fiber.given[half] = bits;
  here.wait(State::AtExchange);
  return here.neighbour(source).given[half];
}

uint64_t threadInGrid() { return uint64_t{blockIndex.x} * blockSize.x + threadIndex.x; }

std::byte *dynamicShared() { return block().dynamic(); }

Status runGrid(const KernelEntry &kernel, Shape grid, unsigned threads, size_t sharedBytes, const void *params) {
  if (threads == 0 || threads > kMaxThreads || threads % kWarp)
    return Status::internal(fmt::format("kernel {}: {} threads a block; expected a multiple of {}, at most {}",
                                        kernel.name, threads, kWarp, kMaxThreads));
  gridSize = {grid.x, grid.y, grid.z};
  blockSize = {threads, 1, 1};
  Block &here = block();
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIndex = {x, y, z};
        here.reserveShared(sharedBytes); // Contents undefined, as on the device.
        MAESTRO_TRY(here.run(kernel, threads, params));
      }
  return Status();
}

} // namespace maestro::kernels::cuda::host
