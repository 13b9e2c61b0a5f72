#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_set>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/codec/encoder.hpp"
#include "troupe/messages/codec/type_identity.hpp"

// The structure of types: nodes compare it to tell whether they mean the same by a name.
namespace troupe {

/// The structs and enums that a type is made of, as text: for each its name and its fields, or its
/// underlying type. Equal where two programs write and read the type alike.
class type_structure {
public:
  /// What separates one type from the next in `text`.
  static constexpr char separator = '\n';

  /// False: it has been described before, or is being described.
  bool begin(std::string_view type) {
    if (!seen_.insert(type).second) return false;
    if (!text_.empty()) text_ += separator;
    text_.append(type);
    return true;
  }

  /// A struct's fields: their types, and their names in one text, which may be empty.
  void fields(std::initializer_list<std::string_view> types, std::string_view names);

  /// An enum's underlying type.
  void number(std::string_view type);

  /// A type of which only the size is known.
  void opaque(std::size_t size);

  /// A type that is written by the schema of that id; the schema's own rules cover changes.
  void schema(std::uint64_t id);

  const std::string& text() const noexcept { return text_; }

private:
  std::unordered_set<std::string_view> seen_;
  std::string text_;
};

/// A sentence that says where `there` and `here`, texts of structures, differ: it names the types
/// and their fields on both nodes. Empty when they are alike.
std::string difference(std::string_view there, std::string_view on_there, std::string_view here,
                       std::string_view on_here);

/// The fault for a message that was received for a type or function of that name, but means another
/// one. `structure` is the receiver's.
fault mismatch_of(std::string_view name, const std::string& sender, const std::string& receiver,
                  std::string_view structure);

/// The type or function that a mismatch is about.
std::string_view name_in_mismatch(const fault& why);

/// At the sender, whose structure this is: adds where the two differ.
void complete_mismatch(fault& why, const std::string& sender, std::string_view structure);

namespace detail {

template <class T>
void add_structure(type_structure& out);

template <class... Ts>
void add_all_structures(type_structure& out, std::type_identity<std::tuple<Ts...>>) {
  (add_structure<std::remove_const_t<Ts>>(out), ...);
}
template <class... Ts>
void add_all_structures(type_structure& out, std::type_identity<std::variant<Ts...>>) {
  (add_structure<Ts>(out), ...);
}
template <class... Ts, class... Cs>
void add_all_structures(type_structure& out, std::type_identity<std::tuple<Ts Cs::*...>>) {
  (add_structure<Ts>(out), ...);
}

template <class... Ts, class... Cs>
void name_fields(type_structure& out, std::type_identity<std::tuple<Ts Cs::*...>>,
                 std::string_view names) {
  out.fields({type_name<Ts>()...}, names);
}

/// The fields of a T for which TROUPE_MESSAGE has been used, and what they are made of.
template <class T>
void describe_fields(type_structure& out) {
  if (!out.begin(type_name<T>())) return;
  using members = std::type_identity<decltype(troupe_fields(static_cast<const T*>(nullptr)))>;
  std::string_view names;
  if constexpr (has_field_names<T>) names = troupe_field_names(static_cast<const T*>(nullptr));
  name_fields(out, members(), names);
  add_all_structures(out, members());
}

template <class T>
struct elements_of;

/// Whether some part of a T has a structure that its name does not imply.
template <class T>
constexpr bool has_structure() {
  constexpr auto as = form_of<encoder, T>();
  if constexpr (std::is_enum_v<T> || as == form::fields || as == form::inspected)
    return true;
  else if constexpr (as == form::optional || as == form::array || as == form::container ||
                     as == form::plain_vector)
    return has_structure<std::remove_const_t<typename T::value_type>>();
  else if constexpr (as == form::pair)
    return has_structure<std::remove_const_t<typename T::first_type>>() ||
           has_structure<typename T::second_type>();
  else if constexpr (as == form::tuple || as == form::variant)
    return elements_of<T>::have_structure;
  else
    return false;
}

template <template <class...> class Template, class... Ts>
struct elements_of<Template<Ts...>> {
  static constexpr bool have_structure = (has_structure<std::remove_const_t<Ts>>() || ...);
};

/// Whether TROUPE_SCHEMA has been used for T.
template <class T>
concept has_schema = requires(const T* x) {
  troupe_schema_id(x);
};

/// Adds the structure of a T. A type that has been described before is left out.
template <class T>
void add_structure(type_structure& out) {
  constexpr auto as = form_of<encoder, T>();
  if constexpr (!has_structure<T>()) {
    return;
  } else if constexpr (std::is_enum_v<T>) {
    if (out.begin(type_name<T>())) out.number(type_name<std::underlying_type_t<T>>());
  } else if constexpr (as == form::fields) {
    if constexpr (has_extern_code<T>)
      troupe_describe(out, static_cast<const T*>(nullptr));
    else
      describe_fields<T>(out);
  } else if constexpr (as == form::inspected) {
    if (!out.begin(type_name<T>())) return;
    if constexpr (has_schema<T>)
      out.schema(troupe_schema_id(static_cast<const T*>(nullptr)));
    else
      out.opaque(sizeof(T));
  } else if constexpr (as == form::pair) {
    add_structure<std::remove_const_t<typename T::first_type>>(out);
    add_structure<typename T::second_type>(out);
  } else if constexpr (as == form::tuple || as == form::variant) {
    add_all_structures(out, std::type_identity<T>());
  } else {
    add_structure<std::remove_const_t<typename T::value_type>>(out);
  }
}

/// The structure of several types, of which each may be void.
template <class... Ts>
struct structure {
  template <class T>
  static constexpr bool one() {
    if constexpr (std::is_void_v<T>)
      return false;
    else
      return has_structure<T>();
  }
  static constexpr bool any = (one<Ts>() || ...);

  static std::string text() {
    type_structure out;
    (
        [&] {
          if constexpr (one<Ts>()) add_structure<Ts>(out);
        }(),
        ...);
    return out.text();
  }

  /// The identity of the type or function of that name. Callers keep the result.
  static std::uint64_t identity(std::uint64_t name_hash) {
    return identity_of(name_hash, any ? structure_hash(text()) : 0);
  }
};

}  // namespace detail

/// Identifies T on the wire: its name and its structure.
template <class T>
std::uint64_t type_identity() {
  if constexpr (has_extern_code<T>) {
    return troupe_identity(static_cast<const T*>(nullptr));
  } else if constexpr (detail::has_structure<T>()) {
    static const auto identity = detail::structure<T>::identity(type_hash<T>());
    return identity;
  } else {
    return identity_of(type_hash<T>(), 0);
  }
}

}  // namespace troupe
