// Which registration has the bytes that a network is to write from.
#include "transport/network/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro::transport {
namespace {

constexpr size_t kPage = 4096;

class SourcesTest : public testing::Test {
protected:
  std::span<const std::byte> pages(size_t first, size_t count) const { return {start + first * kPage, count * kPage}; }
  /// The region's number; 0: nobody has made these bytes known.
  int regionOf(size_t at, size_t bytes) {
    auto found = sources.find(
        {start + at, bytes}, [this](auto) -> Result<int> { return ++enrolled; }, [](int region) { return region; });
    return found ? *found : 0;
  }

  const std::byte *start = reinterpret_cast<const std::byte *>(0x7000'0000'0000);
  Sources<int> sources;
  int enrolled = 100;
};

TEST_F(SourcesTest, BlocksThatShareAPageAreFoundWhicheverCameFirst) {
  for (bool isLongFirst : {true, false}) { // Two blocks begin in page 0; another begins where the long one ends.
    sources.clear();
    sources.add(isLongFirst ? pages(0, 3) : pages(0, 1), isLongFirst ? 3 : 1);
    sources.add(isLongFirst ? pages(0, 1) : pages(0, 3), isLongFirst ? 1 : 3);
    sources.add(pages(2, 1), 2);
    EXPECT_EQ(regionOf(100, 3 * kPage - 200), 3);
    EXPECT_EQ(regionOf(2 * kPage - 10, 20), 3);
    EXPECT_NE(regionOf(2 * kPage + 10, 20), 0);
    EXPECT_EQ(regionOf(2 * kPage + 10, kPage), 0);
    sources.remove(pages(0, 1));
    EXPECT_EQ(regionOf(10, 20), 3) << "the other one stays";
    sources.remove(pages(0, 3));
    EXPECT_EQ(regionOf(10, 20), 0);
    EXPECT_EQ(regionOf(2 * kPage, 20), 2);
  }
}

TEST_F(SourcesTest, WhatIsNotRegisteredYetIsAtItsFirstUse) {
  sources.add(pages(5, 1));
  EXPECT_EQ(enrolled, 100);
  EXPECT_EQ(regionOf(5 * kPage, 8), 101);
  EXPECT_EQ(regionOf(5 * kPage + 8, 8), 101);
}

} // namespace
} // namespace maestro::transport
