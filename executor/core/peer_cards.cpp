#include "executor/core/peer_cards.h"

#include "base/bytes.h"

namespace maestro::executor {

using Bytes = transport::Control::Bytes;

Result<std::vector<Bytes>> exchangeCards(transport::Control &control, std::span<const std::byte> own,
                                         std::span<const uint32_t> peers) {
  ByteWriter told;
  told.block(own);
  for (uint32_t process : peers)
    told.number(process);
  MAESTRO_ASSIGN(Bytes said, control.ask(told.take(), [](const std::vector<Bytes> &records, uint32_t process) {
    ByteReader wanted(records[process]);
    (void)wanted.block();
    ByteWriter cards;
    while (!wanted.isWhole() && wanted.isOk())
      if (auto peer = wanted.number<uint32_t>(); peer < records.size())
        cards.block(ByteReader(records[peer]).block());
    return cards.take();
  }));
  ByteReader reader(said);
  std::vector<Bytes> cards;
  for (size_t i = 0; i < peers.size(); ++i) {
    std::span<const std::byte> card = reader.block();
    cards.emplace_back(card.begin(), card.end());
  }
  return cards;
}

} // namespace maestro::executor
