#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include "troupe/messages/codec/archive.hpp"
#include "troupe/messages/codec/structure.hpp"

/// Makes a type sendable by a schema of Cap'n Proto, instead of by its fields:
/// `TROUPE_SCHEMA(point, schema::Point)` follows the type, in its namespace, together with
///   void to_schema(const point& from, schema::Point::Builder to);
///   void from_schema(schema::Point::Reader from, point& to);
/// Nodes whose schemas have the same id understand each other as far as Cap'n Proto's rules for
/// newer and older schemas allow, whatever the type looks like in either program. A schema has no
/// place for tensors, handles and rrefs: make them fields beside such a type. What the functions
/// throw goes to the sender (encode_error for kj::Exception) and to the receiver (decode_error).
/// The type needs a default constructor.
#define TROUPE_SCHEMA(Type, Schema)                                                    \
  [[maybe_unused]] constexpr std::uint64_t troupe_schema_id(const Type*) {             \
    return ::capnp::typeId<Schema>();                                                  \
  }                                                                                    \
  inline ::caf::error inspect(::troupe::encoder& out, Type& x) {                       \
    return ::troupe::detail::put_by_schema<Schema>(                                    \
        out, [&](Schema::Builder to) { to_schema(static_cast<const Type&>(x), to); }); \
  }                                                                                    \
  inline ::caf::error inspect(::troupe::decoder& in, Type& x) {                        \
    return ::troupe::detail::get_by_schema<Schema>(                                    \
        in, [&](Schema::Reader from) { from_schema(from, x); });                       \
  }

namespace troupe::detail {

/// Writes the number of words, and the message as a flat array of them.
void put_words(encoder& out, capnp::MessageBuilder& message);

/// Reads such words, into memory that is aligned for them. Throws decode_error.
kj::Array<capnp::word> get_words(decoder& in);

/// Limits that allow every part to be read a few times.
capnp::ReaderOptions limits_for(const kj::Array<capnp::word>& words);

[[noreturn]] void throw_unwritable(const kj::Exception& why);
[[noreturn]] void throw_unreadable(const kj::Exception& why);

template <class Schema, class Write>
caf::error put_by_schema(encoder& out, Write write) {
  try {
    capnp::MallocMessageBuilder message;
    write(message.initRoot<Schema>());
    put_words(out, message);
  } catch (const kj::Exception& why) {
    throw_unwritable(why);
  }
  return caf::none;
}

template <class Schema, class Read>
caf::error get_by_schema(decoder& in, Read read) {
  const auto words = get_words(in);
  try {
    capnp::FlatArrayMessageReader message(words, limits_for(words));
    read(message.getRoot<Schema>());
  } catch (const kj::Exception& why) {
    throw_unreadable(why);
  }
  return caf::none;
}

}  // namespace troupe::detail
