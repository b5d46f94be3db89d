// A TCP connection that carries frames, without blocking.
#pragma once

#include "base/status.h"
#include "transport/control/messages.h"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport {

/// An open descriptor, closed at the end.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor();
  int get() const { return number; }

private:
  int number;
};

using Deadline = std::chrono::steady_clock::time_point;

class Connection {
public:
  explicit Connection(Descriptor socket);

  /// Takes what has come. Unavailable where the other side has closed or the connection failed.
  Status receive();
  /// The next whole frame that has come. InvalidInput where one is longer than `most` or empty.
  Result<std::optional<Frame>> next(size_t most) { return frames.next(most); }
  /// What the socket does not take now goes with the next flush().
  void send(MessageKind kind, std::span<const std::byte> body);
  Status flush();
  bool hasUnsent() const { return sent < unsent.size(); }

  /// The next frame, waiting for it; for greetings.
  Result<Frame> await(size_t most, Deadline deadline);

  int descriptor() const { return socket.get(); }
  /// The socket alone, without what was received and not taken.
  Descriptor release() { return std::move(socket); }
  std::string localAddress() const;
  const std::string &peerAddress() const { return peer; }

private:
  Descriptor socket;
  std::string peer;
  FrameReader frames;
  std::vector<std::byte> unsent;
  size_t sent = 0; ///< Of it.
};

/// Numeric addresses of a host: InvalidInput where it has none.
Result<std::vector<std::string>> resolve(const std::string &host);
bool isLoopback(const std::string &address);
/// Whether this machine has the address.
bool isOwnAddress(const std::string &address);
/// By which other machines reach this one, as far as it can tell: the host name's, else the first that is not loopback;
/// empty where there is none.
std::string outwardAddress();
/// The address of a network interface, or the address itself where that is one. InvalidInput, with those that there
/// are, where there is no such interface.
Result<std::string> addressOfInterface(const std::string &interface);

Result<Descriptor> listenAt(const std::string &address, uint16_t port);
/// Tries again, until the deadline, while nobody listens there. Interrupted once `isStopped`.
Result<Connection> connectTo(const std::string &host, uint16_t port, Deadline deadline,
                             const std::function<bool()> &isStopped);

} // namespace maestro::transport
