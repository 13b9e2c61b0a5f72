#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/environment.hpp"

namespace troupe::transport {

namespace {

/// Reads names, some with bracketed ranges in them, separated by commas: "a,b[1-3,07]c[0-1]".
class host_list_reader {
public:
  host_list_reader(std::string_view list, std::size_t limit) : list_(list), limit_(limit) {}

  std::vector<std::string> read() {
    do {
      std::vector<std::string> hosts = {""};
      while (at_ < list_.size() && list_[at_] != ',') {
        if (list_[at_] == '[')
          extend(hosts, read_brackets());
        else
          extend(hosts, {std::string(1, read_character())});
      }
      if (hosts.front().empty()) fail("a name is empty");
      for (auto& host : hosts)
        if (out_.size() < limit_) out_.push_back(std::move(host));
    } while (at_ < list_.size() && out_.size() < limit_ && list_[at_++] == ',');
    return std::move(out_);
  }

private:
  [[noreturn]] void fail(const char* why) const {
    throw rendezvous_error(fmt::format("'{}' is not a node list of Slurm: {}", list_, why));
  }

  char read_character() {
    const char c = list_[at_++];
    const bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    c == '-' || c == '.' || c == '_';
    if (!ok) fail("a name has a character that host names do not have");
    return c;
  }

  // Each of `hosts` followed by each of `ends`.
  void extend(std::vector<std::string>& hosts, const std::vector<std::string>& ends) const {
    std::vector<std::string> longer;
    for (const auto& host : hosts)
      for (const auto& end : ends)
        if (longer.size() < limit_) longer.push_back(host + end);
    hosts = std::move(longer);
  }

  // "[01-03,07]" gives 01, 02, 03, 07: the width of the first number is kept.
  std::vector<std::string> read_brackets() {
    ++at_;
    std::vector<std::string> out;
    while (true) {
      const auto first = read_digits();
      auto last = first;
      if (at_ < list_.size() && list_[at_] == '-') {
        ++at_;
        last = read_digits();
      }
      const auto from = number(first);
      const auto to = number(last);
      if (to < from) fail("a range runs backwards");
      for (auto n = from; n <= to && out.size() < limit_; ++n)
        out.push_back(fmt::format("{:0{}}", n, first.size()));
      if (at_ >= list_.size()) fail("a bracket is not closed");
      const char c = list_[at_++];
      if (c == ']') return out;
      if (c != ',') fail("there is something else than numbers in brackets");
    }
  }

  std::string_view read_digits() {
    const auto begin = at_;
    while (at_ < list_.size() && list_[at_] >= '0' && list_[at_] <= '9') ++at_;
    if (at_ == begin || at_ - begin > 9) fail("there is something else than numbers in brackets");
    return list_.substr(begin, at_ - begin);
  }

  static unsigned number(std::string_view digits) {
    unsigned out = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return out;
  }

  std::string_view list_;
  std::size_t limit_;
  std::size_t at_ = 0;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> slurm_hosts(std::string_view list, std::size_t limit) {
  return host_list_reader(list, limit).read();
}

std::string first_slurm_host(std::string_view list) { return slurm_hosts(list, 1).front(); }

}  // namespace troupe::transport
