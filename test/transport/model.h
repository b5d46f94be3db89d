// Every interleaving of a small ring: the transitions of transport/protocol.h on plain integers, one shared access per
// step, explored until no new state is left.
//
// Agents: P producers (await credit, write the payload, post), the consumer's host (awaits arrivals), the consumer's
// device (releases any delivered sequence, in any order), and if wanted one that aborts the job at any moment.
#pragma once

#include "transport/protocol.h"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace maestro::transport::model {

struct Correct {
  using Await = protocol::Await;
  using Signal = protocol::Signal;
  using Arrivals = protocol::Arrivals;
  using Releases = protocol::Releases;
  static constexpr uint64_t creditFor(uint64_t sequence, uint64_t slots) {
    return protocol::creditFor(sequence, slots);
  }
  static constexpr bool kWakesAll = true, kWritesFirst = true;
};

struct Setup {
  using Order = std::vector<uint32_t>;
  Setup(uint32_t producers, uint32_t slots, uint32_t sequences, std::vector<Order> writeOrders = {},
        Order awaitOrder = {}, uint32_t silent = 0, bool aborts = false)
      : producers(producers), slots(slots), sequences(sequences), writeOrders(std::move(writeOrders)),
        awaitOrder(std::move(awaitOrder)), silent(silent), aborts(aborts) {}

  uint32_t producers, slots, sequences;
  std::vector<Order> writeOrders; ///< By producer; empty: in order.
  Order awaitOrder;               ///< Empty: in order.
  uint32_t silent;                ///< A bit for each sequence to which nobody posts.
  bool aborts;
};

struct Outcome {
  uint64_t states = 0, ends = 0;
  std::string fault;          ///< Empty: none.
  std::vector<uint8_t> trace; ///< The agents' steps up to the fault.
};

inline constexpr uint32_t kMaxProducers = 3, kMaxSlots = 4;

