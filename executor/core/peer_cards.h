// What each process tells those with which it has something to do, by way of process 0.
#pragma once

#include "transport/control/control.h"

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::executor {

/// By all processes: the cards of `peers`, which are process numbers, in this order. Whoever is another one's peer has
/// it as a peer, too.
Result<std::vector<transport::Control::Bytes>>
exchangeCards(transport::Control &control, std::span<const std::byte> own, std::span<const uint32_t> peers);

} // namespace maestro::executor
