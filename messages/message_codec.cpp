#include "messages/message_codec.hpp"

#include <caf/atom.hpp>
#include <caf/detail/dynamic_message_data.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

#include <algorithm>
#include <limits>

namespace troupe {

namespace {

constexpr auto category = caf::atom("troupe");
constexpr std::size_t max_elements = 64;

}  // namespace

namespace detail {

void throw_inspect_failure(const caf::error& failure, std::string_view type, bool writing) {
  std::string text = "inspect of " + std::string(type) + " failed: " + to_string(failure);
  if (writing) throw encode_error(std::move(text));
  throw decode_error(std::move(text));
}

}  // namespace detail

void encoder::put_handle(const caf::strong_actor_ptr& x) {
  if (!handles_) throw encode_error("an actor handle cannot be written outside of a node");
  handles_->write(*this, x);
}

caf::strong_actor_ptr decoder::get_handle() {
  if (!handles_) throw decode_error("an actor handle cannot be read outside of a node");
  return handles_->read(*this);
}

void encoder::put_message(const caf::message& x) {
  if (x.size() > max_elements)
    throw encode_error("a message of " + std::to_string(x.size()) + " elements: 64 is the most");
  put(static_cast<std::uint8_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto* entry = find_type(x.type(i));
    if (!entry) {
      auto type = x.type(i);
      throw encode_error("a message element of type " +
                         (type.second ? std::string(type.second->name())
                                      : "number " + std::to_string(type.first)) +
                         " cannot be sent: use TROUPE_MESSAGE for it, or a typed actor handle");
    }
    put(entry->hash);
    entry->encode(*this, x.get(i));
  }
}

void decoder::get_message(caf::message& x) {
  auto count = get<std::uint8_t>();
  if (count > max_elements)
    throw decode_error("a message claims " + std::to_string(count) + " elements");
  auto next = [&]() -> const type_entry& {
    auto hash = get<std::uint64_t>();
    const auto* entry = find_type(hash);
    if (!entry)
      throw decode_error("a message holds a type that this program does not know (hash " +
                         std::to_string(hash) + "): do all nodes run the same program?");
    return *entry;
  };
  if (count == 0) {
    x = caf::message();
  } else if (count == 1) {
    x = next().decode_message(*this);
  } else {
    auto data = caf::make_counted<caf::detail::dynamic_message_data>();
    for (std::size_t i = 0; i < count; ++i) data->append(next().decode(*this));
    x = caf::message(caf::detail::message_data::cow_ptr(std::move(data)));
  }
}

void encoder::put_error(const caf::error& x) {
  put(static_cast<bool>(x));
  if (!x) return;
  put(x.code());
  put(x.category());
  // A context that cannot travel (the error is on its way already) gives way to its text.
  auto mark = bytes_.size();
  try {
    put(x.context());
  } catch (const encode_error&) {
    bytes_.resize(mark);
    put(caf::make_message(to_string(x)));
  }
}

void decoder::get_error(caf::error& x) {
  if (!get<bool>()) {
    x = caf::none;
    return;
  }
  auto code = get<std::uint8_t>();
  auto kind = get<caf::atom_value>();
  caf::message context;
  get_into(context);
  // CAF takes code 0 for "no error" and drops it.
  x = caf::error(code == 0 ? 1 : code, kind, std::move(context));
}

caf::error to_caf(const fault& f) {
  return caf::error(static_cast<std::uint8_t>(f.code), category,
                    caf::make_message(f.text, f.node, f.function, f.type,
                                      static_cast<std::int64_t>(f.limit.count())));
}

bool is_troupe(const caf::error& e) noexcept { return e && e.category() == category; }

fault to_fault(const caf::error& e) {
  fault f;
  if (!e) {
    f.text = "no error";
    return f;
  }
  if (is_troupe(e) &&
      e.context()
          .match_elements<std::string, std::string, std::string, std::string, std::int64_t>()) {
    f.text = e.context().get_as<std::string>(0);
    f.node = e.context().get_as<std::string>(1);
    f.function = e.context().get_as<std::string>(2);
    f.type = e.context().get_as<std::string>(3);
    // What `chrono` converts to nanoseconds must not overflow.
    const auto limit = e.context().get_as<std::int64_t>(4);
    constexpr auto longest = std::numeric_limits<std::int64_t>::max() / 1'000'000;
    f.limit = std::chrono::milliseconds(std::clamp<std::int64_t>(limit, 0, longest));
    set_code(f, e.code());
    return f;
  }
  f.code = errc::remote_error;
  if (e.category() == caf::atom("system")) {
    auto code = static_cast<caf::sec>(e.code());
    if (code == caf::sec::request_receiver_down) f.code = errc::actor_down;
    if (code == caf::sec::request_timeout) f.code = errc::rpc_timeout;
    f.text = to_string(code);
  } else if (e.category() == caf::atom("exit")) {
    f.code = errc::actor_down;
    f.text = "the actor ended: " + to_string(static_cast<caf::exit_reason>(e.code()));
  } else {
    f.text = to_string(e);
  }
  if (e.category() == caf::atom("system") && !e.context().empty())
    f.text += " " + to_string(e.context());
  f.type = "caf::error";
  return f;
}

}  // namespace troupe
