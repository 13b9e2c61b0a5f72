#pragma once

#include <caf/actor_cast.hpp>
#include <caf/meta/annotation.hpp>
#include <caf/meta/save_callback.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/type_name.hpp"
#include "troupe/messages/codec/archive_limits.hpp"
#include "troupe/messages/codec/sendable.hpp"

namespace troupe {

class handle_translator;

namespace detail {
class rref_use;
}
class tensor_writer;

/// Writes values as bytes. Tensors and actor handles go through the given writer and translator;
/// without them they are refused. It refuses what a decoder would refuse: nesting that is too deep,
/// and too many empty elements. Throws encode_error. One thread.
class encoder {
public:
  /// Both must outlive the encoder, or its next `reset`.
  encoder(tensor_writer* tensors, handle_translator* handles)
      : tensors_(tensors), handles_(handles) {}

  /// Starts over and keeps the memory.
  void reset(tensor_writer* tensors, handle_translator* handles) noexcept {
    bytes_.clear();
    depth_ = 0;
    given_ = false;
    empty_elements_ = {};
    tensors_ = tensors;
    handles_ = handles;
  }

  /// What has been written.
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  std::vector<std::byte> take() noexcept { return std::move(bytes_); }

  /// Writes bytes as they are.
  void raw(const void* data, std::size_t size) {
    auto from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }

  template <class T>
  void put(const T& x);

  /// The same for a value that nobody will read or write any more: memory of its tensors that
  /// nothing else refers to may be handed over to the receiver.
  template <class T>
  void put_given(const T& x) {
    const giving now(given_, true);
    put(x);
  }

  /// The same for an argument: one that its caller gives away, with `std::move` or since it is a
  /// temporary, is moved from and given.
  template <class Given>
  void put_argument(Given&& x) {
    if constexpr (is_given_away<Given>) {
      const auto taken =
          std::move(x);  // the caller's own is empty, whatever becomes of the message
      put_given(taken);
    } else {
      put(x);
    }
  }

  /// The fields of TROUPE_MESSAGE, in turn. What `put` does with such a type, in the end.
  template <class T>
  void put_fields(const T& x) {
    nesting level(depth_);
    std::apply([&](auto... field) { (put(x.*field), ...); }, troupe_fields(&x));
  }

  // CAF's inspector protocol.
  using result_type = caf::error;
  static constexpr bool reads_state = true;
  static constexpr bool writes_state = false;

  template <class... Ts>
  caf::error operator()(Ts&&... xs) {
    caf::error failure;
    ((!failure && (failure = visit(xs), true)), ...);
    return failure;
  }

private:
  template <class... Ts>
  friend void put_as_message(encoder& out, Ts&&... xs);

  template <class Given>
  static constexpr bool is_given_away =
      std::is_rvalue_reference_v<Given&&> && !std::is_const_v<std::remove_reference_t<Given>> &&
      !std::is_trivially_copyable_v<Given> && std::is_move_constructible_v<Given>;

  using nesting = detail::nesting<encode_error>;

  // Whether what is written now is given away, until the end of a scope.
  class giving {
  public:
    giving(bool& flag, bool now) : flag_(flag), before_(std::exchange(flag, now)) {}
    ~giving() { flag_ = before_; }
    giving(const giving&) = delete;
    giving& operator=(const giving&) = delete;

  private:
    bool& flag_;
    const bool before_;
  };

  template <class T>
  caf::error visit(T& x) {
    using type = std::remove_cvref_t<T>;
    if constexpr (caf::meta::is_save_callback<type>::value) return x.fun();
    if constexpr (!caf::meta::is_annotation<type>::value) put(x);
    return caf::none;
  }

  void put_count(std::size_t count) { put(static_cast<std::uint64_t>(count)); }
  template <class T>
  void put_range(const T& xs);
  void put_tensor(const at::Tensor& x);
  void put_handle(const caf::strong_actor_ptr& x);
  void put_reference(const std::shared_ptr<detail::rref_use>& x);
  void put_message(const caf::message& x);
  void put_error(const caf::error& x);

  std::vector<std::byte> bytes_;
  int depth_ = 0;
  bool given_ = false;
  detail::empty_elements<encode_error> empty_elements_;
  tensor_writer* tensors_;
  handle_translator* handles_;
};

template <class T>
void encoder::put(const T& x) {
  using detail::form;
  constexpr auto as = detail::form_of<encoder, T>();
  if constexpr (as == form::boolean) {
    auto byte = static_cast<std::uint8_t>(x);
    raw(&byte, 1);
  } else if constexpr (as == form::plain) {
    raw(&x, sizeof(T));
  } else if constexpr (as == form::tensor) {
    put_tensor(x);
  } else if constexpr (as == form::handle) {
    put_handle(caf::actor_cast<caf::strong_actor_ptr>(x));
  } else if constexpr (as == form::reference) {
    put_reference(x.core());
  } else if constexpr (as == form::message) {
    nesting level(depth_);
    const giving shared(given_, false);  // others may have the same message
    put_message(x);
  } else if constexpr (as == form::error) {
    nesting level(depth_);
    put_error(x);
  } else if constexpr (as == form::fields) {
    if constexpr (has_extern_code<T>)
      troupe_write(*this, x);
    else
      put_fields(x);
  } else if constexpr (as == form::inspected) {
    nesting level(depth_);
    const giving unknown(given_, false);  // what it shows may be somebody else's
    if (auto failure = inspect(*this, const_cast<T&>(x)))
      throw encode_error(detail::inspect_failure(failure, type_name<T>()));
  } else if constexpr (as == form::string) {
    put_count(x.size());
    raw(x.data(), x.size());
  } else if constexpr (as == form::optional) {
    nesting level(depth_);
    put(x.has_value());
    if (x) put(*x);
  } else if constexpr (as == form::variant) {
    static_assert(std::variant_size_v<T> < 256,
                  "a variant that is sent has at most 255 alternatives");
    nesting level(depth_);
    if (x.valueless_by_exception()) throw encode_error("a variant without a value cannot be sent");
    put(static_cast<std::uint8_t>(x.index()));
    std::visit([&](const auto& value) { put(value); }, x);
  } else if constexpr (as == form::pair) {
    put(x.first);
    put(x.second);
  } else if constexpr (as == form::tuple) {
    std::apply([&](const auto&... xs) { (put(xs), ...); }, x);
  } else if constexpr (as == form::array) {
    for (const auto& element : x) put(element);
  } else if constexpr (as == form::duration) {
    put(x.count());
  } else if constexpr (as == form::time_point) {
    put(x.time_since_epoch().count());
  } else if constexpr (as == form::plain_vector) {
    put_count(x.size());
    raw(x.data(), x.size() * sizeof(typename T::value_type));
  } else if constexpr (as == form::container) {
    nesting level(depth_);
    // Containers with allocators own their elements; what others show may be somebody else's.
    const giving owned(
        given_, given_ && requires { typename T::allocator_type; });
    put_range(x);
  }
}

template <class T>
void encoder::put_range(const T& xs) {
  put_count(xs.size());
  for (const auto& x : xs) {
    const auto before = bytes_.size();
    put(static_cast<const typename T::value_type&>(x));
    if (bytes_.size() == before) empty_elements_.count_one();
  }
}

}  // namespace troupe