template <class Protocol> class Checker {
public:
  explicit Checker(Setup setup) : setup(std::move(setup)) {
    for (uint32_t p = this->setup.writeOrders.size(); p < this->setup.producers; ++p)
      this->setup.writeOrders.push_back(inOrder());
    if (this->setup.awaitOrder.empty())
      this->setup.awaitOrder = inOrder();
  }

  /// Depth first over all states; stops at the first fault.
  Outcome explore() {
    std::vector<Frame> stack;
    push(stack, State(setup), 0);
    while (!stack.empty() && outcome.fault.empty()) {
      Frame &top = stack.back();
      if (top.next == top.moves.size()) {
        stack.pop_back();
        continue;
      }
      Move move = top.moves[top.next++];
      State state = top.state;
      fault.clear();
      step(state, move);
      push(stack, state, move.agent);
      if (!fault.empty())
        outcome.fault = fault;
    }
    for (const Frame &frame : stack)
      outcome.trace.push_back(frame.by);
    return outcome;
  }

private:
  struct WaitWords {
    uint8_t waiters = 0, sleepers = 0; ///< Sleepers: a bit per agent.
    uint32_t epoch = 0;
  };
  struct Producer {
    enum class At : uint8_t { Credit, Write, Post, Done } at = At::Credit;
    uint8_t index = 0;
    typename Protocol::Await await;
    typename Protocol::Signal post{1};
  };
  struct Host {
    uint8_t index = 0;
    typename Protocol::Await await;
    std::optional<uint64_t> wanted; ///< Of the sequence's slot.
  };
  struct DeviceQueue {
    int8_t sequence = -1; ///< Being released,
    uint8_t more = 0;     ///< which gives so much more credit,
    uint8_t producer = 0; ///< of which this one is told.
    typename Protocol::Signal told{1};
  };
  struct State {
    explicit State(const Setup &setup) : expected(setup.slots), releases(setup.slots) {}
    uint8_t credit[kMaxProducers] = {}, arrivals[kMaxSlots] = {};
    typename Protocol::Arrivals expected; ///< The consumer's own,
    typename Protocol::Releases releases; ///< both.
    WaitWords creditWait, arrivalWait;
    bool raised = false;
    uint8_t abortStep = 0;
    // What the protocol does not know: who wrote a slot last, and what was handed to the consumer and given back.
    uint8_t written[kMaxSlots][kMaxProducers] = {}; ///< 1 + sequence.
    uint16_t delivered = 0, givenBack = 0;
    Producer producers[kMaxProducers];
    Host host;
    DeviceQueue device;
  };
  struct Move {
    uint8_t agent;
    int8_t choice = -1; ///< Which sequence the device releases.
  };
  struct Frame {
    State state;
    std::vector<Move> moves;
    size_t next = 0;
    uint8_t by;
  };

  /// What the protocol's machines see: the words of one state, as one agent.
  struct WaitView {
    WaitWords &words;
    uint32_t agent;
    uint32_t waiters() const { return words.waiters; }
    void addWaiter() { ++words.waiters; }
    void removeWaiter() { --words.waiters; }
    uint32_t epoch() const { return words.epoch; }
    void bumpEpoch() { ++words.epoch; }
    void wake() { words.sleepers = Protocol::kWakesAll ? 0 : words.sleepers & (words.sleepers - 1); }
    void sleep(uint32_t seen) {
      if (words.epoch == seen)
        words.sleepers |= 1u << agent;
    }
  };
  /// A word, and whether the job was aborted.
  struct WordView {
    uint8_t &value;
    uint64_t count() const { return value; }
    void add(uint64_t more) { value = static_cast<uint8_t>(value + more); }
  };
  struct Flag {
    const State &state;
    bool isRaised() const { return state.raised; }
  };

  uint32_t hostAgent() const { return setup.producers; }
  uint32_t deviceAgent() const { return setup.producers + 1; }
  uint32_t abortAgent() const { return setup.producers + 2; }
  bool isSilent(uint32_t sequence) const { return setup.silent >> sequence & 1; }
  std::vector<uint32_t> inOrder() const {
    std::vector<uint32_t> order;
    for (uint32_t k = 0; k < setup.sequences; ++k)
      order.push_back(k);
    return order;
  }

  void push(std::vector<Frame> &stack, const State &state, uint8_t by) {
    if (!seen.insert(key(state)).second && fault.empty())
      return;
    ++outcome.states;
    std::vector<Move> moves = movesOf(state);
    if (moves.empty())
      finish(state);
    stack.push_back({state, std::move(moves), 0, by});
  }

  std::vector<Move> movesOf(const State &state) const {
    std::vector<Move> moves;
    uint32_t asleep = state.creditWait.sleepers | state.arrivalWait.sleepers;
    for (uint8_t p = 0; p < setup.producers; ++p)
      if (state.producers[p].at != Producer::At::Done && !(asleep >> p & 1))
        moves.push_back({p});
    if (state.host.index < setup.sequences && !(asleep >> hostAgent() & 1))
      moves.push_back({static_cast<uint8_t>(hostAgent())});
    auto device = static_cast<uint8_t>(deviceAgent());
    if (state.device.sequence >= 0)
      moves.push_back({device});
    else
      for (uint32_t k = 0; k < setup.sequences; ++k) // Those whose slot is theirs.
        if (((state.delivered & ~state.givenBack) >> k & 1) &&
            (k < setup.slots || state.givenBack >> (k - setup.slots) & 1))
          moves.push_back({device, static_cast<int8_t>(k)});
    if (setup.aborts && state.abortStep < 5)
      moves.push_back({static_cast<uint8_t>(abortAgent())});
    return moves;
  }

  void step(State &state, Move move) {
    if (move.agent < setup.producers)
      stepProducer(state, move.agent);
    else if (move.agent == hostAgent())
      stepHost(state);
    else if (move.agent == deviceAgent())
      stepDevice(state, move.choice);
    else
      stepAbort(state);
  }

  void stepProducer(State &state, uint32_t p) {
    Producer &producer = state.producers[p];
    uint32_t sequence = setup.writeOrders[p][producer.index], slot = sequence % setup.slots;
    if (producer.at == Producer::At::Credit) {
      WaitView wait{state.creditWait, p};
      WordView word{state.credit[p]};
      protocol::CountCondition condition{Protocol::creditFor(sequence, setup.slots)};
      producer.await.step(wait, word, condition, Flag{state});
      if (!producer.await.done())
        return;
      producer.await = {};
      if (state.raised) // Every await ends with the cause; the rank stops.
        producer.at = Producer::At::Done;
      else if (isSilent(sequence))
        next(producer);
      else
        producer.at = Protocol::kWritesFirst ? Producer::At::Write : Producer::At::Post;
    } else if (producer.at == Producer::At::Write) {
      write(state, p, sequence);
      Protocol::kWritesFirst ? void(producer.at = Producer::At::Post) : next(producer);
    } else {
      WaitView wait{state.arrivalWait, p};
      WordView word{state.arrivals[slot]};
      producer.post.step(word, wait);
      if (producer.post.done())
        Protocol::kWritesFirst ? next(producer) : void(producer.at = Producer::At::Write);
    }
  }

  void next(Producer &producer) {
    uint8_t index = producer.index + 1;
    producer = {};
    producer.index = index;
    producer.at = index == setup.sequences ? Producer::At::Done : Producer::At::Credit;
  }

  void write(State &state, uint32_t p, uint32_t sequence) {
    uint32_t slot = sequence % setup.slots;
    if (sequence >= setup.slots && !(state.givenBack >> (sequence - setup.slots) & 1))
      fault = "producer " + std::to_string(p) + " overwrites sequence " + std::to_string(sequence - setup.slots) +
              " with " + std::to_string(sequence) + " while the slot is in use";
    state.written[slot][p] = static_cast<uint8_t>(sequence + 1);
  }

  void stepHost(State &state) {
    uint32_t sequence = setup.awaitOrder[state.host.index];
    if (!state.host.wanted) { // Its own: nobody sees it.
      state.host.wanted = state.expected.expect(sequence, isSilent(sequence) ? 0 : setup.producers);
      if (!state.host.wanted) {
        fault = "sequence " + std::to_string(sequence) + " is awaited out of turn";
        return;
      }
    }
    WaitView wait{state.arrivalWait, hostAgent()};
    WordView word{state.arrivals[sequence % setup.slots]};
    protocol::CountCondition condition{*state.host.wanted};
    state.host.await.step(wait, word, condition, Flag{state});
    if (!state.host.await.done())
      return;
    uint8_t index = state.raised ? static_cast<uint8_t>(setup.sequences) : state.host.index + 1;
    if (!state.raised)
      deliver(state, sequence);
    state.host = {};
    state.host.index = index;
  }

  void deliver(State &state, uint32_t sequence) {
    uint32_t slot = sequence % setup.slots;
    if (state.delivered >> sequence & 1)
      fault = "sequence " + std::to_string(sequence) + " is delivered twice";
    // Without posts it has nothing in the slot.
    if (!isSilent(sequence) && sequence >= setup.slots && !(state.givenBack >> (sequence - setup.slots) & 1))
      fault = "sequence " + std::to_string(sequence) + " is delivered while its slot is in use";
    for (uint32_t p = 0; p < setup.producers && !isSilent(sequence); ++p)
      if (state.written[slot][p] != sequence + 1)
        fault = "sequence " + std::to_string(sequence) + " is delivered without the payload of producer " +
                std::to_string(p);
    state.delivered |= 1u << sequence;
  }

  void stepDevice(State &state, int8_t choice) {
    DeviceQueue &device = state.device;
    if (device.sequence < 0) { // Has read the slot and begins to give it back.
      device.sequence = choice;
      state.givenBack |= 1u << choice;
      std::optional<uint64_t> more = state.releases.release(static_cast<uint64_t>(choice));
      if (!more)
        fault = "sequence " + std::to_string(choice) + " cannot be released";
      device.more = static_cast<uint8_t>(more.value_or(0));
      device.told = typename Protocol::Signal{device.more};
    } else {
      WaitView wait{state.creditWait, deviceAgent()};
      WordView word{state.credit[device.producer]};
      device.told.step(word, wait);
      if (!device.told.done())
        return;
      ++device.producer;
      device.told = typename Protocol::Signal{device.more};
    }
    if (device.more == 0 || device.producer == setup.producers)
      device = {};
  }

  void stepAbort(State &state) {
    WaitView credit{state.creditWait, abortAgent()}, arrival{state.arrivalWait, abortAgent()};
    switch (state.abortStep++) {
    case 0:
      state.raised = true;
      return;
    case 1:
      return credit.bumpEpoch();
    case 2:
      return credit.wake();
    case 3:
      return arrival.bumpEpoch();
    default:
      return arrival.wake();
    }
  }

  /// Nobody can move: all must have ended, as they should.
  void finish(const State &state) {
    ++outcome.ends;
    bool ended = state.host.index == setup.sequences;
    for (uint32_t p = 0; p < setup.producers; ++p)
      ended &= state.producers[p].at == Producer::At::Done;
    uint16_t all = static_cast<uint16_t>((1u << setup.sequences) - 1);
    if (!ended)
      fault = "deadlock: credit of " + std::to_string(state.credit[0]) + ", sleepers " +
              std::to_string(state.creditWait.sleepers | state.arrivalWait.sleepers);
    else if (state.creditWait.waiters || state.arrivalWait.waiters)
      fault = "a waiter never left";
    else if (!state.raised && (state.delivered != all || state.givenBack != all || state.credit[0] != setup.sequences))
      fault = "ended with a credit of " + std::to_string(state.credit[0]) + " of " + std::to_string(setup.sequences);
  }

  /// The state as bytes; words that no longer matter are left out. An epoch matters only as "still what I have read".
  std::string key(const State &state) const {
    std::string bytes;
    auto put = [&](auto value) { bytes.push_back(static_cast<char>(value)); };
    auto putAwait = [&](const auto &await, const WaitWords &words) {
      using At = typename Protocol::Await::At;
      put(await.at);
      bool remembers = await.at == At::Recheck || await.at == At::RecheckAbort || await.at == At::Sleep;
      put(remembers && await.epoch == words.epoch);
    };
    put(state.raised), put(state.abortStep);
    put(state.delivered), put(state.delivered >> 8), put(state.givenBack), put(state.givenBack >> 8);
    put(state.creditWait.waiters), put(state.creditWait.sleepers), put(state.arrivalWait.waiters),
        put(state.arrivalWait.sleepers);
    for (uint32_t slot = 0; slot < setup.slots; ++slot) {
      put(state.arrivals[slot]);
      for (uint32_t p = 0; p < setup.producers; ++p)
        put(state.written[slot][p]);
    }
    for (uint32_t p = 0; p < setup.producers; ++p) {
      const Producer &producer = state.producers[p];
      put(state.credit[p]), put(producer.at), put(producer.index), put(producer.post.at), put(producer.post.notify.at);
      putAwait(producer.await, state.creditWait);
    }
    put(state.host.index), put(state.host.wanted.has_value());
    putAwait(state.host.await, state.arrivalWait);
    const DeviceQueue &device = state.device;
    put(device.sequence), put(device.more), put(device.producer), put(device.told.at), put(device.told.notify.at);
    return bytes;
  }

  Setup setup;
  Outcome outcome;
  std::string fault;
  std::unordered_set<std::string> seen;
};

} // namespace maestro::transport::model
