#include "troupe/autograd/remote_module.hpp"

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/whole_number.hpp"

namespace troupe::detail {

namespace {

destination parse_destination(const std::string& text) {
  constexpr std::string_view prefix = "rank:";
  if (!text.starts_with(prefix)) return text;
  const auto rank = whole_number<std::int64_t>(std::string_view(text).substr(prefix.size()));
  if (!rank || *rank < 0)
    throw invalid_argument("no rank in '" + text + "': write rank:0, or a worker's name");
  return *rank;
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
