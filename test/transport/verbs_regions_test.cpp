// Memory of devices and an RDMA library that takes it, refuses it, or does not know it.
#include "transport/verbs/regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

namespace maestro::transport {
namespace {

using testing::HasSubstr;

struct Asked {
  uint64_t offset, address;
  size_t bytes;
  int descriptor, access;
};
std::vector<Asked> asked;
int registered = 0, answer = 0; ///< 0: it is taken; else the error.

VerbsFunctions registeringLibrary() {
  VerbsFunctions table{};
  table.registerDmaBuf = [](ibv_pd *, uint64_t offset, size_t bytes, uint64_t address, int descriptor, int access) {
    asked.push_back({offset, address, bytes, descriptor, access});
    errno = answer;
    registered += answer == 0;
    return answer == 0 ? new ibv_mr{} : nullptr;
  };
  table.deregisterMemory = [](ibv_mr *region) {
    --registered;
    delete region;
    return 0;
  };
  return table;
}

class VerbsRegionsTest : public testing::Test {
protected:
  VerbsRegionsTest() {
    asked.clear();
    registered = answer = 0;
    memory.memory = {reinterpret_cast<const std::byte *>(0x7000'0000'0000), 2 << 20};
    memory.open = [] { return Result<OwnDescriptor>(OwnDescriptor(::dup(0))); };
  }
  VerbsFunctions library = registeringLibrary();
  DeviceMemory memory;
};

TEST_F(VerbsRegionsTest, MemoryIsRegisteredAsTheDeviceNamesItAndItsDescriptorGoes) {
  {
    auto region = registerDevice(library, nullptr, memory, kWritable);
    ASSERT_TRUE(region.isOk());
    ASSERT_EQ(asked.size(), 1u);
    EXPECT_EQ(asked[0].offset, 0u);
    EXPECT_EQ(asked[0].address, 0x7000'0000'0000u);
    EXPECT_EQ(asked[0].bytes, size_t{2} << 20);
    EXPECT_EQ(asked[0].access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE),
              IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE);
    EXPECT_EQ(::fcntl(asked[0].descriptor, F_GETFD), -1) << "still open";
    EXPECT_EQ(registered, 1);
  }
  EXPECT_EQ(registered, 0);
  ASSERT_TRUE(registerDevice(library, nullptr, memory, kReadable).isOk());
  EXPECT_EQ(asked[1].access & IBV_ACCESS_REMOTE_WRITE, 0);
}

TEST_F(VerbsRegionsTest, RefusalsAreTold) {
  answer = ENOMEM;
  EXPECT_THAT(std::string(registerDevice(library, nullptr, memory, kWritable).status().message()),
              "registering 2097152 bytes of a device (ibv_reg_dmabuf_mr): Cannot allocate memory");
  memory.open = [] { return Result<OwnDescriptor>(Status::unavailable("GPU 0: no dma-buf")); };
  EXPECT_EQ(registerDevice(library, nullptr, memory, kWritable).status().message(), "GPU 0: no dma-buf");
  EXPECT_EQ(asked.size(), 1u);
}

TEST_F(VerbsRegionsTest, WhoKnowsDmaBufsSaysThatThereIsNone) {
  answer = EBADF;
  EXPECT_TRUE(knowsDevices(library, nullptr).isOk());
  EXPECT_EQ(asked[0].descriptor, -1);
  answer = EINVAL; // Some look at other things first.
  EXPECT_TRUE(knowsDevices(library, nullptr).isOk());
  for (int error : {EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS}) {
    answer = error;
    EXPECT_THAT(std::string(knowsDevices(library, nullptr).message()),
                HasSubstr("its driver takes no memory of devices (ibv_reg_dmabuf_mr): "));
  }
  library.registerDmaBuf = nullptr;
  EXPECT_THAT(std::string(knowsDevices(library, nullptr).message()), HasSubstr("rdma-core 34 or newer has it"));
  EXPECT_EQ(registered, 0);
}

} // namespace
} // namespace maestro::transport
