// Memory of a GPU that other GPUs write, in one process and between two, on the fake driver: who may reach it, who may
// not, and what is said then.
#include "executor/device/cuda/cuda_segment.h"

#include "cuda/context.h"
#include "executor/device/cuda/rdma_memory.h"
#include "transport/local/post.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace maestro::executor {
namespace {

using cuda::Context;
using testing::HasSubstr;

constexpr uint64_t kBytes = 5 << 20; // No whole granules.

/// A GPU's copies from and to pinned memory.
class Gpu {
public:
  explicit Gpu(int ordinal) : context(std::move(*Context::open(ordinal))) {
    context->makeCurrent();
    (void)driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    (void)driver().cuMemHostAlloc(reinterpret_cast<void **>(&pinned), kBytes, 0);
  }
  ~Gpu() {
    context->makeCurrent();
    (void)driver().cuMemFreeHost(pinned);
    (void)driver().cuStreamDestroy(stream);
  }
  void fill(std::byte *to, unsigned char value) {
    std::fill_n(pinned, kBytes, value);
    copy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(pinned));
  }
  /// Whether every byte there has the value.
  bool holds(std::byte *from, unsigned char value) {
    std::fill_n(pinned, kBytes, static_cast<unsigned char>(value + 1));
    copy(reinterpret_cast<CUdeviceptr>(pinned), reinterpret_cast<CUdeviceptr>(from));
    return std::all_of(pinned, pinned + kBytes, [&](unsigned char byte) { return byte == value; });
  }

private:
  const cuda::Driver &driver() const { return context->driver(); }
  void copy(CUdeviceptr to, CUdeviceptr from) {
    context->makeCurrent();
    (void)driver().cuMemcpyAsync(to, from, kBytes, stream);
    (void)driver().cuStreamSynchronize(stream);
  }
  std::unique_ptr<Context> context;
  CUstream stream = nullptr;
  unsigned char *pinned = nullptr;
};

/// Runs the body in a process of its own, because a process that has opened a GPU may not fork; its result.
int inProcess(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0)
    std::exit(body()); // The driver looks for leaks.
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CudaSegment, OtherGpusOfTheProcessWriteThere) {
  EXPECT_EQ(inProcess([] {
              auto segment = std::move(*createCudaSegment(0, kBytes));
              Gpu own(0), other(1);
              if (!own.holds(segment->address(), 0) || !segment->allow(1).isOk())
                return 1;
              other.fill(segment->address(), 7);
              return own.holds(segment->address(), 7) ? 0 : 2;
            }),
            0);
}

TEST(CudaSegment, AGpuWithoutAccessIsNoticed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto segment = std::move(*createCudaSegment(0, kBytes));
        Gpu other(1);
        other.fill(segment->address(), 7);
      },
      "cuMemcpyAsync, destination: memory to which cuMemSetAccess gave GPU 1 no access");
}

