#include "transport/control/connection.h"

#include "base/host_name.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace maestro::transport {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(50);

/// A numeric address of either family with a port.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
};

Result<SocketAddress> parseAddress(const std::string &address, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0)
    return Status::invalidInput("'" + address + "' is not an address");
  SocketAddress result;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  if (result.storage.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6 &>(result.storage).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in &>(result.storage).sin_port = htons(port);
  return result;
}

std::string textOf(const sockaddr *address) {
  char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
  socklen_t length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  (void)::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

bool isInternet(const sockaddr *address) {
  return address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

struct Interface {
  std::string name, address;
};

std::vector<Interface> interfaces() {
  std::vector<Interface> list;
  ifaddrs *first = nullptr;
  if (::getifaddrs(&first) != 0)
    return list;
  for (ifaddrs *each = first; each; each = each->ifa_next)
    if (isInternet(each->ifa_addr))
      list.push_back({each->ifa_name, textOf(each->ifa_addr)});
  ::freeifaddrs(first);
  return list;
}

std::string where(const std::string &host, uint16_t port) { return host + ":" + std::to_string(port); }

} // namespace

Descriptor::~Descriptor() {
  if (number >= 0)
    ::close(number);
}

Connection::Connection(Descriptor own) : socket(std::move(own)) {
  int one = 1;
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  (void)::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr *>(&address.storage), &address.length) == 0)
    peer = textOf(address.get());
}

Status Connection::receive() {
  std::byte buffer[16384];
  while (true) {
    ssize_t count = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (count > 0)
      frames.add({buffer, static_cast<size_t>(count)});
    else if (count == 0 || errno == ECONNRESET) // The same to whoever is left: what was unread decides which.
      return Status::unavailable("the connection was closed");
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      return Status();
    else if (errno != EINTR)
      return Status::unavailable(std::string("the connection failed: ") + std::strerror(errno));
  }
}

void Connection::send(MessageKind kind, std::span<const std::byte> body) {
  std::vector<std::byte> bytes = frame(kind, body);
  unsent.insert(unsent.end(), bytes.begin(), bytes.end());
  (void)flush(); // A failure shows when something is received.
}

Status Connection::flush() {
  while (hasUnsent()) {
    ssize_t count = ::send(socket.get(), unsent.data() + sent, unsent.size() - sent, MSG_NOSIGNAL);
    if (count >= 0)
      sent += static_cast<size_t>(count);
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      return Status();
    else if (errno != EINTR)
      return Status::unavailable(std::string("the connection failed: ") + std::strerror(errno));
  }
  unsent.clear();
  sent = 0;
  return Status();
}

Result<Frame> Connection::await(size_t most, Deadline deadline) {
  while (true) {
    MAESTRO_TRY(flush());
    MAESTRO_ASSIGN(std::optional<Frame> frame, next(most));
    if (frame)
      return *std::move(frame);
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return Status::unavailable("no answer");
    pollfd wait{socket.get(), static_cast<short>(POLLIN | (hasUnsent() ? POLLOUT : 0)), 0};
    (void)::poll(&wait, 1, static_cast<int>(left.count()));
    if (wait.revents & (POLLIN | POLLHUP | POLLERR))
      if (Status status = receive(); !status.isOk()) {
        MAESTRO_ASSIGN(std::optional<Frame> last, next(most)); // Said before it closed.
        return last ? Result<Frame>(*std::move(last)) : Result<Frame>(std::move(status));
      }
  }
}

std::string Connection::localAddress() const {
  SocketAddress address;
  address.length = sizeof address.storage;
  (void)::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address.storage), &address.length);
  return textOf(address.get());
}

Result<std::vector<std::string>> resolve(const std::string &host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    return Status::invalidInput("host '" + host + "': " + ::gai_strerror(error));
  std::vector<std::string> addresses;
  for (addrinfo *each = found; each; each = each->ai_next)
    if (isInternet(each->ai_addr))
      addresses.push_back(textOf(each->ai_addr));
  ::freeaddrinfo(found);
  return addresses;
}

bool isLoopback(const std::string &address) { return address.rfind("127.", 0) == 0 || address == "::1"; }

bool isOwnAddress(const std::string &address) {
  std::vector<Interface> all = interfaces();
  return isLoopback(address) ||
         std::any_of(all.begin(), all.end(), [&](const Interface &each) { return each.address == address; });
}

std::string outwardAddress() {
  if (auto addresses = resolve(hostName()))
    for (const std::string &address : *addresses)
      if (!isLoopback(address) && isOwnAddress(address))
        return address;
  for (const Interface &each : interfaces())
    if (!isLoopback(each.address) && each.address.find('%') == std::string::npos) // One of the link alone.
      return each.address;
  return "";
}

Result<std::string> addressOfInterface(const std::string &interface) {
  std::string known;
  for (const Interface &each : interfaces()) {
    if (each.name == interface || each.address == interface)
      return each.address;
    known += (known.empty() ? "" : ", ") + each.name + " (" + each.address + ")";
  }
  return Status::invalidInput("MAESTRO_INTERFACE='" + interface + "': there is no such interface; there are " + known);
}

Result<Descriptor> listenAt(const std::string &address, uint16_t port) {
  MAESTRO_ASSIGN(SocketAddress own, parseAddress(address, port));
  Descriptor socket(::socket(own.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int one = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(socket.get(), own.get(), own.length) != 0 || ::listen(socket.get(), 1024) != 0)
    return Status::unavailable("process 0 cannot listen at " + where(address, port) + ": " + std::strerror(errno) +
                               (errno == EADDRINUSE ? "; is another job there? Choose another MASTER_PORT" : ""));
  return socket;
}

Result<Connection> connectTo(const std::string &host, uint16_t port, Deadline deadline,
                             const std::function<bool()> &isStopped) {
  std::string why = "no address";
  for (bool isFirst = true;; isFirst = false) {
    if (isStopped())
      return Status::interrupted("interrupted before process 0 was reached at " + where(host, port));
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (!isFirst && left.count() <= 0)
      return Status::unavailable("process 0 is not reached at " + where(host, port) + ": " + why);
    auto addresses = resolve(host); // A name may appear late, too.
    if (!addresses)
      why = addresses.status().message();
    for (const std::string &address : addresses ? *addresses : std::vector<std::string>()) {
      MAESTRO_ASSIGN(SocketAddress there, parseAddress(address, port));
      Descriptor socket(::socket(there.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      int error = ::connect(socket.get(), there.get(), there.length) == 0 ? 0 : errno;
      if (error == EINPROGRESS) {
        pollfd wait{socket.get(), POLLOUT, 0};
        socklen_t length = sizeof error;
        error = ::poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 1, 2000))) == 1 ? 0 : ETIMEDOUT;
        if (error == 0)
          (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
      if (error == 0)
        return Connection(std::move(socket));
      why = std::strerror(error);
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

} // namespace maestro::transport
