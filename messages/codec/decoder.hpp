#pragma once

#include <caf/actor_cast.hpp>
#include <caf/meta/annotation.hpp>
#include <caf/meta/load_callback.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/type_name.hpp"
#include "troupe/messages/codec/archive_limits.hpp"
#include "troupe/messages/codec/sendable.hpp"

namespace troupe {

class handle_translator;

namespace detail {
class rref_use;
}
class tensor_reader;

/// Reads what an encoder wrote. Trusts nothing: every length is checked against the bytes that are
/// left, nesting is bounded, and what is allocated is in proportion to the bytes read. Throws
/// decode_error. One thread.
class decoder {
public:
  /// `bytes`, reader and translator must outlive the decoder. Without a reader or a translator
  /// tensors and actor handles are refused.
  decoder(std::span<const std::byte> bytes, tensor_reader* tensors, handle_translator* handles)
      : at_(bytes.data()),
        end_(bytes.data() + bytes.size()),
        tensors_(tensors),
        handles_(handles) {}

  std::size_t remaining() const noexcept { return static_cast<std::size_t>(end_ - at_); }

  /// Reads bytes as they are.
  void raw(void* to, std::size_t size) {
    need(size);
    if (size > 0) std::memcpy(to, at_, size);
    at_ += size;
  }

  template <class T>
  T get() {
    static_assert(std::is_default_constructible_v<T>,
                  "a received value is made first and then filled: give the type a constructor "
                  "without arguments");
    T x{};
    get_into(x);
    return x;
  }

  template <class T>
  void get_into(T& x);

  /// The fields of TROUPE_MESSAGE, in turn. What `get_into` does with such a type, in the end.
  template <class T>
  void get_fields(T& x) {
    nesting level(depth_);
    std::apply([&](auto... field) { (get_into(x.*field), ...); }, troupe_fields(&x));
  }

  /// Throws unless everything has been read.
  void expect_end() const {
    if (at_ != end_)
      throw decode_error(std::to_string(remaining()) + " bytes too many after a message's body");
  }

  /// What was read is all that is wanted: tensors live as long as those who took them.
  void let_tensors_go() noexcept;

  // CAF's inspector protocol.
  using result_type = caf::error;
  static constexpr bool reads_state = false;
  static constexpr bool writes_state = true;

  template <class... Ts>
  caf::error operator()(Ts&&... xs) {
    caf::error failure;
    ((!failure && (failure = visit(xs), true)), ...);
    return failure;
  }

private:
  using nesting = detail::nesting<decode_error>;

  template <class T>
  caf::error visit(T& x) {
    using type = std::remove_cvref_t<T>;
    if constexpr (caf::meta::is_load_callback<type>::value) return x.fun();
    if constexpr (!caf::meta::is_annotation<type>::value && !std::is_const_v<T>) get_into(x);
    return caf::none;
  }

  void need(std::size_t size) const {
    if (size > remaining())
      throw decode_error("a message ends early: " + std::to_string(size) + " bytes wanted, " +
                         std::to_string(remaining()) + " left");
  }

  // A number of elements, each of at least `least` bytes.
  std::size_t get_count(std::size_t least) {
    auto count = get<std::uint64_t>();
    if (least > 0 && count > remaining() / least)
      throw decode_error("a container claims " + std::to_string(count) + " elements with " +
                         std::to_string(remaining()) + " bytes left");
    return static_cast<std::size_t>(count);
  }

  template <class T>
  void get_variant(T& x);
  template <class T>
  void get_range(T& xs);
  void get_tensor(at::Tensor& x);
  caf::strong_actor_ptr get_handle();
  std::shared_ptr<detail::rref_use> get_reference(std::uint64_t type, std::string_view name);
  void get_message(caf::message& x);
  void get_error(caf::error& x);

