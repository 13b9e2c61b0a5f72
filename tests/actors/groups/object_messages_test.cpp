// Sends and receives of objects and of lists of them, and the check of their types.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include "tests/actors/groups/group_testing.hpp"
#include "tests/messages/tensor/pretended_tensor.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::test {

struct group_reading {
  std::int64_t at;
  double value;
};
TROUPE_MESSAGE(group_reading, at, value)

namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text_of(int sender, int number) {
  return std::string(number % 3 == 0 ? 100'000 : 10, static_cast<char>('a' + sender)) +
         std::to_string(number);
}

// Receives of several threads that take any rank's, posted before anything is sent: each gets all
// of an object.
TEST(object_messages, are_whole_for_threads_that_receive_at_once) {
  local_group all(3);
  constexpr int each = 30, threads = 3;
  all.run([](const process_group& group, int rank) {
    if (rank > 0) {
      barrier(group);
      for (int i = 0; i < each; ++i) send_object(group, text_of(rank, i), 0, 5);
      return;
    }
    std::vector<std::future<std::vector<std::pair<std::string, int>>>> running;
    for (int t = 0; t < threads; ++t)
      running.push_back(std::async(std::launch::async, [&group] {
        std::vector<std::pair<std::string, int>> out;
        for (int i = 0; i < 2 * each / threads; ++i)
          out.push_back(recv_object<std::string>(group, any_source, 5));
        return out;
      }));
    std::this_thread::sleep_for(50ms);
    barrier(group);
    std::vector<std::pair<std::string, int>> found, expected;
    for (auto& one : running)
      for (auto& object : one.get()) found.push_back(std::move(object));
    for (int from = 1; from < 3; ++from)
      for (int i = 0; i < each; ++i) expected.emplace_back(text_of(from, i), from);
    std::ranges::sort(found);
    std::ranges::sort(expected);
    EXPECT_EQ(found, expected);
  });
}

TEST(object_messages, are_whole_for_threads_that_send_at_once) {
  local_group all(2);
  constexpr int each = 40, threads = 3;
  all.run([](const process_group& group, int rank) {
    if (rank == 0) {
      std::vector<std::string> found, expected;
      for (int i = 0; i < threads * each; ++i)
        found.push_back(recv_object<std::string>(group, 1, 5).first);
      for (int t = 0; t < threads; ++t)
        for (int i = 0; i < each; ++i) expected.push_back(text_of(t, i));
      std::ranges::sort(found);
      std::ranges::sort(expected);
      EXPECT_EQ(found, expected);
      return;
    }
    std::vector<int> senders(threads);
    on_each(senders, [&group](int, int t) {
      for (int i = 0; i < each; ++i) send_object(group, text_of(t, i), 0, 5);
    });
  });
}

// The message is lost, and the next one arrives.
TEST(object_messages, are_no_tensors) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    barrier(group);
    if (rank == 0) {
      send_object(group, 5, 1);
      for (const std::int64_t count : {4, 100'000}) send(group, at::ones({count}), 1);
      send_object(group, 6, 1);
      return;
    }
    const auto x = at::ones({4});
    EXPECT_THAT(
        thrown_text<collective_mismatch>([&] { recv(group, x, 0); }),
        HasSubstr("rank 0 has sent an object with tag 0, this recv takes 16 bytes of Float"));
    for (const auto* bytes : {"16 bytes", "400000 bytes"})
      EXPECT_THAT(thrown_text<collective_mismatch>([&] { recv_object<int>(group, 0); }),
                  AllOf(HasSubstr("rank 0 has sent"), HasSubstr(bytes),
                        HasSubstr("of Float with tag 0, this recv takes an object")));
    EXPECT_EQ(recv_object<int>(group, 0).first, 6);
  });
}

TEST(object_messages, end_with_the_timeout_and_check_their_peer) {
  local_group all(2, {.timeout = 60s});
  all.run([](const process_group& group, int rank) {
    EXPECT_THAT(thrown_text<invalid_argument>([&] { send_object(group, 1, rank); }),
                HasSubstr("Invalid destination rank"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { recv_object<int>(group, rank); }),
                HasSubstr("Invalid source rank"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { recv_object<int>(group, 2); }),
                HasSubstr("Group rank 2 is not part of group"));
    barrier(group);
    if (rank == 1) return;
    group.set_timeout(50ms);
    EXPECT_THROW(recv_object<int>(group, 1), collective_timeout);
  });
}

TEST(object_messages, bring_lists) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    const std::vector<std::string> sent{"a", std::string(50'000, 'b'), ""};
    if (rank == 0) {
      send_object_list(group, sent, 1, 3);
      send_object_list(group, sent, 1, 3);
      send_object_list(group, std::vector<std::string>(), 1, 3);
      send_object(group, sent, 1, 3);
      return;
    }
    std::vector<std::string> found(3);
    EXPECT_EQ(recv_object_list(group, found, any_source, 3), 0);
    EXPECT_EQ(found, sent);
    std::vector<std::string> two{"x", "y"};
    EXPECT_THAT(
        thrown_text<collective_mismatch>([&] { recv_object_list(group, two, 0, 3); }),
        HasSubstr("recv_object_list: the list of this rank has 2 objects, that of rank 0 3"));
    EXPECT_EQ(two, (std::vector<std::string>{"x", "y"}));
    std::vector<std::string> none;
    EXPECT_EQ(recv_object_list(group, none, 0, 3), 0);
    std::vector<int> numbers{7, 8, 9};
    EXPECT_THROW(recv_object_list(group, numbers, 0, 3), decode_error);
    EXPECT_EQ(numbers, (std::vector{7, 8, 9}));
  });
}

