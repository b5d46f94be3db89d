// Messages between processes of one machine that can carry a descriptor: how one opens what has no name in the file
// system, such as memory of a GPU.
//
// A post box is a datagram socket with a name that nobody guesses, which others learn on a way that they trust: memory
// that was shared before a fork, or a control connection. Messages of other users are dropped.
#pragma once

#include "base/status.h"
#include "transport/abort.h"
#include "transport/own_descriptor.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport {

/// Threads: one.
class PostBox {
public:
  static constexpr size_t kMaxBytes = 1024; ///< Of a message.
  struct Letter {
    std::vector<std::byte> bytes;
    OwnDescriptor descriptor;
  };

  static Result<std::unique_ptr<PostBox>> open();
  ~PostBox();
  PostBox(const PostBox &) = delete;

  /// By which others write here.
  const std::string &name() const { return ownName; }
  /// The descriptor, −1: none, stays the caller's and open until flush() has returned.
  void send(const std::string &to, std::span<const std::byte> bytes, int descriptor = -1);
  /// Returns when everything has left.
  Status flush(const Abort &abort);
  /// The next letter; what is to be sent leaves meanwhile. The cause where the job ends.
  Result<Letter> receive(const Abort &abort);

private:
  struct Outgoing {
    std::string to;
    std::vector<std::byte> bytes;
    int descriptor;
  };
  PostBox(int socket, std::string name) : socket(socket), ownName(std::move(name)) {}
  Status sendAll();
  Result<bool> receiveOne(Letter &letter);
  Status pause(const Abort &abort) const;

  int socket;
  std::string ownName;
  std::deque<Outgoing> waiting;
};

} // namespace maestro::transport
