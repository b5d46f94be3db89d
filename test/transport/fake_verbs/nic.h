// The fake RDMA port's hardware: what verbs.cpp's objects hold, and the thread that moves things.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

namespace maestro::fake_verbs {

/// Ends the process: somebody wrote where no key allows it.
[[noreturn]] void complain(const char *text);

struct Region : ibv_mr {
  std::byte *memory = nullptr; ///< As this process reaches it.
  size_t bytes = 0;
  uint64_t address = 0; ///< As keys' users name it.
  bool isWritable = false, isMapped = false;
};

/// Threads: any.
class Completions : public ibv_cq {
public:
  explicit Completions(int notices) : ibv_cq(), notices(notices) {}
  void add(const ibv_wc &end);
  int take(int most, ibv_wc *ends);
  void arm();

private:
  const int notices;
  std::mutex mutex;
  std::deque<ibv_wc> ends;
  bool isArmed = false;
};

/// Threads: any.
class Receives : public ibv_srq {
public:
  Receives() : ibv_srq() {}
  void add(uint64_t id);
  /// False: none is there.
  bool take(uint64_t &id);

private:
  std::mutex mutex;
  std::deque<uint64_t> ids;
};

class Pair : public ibv_qp {
public:
  Pair(Completions &completions, Receives &receives);
  ~Pair();
  /// To the pair of that number; 0, or an error.
  int connect(uint32_t number);
  void push(const ibv_send_wr &work);
  void breakOff();

private:
  friend class Nic;
  struct Header {
    uint64_t address = 0;
    uint32_t key = 0, bytes = 0, count = 0;
    uint32_t hasCount = 0;
  };
  struct Work {
    Header header;
    uint64_t id = 0, from = 0;
    uint32_t sourceKey = 0;
    bool isSignaled = false, isInline = false;
    std::vector<std::byte> inlined;
  };
  // By the NIC's thread, with its lock.
  bool send();
  bool receive();
  bool deliver();
  void end(const Work &work, ibv_wc_status status);

  Completions &completions;
  Receives &receives;
  int listening = -1, in = -1, out = -1;
  bool isBroken = false;
  std::deque<Work> works;
  std::vector<std::byte> leaving, arriving; ///< Of the first work; of a message that is not whole yet.
  size_t left = 0;
};

class Nic {
public:
  static Nic &get();
  void wake();
  void add(Pair &pair);
  void remove(Pair &pair);
  Region *add(Region &&region);
  void remove(Region *region);
  /// With the lock; null where no such key has all of the bytes.
  const Region *find(uint32_t key, uint64_t address, uint64_t bytes) const;
  /// With the lock: there was such a key.
  bool isForgotten(uint32_t key) const { return forgotten.contains(key); }
  std::mutex &lock() { return mutex; }
  // As hardware does, whether or not this process's threads may.
  void read(std::byte *to, const std::byte *from, size_t bytes) const;
  void write(std::byte *to, const std::byte *from, size_t bytes) const;

  /// Of the thread.
  std::span<std::byte> buffer() { return room; }

private:
  Nic();
  void serve();

  std::mutex mutex;
  int waking = -1;
  int memory = -1; ///< This process's, as a file.
  std::vector<Pair *> pairs;
  std::map<uint32_t, std::unique_ptr<Region>> regions; ///< By key.
  std::set<uint32_t> forgotten;
  uint32_t lastKey = 0;
  std::vector<std::byte> room = std::vector<std::byte>(1 << 18);
};

} // namespace maestro::fake_verbs
