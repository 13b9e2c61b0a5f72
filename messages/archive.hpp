#pragma once

#include <array>
#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/error.hpp>
#include <caf/message.hpp>
#include <caf/meta/annotation.hpp>
#include <caf/meta/load_callback.hpp>
#include <caf/meta/save_callback.hpp>
#include <caf/typed_actor.hpp>
#include <chrono>
#include <complex>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "messages/error.hpp"
#include "messages/fields.hpp"
#include "messages/type_name.hpp"

namespace at {
class Tensor;
}

namespace troupe {

class encoder;
class decoder;
class tensor_writer;
class tensor_reader;

/// Translates actor handles at the border of a node: what is written names a node and an actor of
/// it, what is read becomes the actor itself or a proxy of it. Implementations are thread-safe.
class handle_translator {
public:
  virtual ~handle_translator() = default;
  virtual void write(encoder& out, const caf::strong_actor_ptr& handle) = 0;
  virtual caf::strong_actor_ptr read(decoder& in) = 0;
};

namespace detail {

template <class T>
struct is_typed_actor : std::false_type {};
template <class... Sigs>
struct is_typed_actor<caf::typed_actor<Sigs...>> : std::true_type {};

template <class T>
concept actor_handle = is_typed_actor<T>::value || std::is_same_v<T, caf::actor> ||
    std::is_same_v<T, caf::strong_actor_ptr>;

template <class T, template <class...> class Template>
struct is_instance : std::false_type {};
template <template <class...> class Template, class... Ts>
struct is_instance<Template<Ts...>, Template> : std::true_type {};
template <class T, template <class...> class Template>
concept instance_of = is_instance<T, Template>::value;

template <class T>
struct is_std_array : std::false_type {};
template <class T, std::size_t N>
struct is_std_array<std::array<T, N>> : std::true_type {};

template <class T>
concept container = requires(T& x) {
  typename T::value_type;
  x.begin();
  x.end();
  x.size();
  x.clear();
};

template <class T>
concept map_like = container<T> && requires {
  typename T::mapped_type;
};

// Not every byte is one of these.
template <class T>
concept boolean = std::is_same_v<T, bool> ||
    (std::is_enum_v<T>&& std::is_same_v<std::underlying_type_t<T>, bool>);

template <class T>
concept number = (std::is_arithmetic_v<T> || std::is_enum_v<T>)&&!boolean<T>;

// Vectors of these are copied as one block.
template <class T>
concept block_copied = number<T> || instance_of<T, std::complex>;

template <class T>
concept block_vector = instance_of<T, std::vector> && block_copied<typename T::value_type>;

template <class Archive, class T>
concept inspectable_by = requires(Archive& a, T& x) {
  inspect(a, x);
};

template <class T>
inline constexpr bool always_false = false;

// How deep values may lie in one another, so that neither side runs out of stack.
template <class Error>
class nesting {
public:
  explicit nesting(int& depth) : depth_(depth) {
    if (depth_ >= 64) throw Error("a message nests deeper than 64 levels");
    ++depth_;
  }
  ~nesting() { --depth_; }
  nesting(const nesting&) = delete;
  nesting& operator=(const nesting&) = delete;

private:
  int& depth_;
};

// Elements that take no bytes: their number alone says how much memory they want, so that it is
// bounded over the whole message.
template <class Error>
class empty_elements {
public:
  void count_one() {
    if (++count_ > 65'536)
      throw Error("the containers of a message hold more than 65,536 elements without content");
  }

private:
  std::uint32_t count_ = 0;
};

}  // namespace detail

/// Writes values as bytes, little-endian, without names or tags: the reader knows the types.
/// Tensors and actor handles go through the writer and translator given. What a decoder would
/// refuse for its nesting or its numbers of empty elements is not written. Throws encode_error. One
/// thread.
class encoder {
public:
  encoder(tensor_writer* tensors, handle_translator* handles)
      : tensors_(tensors), handles_(handles) {}

  /// Starts over and keeps the memory.
  void reset(tensor_writer* tensors, handle_translator* handles) noexcept {
    bytes_.clear();
    depth_ = 0;
    empty_elements_ = {};
    tensors_ = tensors;
    handles_ = handles;
  }

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  std::vector<std::byte> take() noexcept { return std::move(bytes_); }

  void raw(const void* data, std::size_t size) {
    auto from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }

  template <class T>
  void put(const T& x);

  // CAF's inspector protocol, for types that bring an `inspect`.
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
  using nesting = detail::nesting<encode_error>;

  template <class T>
  caf::error visit(T& x) {
    using type = std::remove_cvref_t<T>;
    if constexpr (caf::meta::is_save_callback<type>::value) return x.fun();
    if constexpr (!caf::meta::is_annotation<type>::value) put(x);
    return caf::none;
  }

  template <class T>
  void put_range(const T& xs) {
    put(static_cast<std::uint64_t>(xs.size()));
    for (const auto& x : xs) {
      const auto before = bytes_.size();
      put(static_cast<const typename T::value_type&>(x));
      if (bytes_.size() == before) empty_elements_.count_one();
    }
  }

