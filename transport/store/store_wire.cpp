#include "troupe/transport/store/store_wire.hpp"

#include <algorithm>
#include <cstring>

#include "troupe/messages/schema/store.capnp.h"
#include "troupe/transport/store/store_capnp.hpp"

namespace troupe::transport {

namespace {

template <class List>
void write_keys(List list, const std::vector<std::string>& keys) {
  for (unsigned i = 0; i < keys.size(); ++i) list.set(i, as_data(keys[i]));
}

void write_values(capnp::List<capnp::Data>::Builder list, const std::vector<store::bytes>& values) {
  for (unsigned i = 0; i < values.size(); ++i) list.set(i, as_data(values[i]));
}

std::vector<std::string> read_keys(capnp::List<capnp::Data>::Reader list, std::size_t most) {
  if (list.size() > most) throw decode_error("a store message has too many keys");
  std::vector<std::string> keys;
  keys.reserve(list.size());
  for (const auto key : list) {
    if (key.size() == 0 || key.size() > max_store_key)
      throw decode_error("a store message has a key that is empty or too long");
    keys.push_back(to_text(as_bytes(key)));
  }
  return keys;
}

store::bytes read_value(capnp::Data::Reader data) {
  if (data.size() > max_store_value) throw decode_error("a store message has too long a value");
  const auto bytes = as_bytes(data);
  return {bytes.begin(), bytes.end()};
}

std::vector<store::bytes> read_values(capnp::List<capnp::Data>::Reader list) {
  if (list.size() > max_store_keys_at_once)
    throw decode_error("a store message has too many values");
  std::vector<store::bytes> values;
  values.reserve(list.size());
  std::size_t together = 0;
  for (const auto value : list) {
    together += value.size();
    if (together > max_store_value) throw decode_error("a store message has too long values");
    const auto bytes = as_bytes(value);
    values.emplace_back(bytes.begin(), bytes.end());
  }
  return values;
}

bool has_one_key(store_request::op what) {
  using op = store_request::op;
  return what == op::set || what == op::get || what == op::add || what == op::compare_set ||
         what == op::delete_key || what == op::append || what == op::queue_push ||
         what == op::queue_pop || what == op::queue_len;
}

// Refuses combinations that no client writes.
void check_shape(const store_request& request) {
  if (has_one_key(request.what) && request.keys.size() != 1)
    throw decode_error("a request to the store needs one key, but has another number");
  const bool sets_many = request.what == store_request::op::multi_set;
  if (request.values.size() != (sets_many ? request.keys.size() : 0))
    throw decode_error("a request to the store has another number of values than of keys");
  if (request.what == store_request::op::list_keys && request.value.size() > max_store_key)
    throw decode_error("a request to the store asks for keys that are too long");
}

}  // namespace

store::bytes encode(const store_request& request) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::StoreRequest>();
  root.setOperation(static_cast<schema::StoreRequest::Operation>(request.what));
  write_keys(root.initKeys(static_cast<unsigned>(request.keys.size())), request.keys);
  if (!request.value.empty()) root.setValue(as_data(request.value));
  if (!request.expected.empty()) root.setExpected(as_data(request.expected));
  root.setDelta(request.delta);
  root.setTimeoutMs(static_cast<std::uint64_t>(std::max<std::int64_t>(0, request.timeout.count())));
  if (!request.values.empty())
    write_values(root.initValues(static_cast<unsigned>(request.values.size())), request.values);
  return flatten(message);
}

store::bytes encode(const store_reply& reply) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::StoreReply>();
  root.setKind(static_cast<schema::StoreReply::Kind>(reply.what));
  if (!reply.value.empty()) root.setValue(as_data(reply.value));
  root.setNumber(reply.number);
  write_keys(root.initKeys(static_cast<unsigned>(reply.keys.size())), reply.keys);
  if (!reply.values.empty())
    write_values(root.initValues(static_cast<unsigned>(reply.values.size())), reply.values);
  return flatten(message);
}

store_request decode_store_request(std::span<const std::byte> bytes) {
  constexpr const char* what = "a request to the store";
  return read_message<schema::StoreRequest>(bytes, what, [](auto root) {
    store_request out;
    out.what = static_cast<store_request::op>(root.getOperation());
    if (out.what > store_request::op::list_keys)
      throw decode_error("the store has no such operation");
    out.keys = read_keys(root.getKeys(), max_store_keys_at_once);
    out.value = read_value(root.getValue());
    out.expected = read_value(root.getExpected());
    out.delta = root.getDelta();
    // Bounded to a year, so that the sum with a time does not overflow.
    constexpr std::uint64_t year = std::uint64_t{365} * 24 * 3600 * 1000;
    out.timeout = std::chrono::milliseconds(std::min(root.getTimeoutMs(), year));
    out.values = read_values(root.getValues());
    check_shape(out);
    return out;
  });
}

store_reply decode_store_reply(std::span<const std::byte> bytes) {
  return read_message<schema::StoreReply>(bytes, "a reply of the store", [](auto root) {
    store_reply out;
    out.what = static_cast<store_reply::kind>(root.getKind());
    if (out.what > store_reply::kind::keys) throw decode_error("a reply of the store has no kind");
    out.value = read_value(root.getValue());
    out.number = root.getNumber();
    const bool listing = out.what == store_reply::kind::keys;
    out.keys = read_keys(root.getKeys(), listing ? max_store_entries : max_store_keys_at_once);
    out.values = read_values(root.getValues());
    return out;
  });
}

}  // namespace troupe::transport
