#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "troupe/transport/transport.hpp"
#include "troupe/transport/virtual/network_options.hpp"

namespace troupe::transport::virtual_net {

/// The conditions of each link, and which links are cut.
class links {
public:
  explicit links(const link_conditions& all) : all_(all) {}

  const link_conditions& of(rank_t from, rank_t to) const {
    if (own_.empty()) return all_;
    const auto at = own_.find({from, to});
    return at == own_.end() ? all_ : at->second;
  }

  bool passes(rank_t from, rank_t to) const {
    if (!cuts_.empty() && cuts_.contains({from, to})) return false;
    if (sides_.empty()) return true;
    const auto a = sides_.find(from);
    const auto b = sides_.find(to);
    return a == sides_.end() || b == sides_.end() || a->second == b->second;
  }

  void set(const link_conditions& all) { all_ = all; }
  void set(rank_t from, rank_t to, const link_conditions& own) { own_[{from, to}] = own; }

  void partition(const std::vector<std::set<rank_t>>& sides) {
    sides_.clear();
    for (std::size_t i = 0; i < sides.size(); ++i)
      for (const rank_t rank : sides[i]) sides_[rank] = i;
  }

  void heal() {
    sides_.clear();
    cuts_.clear();
  }

  void cut(rank_t from, rank_t to) { cuts_.insert({from, to}); }
  void restore(rank_t from, rank_t to) { cuts_.erase({from, to}); }

private:
  using pair = std::pair<rank_t, rank_t>;

  link_conditions all_;
  std::map<pair, link_conditions> own_;
  std::map<rank_t, std::size_t> sides_;
  std::set<pair> cuts_;
};

}  // namespace troupe::transport::virtual_net
