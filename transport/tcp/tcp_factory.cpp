#include "troupe/transport/tcp/tcp_factory.hpp"

#include <fmt/format.h>

#include <charconv>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& value, const char* wanted) {
  throw invalid_argument(
      fmt::format("transport_options: {} is '{}', but must be {}", name, value, wanted));
}

unsigned number_in(const std::string& name, const std::string& value, std::string_view text,
                   unsigned least, unsigned most, const char* wanted) {
  unsigned out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < least || out > most)
    refuse(name, value, wanted);
  return out;
}

std::vector<std::string> names_in(const std::string& name, const std::string& value) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= value.size();) {
    const auto comma = std::min(value.find(',', at), value.size());
    out.push_back(value.substr(at, comma - at));
    if (out.back().empty()) refuse(name, value, "names of interfaces, separated by commas");
    at = comma + 1;
  }
  return out;
}

}  // namespace

tcp_options read_tcp_options(const transport_options& given, bool one_host,
                             const std::string& variable) {
  tcp_options out;
  if (!variable.empty()) out.interfaces = names_in("TROUPE_INTERFACES", variable);
  if (one_host && variable.empty()) out.interfaces = {"lo"};
  for (const auto& [name, value] : given) {
    if (name == "interfaces") {
      out.interfaces = names_in(name, value);
    } else if (name == "ports") {
      constexpr auto wanted = "a port, or a range of ports such as 40000-40100";
      const auto dash = value.find('-');
      const auto port = [&](std::string_view text) {
        return static_cast<std::uint16_t>(number_in(name, value, text, 1, 65'535, wanted));
      };
      const std::string_view text = value;
      out.ports.first = port(text.substr(0, dash));
      out.ports.last = dash == value.npos ? out.ports.first : port(text.substr(dash + 1));
      if (out.ports.last < out.ports.first) refuse(name, value, wanted);
    } else if (name == "encryption") {
      if (value == "off")
        out.protection = stream_protection::off;
      else if (value == "authenticate")
        out.protection = stream_protection::authenticate;
      else if (value == "encrypt")
        out.protection = stream_protection::encrypt;
      else
        refuse(name, value, "off, authenticate or encrypt");
    } else if (name == "streams") {
      out.bulk_streams = number_in(name, value, value, 1, 16, "a number from 1 to 16");
    } else {
      throw invalid_argument(
          fmt::format("transport_options: TCP has no option '{}'; it has encryption, interfaces, "
                      "ports, streams",
                      name));
    }
  }
  return out;
}

}  // namespace troupe::transport
