#include "troupe/autograd/remote_module.hpp"

#include <charconv>

#include "troupe/messages/base/error.hpp"

namespace troupe::detail {

namespace {

destination parse_destination(const std::string& text) {
  constexpr std::string_view prefix = "rank:";
  if (!text.starts_with(prefix)) return text;
  std::int64_t rank = -1;
  const auto* begin = text.data() + prefix.size();
  const auto* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(begin, end, rank);
  if (error != std::errc() || stopped != end || rank < 0)
    throw invalid_argument("no rank in '" + text + "': write rank:0, or a worker's name");
  return rank;
}

std::string checked_device(const std::string& text, const std::string& whole) {
  try {
    (void)at::Device(text);
  } catch (const c10::Error& e) {
    throw invalid_argument("no device in '" + whole + "': " + e.what_without_backtrace());
  }
  return text;
}

}  // namespace

remote_device::remote_device(const std::string& text)
    : where(parse_destination(text.substr(0, text.find('/')))) {
  const auto slash = text.find('/');
  device = slash == std::string::npos ? "cpu" : checked_device(text.substr(slash + 1), text);
}

}  // namespace troupe::detail