  void put_tensor(const at::Tensor& x);
  void put_handle(const caf::strong_actor_ptr& x);
  void put_message(const caf::message& x);
  void put_error(const caf::error& x);

  std::vector<std::byte> bytes_;
  int depth_ = 0;
  detail::empty_elements<encode_error> empty_elements_;
  tensor_writer* tensors_;
  handle_translator* handles_;
};

/// Reads what an encoder wrote. Trusts nothing: every length is checked against the bytes that are
/// left, nesting is bounded, and what is allocated is in proportion to the bytes read. Throws
/// decode_error. One thread.
class decoder {
public:
  /// `bytes` must outlive the decoder.
  decoder(std::span<const std::byte> bytes, tensor_reader* tensors, handle_translator* handles)
      : at_(bytes.data()),
        end_(bytes.data() + bytes.size()),
        tensors_(tensors),
        handles_(handles) {}

  std::size_t remaining() const noexcept { return static_cast<std::size_t>(end_ - at_); }

  void raw(void* to, std::size_t size) {
    need(size);
    if (size > 0) std::memcpy(to, at_, size);
    at_ += size;
  }

  template <class T>
  T get() {
    T x{};
    get_into(x);
    return x;
  }

  template <class T>
  void get_into(T& x);

  /// Throws unless everything has been read.
  void expect_end() const {
    if (at_ != end_)
      throw decode_error(std::to_string(remaining()) + " bytes too many behind a message's body");
  }

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