TEST(object_types, are_compared_by_every_operation) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    // Bytes that would be read as a number: rank 0 gives an integer, and rank 1 reads a double.
    const auto whole = std::int64_t{5};
    const auto refused = [&](auto f) {
      EXPECT_THAT(thrown_text<decode_error>(f),
                  AllOf(HasSubstr("rank 0 has given an object of type"), HasSubstr("rank 1 reads"),
                        HasSubstr("double")));
    };
    const auto both = [&](auto as_integer, auto as_double) {
      if (rank == 0)
        as_integer();
      else
        refused(as_double);
    };
    auto integer = whole;
    auto number = 0.5;
    both([&] { send_object(group, whole, 1); }, [&] { recv_object<double>(group, 0); });
    both([&] { broadcast_object(group, integer, 0); }, [&] { broadcast_object(group, number, 0); });
    EXPECT_EQ(number, 0.5);
    both([&] { broadcast_result(group, 0, [&] { return whole; }); },
         [&] { broadcast_result(group, 0, [] { return 0.5; }); });
    both([&] { EXPECT_THROW(all_gather_object(group, whole), decode_error); },
         [&] { all_gather_object(group, number); });
    both([&] { EXPECT_THROW(all_gather_results(group, [&] { return whole; }), decode_error); },
         [&] { all_gather_results(group, [] { return 0.5; }); });
    both([&] { gather_object(group, whole, 1); }, [&] { gather_object(group, number, 1); });
    both(
        [&] {
          scatter_object(group, std::vector{whole, whole}, 0);
        },
        [&] { scatter_object(group, std::vector<double>(), 0); });
    std::vector<std::int64_t> integers{1, 2};
    std::vector<double> numbers{0.5, 0.25};
    both([&] { broadcast_object_list(group, integers, 0); },
         [&] { broadcast_object_list(group, numbers, 0); });
    EXPECT_EQ(numbers, (std::vector{0.5, 0.25}));
    barrier(group);  // the group goes on

    // Integers of one size and sign are one type.
    if (rank == 0)
      send_object(group, 7LL, 1);
    else
      EXPECT_EQ(recv_object<long>(group, 0).first, 7);
  });
}

TEST(object_types, are_compared_by_their_fields) {
  const auto type = groups::type_of_object<group_reading>();
  auto other = type;
  other.identity ^= 1;  // another structure of that name
  const auto write = [](encoder& out) { out.put(group_reading{3, 0.5}); };
  group_reading found{};
  const auto read = [&](const groups::object_type& written) {
    groups::bytes_to_object(groups::object_to_bytes(written, write), type, 4, 2,
                            [&](decoder& in) { in.get_into(found); });
  };
  read(type);
  EXPECT_EQ(found.at, 3);
  EXPECT_THAT(thrown_text<type_mismatch>([&] { read(other); }),
              AllOf(HasSubstr("group_reading is not the same on rank 4 and on rank 2"),
                    HasSubstr("double value")));
  // Bytes that end anywhere are an error, whatever is missing.
  const auto bytes = groups::object_to_bytes(type, write);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(groups::bytes_to_object(std::span(bytes).first(size), type, 0, 1,
                                         [&](decoder& in) { in.get_into(found); }),
                 decode_error)
        << size;
}

TEST(object_types, are_not_read_from_a_failure) {
  const auto type = groups::type_of_object<int>();
  const auto failed =
      groups::pack_object(type, [](encoder&) { throw std::out_of_range("no such file"); });
  EXPECT_EQ(groups::failure_in(failed.bytes, 1), "no such file");
  EXPECT_THROW(groups::bytes_to_object(failed.bytes, type, 1, 0, [](decoder&) {}), decode_error);
  const auto made = groups::pack_object(type, [](encoder& out) { out.put(5); });
  EXPECT_EQ(groups::failure_in(made.bytes, 1), std::nullopt);
  // Nothing, and what begins like neither.
  for (const auto& bytes : {std::vector<std::byte>(), std::vector{std::byte{2}, std::byte{0}}})
    EXPECT_THAT(thrown_text<decode_error>([&] { groups::failure_in(bytes, 3); }),
                HasSubstr("rank 3 has given neither an object nor a failure"));
}

// A machine without a GPU has none to copy from. What has no elements needs no copy.
TEST(object_tensors, leave_their_device) {
  const auto type = groups::type_of_object<at::Tensor>();
  const auto bytes_of = [&](const at::Tensor& tensor) {
    return groups::object_to_bytes(type, [&](encoder& out) { out.put(tensor); });
  };
  at::Tensor found;
  groups::bytes_to_object(bytes_of(on_pretended_gpu({0, 3}, 1)), type, 0, 1,
                          [&](decoder& in) { in.get_into(found); });
  EXPECT_TRUE(found.device().is_cpu());
  EXPECT_EQ(found.sizes(), (at::IntArrayRef{0, 3}));
  if (detail::device_count(memory_place::kind::cuda) == 0) {
    EXPECT_THAT(thrown_text<encode_error>([&] { bytes_of(on_pretended_gpu({5}, 1)); }),
                HasSubstr("a tensor cannot be copied out of cuda:"));
  } else {
    const auto there = at::ones({5}, at::TensorOptions().device(at::kCUDA));
    groups::bytes_to_object(bytes_of(there), type, 0, 1, [&](decoder& in) { in.get_into(found); });
    EXPECT_TRUE(at::equal(found, at::ones({5})));
  }
  const auto none = at::empty({3}, at::TensorOptions().device(at::kMeta));
  EXPECT_THAT(thrown_text<encode_error>([&] { bytes_of(none); }), HasSubstr("device meta"));
}

}  // namespace
}  // namespace troupe::test
