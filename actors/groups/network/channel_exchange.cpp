#include "troupe/actors/groups/network/channel_exchange.hpp"

#include <fmt/format.h>

#include "troupe/actors/groups/backend/collective_error.hpp"

namespace troupe::groups::network {

std::vector<std::vector<std::byte>> channel_exchange::all_gather(std::span<const std::byte> mine) {
  const auto stage = stage_++;
  const auto self = channel_.rank();
  const packet content(mine);
  for (int to = 0; to < channel_.size(); ++to)
    if (to != self) channel_.send(to, part{0, stage, content});
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(channel_.size()));
  out[static_cast<std::size_t>(self)].assign(mine.begin(), mine.end());
  for (int from = 0; from < channel_.size(); ++from) {
    if (from == self) continue;
    const auto found = channel_.parts().take({0, stage, from}, limit_.deadline());
    if (!found) {
      fault f;
      f.code = errc::rpc_timeout;
      f.limit = limit_.limit();
      f.text = fmt::format("group '{}' was not made on rank {} within {} ms: {} missing",
                           channel_.name(), self, limit_.limit().count(),
                           rank_list(channel_.parts().missing(0, stage, self, from)));
      throw collective_timeout(std::move(f));
    }
    const auto bytes = found->bytes();
    out[static_cast<std::size_t>(from)].assign(bytes.begin(), bytes.end());
  }
  return out;
}

}  // namespace troupe::groups::network
