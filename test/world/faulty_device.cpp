#include "test/world/faulty_device.h"

#include "executor/world/header.h"

#include <cstring>
#include <random>

namespace maestro::executor::test {
namespace {

class FaultyDevice : public Device {
public:
  FaultyDevice(std::unique_ptr<Device> inner, const Faults &faults, uint32_t rank)
      : inner(std::move(inner)), faults(faults), random(faults.seed * 100 + rank) {}

  void put(Queue queue, Address to, std::span<const std::byte> bytes) override {
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header); // Nothing else is put here.
    if (hits(faults.damagedHeaders))
      header.rows ^= 4;
    if (hits(faults.staleEpochs)) {
      --header.epoch;
      header.checksum = checksumOf(header);
    }
    inner->put(queue, to, std::as_bytes(std::span(&header, 1)));
  }
  void signal(Queue queue, const transport::WordTarget &word, uint64_t count) override {
    if (hits(faults.drops))
      return;
    inner->signal(queue, word, hits(faults.duplicates) ? 2 * count : count);
  }

  Result<Address> allocate(uint64_t bytes, std::string_view purpose) override {
    return inner->allocate(bytes, purpose);
  }
  Result<Address> adopt(const transport::Target &memory, uint64_t bytes) override {
    return inner->adopt(memory, bytes);
  }
  uint64_t allocatedBytes() const override { return inner->allocatedBytes(); }
  Result<std::unique_ptr<PreparedProgram>> prepare(std::span<const CallDescription> calls) override {
    return inner->prepare(calls);
  }
  size_t preparedKernels() const override { return inner->preparedKernels(); }
  size_t preparedBytes() const override { return inner->preparedBytes(); }
  void write(Queue queue, Address to, const void *from, uint64_t bytes) override {
    inner->write(queue, to, from, bytes);
  }
  void read(Queue queue, void *to, Address from, uint64_t bytes) override { inner->read(queue, to, from, bytes); }
  void fillZero(Queue queue, Address to, uint64_t bytes) override { inner->fillZero(queue, to, bytes); }
  void copy(Queue queue, Address to, Address from, const Box &box) override { inner->copy(queue, to, from, box); }
  void sum(Queue queue, Address to, std::span<const Address> parts, uint64_t floats) override {
    inner->sum(queue, to, parts, floats);
  }
  void launch(const PreparedProgram &program, std::span<const Address> bases, int32_t task) override {
    inner->launch(program, bases, task);
  }
  Point record(Queue queue) override { return inner->record(queue); }
  void await(Queue queue, Point point) override { inner->await(queue, point); }
  void awaitWord(Queue queue, transport::Word &word, uint64_t atLeast, const transport::WaitNote &note) override {
    inner->awaitWord(queue, word, atLeast, note);
  }
  Status wait(Point point) override { return inner->wait(point); }
  Status drain() override { return inner->drain(); }
  void begin(Queue queue, Span &span) override { inner->begin(queue, span); }
  void end(Queue queue, Span &span) override { inner->end(queue, span); }
  void enableTrace(size_t capacity) override { inner->enableTrace(capacity); }
  std::span<const TraceSpan> trace() const override { return inner->trace(); }

private:
  bool hits(uint32_t perCent) { return perCent > 0 && random() % 100 < perCent; }

  std::unique_ptr<Device> inner;
  Faults faults;
  std::mt19937_64 random;
};

} // namespace

std::unique_ptr<Device> createFaultyDevice(std::unique_ptr<Device> inner, const Faults &faults, uint32_t rank) {
  return std::make_unique<FaultyDevice>(std::move(inner), faults, rank);
}

} // namespace maestro::executor::test
