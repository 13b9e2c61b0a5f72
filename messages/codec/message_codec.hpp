#pragma once

#include "troupe/messages/codec/type_registration.hpp"

namespace troupe {

/// A fault as an error of CAF: category "troupe", the fields in the context.
caf::error to_caf(const fault& f);

/// The fault that an error of CAF stands for. Errors of other categories (caf::sec, exit reasons,
/// the user's own) become a remote_error with the text of the error.
fault to_fault(const caf::error& e);

/// Whether `e` is one of ours.
bool is_troupe(const caf::error& e) noexcept;

/// Writes what `put(caf::make_message(xs...))` would, without making the message.
template <class... Ts>
void put_as_message(encoder& out, Ts&&... xs) {
  static_assert(sizeof...(Ts) <= detail::max_elements);
  encoder::nesting level(out.depth_);
  out.put(static_cast<std::uint8_t>(sizeof...(Ts)));
  (
      [&] {
        using element = typename caf::detail::implicit_conversions<
            typename detail::canonical<std::remove_cvref_t<Ts>>::type>::type;
        (void)detail::type_registration<element>::done;
        out.put(detail::element_hash<element>());
        if constexpr (std::is_same_v<element, std::remove_cvref_t<Ts>>)
          out.put_argument(std::forward<Ts>(xs));
        else
          out.put(static_cast<const element&>(element(xs)));
      }(),
      ...);
}

/// Reads a message whose only element is a T into `x`, without making the message. False, with
/// nothing read, when it is another one.
template <class T>
bool get_as_message(decoder& in, T& x) {
  auto ahead = in;
  if (ahead.get<std::uint8_t>() != 1 || ahead.get<std::uint64_t>() != detail::element_hash<T>())
    return false;
  in = ahead;
  in.get_into(x);
  return true;
}

}  // namespace troupe
