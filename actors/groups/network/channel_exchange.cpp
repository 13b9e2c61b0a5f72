#include "troupe/actors/groups/network/channel_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "troupe/actors/groups/backend/collective_error.hpp"

namespace troupe::groups::network {

channel_exchange::channel_exchange(group_channel& channel, const time_limit& limit)
    : channel_(channel), limit_(limit), ranks_(static_cast<std::size_t>(channel.size())) {
  std::iota(ranks_.begin(), ranks_.end(), 0);
}

std::vector<std::vector<std::byte>> channel_exchange::all_gather(std::span<const std::byte> mine) {
  const auto stage = stage_++;
  const auto self = channel_.rank();
  const packet content(mine);
  for (const int to : ranks_)
    if (to != self) channel_.send(to, part{0, stage, content});
  std::vector<std::vector<std::byte>> out;
  for (const int from : ranks_) {
    if (from == self) {
      out.emplace_back(mine.begin(), mine.end());
      continue;
    }
    const auto found = channel_.parts().take({0, stage, from}, limit_.deadline());
    if (!found) {
      auto missing = channel_.parts().missing(0, stage, self, from);
      std::erase_if(missing, [this](int rank) { return !std::ranges::count(ranks_, rank); });
      fault f;
      f.code = errc::rpc_timeout;
      f.limit = limit_.limit();
      f.text = fmt::format("group '{}' was not made on rank {} within {} ms: {} missing",
                           channel_.name(), self, limit_.limit().count(), rank_list(missing));
      throw collective_timeout(std::move(f));
    }
    const auto bytes = found->bytes();
    out.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

}  // namespace troupe::groups::network
