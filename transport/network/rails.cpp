#include "transport/network/rails.h"

#include "base/bytes.h"

#include <algorithm>
#include <utility>

namespace maestro::transport {
namespace {

class Rails : public Network {
public:
  explicit Rails(std::vector<std::unique_ptr<Network>> rails) : rails(std::move(rails)) {}

  std::vector<std::byte> card() const override {
    ByteWriter writer;
    for (const auto &rail : rails)
      writer.block(rail->card());
    return writer.take();
  }

  Status connect(RankRange ranks, const std::string &name, std::span<const std::byte> card) override {
    ByteReader reader(card);
    for (const auto &rail : rails)
      MAESTRO_TRY(rail->connect(ranks, name, reader.block()));
    if (!reader.isWhole())
      return Status::invalidInput("the address of " + name + " is not that of " + std::to_string(rails.size()) +
                                  " rails");
    if (railOf.size() < ranks.end)
      railOf.resize(ranks.end, rails.front().get());
    auto count = static_cast<uint32_t>(rails.size());
    for (Rail rail{0, count}; rail.number < count; ++rail.number)
      for (uint32_t rank = ranks.first; rank < ranks.end; ++rank)
        if (rail.carries(rank, ranks))
          railOf[rank] = rails[rail.number].get();
    return Status();
  }

  Status tryDevice(const DeviceMemory &memory) override {
    return each([&](Network &rail) { return rail.tryDevice(memory); });
  }
  Status placeBulk(uint32_t rank, const DeviceMemory &memory) override { // By those that carry it.
    return each([&](Network &rail) { return rail.placeBulk(rank, memory); });
  }
  void removeBulk(uint32_t rank) override {
    for (const auto &rail : rails)
      rail->removeBulk(rank);
  }
  Status placeHostBulk(uint32_t rank) override {
    return each([&](Network &rail) { return rail.placeHostBulk(rank); });
  }
  void readDevices() override {
    for (const auto &rail : rails)
      rail->readDevices();
  }
  std::vector<std::byte> bulkCard() const override {
    ByteWriter writer;
    for (const auto &rail : rails)
      writer.block(rail->bulkCard());
    return writer.take();
  }
  Status connectBulk(RankRange ranks, std::span<const std::byte> card) override {
    ByteReader reader(card);
    MAESTRO_TRY(each([&](Network &rail) { return rail.connectBulk(ranks, reader.block()); }));
    return reader.isWhole() ? Status()
                            : Status::invalidInput("what was told of memory of devices is not that of rails");
  }

  Status probe() override {
    return each([](Network &rail) { return rail.probe(); });
  }
  Status start() override {
    return each([](Network &rail) { return rail.start(); });
  }
  std::string name() const override {
    return joined(" and ", [](const Network &rail) { return rail.name(); });
  }
  std::string troubles() const override {
    return joined("; ", [](const Network &rail) {
      std::string own = rail.troubles();
      return own.empty() ? own : rail.name() + ": " + own;
    });
  }

  void write(const Place &to, const std::byte *from, uint64_t bytes, Word *taken) override {
    railTo(to.rank).write(to, from, bytes, taken);
  }
  void put(const Place &to, std::span<const std::byte> bytes) override { railTo(to.rank).put(to, bytes); }
  void signal(const WordPlace &word, uint64_t more) override { railTo(word.rank).signal(word, more); }

  bool readsDevices() const override { return rails.front()->readsDevices(); }
  Status addDeviceSource(const DeviceMemory &memory) override {
    Status added = each([&](Network &rail) { return rail.addDeviceSource(memory); });
    if (!added.isOk())
      removeSource(memory.memory);
    return added;
  }
  void addSource(std::span<const std::byte> memory) override {
    for (const auto &rail : rails)
      rail->addSource(memory);
  }
  void removeSource(std::span<const std::byte> memory) override {
    for (const auto &rail : rails)
      rail->removeSource(memory);
  }
  void awaitIdle() override {
    for (const auto &rail : rails)
      rail->awaitIdle();
  }

  Traffic traffic() const override {
    Traffic all;
    for (const auto &rail : rails) {
      Traffic own = rail->traffic();
      all.bytes += own.bytes;
      all.busyNs = std::max(all.busyNs, own.busyNs); // They are busy at the same times.
    }
    return all;
  }

private:
  template <typename Call> Status each(const Call &call) const {
    for (const auto &rail : rails)
      MAESTRO_TRY(call(*rail));
    return Status();
  }

  template <typename Text> std::string joined(const char *separator, const Text &text) const {
    std::string all;
    for (const auto &rail : rails)
      if (std::string own = text(*rail); !own.empty())
        all += (all.empty() ? "" : separator) + own;
    return all;
  }

  /// Whoever is no peer is none of any rail, which ends the job for it.
  Network &railTo(uint32_t rank) const { return rank < railOf.size() ? *railOf[rank] : *rails.front(); }

  std::vector<std::unique_ptr<Network>> rails;
  std::vector<Network *> railOf; ///< By rank.
};

} // namespace

Result<std::unique_ptr<Network>> openRails(uint32_t count,
                                           const std::function<Result<std::unique_ptr<Network>>(Rail)> &openOne) {
  if (count <= 1)
    return openOne({});
  std::vector<std::unique_ptr<Network>> rails;
  for (uint32_t number = 0; number < count; ++number) {
    MAESTRO_ASSIGN(auto rail, openOne({number, count}));
    rails.push_back(std::move(rail));
  }
  return std::unique_ptr<Network>(std::make_unique<Rails>(std::move(rails)));
}

} // namespace maestro::transport
