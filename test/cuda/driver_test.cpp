// What is said where the driver is missing, too old, without a GPU or in use; and that the fake tells its callers.
#include "cuda/context.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>
#include <unistd.h>

using namespace maestro;
using namespace maestro::cuda;

namespace {

/// In a process of its own, because a process loads a driver once: opens GPU `ordinal`, tells, and ends with 0.
[[noreturn]] void openAndTell(int ordinal) {
  auto context = Context::open(ordinal);
  std::fprintf(stderr, "%s\n", context ? (*context)->name().c_str() : std::string(context.status().message()).c_str());
  context = Status::internal("closed");
  std::exit(0);
}

/// Twenty streams of one GPU wait for what the last of them does. Ends with 0, or is ended where they wait in a circle.
[[noreturn]] void waitForTheLastStream() {
  ::alarm(2);
  auto context = std::move(*Context::open(0));
  context->makeCurrent();
  const Driver &driver = context->driver();
  void *word = nullptr;
  (void)driver.cuMemHostAlloc(&word, 64, 0);
  std::memset(word, 0, 64);
  auto address = reinterpret_cast<CUdeviceptr>(word);
  std::array<CUstream, 20> streams{};
  for (CUstream &stream : streams)
    (void)driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (CUstream stream : std::span(streams).first(streams.size() - 1))
    (void)driver.cuStreamWaitValue64(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ);
  (void)driver.cuStreamWriteValue64(streams.back(), address, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
  for (CUstream stream : streams)
    (void)driver.cuStreamSynchronize(stream);
  ::_exit(0);
}

class DriverDeathTest : public testing::Test {
protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ::setenv("LD_LIBRARY_PATH", MAESTRO_FAKE_CUDA_FOLDER, 1);
  }
  void TearDown() override {
    ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    for (const char *name : {"DEVICES", "VERSION", "IN_USE"})
      ::unsetenv((std::string("MAESTRO_FAKE_CUDA_") + name).c_str());
  }
};

TEST_F(DriverDeathTest, OpensAGpu) {
  EXPECT_EXIT(openAndTell(0), testing::ExitedWithCode(0), "^GPU 0 \\(NVIDIA H100 80GB HBM3 \\(fake\\)\\)\n$");
}

TEST_F(DriverDeathTest, SaysThatThereIsNoDriver) {
  ::setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
  if (!loadDriver()) // A machine with a driver finds it without the variable.
    EXPECT_EXIT(openAndTell(0), testing::ExitedWithCode(0),
                "libcuda.so.1 cannot be loaded.*install or update the NVIDIA driver.*cluster.device=cpu");
}

TEST_F(DriverDeathTest, SaysThatTheDriverIsTooOld) {
  ::setenv("MAESTRO_FAKE_CUDA_VERSION", "11040", 1);
  EXPECT_EXIT(openAndTell(0), testing::ExitedWithCode(0), "libcuda.so.1 supports CUDA 11.4, and 12.0 or newer");
}

TEST_F(DriverDeathTest, SaysThatThereIsNoGpu) {
  ::setenv("MAESTRO_FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_EXIT(openAndTell(0), testing::ExitedWithCode(0), "driver \\(CUDA 13.0\\) finds no GPU; see what nvidia-smi");
}

TEST_F(DriverDeathTest, SaysHowManyGpusThereAre) {
  EXPECT_EXIT(openAndTell(2), testing::ExitedWithCode(0), "GPU 2 is wanted and this machine has 2;");
}

TEST_F(DriverDeathTest, SaysThatTheGpuIsInUse) {
  ::setenv("MAESTRO_FAKE_CUDA_IN_USE", "1", 1);
  EXPECT_EXIT(
      openAndTell(1), testing::ExitedWithCode(0),
      "GPU 1 \\(NVIDIA H100.*\\): cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE .*; another process has it");
}

TEST_F(DriverDeathTest, StreamsOfAGpuDoNotShareAWorkQueue) {
  EXPECT_EXIT(waitForTheLastStream(), testing::ExitedWithCode(0), "");
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1); // The driver's own choice.
  EXPECT_EXIT(waitForTheLastStream(), testing::KilledBySignal(SIGALRM), "");
}

TEST_F(DriverDeathTest, TheFakeWantsAContext) {
  EXPECT_DEATH(
      {
        void *pointer;
        (void)(*loadDriver())->cuMemHostAlloc(&pointer, 64, 0);
      },
      "cuMemHostAlloc on a thread that has no current context");
}

TEST_F(DriverDeathTest, TheFakeFindsLeaks) {
  EXPECT_DEATH(
      {
        auto context = std::move(*Context::open(0));
        context->makeCurrent();
        void *pointer;
        (void)context->driver().cuMemHostAlloc(&pointer, 64, 0);
        context.reset();
        std::exit(0);
      },
      "left at the end: 1 blocks of pinned memory");
}

TEST_F(DriverDeathTest, TheFakeRefusesPageableMemory) {
  EXPECT_DEATH(
      {
        auto context = std::move(*Context::open(0));
        context->makeCurrent();
        CUstream stream;
        (void)context->driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        char memory[128] = "";
        (void)context->driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(memory),
                                              reinterpret_cast<CUdeviceptr>(memory + 64), 64, stream);
      },
      "cuMemcpyAsync, source: host memory that is neither pinned nor registered");
}

} // namespace
