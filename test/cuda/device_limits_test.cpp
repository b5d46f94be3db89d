// What the CUDA device says where something is missing or too small: GPU, memory, kernels. On the fake driver with 16
// MiB.
#include "executor/device/cuda/cuda_device.h"
#include "transport/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cuda.h>

using namespace maestro;
using namespace maestro::executor;
using testing::HasSubstr;

namespace {

std::string messageOf(const CudaDeviceOptions &options) {
  return std::string(createCudaDevice(options).status().message());
}

TEST(CudaDeviceLimits, AnotherGpuIsNamed) {
  CudaDeviceOptions options;
  options.model = "A100";
  EXPECT_THAT(messageOf(options), HasSubstr("a GPU called 'A100', and this is GPU 0 (NVIDIA H100 80GB HBM3"));
  EXPECT_EQ(createCudaDevice(options).status().code(), StatusCode::InvalidInput);
}

TEST(CudaDeviceLimits, DevicesRepeatOverTheGpusThatThereAre) {
  CudaDeviceOptions options;
  options.model = "no such";
  options.device = 5;
  EXPECT_THAT(messageOf(options), HasSubstr("this is GPU 1 ("));
}

TEST(CudaDeviceLimits, APlanThatNeedsMoreThanIsFreeIsRefused) {
  CudaDeviceOptions options;
  options.rank = 3;
  options.neededBytes = 17 << 20;
  EXPECT_THAT(messageOf(options),
              HasSubstr("has 16777216 bytes free of 16777216, and the plan needs 17825792 for rank 3"));
}

TEST(CudaDeviceLimits, ABlockThatDoesNotFitIsNamed) {
  auto device = std::move(*createCudaDevice({}));
  ASSERT_TRUE(device->allocate(5 << 20, "parameters").isOk());
  auto block = device->allocate(12 << 20, "the workspace");
  ASSERT_FALSE(block.isOk());
  EXPECT_THAT(std::string(block.status().message()),
              AllOf(HasSubstr("cannot allocate 12582912 bytes for the workspace on GPU 0"),
                    HasSubstr("has 6291456 already and 10485760 of 16777216 are free"),
                    HasSubstr("plan with a smaller micro-batch")));
  EXPECT_EQ(block.status().code(), StatusCode::Unavailable);
  EXPECT_TRUE(device->allocate(1 << 20, "what is smaller").isOk());
  EXPECT_EQ(device->allocatedBytes(), uint64_t{6} << 20);
}

TEST(CudaDeviceLimits, RanksOfAProcessThatWouldWaitForEachOthersWaitsAreRefused) {
  CudaDeviceOptions options;
  options.runsKernels = false;
  std::vector<Result<std::unique_ptr<Device>>> devices;
  for (int rank = 0; rank < 5; ++rank)
    EXPECT_TRUE(devices.emplace_back(createCudaDevice(options)).isOk());
  EXPECT_THAT(messageOf(options), AllOf(HasSubstr("is used by 5 ranks of this process, as many as its 32 work queues"),
                                        HasSubstr("--ranks processes")));
  options.device = 1;
  EXPECT_TRUE(createCudaDevice(options).isOk());
  devices.pop_back();
  options.device = 0;
  EXPECT_TRUE(createCudaDevice(options).isOk());
}

TEST(CudaDeviceLimits, MemoryOfOthersIsRegisteredOnceForAllRanks) {
  auto memory = std::move(*transport::SharedMemory::create(1 << 20));
  CudaDeviceOptions options;
  options.shared = {memory->span()};
  auto first = createCudaDevice(options), second = createCudaDevice(options);
  ASSERT_TRUE(first.isOk() && second.isOk()); // The driver registers nothing twice.
  uint64_t outside;
  EXPECT_FALSE((*first)->adopt(transport::Target(&outside), 8).isOk());
  EXPECT_TRUE((*second)->adopt(transport::Target(memory->span().data()), 8).isOk());
}

/// The driver is loaded once, so each case is a process of its own.
TEST(CudaDeviceLimits, KernelsOfANewerToolkitThanTheDriverAreRefusedByVersion) {
  constexpr int kMajor = CUDA_VERSION / 1000;
  std::string older = std::to_string(kMajor - 1);
  if (kMajor <= 12)
    GTEST_SKIP() << "no driver that old is taken at all";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("MAESTRO_FAKE_CUDA_VERSION", (older + "040").c_str(), 1);
  EXPECT_EXIT(
      {
        std::fputs(messageOf({}).c_str(), stderr);
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "maestro-kernels.fatbin: the CUDA kernels do not load on GPU 0 .*, of compute capability 9.0: cuModuleLoadData: "
      "CUDA_ERROR_INVALID_IMAGE .*; a toolkit of CUDA " +
          std::to_string(kMajor) + "\\..* compiled them, and the driver is of CUDA " + older +
          "\\.4; install a driver of CUDA " + std::to_string(kMajor) +
          " or newer, or build maestro with a toolkit of CUDA " + older);
  ::unsetenv("MAESTRO_FAKE_CUDA_VERSION");
}

} // namespace
