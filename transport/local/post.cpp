#include "transport/local/post.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace maestro::transport {
namespace {

constexpr int kLookMs = 10; ///< Between looks at the job's end.

Status failed(const char *what) {
  return Status::unavailable(std::string("post between processes: ") + what + ": " + std::strerror(errno));
}

/// In the abstract namespace: it goes with the socket.
std::pair<sockaddr_un, socklen_t> addressOf(const std::string &name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes)};
}

Result<std::string> newName() {
  unsigned char key[16];
  if (::getrandom(key, sizeof key, 0) != sizeof key)
    return failed("getrandom");
  std::string name = "maestro-";
  for (unsigned char byte : key) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  return name;
}

/// Room for one descriptor, and for who has sent.
struct alignas(cmsghdr) Control {
  std::array<char, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))> bytes{};
};

} // namespace

Result<std::unique_ptr<PostBox>> PostBox::open() {
  MAESTRO_ASSIGN(std::string name, newName());
  int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0)
    return failed("socket");
  std::unique_ptr<PostBox> box(new PostBox(socket, name));
  int on = 1;
  auto [address, bytes] = addressOf(name);
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      ::bind(socket, reinterpret_cast<const sockaddr *>(&address), bytes) != 0)
    return failed("bind");
  return box;
}

PostBox::~PostBox() { ::close(socket); }

void PostBox::send(const std::string &to, std::span<const std::byte> bytes, int descriptor) {
  waiting.push_back({to, {bytes.begin(), bytes.end()}, descriptor});
}

/// As far as there is room.
Status PostBox::sendAll() {
  while (!waiting.empty()) {
    Outgoing &next = waiting.front();
    auto [address, addressBytes] = addressOf(next.to);
    iovec part{next.bytes.data(), next.bytes.size()};
    Control control;
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = addressBytes;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (next.descriptor >= 0) {
      message.msg_control = control.bytes.data();
      message.msg_controllen = CMSG_SPACE(sizeof(int));
      cmsghdr *header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &next.descriptor, sizeof(int));
    }
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
        return Status();
      return failed("a process of this machine cannot be written to");
    }
    waiting.pop_front();
  }
  return Status();
}

Status PostBox::flush(const Abort &abort) {
  while (true) {
    MAESTRO_TRY(sendAll());
    if (waiting.empty())
      return Status();
    MAESTRO_TRY(pause(abort));
  }
}

Result<PostBox::Letter> PostBox::receive(const Abort &abort) {
  Letter letter;
  while (true) {
    MAESTRO_TRY(sendAll());
    MAESTRO_ASSIGN(bool found, receiveOne(letter));
    if (found)
      return letter;
    MAESTRO_TRY(pause(abort));
  }
}

Status PostBox::pause(const Abort &abort) const {
  pollfd look{socket, POLLIN, 0};
  (void)::poll(&look, 1, waiting.empty() ? kLookMs : 1);
  return abort.status();
}

/// False: there is none.
Result<bool> PostBox::receiveOne(Letter &letter) {
  letter.bytes.resize(kMaxBytes);
  iovec part{letter.bytes.data(), letter.bytes.size()};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t bytes = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0)
    return errno == EAGAIN || errno == EINTR ? Result<bool>(false) : Result<bool>(failed("recvmsg"));
  letter.bytes.resize(static_cast<size_t>(bytes));
  letter.descriptor = OwnDescriptor();
  bool isOurs = false;
  for (cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET)
      continue;
    if (header->cmsg_type == SCM_RIGHTS) {
      for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) { // The last is kept.
        int number;
        std::memcpy(&number, CMSG_DATA(header) + at, sizeof number);
        letter.descriptor = OwnDescriptor(number);
      }
    } else if (header->cmsg_type == SCM_CREDENTIALS) {
      ucred sender;
      std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
      isOurs = sender.uid == ::geteuid();
    }
  }
  return isOurs;
}

} // namespace maestro::transport
