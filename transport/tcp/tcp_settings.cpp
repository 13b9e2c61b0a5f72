#include "troupe/transport/tcp/tcp_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/whole_number.hpp"

namespace troupe::transport {

namespace {

// A text, and where it was found.
struct setting {
  std::string name;
  std::string text;
};

[[noreturn]] void refuse(const setting& what, const char* wanted) {
  throw invalid_argument(fmt::format("{} is '{}', but must be {}", what.name, what.text, wanted));
}

setting find(const char* option, const std::string& given, const char* variable,
             const variable_lookup& variables) {
  if (!given.empty()) return {fmt::format("rpc_options::{}", option), given};
  return {variable, variables(variable).value_or("")};
}

unsigned number_in(const setting& what, std::string_view text, unsigned least, unsigned most,
                   const char* wanted) {
  const auto out = whole_number<unsigned>(text);
  if (!out || *out < least || *out > most) refuse(what, wanted);
  return *out;
}

std::vector<std::string> read_interfaces(const setting& what) {
  std::vector<std::string> out;
  if (what.text.empty()) return out;
  for (std::size_t at = 0; at <= what.text.size();) {
    const auto comma = std::min(what.text.find(',', at), what.text.size());
    out.push_back(what.text.substr(at, comma - at));
    if (out.back().empty()) refuse(what, "names of network interfaces, separated by commas");
    if (std::ranges::count(out, out.back()) > 1)
      refuse(what, "names of network interfaces, each once");
    at = comma + 1;
  }
  return out;
}

port_range read_ports(const setting& what) {
  if (what.text.empty()) return {};
  constexpr auto wanted = "a port, or a range of ports such as 40000-40100";
  const std::string_view text = what.text;
  const auto dash = text.find('-');
  const auto port = [&](std::string_view part) {
    return static_cast<std::uint16_t>(number_in(what, part, 1, 65'535, wanted));
  };
  port_range out;
  out.first = port(text.substr(0, dash));
  out.last = dash == text.npos ? out.first : port(text.substr(dash + 1));
  if (out.last < out.first) refuse(what, wanted);
  return out;
}

stream_protection read_protection(const setting& what) {
  if (what.text.empty() || what.text == "authenticate") return stream_protection::authenticate;
  if (what.text == "off") return stream_protection::off;
  if (what.text == "encrypt") return stream_protection::encrypt;
  refuse(what, "off, authenticate or encrypt");
}

}  // namespace

tcp_options read_tcp_settings(const tcp_settings& given, const variable_lookup& variables) {
  tcp_options out;
  out.interfaces =
      read_interfaces(find("net_devices", given.interfaces, "TROUPE_INTERFACES", variables));
  out.ports = read_ports(find("ports", given.ports, "TROUPE_PORTS", variables));
  out.protection = given.protection
                       ? *given.protection
                       : read_protection(find("encryption", {}, "TROUPE_ENCRYPTION", variables));
  if (const auto streams = find("", {}, "TROUPE_TCP_STREAMS", variables); !streams.text.empty())
    out.bulk_streams = number_in(streams, streams.text, 1, 16, "a number from 1 to 16");
  if (const auto threads = find("", {}, "TROUPE_TCP_THREADS", variables); !threads.text.empty())
    out.chunk_threads = number_in(threads, threads.text, 1, 2, "1 or 2");
  return out;
}

}  // namespace troupe::transport
