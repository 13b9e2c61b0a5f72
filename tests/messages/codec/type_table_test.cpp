// The tables that are filled before main.
#include "troupe/messages/codec/type_registration.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/messages/codec/sendable_types.hpp"
#include "troupe/messages/base/link_table.hpp"
#include "troupe/messages/codec/message_codec.hpp"

namespace troupe::testing {
namespace {

TEST(type_table, finds_a_type_by_hash_and_by_what_caf_knows_of_it) {
  const auto* entry = find_type(type_hash<point>());
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->name, "troupe::testing::point");
  EXPECT_EQ(*entry->type, typeid(point));
  EXPECT_EQ(find_type(caf::make_message(point()).type(0)), entry);
  const auto* number = find_type(type_hash<int>());
  ASSERT_TRUE(number);
  EXPECT_EQ(find_type(caf::make_message(1).type(0)), number);
  EXPECT_EQ(find_type(hash_name("troupe::testing::nobody")), nullptr);
  EXPECT_EQ(find_type(std::uint64_t{0}), nullptr);
  EXPECT_EQ(find_type(caf::rtti_pair{std::uint16_t{60'000}, nullptr}), nullptr);
  EXPECT_EQ(find_type(caf::rtti_pair{
                std::uint16_t{0},
                &typeid(type_table_finds_a_type_by_hash_and_by_what_caf_knows_of_it_Test)}),
            nullptr);
}

TEST(type_table, takes_a_type_twice_and_not_two_of_one_hash) {
  const auto& entry = detail::entry_of<point>();
  EXPECT_TRUE(add_type(entry));
  static auto twin = entry;
  twin.name = "another";
  EXPECT_THROW(add_type(twin), internal_error);
  // As of nameless namespaces in two files.
  static auto namesake = entry;
  namesake.type = &typeid(nested);
  EXPECT_THROW(add_type(namesake), internal_error);
  EXPECT_EQ(find_type(type_hash<point>()), &entry);
}

// A program on another machine with other integer types of the same size must agree.
TEST(type_table, knows_integers_by_size_and_sign) {
  EXPECT_EQ(detail::element_hash<long>(), detail::element_hash<long long>());
  EXPECT_EQ(detail::element_hash<long>(), detail::element_hash<std::int64_t>());
  EXPECT_NE(detail::element_hash<long>(), detail::element_hash<unsigned long>());
  EXPECT_NE(detail::element_hash<bool>(), detail::element_hash<std::uint8_t>());
}

TEST(type_structure, names_what_types_are_made_of) {
  EXPECT_EQ((detail::structure<int, std::vector<std::string>, void, at::Tensor>::text()), "");
  EXPECT_EQ(detail::structure<point>::text(),
            "troupe::testing::point\t{double x, float y, troupe::testing::colour tint}\n"
            "troupe::testing::colour\tan enum of unsigned char");
  // Each once, wherever it is.
  EXPECT_EQ((detail::structure<std::map<int, std::vector<point>>, std::optional<point>>::text()),
            detail::structure<point>::text());
  EXPECT_EQ(detail::structure<tree>::text(),
            "troupe::testing::tree\t{" + std::string(type_name<short>()) +
                " value, std::vector<troupe::testing::tree> children}");
  EXPECT_EQ(detail::structure<inspected>::text(),
            "troupe::testing::inspected\t" + std::to_string(sizeof(inspected)) + " bytes");
}

TEST(type_structure, finds_where_two_differ) {
  EXPECT_EQ(difference("a\t{int x}\nb\t{int y}", "w1", "a\t{int x}\nb\t{long y}\nc\t1 bytes", "w0"),
            "b is {int y} on w1 and {long y} on w0");
  EXPECT_EQ(difference("a\t{}", "w1", "a\t{}", "w0"), "");
  EXPECT_EQ(difference("", "w1", "a\t{}", "w0"), "");
  EXPECT_NO_THROW((void)difference("garbage\n\n\t\tx", "w1", "\ty\n", "w0"));
}

TEST(type_identity, comes_from_the_name_and_what_it_is_made_of) {
  EXPECT_EQ(name_part(type_identity<point>()), name_part(type_hash<point>()));
  EXPECT_EQ(type_identity<int>(), identity_of(type_hash<int>(), 0));
  EXPECT_NE(type_identity<point>(), identity_of(type_hash<point>(), 0));
  const auto other = structure_hash("troupe::testing::point\t{double x, float y}");
  EXPECT_NE(type_identity<point>(), identity_of(type_hash<point>(), other));
}

TEST(type_name, is_what_the_compiler_writes) {
  EXPECT_EQ(type_name<int>(), "int");
  EXPECT_EQ(type_name<point>(), "troupe::testing::point");
  EXPECT_EQ(function_name<&point::x>(), "troupe::testing::point::x");
  // As g++ writes it, and as clang does.
  EXPECT_EQ(detail::after_equals("constexpr const char* f() [with T = int]"), "int");
  EXPECT_EQ(detail::after_equals("const char *f() [T = int]"), "int");
  // Published test vectors of FNV-1a.
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8ull);
}

struct numbered {
  std::uint64_t key;
};

TEST(link_table, keeps_what_came_first) {
  auto table = std::make_unique<link_table<numbered, 8>>();
  static const numbered a{3}, b{3};
  EXPECT_EQ(table->find(3), nullptr);
  EXPECT_EQ(table->insert(3, &a), &a);
  EXPECT_EQ(table->insert(3, &b), &a);
  EXPECT_EQ(table->find(3), &a);
}

TEST(link_table, finds_everything_until_it_is_full) {
  auto table = std::make_unique<link_table<numbered, 64>>();
  std::vector<numbered> entries;
  // All but the first few want slots that are taken.
  for (std::uint64_t i = 0; i < 65; ++i) entries.push_back({(i % 4 == 0 ? i : 7) + i * 64 * 2});
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(table->insert(entries[i].key, &entries[i]), &entries[i]) << i;
  EXPECT_EQ(table->insert(entries[64].key, &entries[64]), nullptr);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(table->find(entries[i].key), &entries[i]) << i;
  EXPECT_EQ(table->find(entries[64].key), nullptr);
}

TEST(link_table, has_one_entry_for_a_key_whoever_is_first) {
  constexpr int threads = 4;
  constexpr std::size_t keys = 500;
  auto table = std::make_unique<link_table<numbered, 1024>>();
  std::vector<std::vector<numbered>> own(threads);
  std::vector<std::vector<const numbered*>> got(threads);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    for (std::size_t k = 0; k < keys; ++k) own[t].push_back({k * 0x9e3779b97f4a7c15ull});
    running.emplace_back([&, t] {
      for (const auto& entry : own[t]) got[t].push_back(table->insert(entry.key, &entry));
    });
  }
  for (auto& thread : running) thread.join();
  for (std::size_t k = 0; k < keys; ++k)
    for (int t = 0; t < threads; ++t) {
      EXPECT_EQ(got[t][k], got[0][k]);
      ASSERT_TRUE(got[t][k]);
      EXPECT_EQ(got[t][k]->key, own[t][k].key);
      EXPECT_EQ(table->find(own[t][k].key), got[t][k]);
    }
}

}  // namespace
}  // namespace troupe::testing