TEST(CudaSegment, AnotherProcessWritesThere) {
  using transport::PostBox;
  auto memory = std::move(*transport::SharedMemory::create(1 << 20));
  transport::Abort abort = *transport::Abort::create(*memory, 2);
  auto one = std::move(*PostBox::open()), two = std::move(*PostBox::open());
  std::byte nothing[1] = {};
  pid_t child = fork();
  if (child == 0) {
    bool isRight = [&] { // What it has goes before the process ends.
      auto letter = std::move(*one->receive(abort));
      auto segment = std::move(*openCudaSegment(1, letter.descriptor.get(), kBytes)); // Another GPU, too.
      letter.descriptor = transport::OwnDescriptor();                                 // Not needed any longer.
      Gpu gpu(1);
      bool isThere = gpu.holds(segment->address(), 5);
      gpu.fill(segment->address(), 9);
      return isThere;
    }();
    two->send(one->name(), {}); // Nobody waits for it.
    two->send(two->name(), std::span(nothing, isRight ? 1 : 0));
    std::exit(two->flush(abort).isOk() ? 0 : 1);
  }
  EXPECT_EQ(inProcess([&] {
              auto segment = std::move(*createCudaSegment(0, kBytes));
              Gpu gpu(0);
              gpu.fill(segment->address(), 5);
              one->send(one->name(), nothing, *segment->descriptor());
              if (!one->flush(abort).isOk())
                return 1;
              auto answer = std::move(*two->receive(abort));
              return answer.bytes.size() != 1 ? 2 : gpu.holds(segment->address(), 9) ? 0 : 3;
            }),
            0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(CudaSegment, SaysThatThereIsNoWayBetweenTwoGpus) {
  ::setenv("MAESTRO_FAKE_CUDA_NO_PEERS", "1", 1);
  EXPECT_EQ(inProcess([] {
              auto segment = std::move(*createCudaSegment(0, kBytes));
              Status refused = segment->allow(1);
              EXPECT_THAT(std::string(refused.message()), HasSubstr("GPU 1 has no way to memory that ranks share"));
              EXPECT_THAT(std::string(refused.message()), HasSubstr("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"));
              return testing::Test::HasFailure() || refused.isOk() || !segment->allow(2).isOk(); // GPU 0 again.
            }),
            0);
  ::unsetenv("MAESTRO_FAKE_CUDA_NO_PEERS");
}

TEST(CudaSegment, SaysThatTheDriverExportsNothing) {
  ::setenv("MAESTRO_FAKE_CUDA_NO_EXPORT", "1", 1);
  EXPECT_EQ(inProcess([] {
              auto segment = std::move(*createCudaSegment(0, kBytes));
              Status refused = segment->descriptor().takeStatus();
              EXPECT_THAT(std::string(refused.message()), HasSubstr("cuMemExportToShareableHandle"));
              return testing::Test::HasFailure() || refused.isOk();
            }),
            0);
  ::unsetenv("MAESTRO_FAKE_CUDA_NO_EXPORT");
}

/// What NICs are given, in a process whose driver is like that.
int withDmaBufs(const char *word, const std::function<int()> &body) {
  ::setenv("MAESTRO_FAKE_CUDA_DMABUF", word, 1);
  int status = inProcess(body);
  ::unsetenv("MAESTRO_FAKE_CUDA_DMABUF");
  return status;
}

TEST(CudaSegment, NicsWriteWholePagesOfIt) {
  EXPECT_EQ(withDmaBufs("ordered",
                        [] {
                          auto segment = std::move(*createCudaSegment(0, kBytes));
                          auto memory = std::move(*segment->forNics());
                          EXPECT_FALSE(memory.flush) << "what is ordered is not flushed";
                          EXPECT_EQ(memory.memory.data(), segment->address());
                          auto descriptor = memory.open();
                          if (!descriptor || memory.memory.size() % 4096 != 0 || memory.memory.size() < kBytes)
                            return true;
                          constexpr off_t kAt = 4097; // As a NIC: through the descriptor.
                          std::vector<std::byte> fives(kBytes - kAt, std::byte(5));
                          off_t start = ::lseek(descriptor->get(), 0, SEEK_CUR);
                          (void)!::pwrite(descriptor->get(), fives.data(), fives.size(), start + kAt);
                          Gpu gpu(0);
                          bool isThere = !gpu.holds(segment->address(), 5);
                          (void)!::pwrite(descriptor->get(), fives.data(), kAt, start);
                          isThere &= gpu.holds(segment->address(), 5);
                          return testing::Test::HasFailure() || !isThere;
                        }),
            0);
}

TEST(CudaSegment, NicsReadThePagesAroundABlock) {
  EXPECT_EQ(withDmaBufs("ordered",
                        [] {
                          auto segment = std::move(*createCudaSegment(0, kBytes));
                          auto context = std::move(*Context::open(0));
                          auto start = reinterpret_cast<CUdeviceptr>(segment->address());
                          transport::DeviceMemory memory = memoryForNics(*context, start + 4000, 200);
                          EXPECT_EQ(memory.memory.data(), segment->address());
                          EXPECT_EQ(memory.memory.size(), 8192u);
                          EXPECT_TRUE(memory.open().isOk());
                          return testing::Test::HasFailure();
                        }),
            0);
}

TEST(CudaSegment, AGpuThatDoesNotOrderIsFlushedOrRefused) {
  EXPECT_EQ(withDmaBufs("flushed",
                        [] {
                          auto segment = std::move(*createCudaSegment(0, kBytes));
                          auto memory = std::move(*segment->forNics());
                          auto flushes = reinterpret_cast<uint64_t (*)()>(
                              ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW), "maestroFakeCudaFlushes"));
                          return !memory.flush || !flushes || !memory.flush().isOk() || flushes() != 1;
                        }),
            0);
  EXPECT_EQ(withDmaBufs("unordered",
                        [] {
                          auto segment = std::move(*createCudaSegment(0, kBytes));
                          EXPECT_THAT(std::string(segment->forNics().status().message()),
                                      HasSubstr("does not order what NICs write, and its driver does not flush it"));
                          return testing::Test::HasFailure();
                        }),
            0);
  EXPECT_EQ(inProcess([] {
              auto segment = std::move(*createCudaSegment(0, kBytes));
              EXPECT_THAT(std::string(segment->forNics().status().message()),
                          HasSubstr("its driver exports no memory by dma-buf; NVIDIA's open kernel modules"));
              return testing::Test::HasFailure();
            }),
            0);
}

TEST(CudaSegment, SaysThatMemoryIsMissing) {
  EXPECT_EQ(inProcess([] {
              Status refused = createCudaSegment(1, uint64_t{1} << 50).takeStatus();
              EXPECT_THAT(std::string(refused.message()), HasSubstr("plan with a smaller micro-batch"));
              return testing::Test::HasFailure();
            }),
            0);
}

} // namespace
} // namespace maestro::executor
