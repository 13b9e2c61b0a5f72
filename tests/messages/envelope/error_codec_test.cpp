#include "troupe/messages/envelope/error_codec.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/messages/base/fault_testing.hpp"
#include "troupe/messages/base/read_capnp.hpp"

namespace troupe::testing {
namespace {

/// A fault as words of Cap'n Proto, whose own type for them cannot be copied.
std::vector<std::uint64_t> write(const fault& f) {
  capnp::MallocMessageBuilder message(static_cast<unsigned>(fault_words(f) + 1),
                                      capnp::AllocationStrategy::FIXED_SIZE);
  write_fault(f, message.initRoot<schema::Fault>());
  EXPECT_EQ(message.getSegmentsForOutput().size(), 1u) << "fault_words is too low";
  const auto flat = capnp::messageToFlatArray(message);
  std::vector<std::uint64_t> out(flat.size());
  std::memcpy(out.data(), flat.begin(), flat.asBytes().size());
  return out;
}

fault read(const std::vector<std::uint64_t>& words) {
  return read_capnp("A message", [&] {
    capnp::FlatArrayMessageReader message(
        kj::arrayPtr(reinterpret_cast<const capnp::word*>(words.data()), words.size()));
    return read_fault(message.getRoot<schema::Fault>());
  });
}

TEST(error_codec, keeps_every_field_of_every_code) {
  for_every_code([](errc code) {
    const auto f = full_fault(code);
    expect_same_fault(read(write(f)), f);
  });
}

TEST(error_codec, keeps_empty_fields_empty) {
  const auto got = read(write({}));
  EXPECT_EQ(got.code, errc::internal);
  EXPECT_TRUE(got.text.empty() && got.node.empty() && got.function.empty() && got.type.empty());
  EXPECT_EQ(got.limit.count(), 0);
}

TEST(error_codec, cuts_long_text_between_characters) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    fault f;
    f.text = std::string(shift, 'x');
    while (f.text.size() < 2 * max_fault_text) f.text += "\xe2\x82\xac";
    const auto got = read(write(f)).text;
    EXPECT_LE(got.size(), max_fault_text);
    EXPECT_GT(got.size(), max_fault_text - 8);
    EXPECT_TRUE(got.ends_with("\xe2\x82\xac\xe2\x80\xa6"));
    EXPECT_EQ((got.size() - shift) % 3, 0u);
  }
  fault f;
  f.text = std::string(max_fault_text, 'x');
  EXPECT_EQ(read(write(f)).text, f.text);
}

TEST(error_codec, reads_a_code_of_another_version_as_internal) {
  for (const unsigned code : {0u, static_cast<unsigned>(errc::leaked_rref) + 1, 999u}) {
    capnp::MallocMessageBuilder message;
    auto root = message.initRoot<schema::Fault>();
    root.setCode(static_cast<std::uint16_t>(code));
    root.setText("something new");
    const auto got = read_fault(root.asReader());
    EXPECT_EQ(got.code, errc::internal);
    EXPECT_NE(got.text.find(std::to_string(code)), std::string::npos);
    EXPECT_NE(got.text.find("something new"), std::string::npos);
  }
}

TEST(error_codec, refuses_fields_out_of_range) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::Fault>();
  for (const std::int64_t limit : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    root.setLimitMs(limit);
    EXPECT_THROW(read_fault(root.asReader()), decode_error);
  }
  root.setLimitMs(0);
  root.initText(max_fault_text + 1);
  EXPECT_THROW(read_fault(root.asReader()), decode_error);
}

TEST(error_codec, survives_mutations_and_truncation) {
  const auto valid = write(full_fault());
  std::mt19937_64 random(11);
  int refused = 0;
  const auto attempt = [&](const std::vector<std::uint64_t>& words) {
    try {
      read(words);
    } catch (const decode_error&) {
      ++refused;
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    auto words = valid;
    auto* bytes = reinterpret_cast<std::uint8_t*>(words.data());
    for (auto n = 1 + random() % 3; n > 0; --n)
      bytes[random() % (words.size() * 8)] = static_cast<std::uint8_t>(random());
    if (i % 4 == 0) words.resize(1 + random() % words.size());
    attempt(words);
  }
  EXPECT_GT(refused, 1'000);
}

}  // namespace
}  // namespace troupe::testing
