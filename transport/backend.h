// What a backend of channels offers. Each is a folder with one create(); all pass test/transport's conformance suite.
#pragma once

#include "transport/channel.h"

#include <memory>
#include <string_view>

namespace maestro::transport {

class Backend {
public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Whether it can work on this machine, and if not, what is missing.
  virtual Status available() const = 0;
  /// Every rank creates every channel it has an end of, in plan order; where ranks share a process until they start,
  /// once for all of them.
  virtual Result<Channel> createChannel(const ChannelDescription &description) = 0;
};

} // namespace maestro::transport
