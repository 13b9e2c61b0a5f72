// Messages and errors of CAF from bytes that may be anything.
#include <ATen/ops/ones.h>

#include <gtest/gtest.h>

#include <caf/atom.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>
#include <caf/system_messages.hpp>

#include "tests/messages/codec/message_testing.hpp"
#include "tests/messages/codec/sendable_types.hpp"
#include "tests/messages/hostile_bytes.hpp"
#include "troupe/messages/codec/message_codec.hpp"

namespace troupe::testing {
namespace {

[[maybe_unused]] const bool registered =
    register_message_type<at::Tensor>() && register_message_type<inspected>();

// What a node does with a message first: count, compare types, put errors into words.
void look_at(const caf::message& m) {
  for (std::size_t i = 0; i < m.size(); ++i)
    if (m.match_element<caf::error>(i)) {
      const auto& e = m.get_as<caf::error>(i);
      EXPECT_FALSE(to_fault(e).text.empty());
      look_at(e.context());
    } else if (m.match_element<caf::message>(i)) {
      look_at(m.get_as<caf::message>(i));
    }
}

void read_message(std::span<const std::byte> bytes) {
  numbered_handles handles;
  look_at(decode<caf::message>(bytes, &handles));
}

void read_error(std::span<const std::byte> bytes) {
  numbered_handles handles;
  const auto e = decode<caf::error>(bytes, &handles);
  EXPECT_FALSE(to_fault(e).text.empty());
  look_at(e.context());
}

// No actor is known here: handles can only be those of none.
byte_vector written(const caf::message& m) {
  numbered_handles handles;
  return encode(m, &handles);
}

TEST(hostile_messages, of_numbers_and_text_are_read_or_refused) {
  const auto m = caf::make_message(true, std::int8_t{1}, std::uint64_t{2}, 1.5f, 2.5,
                                   std::string("text"), caf::atom("atom"), caf::unit,
                                   std::vector<double>{1, 2}, std::vector<std::string>{"a", "b"});
  survive_everything(read_message, written(m), "numbers and text", 2'000);
}

TEST(hostile_messages, of_user_types_are_read_or_refused) {
  random_values random(3);
  const auto m =
      caf::make_message(point::random(random), inspected{1, {"a", "b"}}, nothing(), nothing(),
                        tree{1, {tree{2, {}}, tree{3, {}}}}, named_point{{1, 2, {}}, "name"});
  survive_everything(read_message, written(m), "user types", 2'000);
}

TEST(hostile_messages, of_one_element_are_read_or_refused) {
  survive_everything(read_message, written(caf::make_message(std::string("text"))), "a text",
                     2'000);
  survive_everything(read_message, written({}), "an empty message", 2'000);
}

TEST(hostile_messages, in_messages_are_read_or_refused) {
  auto m = caf::make_message(std::string("innermost"), caf::make_error(caf::sec::runtime_error));
  for (int i = 0; i < 5; ++i) m = caf::make_message(m, i);
  survive_everything(read_message, written(m), "messages in messages", 2'000);
}

TEST(hostile_messages, of_handles_are_read_or_refused) {
  const auto m = caf::make_message(
      caf::actor(), caf::strong_actor_ptr(), caf::actor_addr(),
      caf::down_msg{caf::actor_addr(), caf::make_error(caf::exit_reason::kill)},
      caf::exit_msg{caf::actor_addr(), caf::make_error(caf::exit_reason::user_shutdown)});
  survive_everything(read_message, written(m), "handles", 2'000);
}

// Without the tensors that it names there is no message.
TEST(hostile_messages, of_tensors_that_do_not_come_are_refused) {
  tensor_writer tensors;
  encoder out(&tensors, nullptr);
  out.put(caf::make_message(at::ones({3}), std::string("text")));
  EXPECT_FALSE(takes(read_message, out.bytes(), "a tensor without a table"));
  survive_changed_bytes(read_message, out.bytes(), "a tensor without a table");
}

TEST(hostile_errors, are_read_or_refused) {
  fault f;
  f.text = "the text";
  f.node = "worker1";
  f.function = "decode";
  f.limit = std::chrono::milliseconds(1500);
  const std::pair<const char*, caf::error> errors[] = {
      {"one of ours", to_caf(f)},
      {"one of CAF's", caf::make_error(caf::sec::unexpected_message, std::string("why"), 7)},
      {"an exit", caf::make_error(caf::exit_reason::kill)},
      {"a user's", caf::error(200, caf::atom("mine"), caf::make_message(point()))},
      {"one in another", caf::make_error(caf::sec::runtime_error, to_caf(f))}};
  for (const auto& [name, e] : errors) survive_everything(read_error, encode(e), name, 1'000);
}

}  // namespace
}  // namespace troupe::testing