  const std::byte* at_;
  const std::byte* end_;
  int depth_ = 0;
  detail::empty_elements<decode_error> empty_elements_;
  tensor_reader* tensors_;
  handle_translator* handles_;
};

namespace detail {

template <class T>
constexpr std::size_t least_size();

template <class... Ts>
constexpr std::size_t least_size_of(std::type_identity<std::tuple<Ts...>>) {
  return (std::size_t{0} + ... + least_size<Ts>());
}

template <class... Ts, class... Cs>
constexpr std::size_t least_size_of(std::type_identity<std::tuple<Ts Cs::*...>>) {
  return (std::size_t{0} + ... + least_size<Ts>());
}

// A lower bound of the bytes that a T takes on the wire; 0 where little is known.
template <class T>
constexpr std::size_t least_size() {
  constexpr auto as = form_of<decoder, T>();
  if constexpr (as == form::boolean || as == form::plain)
    return sizeof(T);
  else if constexpr (as == form::tensor)
    return sizeof(std::uint32_t);
  else if constexpr (as == form::fields)
    return least_size_of(
        std::type_identity<decltype(troupe_fields(static_cast<const T*>(nullptr)))>());
  else if constexpr (as == form::optional || as == form::variant || as == form::message ||
                     as == form::error)
    return 1;
  else if constexpr (as == form::pair)
    return least_size<std::remove_const_t<typename T::first_type>>() +
           least_size<typename T::second_type>();
  else if constexpr (as == form::tuple)
    return least_size_of(std::type_identity<T>());
  else if constexpr (as == form::array)
    return std::tuple_size_v<T> * least_size<typename T::value_type>();
  else if constexpr (as == form::string || as == form::plain_vector || as == form::container)
    return sizeof(std::uint64_t);
  else
    return 0;
}

}  // namespace detail

template <class T>
void decoder::get_into(T& x) {
  using detail::form;
  constexpr auto as = detail::form_of<decoder, T>();
  if constexpr (as == form::boolean) {
    auto byte = get<std::uint8_t>();
    if (byte > 1) throw decode_error("a bool holds " + std::to_string(byte));
    x = static_cast<T>(byte != 0);
  } else if constexpr (as == form::plain) {
    raw(&x, sizeof(T));
  } else if constexpr (as == form::tensor) {
    get_tensor(x);
  } else if constexpr (as == form::handle) {
    x = caf::actor_cast<T>(get_handle());
  } else if constexpr (as == form::reference) {
    using element = typename T::element_type;
    x = T(get_reference(type_hash<element>(), type_name<element>()));
  } else if constexpr (as == form::message) {
    nesting level(depth_);
    get_message(x);
  } else if constexpr (as == form::error) {
    nesting level(depth_);
    get_error(x);
  } else if constexpr (as == form::fields) {
    if constexpr (has_extern_code<T>)
      troupe_read(*this, x);
    else
      get_fields(x);
  } else if constexpr (as == form::inspected) {
    nesting level(depth_);
    if (auto failure = inspect(*this, x))
      throw decode_error(detail::inspect_failure(failure, type_name<T>()));
  } else if constexpr (as == form::string) {
    auto size = get_count(1);
    x.assign(reinterpret_cast<const char*>(at_), size);
    at_ += size;
  } else if constexpr (as == form::optional) {
    nesting level(depth_);
    if (get<bool>())
      x = get<typename T::value_type>();
    else
      x.reset();
  } else if constexpr (as == form::variant) {
    nesting level(depth_);
    get_variant(x);
  } else if constexpr (as == form::pair) {
    get_into(const_cast<std::remove_const_t<typename T::first_type>&>(x.first));
    get_into(x.second);
  } else if constexpr (as == form::tuple) {
    std::apply([&](auto&... xs) { (get_into(xs), ...); }, x);
  } else if constexpr (as == form::array) {
    for (auto& element : x) get_into(element);
  } else if constexpr (as == form::duration) {
    x = T(get<typename T::rep>());
  } else if constexpr (as == form::time_point) {
    x = T(typename T::duration(get<typename T::rep>()));
  } else if constexpr (as == form::plain_vector) {
    auto count = get_count(sizeof(typename T::value_type));
    x.resize(count);
    raw(x.data(), count * sizeof(typename T::value_type));
  } else if constexpr (as == form::container) {
    nesting level(depth_);
    get_range(x);
  }
}

template <class T>
void decoder::get_variant(T& x) {
  auto index = get<std::uint8_t>();
  auto set = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (
        (index == I && (x.template emplace<I>(get<std::variant_alternative_t<I, T>>()), true)) ||
        ...);
  };
  if (!set(std::make_index_sequence<std::variant_size_v<T>>()))
    throw decode_error("a variant holds alternative " + std::to_string(index) + " of " +
                       std::to_string(std::variant_size_v<T>));
}

template <class T>
void decoder::get_range(T& xs) {
  using value = typename T::value_type;
  auto count = get_count(detail::least_size<value>());
  xs.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const auto before = remaining();
    if constexpr (detail::map_like<T>) {
      auto key = get<typename T::key_type>();
      xs.emplace(std::move(key), get<typename T::mapped_type>());
    } else {
      xs.insert(xs.end(), get<value>());
    }
    if (remaining() == before) empty_elements_.count_one();
  }
}

}  // namespace troupe
