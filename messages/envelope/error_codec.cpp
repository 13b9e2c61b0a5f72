#include "troupe/messages/envelope/error_codec.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "troupe/messages/base/read_capnp.hpp"

namespace troupe {

namespace {

constexpr std::string_view ellipsis = "\xe2\x80\xa6";

// The most that fits, never half a character.
std::string_view cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

template <class Init>
void write_text(const std::string& text, Init init) {
  if (text.empty()) return;
  if (text.size() <= max_fault_text) {
    auto out = init(static_cast<unsigned>(text.size()));
    std::copy(text.begin(), text.end(), out.begin());
    return;
  }
  const auto kept = cut(text, max_fault_text - ellipsis.size());
  auto out = init(static_cast<unsigned>(kept.size() + ellipsis.size()));
  std::copy(ellipsis.begin(), ellipsis.end(), std::copy(kept.begin(), kept.end(), out.begin()));
}

std::string read_text(capnp::Text::Reader text, const char* field) {
  if (text.size() > max_fault_text)
    throw decode_error(std::string("A fault cannot be read: its field '") + field + "' has " +
                       std::to_string(text.size()) + " bytes, more than " +
                       std::to_string(max_fault_text) + ".");
  return {text.begin(), text.size()};
}

}  // namespace

void write_fault(const fault& f, schema::Fault::Builder out) {
  out.setCode(static_cast<std::uint16_t>(f.code));
  write_text(f.text, [&](unsigned n) { return out.initText(n); });
  write_text(f.node, [&](unsigned n) { return out.initNode(n); });
  write_text(f.function, [&](unsigned n) { return out.initFunction(n); });
  write_text(f.type, [&](unsigned n) { return out.initType(n); });
  write_text(f.trace, [&](unsigned n) { return out.initTrace(n); });
  write_text(f.via, [&](unsigned n) { return out.initVia(n); });
  out.setLimitMs(f.limit.count());
}

std::size_t fault_words(const fault& f) noexcept {
  std::size_t total =
      schema::Fault::_capnpPrivate::dataWordSize + schema::Fault::_capnpPrivate::pointerCount;
  for (const auto* text : {&f.text, &f.node, &f.function, &f.type, &f.trace, &f.via})
    total += std::min(text->size(), max_fault_text) / 8 + 1;
  return total;
}

fault read_fault(schema::Fault::Reader in) {
  return read_capnp("A fault", [&] {
    fault out;
    out.text = read_text(in.getText(), "text");
    out.node = read_text(in.getNode(), "node");
    out.function = read_text(in.getFunction(), "function");
    out.type = read_text(in.getType(), "type");
    out.trace = read_text(in.getTrace(), "trace");
    out.via = read_text(in.getVia(), "via");
    set_code(out, in.getCode());
    // What `chrono` converts to nanoseconds must not overflow.
    constexpr auto longest = std::numeric_limits<std::int64_t>::max() / 1'000'000;
    if (in.getLimitMs() < 0 || in.getLimitMs() > longest)
      throw decode_error("A fault cannot be read: its limit of " + std::to_string(in.getLimitMs()) +
                         " ms is out of range.");
    out.limit = std::chrono::milliseconds(in.getLimitMs());
    return out;
  });
}

}  // namespace troupe
