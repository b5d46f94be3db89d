// The job's secret: who has it belongs to the job.
#pragma once

#include "base/status.h"
#include "transport/control/launch.h"

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace maestro::transport {

inline constexpr size_t kProofBytes = 32;
using Proof = std::array<std::byte, kProofBytes>;
inline constexpr size_t kNonceBytes = 16;
using Nonce = std::array<std::byte, kNonceBytes>;

/// From the file that MAESTRO_JOB_SECRET_FILE names, which its owner alone may read, or MAESTRO_JOB_SECRET; empty where
/// neither is set. InvalidInput where it is shorter than 16 bytes, or the file is not there, or others may read it.
Result<std::string> findSecret(const Environment &environment);

/// HMAC-SHA-256 (RFC 2104) of the message.
Proof prove(std::string_view secret, std::span<const std::byte> message);
/// In a time that says nothing about where they differ.
bool isSame(const Proof &a, const Proof &b);
/// From the system's random numbers.
Result<Nonce> makeNonce();
/// A new one, of 64 hexadecimal digits.
Result<std::string> makeSecret();

} // namespace maestro::transport
