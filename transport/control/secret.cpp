#include "transport/control/secret.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace maestro::transport {
namespace {

constexpr size_t kLeastBytes = 16, kMostBytes = 4096;
constexpr const char *kFileVariable = "MAESTRO_JOB_SECRET_FILE";
constexpr const char *kVariable = "MAESTRO_JOB_SECRET";

Result<std::string> readSecret(const std::string &path) {
  std::string name = std::string(kFileVariable) + "=" + path;
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return Status::invalidInput(name + ": " + std::strerror(errno));
  struct stat facts {};
  std::string content(kMostBytes + 1, '\0');
  bool isKnown = ::fstat(file, &facts) == 0;
  ssize_t count = ::read(file, content.data(), content.size());
  ::close(file);
  if (!isKnown || count < 0 || !S_ISREG(facts.st_mode))
    return Status::invalidInput(name + " is not a file that can be read");
  if (facts.st_mode & (S_IRWXG | S_IRWXO))
    return Status::invalidInput(name + " may be read or written by others; chmod 600 it, and make a new secret");
  if (static_cast<size_t>(count) > kMostBytes)
    return Status::invalidInput(name + " has more than " + std::to_string(kMostBytes) + " bytes");
  content.resize(static_cast<size_t>(count));
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r'))
    content.pop_back();
  return content;
}

} // namespace

Result<std::string> findSecret(const Environment &environment) {
  std::string secret, source = kVariable;
  if (const char *path = environment(kFileVariable)) {
    MAESTRO_ASSIGN(secret, readSecret(path));
    source = std::string(kFileVariable) + "=" + path;
  } else if (const char *value = environment(kVariable)) {
    secret = value;
  } else {
    return std::string();
  }
  if (secret.size() < kLeastBytes)
    return Status::invalidInput(source + ": a secret of " + std::to_string(secret.size()) + " bytes; at least " +
                                std::to_string(kLeastBytes) + " are needed, such as: openssl rand -hex 32");
  return secret;
}

Proof prove(std::string_view secret, std::span<const std::byte> message) {
  Proof proof{};
  unsigned length = 0;
  ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char *>(message.data()), message.size(),
         reinterpret_cast<unsigned char *>(proof.data()), &length);
  return proof;
}

bool isSame(const Proof &a, const Proof &b) { return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

Result<Nonce> makeNonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    return Status::unavailable(std::string("random numbers: ") + std::strerror(errno));
  return nonce;
}

Result<std::string> makeSecret() {
  std::array<unsigned char, 32> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Status::unavailable(std::string("random numbers: ") + std::strerror(errno));
  std::string secret;
  for (unsigned char byte : bytes)
    for (unsigned half : {byte / 16u, byte % 16u})
      secret += "0123456789abcdef"[half];
  return secret;
}

} // namespace maestro::transport
