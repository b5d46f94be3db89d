#include "planner/search/divisible_work.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace maestro::planner {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

class Division {
public:
  Division(const std::vector<DivisibleWork> &work, uint32_t devices, double seconds) : work(work), least(seconds * 1e-9), room(devices, seconds), at(devices) {
    for (uint32_t w = 0; w < work.size(); ++w) {
      given.emplace_back(work[w].devices.size(), 0.0);
      left.push_back(work[w].seconds);
      for (uint32_t k = 0; k < work[w].devices.size(); ++k) {
        uint32_t device = work[w].devices[k];
        at[device].push_back({w, k});
        give(w, k, std::min(work[w].seconds / static_cast<double>(work[w].devices.size()), room[device]));
        room[device] -= given[w][k];
        left[w] -= given[w][k];
      }
    }
  }

  bool run() {
    for (uint32_t w = 0; w < work.size(); ++w)
      while (left[w] > least)
        if (!augment(w))
          return false;
    return true;
  }

private:
  struct Piece {
    uint32_t work = kNone, index = 0; ///< DivisibleWork.devices
  };

  void give(uint32_t w, uint32_t k, double seconds) { given[w][k] += seconds; }

  /// The way from some work to the nearest device with room: from work to devices where it may be, from there to what it can displace.
  bool augment(uint32_t from) {
    std::vector<Piece> reachedBy(room.size()), displaces(work.size());
    std::vector<uint32_t> queue{from};
    std::vector<uint8_t> seen(work.size(), 0);
    seen[from] = 1;
    for (size_t next = 0; next < queue.size(); ++next)
      for (uint32_t w = queue[next], k = 0; k < work[w].devices.size(); ++k) {
        uint32_t device = work[w].devices[k];
        if (reachedBy[device].work != kNone)
          continue;
        reachedBy[device] = {w, k};
        if (room[device] > least)
          return move(from, device, reachedBy, displaces);
        for (Piece piece : at[device])
          if (!seen[piece.work] && given[piece.work][piece.index] > least) {
            seen[piece.work] = 1;
            displaces[piece.work] = piece;
            queue.push_back(piece.work);
          }
      }
    return false;
  }

  bool move(uint32_t from, uint32_t to, const std::vector<Piece> &reachedBy, const std::vector<Piece> &displaces) {
    auto forEachStep = [&](auto visit) { // What comes to a device, and what it came from there; null at the beginning.
      for (uint32_t device = to;;) {
        Piece comes = reachedBy[device];
        if (comes.work == from)
          return visit(comes, static_cast<const Piece *>(nullptr));
        visit(comes, &displaces[comes.work]);
        device = work[comes.work].devices[displaces[comes.work].index];
      }
    };
    double amount = std::min(left[from], room[to]);
    forEachStep([&](Piece, const Piece *goes) { amount = goes ? std::min(amount, given[goes->work][goes->index]) : amount; });
    forEachStep([&](Piece comes, const Piece *goes) {
      give(comes.work, comes.index, amount);
      if (goes)
        give(goes->work, goes->index, -amount);
    });
    room[to] -= amount;
    left[from] -= amount;
    return true;
  }

  const std::vector<DivisibleWork> &work;
  double least;
  std::vector<double> room;
  std::vector<std::vector<Piece>> at; ///< By device: what may be there.
  std::vector<std::vector<double>> given;
  std::vector<double> left;
};

} // namespace

bool canBeDivided(const std::vector<DivisibleWork> &work, uint32_t devices, double seconds) { return Division(work, devices, seconds).run(); }

} // namespace maestro::planner