  void need(std::uint64_t size) const {
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

  void get_tensor(at::Tensor& x);
  caf::strong_actor_ptr get_handle();
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

// A number of bytes that no T falls short of on the wire; 0 where little is known.
template <class T>
constexpr std::size_t least_size() {
  if constexpr (boolean<T> || number<T> || instance_of<T, std::complex>)
    return sizeof(T);
  else if constexpr (std::is_same_v<T, at::Tensor>)
    return sizeof(std::uint32_t);
  else if constexpr (has_fields<T>)
    return least_size_of(
        std::type_identity<decltype(troupe_fields(static_cast<const T*>(nullptr)))>());
  else if constexpr (inspectable_by<decoder, T> || actor_handle<T>)
    return 0;
  else if constexpr (instance_of<T, std::optional> || instance_of<T, std::variant> ||
                     std::is_same_v<T, caf::message> || std::is_same_v<T, caf::error>)
    return 1;
  else if constexpr (instance_of<T, std::pair>)
    return least_size<std::remove_const_t<typename T::first_type>>() +
           least_size<typename T::second_type>();
  else if constexpr (instance_of<T, std::tuple>)
    return least_size_of(std::type_identity<T>());
  else if constexpr (is_std_array<T>::value)
    return std::tuple_size_v<T> * least_size<typename T::value_type>();
  else if constexpr (container<T>)
    return sizeof(std::uint64_t);
  else
    return 0;
}

[[noreturn]] void throw_inspect_failure(const caf::error& failure, std::string_view type,
                                        bool writing);

}  // namespace detail

template <class T>
void encoder::put(const T& x) {
  using namespace detail;
  if constexpr (boolean<T>) {
    auto byte = static_cast<std::uint8_t>(x);
    raw(&byte, 1);
  } else if constexpr (number<T>) {
    raw(&x, sizeof(T));
  } else if constexpr (std::is_same_v<T, at::Tensor>) {
    put_tensor(x);
  } else if constexpr (actor_handle<T>) {
    put_handle(caf::actor_cast<caf::strong_actor_ptr>(x));
  } else if constexpr (std::is_same_v<T, caf::actor_addr> ||
                       std::is_same_v<T, caf::weak_actor_ptr>) {
    put_handle(caf::actor_cast<caf::strong_actor_ptr>(x));
  } else if constexpr (std::is_same_v<T, caf::message>) {
    nesting level(depth_);
    put_message(x);
  } else if constexpr (std::is_same_v<T, caf::error>) {
    nesting level(depth_);
    put_error(x);
  } else if constexpr (has_fields<T>) {
    nesting level(depth_);
    std::apply([&](auto... field) { (put(x.*field), ...); }, troupe_fields(&x));
  } else if constexpr (inspectable_by<encoder, T>) {
    nesting level(depth_);
    if (auto failure = inspect(*this, const_cast<T&>(x)))
      throw_inspect_failure(failure, type_name<T>(), true);
  } else if constexpr (std::is_same_v<T, std::string>) {
    put(static_cast<std::uint64_t>(x.size()));
    raw(x.data(), x.size());
  } else if constexpr (instance_of<T, std::complex>) {
    raw(&x, sizeof(T));
  } else if constexpr (instance_of<T, std::optional>) {
    nesting level(depth_);
    put(x.has_value());
    if (x) put(*x);
  } else if constexpr (instance_of<T, std::variant>) {
    static_assert(std::variant_size_v<T> < 256);
    nesting level(depth_);
    if (x.valueless_by_exception()) throw encode_error("a variant without a value cannot be sent");
    put(static_cast<std::uint8_t>(x.index()));
    std::visit([&](const auto& value) { put(value); }, x);
  } else if constexpr (instance_of<T, std::pair>) {
    put(x.first);
    put(x.second);
  } else if constexpr (instance_of<T, std::tuple>) {
    std::apply([&](const auto&... xs) { (put(xs), ...); }, x);
  } else if constexpr (is_std_array<T>::value) {
    for (const auto& element : x) put(element);
  } else if constexpr (instance_of<T, std::chrono::duration>) {
    put(x.count());
  } else if constexpr (instance_of<T, std::chrono::time_point>) {
    put(x.time_since_epoch().count());
  } else if constexpr (block_vector<T>) {
    put(static_cast<std::uint64_t>(x.size()));
    raw(x.data(), x.size() * sizeof(typename T::value_type));
  } else if constexpr (container<T>) {
    nesting level(depth_);
    put_range(x);
  } else if constexpr (std::is_empty_v<T>) {
    // nothing to say
  } else {
    static_assert(
        always_false<T>,
        "this type cannot be sent: give it TROUPE_MESSAGE(type, fields...) or CAF's inspect");
  }
}

template <class T>
void decoder::get_into(T& x) {
  using namespace detail;
  if constexpr (boolean<T>) {
    std::uint8_t byte = 0;
    raw(&byte, 1);
    if (byte > 1) throw decode_error("a bool holds " + std::to_string(byte));
    x = static_cast<T>(byte != 0);
  } else if constexpr (number<T>) {
    raw(&x, sizeof(T));
  } else if constexpr (std::is_same_v<T, at::Tensor>) {
    get_tensor(x);
  } else if constexpr (actor_handle<T>) {
    x = caf::actor_cast<T>(get_handle());
  } else if constexpr (std::is_same_v<T, caf::actor_addr> ||
                       std::is_same_v<T, caf::weak_actor_ptr>) {
    x = caf::actor_cast<T>(get_handle());
  } else if constexpr (std::is_same_v<T, caf::message>) {
    nesting level(depth_);
    get_message(x);
  } else if constexpr (std::is_same_v<T, caf::error>) {
    nesting level(depth_);
    get_error(x);
  } else if constexpr (has_fields<T>) {
    nesting level(depth_);
    std::apply([&](auto... field) { (get_into(x.*field), ...); }, troupe_fields(&x));
  } else if constexpr (inspectable_by<decoder, T>) {
    nesting level(depth_);
    if (auto failure = inspect(*this, x)) throw_inspect_failure(failure, type_name<T>(), false);
  } else if constexpr (std::is_same_v<T, std::string>) {
    auto size = get_count(1);
    x.assign(reinterpret_cast<const char*>(at_), size);
    at_ += size;
  } else if constexpr (instance_of<T, std::complex>) {
    raw(&x, sizeof(T));
  } else if constexpr (instance_of<T, std::optional>) {
    nesting level(depth_);
    if (get<bool>())
      x = get<typename T::value_type>();
    else
      x.reset();
  } else if constexpr (instance_of<T, std::variant>) {
    nesting level(depth_);
    auto index = get<std::uint8_t>();
    auto set = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (
          (index == I && (x.template emplace<I>(get<std::variant_alternative_t<I, T>>()), true)) ||
          ...);
    };
    if (!set(std::make_index_sequence<std::variant_size_v<T>>()))
      throw decode_error("a variant holds alternative " + std::to_string(index) + " of " +
                         std::to_string(std::variant_size_v<T>));
  } else if constexpr (instance_of<T, std::pair>) {
    get_into(const_cast<std::remove_const_t<typename T::first_type>&>(x.first));
    get_into(x.second);
  } else if constexpr (instance_of<T, std::tuple>) {
    std::apply([&](auto&... xs) { (get_into(xs), ...); }, x);
  } else if constexpr (is_std_array<T>::value) {
    for (auto& element : x) get_into(element);
  } else if constexpr (instance_of<T, std::chrono::duration>) {
    x = T(get<typename T::rep>());
  } else if constexpr (instance_of<T, std::chrono::time_point>) {
    x = T(typename T::duration(get<typename T::rep>()));
  } else if constexpr (block_vector<T>) {
    auto count = get_count(sizeof(typename T::value_type));
    x.resize(count);
    raw(x.data(), count * sizeof(typename T::value_type));
  } else if constexpr (container<T>) {
    nesting level(depth_);
    using value = typename T::value_type;
    auto count = get_count(least_size<value>());
    x.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const auto before = remaining();
      if constexpr (map_like<T>) {
        auto key = get<typename T::key_type>();
        x.emplace(std::move(key), get<typename T::mapped_type>());
      } else {
        x.insert(x.end(), get<value>());
      }
      if (remaining() == before) empty_elements_.count_one();
    }
  } else if constexpr (std::is_empty_v<T>) {
    // nothing was said
  } else {
    static_assert(
        always_false<T>,
        "this type cannot be sent: give it TROUPE_MESSAGE(type, fields...) or CAF's inspect");
  }
}

}  // namespace troupe
