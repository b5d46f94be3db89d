// How the bytes of the fake NCCL move: messages that meet, and puts that leave at once and arrive late, through memory
// that the two sides share. Of nccl.cpp alone, which says when and whether they may.
#pragma once

#include "test/cuda/fake/transfer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

namespace maestro::cuda::fake {

[[noreturn]] inline void complain(const std::string &text) {
  std::fprintf(stderr, "fake NCCL: %s\n", text.c_str());
  std::fflush(stderr);
  std::abort();
}

/// What the two share, in memory of the machine: bytes on their way, each message with its length in front; and each
/// one's window, as the other may open it.
struct Meeting {
  static constexpr size_t kRoom = 256 << 10;
  std::atomic<uint32_t> joined, isOver;
  std::atomic<CUdevice> devices[2];
  std::atomic<uint64_t> written, read;
  std::atomic<uint64_t> signals; ///< Of puts that have arrived.
  struct Offer {
    std::atomic<uint64_t> made, taken; ///< Windows so far; that the other has opened.
    pid_t process;
    int descriptor;
    uint64_t offset, bytes;
  } offers[2];
  std::byte room[kRoom];
};

struct Shared {
  explicit Shared(Meeting *meeting) : meeting(meeting) {}
  ~Shared() { ::munmap(meeting, sizeof(Meeting)); }
  Meeting *meeting;
};

/// One message. The receiver's expectation has to be what is sent.
class Message : public Transfer {
public:
  Message(std::shared_ptr<Shared> with, uint64_t bytes, bool sends)
      : with(std::move(with)), meeting(*this->with->meeting), bytes(bytes), sends(sends) {}
  size_t ready() override {
    if (meeting.isOver.load() != 0)
      return kEnded;
    size_t there = sends ? Meeting::kRoom - (meeting.written - meeting.read) : meeting.written - meeting.read;
    if (!isBegun && there < sizeof bytes)
      return 0;
    if (!isBegun) {
      uint64_t length = bytes;
      pass(reinterpret_cast<std::byte *>(&length), sizeof length);
      if (length != bytes)
        complain("ncclRecv of " + std::to_string(bytes) + " bytes where " + std::to_string(length) + " are sent");
      isBegun = true;
      there -= sizeof length;
    }
    return there;
  }
  void move(std::byte *memory, size_t count) override { pass(memory, count); }

private:
  void pass(std::byte *memory, size_t count) {
    std::atomic<uint64_t> &mine = sends ? meeting.written : meeting.read;
    for (size_t at = 0; at < count;) {
      size_t place = (mine + at) % Meeting::kRoom, part = std::min(count - at, Meeting::kRoom - place);
      if (sends)
        std::memcpy(meeting.room + place, memory + at, part);
      else
        std::memcpy(memory + at, meeting.room + place, part);
      at += part;
    }
    mine += count;
  }
  std::shared_ptr<Shared> with;
  Meeting &meeting;
  const uint64_t bytes;
  const bool sends;
  bool isBegun = false;
};

/// The other's window, as memory of this process.
struct Opened {
  Opened(std::byte *memory, uint64_t bytes) : memory(memory), bytes(bytes) {}
  ~Opened() { ::munmap(memory, bytes); }
  std::byte *memory;
  uint64_t bytes;
};

/// What puts have taken from where it was and not yet brought to where it goes: a network, which keeps their order.
class Wire {
public:
  explicit Wire(std::shared_ptr<Shared> with) : with(std::move(with)), thread([this] { serve(); }) {}
  ~Wire() {
    isStopping = true;
    thread.join();
  }
  struct Parcel {
    std::shared_ptr<Opened> to;
    uint64_t offset;
    std::vector<std::byte> bytes;
  };
  void take(Parcel parcel) {
    std::lock_guard lock(mutex);
    parcels.push_back(std::move(parcel));
  }

private:
  void serve() {
    for (uint64_t brought = 0; !isStopping && with->meeting->isOver == 0;) {
      std::this_thread::sleep_for(std::chrono::microseconds(brought % 5 == 0 ? 3000 : 20));
      std::deque<Parcel> here;
      {
        std::lock_guard lock(mutex);
        here.swap(parcels);
      }
      for (const Parcel &parcel : here) {
        std::memcpy(parcel.to->memory + parcel.offset, parcel.bytes.data(), parcel.bytes.size());
        ++with->meeting->signals;
        ++brought;
      }
    }
  }
  std::shared_ptr<Shared> with;
  std::mutex mutex;
  std::deque<Parcel> parcels;
  std::atomic<bool> isStopping{false};
  std::thread thread;
};

/// Bytes that are taken at once, and come when they come.
class Put : public Transfer {
public:
  Put(std::shared_ptr<Shared> with, std::shared_ptr<Wire> wire, std::shared_ptr<Opened> to, uint64_t offset,
      uint64_t bytes)
      : with(std::move(with)), wire(std::move(wire)), parcel{std::move(to), offset, {}}, left(bytes) {}
  size_t ready() override { return with->meeting->isOver.load() != 0 ? kEnded : left; }
  void move(std::byte *memory, size_t count) override {
    parcel.bytes.insert(parcel.bytes.end(), memory, memory + count);
    left -= count;
    if (left == 0)
      wire->take(std::move(parcel));
  }

private:
  std::shared_ptr<Shared> with;
  std::shared_ptr<Wire> wire;
  Wire::Parcel parcel;
  uint64_t left;
};

/// Waits until so many have arrived in all.
class Signals : public Transfer {
public:
  Signals(std::shared_ptr<Shared> with, uint64_t last) : with(std::move(with)), last(last) {}
  size_t ready() override {
    if (with->meeting->isOver.load() != 0)
      return kEnded;
    return with->meeting->signals.load() >= last ? 1 : 0;
  }
  void move(std::byte *, size_t) override {}

private:
  std::shared_ptr<Shared> with;
  const uint64_t last;
};

} // namespace maestro::cuda::fake
