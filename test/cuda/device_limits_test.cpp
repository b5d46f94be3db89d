// What the CUDA device says where something is missing or too small: GPU, memory, kernels. On the fake driver with 16
// MiB.
#include "executor/device/cuda/cuda_device.h"
#include "transport/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

} // namespace
