// Several networks as one: what is written to a rank keeps to one of them, in order.
#include "transport/network/rails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace maestro::transport {
namespace {

using testing::ElementsAre, testing::HasSubstr;

/// Notes what it is given.
class NotingRail : public Network {
public:
  explicit NotingRail(Rail rail) : rail(rail) {}
  std::vector<std::byte> card() const override { return {std::byte(rail.number)}; }
  Status connect(RankRange, const std::string &, std::span<const std::byte> card) override {
    EXPECT_THAT(card, ElementsAre(std::byte(rail.number)));
    return Status();
  }
  Status start() override { return rail.number == failing ? Status::unavailable(name() + " fails") : Status(); }
  std::string name() const override { return "rail" + std::to_string(rail.number); }
  std::string troubles() const override { return rail.number ? "lost 3" : ""; }
  void write(const Place &to, const std::byte *, uint64_t, Word *) override { note("write", to.rank); }
  void put(const Place &to, std::span<const std::byte>) override { note("put", to.rank); }
  void signal(const WordPlace &word, uint64_t) override { note("count", word.rank); }
  void addSource(std::span<const std::byte>) override { ++sources; }
  void removeSource(std::span<const std::byte>) override { --sources; }
  Status addDeviceSource(const DeviceMemory &) override {
    if (rail.number == failing)
      return Status::unavailable(name() + " refuses");
    ++sources;
    return Status();
  }
  Status tryDevice(const DeviceMemory &) override {
    return rail.number == failing ? Status::unavailable(name() + " refuses") : Status();
  }
  Status placeBulk(uint32_t rank, const DeviceMemory &) override {
    note("place", rank);
    return Status();
  }
  Status placeHostBulk(uint32_t rank) override {
    note("host", rank);
    return Status();
  }
  void removeBulk(uint32_t rank) override { note("remove", rank); }
  std::vector<std::byte> bulkCard() const override { return {std::byte(10 + rail.number)}; }
  Status connectBulk(RankRange, std::span<const std::byte> card) override {
    EXPECT_THAT(card, ElementsAre(std::byte(10 + rail.number)));
    return Status();
  }
  void awaitIdle() override { note("idle", 0); }
  Traffic traffic() const override { return {100, 10 + rail.number}; }

  void note(const char *what, uint32_t rank) { notes.push_back(std::string(what) + " " + std::to_string(rank)); }

  Rail rail;
  std::vector<std::string> notes;
  int sources = 0;
  static inline uint32_t failing = ~0u;
};

struct Opened {
  explicit Opened(uint32_t count) {
    auto opened = openRails(count, [&](Rail rail) -> Result<std::unique_ptr<Network>> {
      auto one = std::make_unique<NotingRail>(rail);
      rails.push_back(one.get());
      return std::unique_ptr<Network>(std::move(one));
    });
    network = std::move(*opened);
  }
  std::vector<NotingRail *> rails;
  std::unique_ptr<Network> network;
};

TEST(RailsTest, AllHearOfMemoryOfDevices) {
  Opened opened(2);
  Network &network = *opened.network;
  EXPECT_TRUE(network.tryDevice({}).isOk());
  EXPECT_TRUE(network.placeBulk(3, {}).isOk()); // Each knows which ranks it carries.
  network.removeBulk(3);
  EXPECT_TRUE(network.placeHostBulk(3).isOk());
  EXPECT_TRUE(network.connectBulk({4, 7}, network.bulkCard()).isOk());
  EXPECT_FALSE(network.connectBulk({4, 7}, Opened(3).network->bulkCard()).isOk());
  EXPECT_TRUE(network.addDeviceSource({}).isOk());
  for (NotingRail *rail : opened.rails) {
    EXPECT_THAT(rail->notes, ElementsAre("place 3", "remove 3", "host 3"));
    EXPECT_EQ(rail->sources, 1);
  }
  NotingRail::failing = 1;
  EXPECT_THAT(std::string(network.tryDevice({}).message()), HasSubstr("rail1 refuses"));
  EXPECT_FALSE(network.addDeviceSource({}).isOk());
  EXPECT_EQ(opened.rails[0]->sources, 1) << "one that a rail refuses is nobody's";
  NotingRail::failing = ~0u;
}

TEST(RailsTest, ARankKeepsToOneRail) {
  Opened opened(2);
  Network &network = *opened.network;
  ASSERT_TRUE(network.connect({4, 7}, "process 1", network.card()).isOk());
  ASSERT_TRUE(network.connect({7, 9}, "process 2", network.card()).isOk());
  for (uint32_t rank = 4; rank < 9; ++rank) {
    network.write({rank, 0}, nullptr, 8, nullptr);
    network.put({rank, 0}, {});
    network.signal({{rank, 0}, 0}, 1);
  }
  EXPECT_THAT(opened.rails[0]->notes,
              ElementsAre("write 4", "put 4", "count 4", "write 6", "put 6", "count 6", "write 7", "put 7", "count 7"));
  EXPECT_THAT(opened.rails[1]->notes, ElementsAre("write 5", "put 5", "count 5", "write 8", "put 8", "count 8"));
  for (NotingRail *rail : opened.rails)
    for (RankRange process : {RankRange{4, 7}, RankRange{7, 9}})
      EXPECT_TRUE(rail->rail.carries(rail->rail.firstOf(process), process));
  network.write({2, 0}, nullptr, 8, nullptr);
  network.write({20, 0}, nullptr, 8, nullptr);
  EXPECT_EQ(opened.rails[0]->notes.size(), 11u) << "no peers: a rail refuses them";
}

TEST(RailsTest, AllRailsHearWhatConcernsAll) {
  Opened opened(2);
  Network &network = *opened.network;
  EXPECT_EQ(network.name(), "rail0 and rail1");
  EXPECT_EQ(network.troubles(), "rail1: lost 3");
  EXPECT_EQ(network.traffic().bytes, 200u);
  EXPECT_EQ(network.traffic().busyNs, 11) << "of the busiest";
  network.addSource({});
  network.awaitIdle();
  for (NotingRail *rail : opened.rails) {
    EXPECT_EQ(rail->sources, 1);
    EXPECT_THAT(rail->notes, ElementsAre("idle 0"));
  }
  network.removeSource({});
  EXPECT_EQ(opened.rails[1]->sources, 0);
  NotingRail::failing = 1;
  EXPECT_EQ(network.start().message(), "rail1 fails");
  NotingRail::failing = ~0u;
}

TEST(RailsTest, OtherNumbersOfRailsDoNotFit) {
  Opened one(1), two(2), three(3);
  EXPECT_EQ(one.network->name(), "rail0") << "alone it is what was opened";
  Status status = two.network->connect({1, 3}, "process 1", three.network->card());
  EXPECT_EQ(status.code(), StatusCode::InvalidInput);
  EXPECT_THAT(std::string(status.message()), HasSubstr("process 1 is not that of 2 rails"));
}

} // namespace
} // namespace maestro::transport
