// Who goes on where machines are lost.
#include "transport/control/seating.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro::transport {
namespace {

using testing::ElementsAre, testing::IsEmpty;
using Hosts = std::vector<std::string>;

Seating seat(uint32_t machines, uint32_t mostLost, const Hosts &hosts) {
  return seatWholeMachines({machines, mostLost}, hosts);
}

TEST(SeatingTest, MachinesThatHaveComeGoOn) {
  Seating seating = seat(3, 1, {"a", "a", "", "", "c", "c"});
  EXPECT_THAT(seating.processes, ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(seating.lostMachines, 1u);
  EXPECT_THAT(seat(3, 1, {"a", "", "c", "a", "", "c"}).processes, ElementsAre(0, 2, 3, 5)) << "numbered in turn";
}

TEST(SeatingTest, AMachineThatHasNotComeWholeIsLost) {
  EXPECT_THAT(seat(3, 1, {"a", "a", "b", "", "c", "c"}).processes, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(seat(3, 1, {"a", "a", "b", "", "c", ""}).processes, IsEmpty()) << "two are";
  EXPECT_EQ(seat(3, 2, {"a", "a", "b", "", "c", ""}).lostMachines, 2u);
}

TEST(SeatingTest, TheJobWaitsWhereItMayNotGoOn) {
  EXPECT_THAT(seat(3, 0, {"a", "", "c"}).processes, IsEmpty()) << "nothing was planned for that";
  EXPECT_THAT(seat(3, 2, {"", "b", "c"}).processes, IsEmpty()) << "process 0 leads";
  EXPECT_THAT(seat(3, 2, {"", "", ""}).processes, IsEmpty());
  EXPECT_THAT(seat(3, 1, {"a", "b", "c"}).processes, IsEmpty()) << "all have come";
  EXPECT_THAT(seat(2, 1, {"a", "b", "b"}).processes, IsEmpty()) << "machines with different numbers of processes";
  EXPECT_THAT(seat(0, 1, {"a"}).processes, IsEmpty());
}

} // namespace
} // namespace maestro::transport
