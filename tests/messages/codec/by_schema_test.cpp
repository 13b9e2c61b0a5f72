// Types that are written by a schema of Cap'n Proto.
#include "troupe/messages/codec/by_schema.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <kj/debug.h>

#include "tests/messages/codec/message_testing.hpp"
#include "tests/messages/hostile_bytes.hpp"
#include "troupe/messages/schema/error.capnp.h"

namespace troupe::testing {

struct complaint {
  int number = 0;
  std::string text;
  std::vector<int> never_sent;
};

void to_schema(const complaint& from, schema::Fault::Builder to) {
  KJ_REQUIRE(from.number >= 0, "a complaint's number is negative");
  to.setCode(static_cast<std::uint16_t>(from.number));
  to.setText(from.text.c_str());
}
void from_schema(schema::Fault::Reader from, complaint& to) {
  to.number = from.getCode();
  to.text = from.getText().cStr();
  if (to.text == "refuse me") throw std::domain_error("refused");
}
TROUPE_SCHEMA(complaint, schema::Fault)

struct letter {
  std::vector<complaint> all;
  std::string sender;
};
TROUPE_MESSAGE(letter, all, sender)

namespace {

using ::testing::HasSubstr;

TEST(by_schema, values_come_back) {
  const auto back = decode<letter>(encode(letter{{{7, "too slow", {1}}, {}}, "a"}));
  ASSERT_EQ(back.all.size(), 2u);
  EXPECT_EQ(back.all[0].number, 7);
  EXPECT_EQ(back.all[0].text, "too slow");
  EXPECT_TRUE(back.all[0].never_sent.empty());
  EXPECT_EQ(back.all[1].number, 0);
  EXPECT_EQ(back.all[1].text, "");
  EXPECT_EQ(back.sender, "a");
}

TEST(by_schema, nodes_compare_the_schema_and_not_the_type) {
  const auto text = detail::structure<letter>::text();
  EXPECT_THAT(text,
              HasSubstr(fmt::format("of the schema {:#018x}", capnp::typeId<schema::Fault>())));
  EXPECT_THAT(text, ::testing::Not(HasSubstr(std::to_string(sizeof(complaint)) + " bytes")));
}

TEST(by_schema, newer_readers_find_defaults_where_older_writers_wrote_nothing) {
  // A Fault of a code alone, as https://capnproto.org/encoding.html lays it out.
  encoder out(nullptr, nullptr);
  out.put(std::uint64_t{3});        // words in all
  out.put(std::uint64_t{2} << 32);  // of them a table: one segment, of two words
  out.put(std::uint64_t{1} << 32);  // the root: a struct of one word of data, without pointers
  out.put(std::uint64_t{7});        // its code
  const auto back = decode<complaint>(out.bytes());
  EXPECT_EQ(back.number, 7);
  EXPECT_EQ(back.text, "");
}

TEST(by_schema, what_cannot_be_written_is_an_encode_error) {
  EXPECT_THAT(
      [] {
        encode(complaint{-1, "", {}});
      },
      ::testing::ThrowsMessage<encode_error>(HasSubstr("a complaint's number is negative")));
}

TEST(by_schema, what_the_reader_throws_goes_on) {
  EXPECT_THROW(decode<complaint>(encode(complaint{1, "refuse me", {}})), std::domain_error);
}

TEST(by_schema, bytes_that_nobody_meant_are_refused) {
  const auto valid = encode(complaint{7, "too slow", {}});
  const byte_reader read = [](std::span<const std::byte> bytes) { decode<complaint>(bytes); };
  EXPECT_TRUE(takes(read, valid, "a complaint"));
  expect_prefixes_refused(read, valid, "a complaint");
  survive_changed_bytes(read, valid, "a complaint");
}

}  // namespace

}  // namespace troupe::testing
