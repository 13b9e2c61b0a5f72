#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "troupe/apps/rnn/batches.hpp"
#include "troupe/apps/rnn/corpus.hpp"
#include "troupe/apps/rnn/words.hpp"
#include "troupe/messages/base/error.hpp"

namespace {

using namespace rnn;
using testing::ElementsAre;
using testing::HasSubstr;

using text_lines = std::vector<std::vector<std::string>>;

std::string refusal_of_file(const std::string& path) {
  try {
    read_text(path);
  } catch (const troupe::invalid_argument& wrong) {
    return wrong.what();
  }
  return "nothing was wrong";
}

TEST(rnn_words, are_letters_and_digits_or_one_other_character) {
  EXPECT_THAT(
      lines_of_words("And God said, Let there be LIGHT:\n\n 2x-3 \"Yes\""),
      ElementsAre(ElementsAre("and", "god", "said", ",", "let", "there", "be", "light", ":", "\n"),
                  ElementsAre("2x", "-", "3", "\"", "yes", "\"", "\n")));
}

TEST(rnn_words, have_apostrophes_in_between_only) {
  EXPECT_THAT(lines_of_words("Aaron's rod, the sons' 'tis o''er"),
              ElementsAre(ElementsAre("aaron's", "rod", ",", "the", "sons", "'", "'", "tis", "o",
                                      "'", "'", "er", "\n")));
}

TEST(rnn_words, keep_bytes_of_other_alphabets_together) {
  EXPECT_THAT(lines_of_words("Über\r\nÄ\t\v"),
              ElementsAre(ElementsAre("Über", "\n"), ElementsAre("Ä", "\n")));
}

TEST(rnn_text, that_cannot_be_read_is_named_with_the_reason) {
  EXPECT_THAT(refusal_of_file("/no/such/book"),
              testing::AllOf(HasSubstr("'/no/such/book'"), HasSubstr("No such file")));
  EXPECT_THAT(refusal_of_file("/tmp"), HasSubstr("directory"));
  EXPECT_THAT(refusal_of_file("/dev/null"), HasSubstr("it is empty"));
}

// Line i of n has the word "often" i % 3 times, and one of its own.
text_lines numbered_lines(int n) {
  text_lines lines;
  for (int i = 0; i < n; ++i) {
    lines.emplace_back(static_cast<std::size_t>(i % 3), "often");
    lines.back().push_back("word" + std::to_string(i));
    lines.back().emplace_back("\n");
  }
  return lines;
}

TEST(rnn_corpus, numbers_words_by_how_frequent_they_are) {
  const auto text = make_corpus(numbered_lines(1000), 5);
  EXPECT_EQ(text.words, 5);
  // 950 ends of lines and 949 times "often"; of the others, all there once, the first two.
  const auto first = text.train.slice(0, 0, 9);
  EXPECT_TRUE(first.equal(at::tensor({3, 1, 2, 4, 1, 2, 2, 0, 1}, at::kLong))) << first;
}

TEST(rnn_corpus, holds_out_five_percent_whose_words_are_not_known) {
  const auto text = make_corpus(numbered_lines(2000), 1 << 20);
  EXPECT_EQ(text.words, 2 * 950 + 3);
  EXPECT_EQ(text.test.eq(1).sum().item<int>() + text.test.eq(2).sum().item<int>() +
                text.test.eq(0).sum().item<int>(),
            text.test.size(0));
  EXPECT_EQ(text.test.eq(0).sum().item<int>(), 100);
  EXPECT_EQ(text.train.eq(0).sum().item<int>(), 0);
}

TEST(rnn_corpus, needs_a_text_of_some_length) {
  EXPECT_THROW(make_corpus(numbered_lines(999), 100), troupe::invalid_argument);
  EXPECT_THROW(make_corpus(numbered_lines(1000), 1), troupe::invalid_argument);
}

TEST(rnn_corpus, knows_the_perplexity_of_counting_words) {
  corpus text{.words = 3,
              .train = at::tensor({1, 1, 1, 2, 2}, at::kLong),
              .test = at::tensor({1, 2, 0}, at::kLong)};
  EXPECT_NEAR(unigram_perplexity(text), std::pow((4. / 8) * (3. / 8) * (1. / 8), -1. / 3), 1e-12);
}

TEST(rnn_batches, go_on_where_the_one_before_has_ended) {
  const batches all(at::arange(23, at::kLong), 2, 4);  // 0 to 10, 11 to 21
  EXPECT_EQ(all.count(), 3);
  EXPECT_EQ(all.words(), 20);
  EXPECT_TRUE(all[1].words.equal(at::tensor({4, 15, 5, 16, 6, 17, 7, 18}, at::kLong).view({4, 2})));
  EXPECT_TRUE(all[1].next.equal(at::tensor({5, 16, 6, 17, 7, 18, 8, 19}, at::kLong)));
  EXPECT_TRUE(all[2].next.equal(at::tensor({9, 20, 10, 21}, at::kLong)));
  EXPECT_THROW(batches(at::arange(3, at::kLong), 2, 4), troupe::invalid_argument);
}

}  // namespace
