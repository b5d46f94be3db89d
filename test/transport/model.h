// Every interleaving of a small ring: the transitions of transport/protocol.h on plain integers, one shared access per
// step, explored until no new state is left.
//
// Agents: P producers (await credit, write the payload, post), the consumer's host (awaits arrivals), the consumer's
// device (releases any delivered sequence, in any order), and if wanted one that aborts the job at any moment.
#pragma once

#include "transport/protocol.h"

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace maestro::transport::model {

struct Correct {
  using Await = protocol::Await;
  using CreditCondition = protocol::CreditCondition;
  using ArrivalCondition = protocol::ArrivalCondition;
  using Post = protocol::Post;
  using Release = protocol::Release;
  static constexpr bool kWakesAll = true;
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
    typename Protocol::CreditCondition credit;
    typename Protocol::Post post;
  };
  struct Host {
    uint8_t index = 0;
    typename Protocol::Await await;
    typename Protocol::ArrivalCondition arrival;
  };
  struct DeviceQueue {
    int8_t sequence = -1; ///< Being released.
    typename Protocol::Release release;
  };
  struct State {
    explicit State(const Setup &setup) {
      for (uint32_t slot = 0; slot < setup.slots; ++slot)
        occupant[slot] = static_cast<uint8_t>(slot);
    }
    uint8_t released = 0, occupant[kMaxSlots] = {}, arrivals[kMaxSlots] = {};
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
  struct View {
    State &state;
    const Setup &setup;
    uint32_t agent;
    WaitView credit{state.creditWait, agent}, arrival{state.arrivalWait, agent};

    uint64_t slots() const { return setup.slots; }
    uint64_t released() const { return state.released; }
    void setReleased(uint64_t count) { state.released = static_cast<uint8_t>(count); }
    uint64_t occupant(uint64_t slot) const { return state.occupant[slot]; }
    void setOccupant(uint64_t slot, uint64_t sequence) { state.occupant[slot] = static_cast<uint8_t>(sequence); }
    uint32_t arrivals(uint64_t slot) const { return state.arrivals[slot]; }
    void addArrival(uint64_t slot) { ++state.arrivals[slot]; }
    void clearArrivals(uint64_t slot) { state.arrivals[slot] = 0; }
    WaitView &creditWait() { return credit; }
    WaitView &arrivalWait() { return arrival; }
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
      for (uint32_t k = 0; k < setup.sequences; ++k)
        if ((state.delivered & ~state.givenBack) >> k & 1)
          moves.push_back({device, static_cast<int8_t>(k)});
    if (setup.aborts && state.abortStep < 5)
      moves.push_back({static_cast<uint8_t>(abortAgent())});
    return moves;
  }

  void step(State &state, Move move) {
    View view{state, setup, move.agent};
    if (move.agent < setup.producers)
      stepProducer(state, view, move.agent);
    else if (move.agent == hostAgent())
      stepHost(state, view);
    else if (move.agent == deviceAgent())
      stepDevice(state, view, move.choice);
    else
      stepAbort(state, view);
  }

  void stepProducer(State &state, View &view, uint32_t p) {
    Producer &producer = state.producers[p];
    uint32_t sequence = setup.writeOrders[p][producer.index];
    if (producer.at == Producer::At::Credit) {
      producer.credit.sequence = sequence;
      producer.await.step(view.creditWait(), view, producer.credit, view);
      if (!producer.await.done())
        return;
      producer.await = {};
      if (state.raised) // Every await ends with the cause; the rank stops.
        producer.at = Producer::At::Done;
      else if (isSilent(sequence))
        next(producer);
      else
        producer.at = Producer::At::Write;
    } else if (producer.at == Producer::At::Write) {
      write(state, p, sequence);
      producer.at = Producer::At::Post;
    } else {
      producer.post.step(view, sequence);
      if (producer.post.done())
        next(producer);
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

  void stepHost(State &state, View &view) {
    uint32_t sequence = setup.awaitOrder[state.host.index];
    state.host.arrival.sequence = sequence;
    state.host.arrival.expected = isSilent(sequence) ? 0 : setup.producers;
    state.host.await.step(view.arrivalWait(), view, state.host.arrival, view);
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
    if (sequence >= setup.slots && !(state.givenBack >> (sequence - setup.slots) & 1))
      fault = "sequence " + std::to_string(sequence) + " is delivered while its slot is in use";
    for (uint32_t p = 0; p < setup.producers && !isSilent(sequence); ++p)
      if (state.written[slot][p] != sequence + 1)
        fault = "sequence " + std::to_string(sequence) + " is delivered without the payload of producer " +
                std::to_string(p);
    state.delivered |= 1u << sequence;
  }

  void stepDevice(State &state, View &view, int8_t choice) {
    if (state.device.sequence < 0) { // Has read the slot and begins to give it back.
      state.device.sequence = choice;
      state.givenBack |= 1u << choice;
      return;
    }
    state.device.release.step(view, static_cast<uint64_t>(state.device.sequence));
    if (state.device.release.done())
      state.device = {};
  }

  void stepAbort(State &state, View &view) {
    switch (state.abortStep++) {
    case 0:
      state.raised = true;
      return;
    case 1:
      return view.creditWait().bumpEpoch();
    case 2:
      return view.creditWait().wake();
    case 3:
      return view.arrivalWait().bumpEpoch();
    default:
      return view.arrivalWait().wake();
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
      fault = "deadlock: " + std::to_string(state.released) + " released, sleepers " +
              std::to_string(state.creditWait.sleepers | state.arrivalWait.sleepers);
    else if (state.creditWait.waiters || state.arrivalWait.waiters)
      fault = "a waiter never left";
    else if (!state.raised && (state.delivered != all || state.givenBack != all || state.released != setup.sequences))
      fault = "ended with " + std::to_string(state.released) + " released of " + std::to_string(setup.sequences);
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
    put(state.released), put(state.raised), put(state.abortStep);
    put(state.delivered), put(state.delivered >> 8), put(state.givenBack), put(state.givenBack >> 8);
    put(state.creditWait.waiters), put(state.creditWait.sleepers), put(state.arrivalWait.waiters),
        put(state.arrivalWait.sleepers);
    for (uint32_t slot = 0; slot < setup.slots; ++slot) {
      put(state.occupant[slot]), put(state.arrivals[slot]);
      for (uint32_t p = 0; p < setup.producers; ++p)
        put(state.written[slot][p]);
    }
    for (uint32_t p = 0; p < setup.producers; ++p) {
      const Producer &producer = state.producers[p];
      put(producer.at), put(producer.index), put(producer.post.at), put(producer.post.notify.at);
      putAwait(producer.await, state.creditWait);
    }
    put(state.host.index), put(state.host.arrival.hasSlot);
    putAwait(state.host.await, state.arrivalWait);
    const auto &release = state.device.release;
    put(state.device.sequence), put(release.at), put(release.released), put(release.before), put(release.notify.at);
    return bytes;
  }

  Setup setup;
  Outcome outcome;
  std::string fault;
  std::unordered_set<std::string> seen;
};

} // namespace maestro::transport::model
