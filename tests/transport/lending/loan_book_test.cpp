#include "troupe/transport/lending/loan_book.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::lending {
namespace {

TEST(loan_book, keeps_what_is_lent_until_its_end) {
  loan_book book(1000);
  const auto kept = std::make_shared<int>(1);
  const auto loan = book.lend(kept, 64, 100);
  EXPECT_EQ(kept.use_count(), 2);
  EXPECT_EQ(book.loans(), 1u);
  EXPECT_EQ(book.bytes(), 100u);
  book.end(loan, 0);
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(book.bytes(), 0u);
  EXPECT_THROW(book.end(loan, 0), decode_error);
  EXPECT_THROW(book.give_back(loan, 64, 100), decode_error);
}

TEST(loan_book, what_is_handed_over_comes_back_whole_and_ends) {
  using way = loan_book::way;
  loan_book book(1000);
  const auto kept = std::make_shared<int>(1);
  const auto loan = book.lend(kept, 64, 100, way::handed);
  EXPECT_THROW(book.give_back(loan, 64, 100), decode_error);  // its holder may write to it
  EXPECT_THROW(book.hand_back(loan, 64, 50), decode_error);
  EXPECT_THROW(book.hand_back(loan, 80, 84), decode_error);
  EXPECT_EQ(book.hand_back(loan, 64, 100), kept);
  EXPECT_EQ(book.loans(), 0u);
  EXPECT_THROW(book.hand_back(loan, 64, 100), decode_error);
  EXPECT_THROW(book.end(loan, 0), decode_error);
  const auto lent = book.lend(kept, 64, 100);
  EXPECT_THROW(book.hand_back(lent, 64, 100), decode_error);  // it is read here, too
  const auto dropped = book.lend(kept, 200, 100, way::handed);
  book.end(dropped, 0);
  EXPECT_EQ(book.loans(), 1u);
}

TEST(loan_book, a_number_names_one_loan) {
  loan_book book(1000);
  const auto first = book.lend(std::make_shared<int>(1), 0, 10);
  book.end(first, 0);
  const auto second = book.lend(std::make_shared<int>(2), 0, 10);  // in the same place
  EXPECT_NE(first, second);
  EXPECT_THROW(book.end(first, 0), decode_error);
  book.end(second, 0);
}

TEST(loan_book, what_nobody_has_heard_of_ends_with_the_connection) {
  for (const bool reader_first : {true, false}) {
    loan_book book(1000);
    const auto unheard = std::make_shared<int>(1);
    const auto read = std::make_shared<int>(2);
    const auto on_its_way_back = std::make_shared<int>(3);
    book.lend(unheard, 0, 100);
    const auto number = book.lend(read, 100, 100);
    const auto ending = book.lend(on_its_way_back, 200, 100);
    book.end(ending, 1);
    if (reader_first) {
      book.only_read({number});
      EXPECT_EQ(book.loans(), 3u);  // messages may be on their way
      book.close();
    } else {
      book.close();
      EXPECT_EQ(book.loans(), 3u);
      book.only_read({number});
    }
    EXPECT_EQ(book.bytes(), 100u);
    EXPECT_EQ(unheard.use_count(), 1);
    EXPECT_EQ(on_its_way_back.use_count(), 1);
    EXPECT_EQ(read.use_count(), 2);
    book.end(number, 1);  // given back in a message that never comes
    EXPECT_EQ(book.loans(), 0u);
  }
}

TEST(loan_book, lends_no_more_than_its_limit) {
  loan_book book(100);
  const auto loan = book.lend(std::make_shared<int>(1), 0, 60);
  EXPECT_NE(loan, 0u);
  EXPECT_EQ(book.lend(std::make_shared<int>(1), 0, 41), 0u);
  EXPECT_EQ(book.lend(std::make_shared<int>(1), 0, ~0ULL), 0u);
  EXPECT_NE(book.lend(std::make_shared<int>(1), 0, 40), 0u);
  book.end(loan, 0);
  EXPECT_NE(book.lend(std::make_shared<int>(1), 0, 60), 0u);
}

TEST(loan_book, lends_nothing_once_it_is_closed) {
  loan_book book(100);
  const auto loan = book.lend(std::make_shared<int>(1), 0, 10);
  book.close();
  EXPECT_EQ(book.lend(std::make_shared<int>(1), 0, 10), 0u);
  EXPECT_EQ(book.loans(), 1u);
  book.end(loan, 0);
}

TEST(loan_book, bytes_come_back_in_part_and_more_than_once) {
  loan_book book(1000);
  const auto kept = std::make_shared<int>(1);
  const auto loan = book.lend(kept, 100, 50);
  EXPECT_EQ(book.give_back(loan, 100, 50), kept);
  EXPECT_EQ(book.give_back(loan, 149, 1), kept);
  for (const auto& [offset, size] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {99, 2}, {100, 51}, {149, 2}, {150, 1}, {120, 0}, {~0ULL, 1}, {120, ~0ULL}})
    EXPECT_THROW(book.give_back(loan, offset, size), decode_error) << offset << ' ' << size;
  EXPECT_THROW(book.end(loan, 1), decode_error);  // fewer than have come already
  book.end(loan, 2);
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(loan_book, an_end_waits_for_bytes_that_are_still_on_their_way_back) {
  loan_book book(1000);
  const auto kept = std::make_shared<int>(1);
  const auto loan = book.lend(kept, 0, 50);
  book.end(loan, 2);
  EXPECT_EQ(kept.use_count(), 2);
  EXPECT_EQ(book.give_back(loan, 0, 50), kept);
  EXPECT_EQ(kept.use_count(), 2);
  EXPECT_EQ(book.give_back(loan, 0, 50), kept);
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_THROW(book.end(loan, 2), decode_error);
}

TEST(loan_book, the_end_of_a_process_ends_all) {
  loan_book book(1000);
  const auto kept = std::make_shared<int>(1);
  for (int i = 0; i < 10; ++i) book.lend(kept, 0, 50);
  book.end_all();
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(book.loans(), 0u);
  EXPECT_EQ(book.bytes(), 0u);
  EXPECT_NE(book.lend(kept, 0, 1000), 0u);
}

// Messages in any order, and nonsense in between: what is kept is exactly what is out.
TEST(loan_book, keeps_exactly_what_is_out) {
  struct out {
    std::shared_ptr<int> kept;
    std::uint64_t on_the_way = 0;  // times given back whose message has not come
    std::uint64_t given_back = 0;
    bool end_sent = false;
    bool end_came = false;
  };
  std::mt19937 random(3);
  loan_book book(100'000);
  std::map<std::uint64_t, out> model;
  for (int step = 0; step < 200'000; ++step) {
    const auto choice = random() % 8;
    if (choice < 2 && model.size() < 100) {
      auto kept = std::make_shared<int>(step);
      const auto loan = book.lend(kept, 64, 100);
      ASSERT_NE(loan, 0u);
      ASSERT_TRUE(model.emplace(loan, out{std::move(kept)}).second);
      continue;
    }
    if (model.empty()) continue;
    const auto at = std::next(model.begin(), random() % model.size());
    auto& [loan, one] = *at;
    if (choice < 4 && !one.end_sent) {
      ++one.on_the_way;
      ++one.given_back;
    } else if (choice == 4 && one.on_the_way > 0) {
      ASSERT_EQ(book.give_back(loan, 64, 100), one.kept);
      --one.on_the_way;
    } else if (choice == 5) {
      one.end_sent = true;
    } else if (choice == 6 && one.end_sent && !one.end_came) {
      book.end(loan, one.given_back);
      one.end_came = true;
    } else if (choice == 7) {
      EXPECT_THROW(book.end(loan ^ (1ULL << 40), 0), decode_error);
      if (one.end_came) {
        EXPECT_THROW(book.end(loan, one.given_back), decode_error);
      }
    }
    const bool done = one.end_came && one.on_the_way == 0;
    ASSERT_EQ(one.kept.use_count(), done ? 1 : 2);
    if (done) model.erase(at);
    ASSERT_EQ(book.loans(), model.size());
    ASSERT_EQ(book.bytes(), model.size() * 100);
  }
}

TEST(loan_book, threads_lend_and_end) {
  loan_book book(1 << 30);
  const auto kept = std::make_shared<int>(1);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 20'000; ++i) {
          const auto loan = book.lend(kept, 0, 10);
          if (i % 3 == 0) book.give_back(loan, 0, 10);
          book.end(loan, i % 3 == 0);
        }
      });
  }
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(book.loans(), 0u);
}

}  // namespace
}  // namespace troupe::transport::lending
