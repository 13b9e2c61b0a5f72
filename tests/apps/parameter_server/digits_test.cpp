#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/parameter_server/batches.hpp"
#include "troupe/apps/parameter_server/digits.hpp"
#include "troupe/apps/parameter_server/local.hpp"
#include "troupe/messages/base/error.hpp"

namespace {

using namespace parameter_server;
using testing::AllOf;
using testing::HasSubstr;

// A digit whose first pixel is `first`.
std::string line(int first, int label) {
  std::string text = std::to_string(first);
  for (int i = 1; i < 64; ++i) text += "," + std::to_string(i % 17);
  return text + "," + std::to_string(label) + "\n";
}

std::string compressed(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A file that goes with the object.
class file_of {
public:
  explicit file_of(const std::string& content)
      : path_(testing::TempDir() + "digits_test." + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  file_of(const file_of&) = delete;
  file_of& operator=(const file_of&) = delete;
  ~file_of() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }

private:
  std::string path_;
};

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const troupe::invalid_argument& wrong) {
    return wrong.what();
  }
  return "nothing was wrong";
}

std::string refusal_of_file(const std::string& content) {
  const file_of file(content);
  return refusal([&] { read_digits(file.path()); });
}

std::string refusal_of_text(const std::string& text) {
  return refusal([&] { parse_digits(text); });
}

TEST(digits, are_read_from_lines) {
  const auto some = parse_digits(line(16, 7) + line(0, 0));
  ASSERT_EQ(some.size(), 2);
  EXPECT_EQ(some.images.sizes(), (std::vector<std::int64_t>{2, 1, 8, 8}));
  EXPECT_EQ(some.images.scalar_type(), at::kFloat);
  EXPECT_EQ(some.images[0][0][0][0].item<float>(), 1);
  EXPECT_EQ(some.images[0][0][1][0].item<float>(), 0.5);
  EXPECT_EQ(some.images[1][0][0][0].item<float>(), 0);
  EXPECT_TRUE(some.labels.equal(at::tensor({7, 0}, at::kLong)));
}

TEST(digits, may_end_without_a_newline_or_with_those_of_windows) {
  auto text = line(3, 1) + line(3, 2);
  text.pop_back();
  EXPECT_EQ(parse_digits(text).size(), 2);
  for (auto at = text.find('\n'); at != text.npos; at = text.find('\n', at + 2))
    text.insert(at, "\r");
  EXPECT_EQ(parse_digits(text).size(), 2);
}

TEST(digits, are_read_from_files_compressed_or_not) {
  const auto text = line(3, 1) + line(4, 2);
  for (const auto& content : {text, compressed(text)}) {
    const file_of file(content);
    EXPECT_EQ(read_digits(file.path()).size(), 2);
  }
}

TEST(digits, lines_that_are_none_are_named) {
  const auto good = line(1, 1);
  EXPECT_THAT(refusal_of_text(good + "1,2,3\n"), HasSubstr("line 2: wanted a pixel"));
  EXPECT_THAT(refusal_of_text(good + "\n" + good), HasSubstr("line 2"));
  EXPECT_THAT(refusal_of_text(line(17, 1)), HasSubstr("from 0 to 16 and a comma at value 1"));
  EXPECT_THAT(refusal_of_text(line(-1, 1)), HasSubstr("line 1"));
  EXPECT_THAT(refusal_of_text(line(1, 10)), HasSubstr("wanted a digit from 0 to 9"));
  EXPECT_THAT(refusal_of_text("1.5" + good), HasSubstr("line 1"));
  EXPECT_THAT(refusal_of_text("99999999999999999999" + good), HasSubstr("line 1"));
  EXPECT_THAT(refusal_of_text(good.substr(0, good.size() - 2) + "\n"), HasSubstr("wanted a digit"));
  EXPECT_THAT(refusal_of_text(good.substr(0, good.size() - 1) + ",5\n"),
              HasSubstr("wanted a digit"));
  EXPECT_THAT(refusal_of_text("<html>"), HasSubstr("line 1"));
  EXPECT_THAT(refusal_of_text(std::string(70, '\0')), HasSubstr("line 1"));
  EXPECT_THAT(refusal_of_text(""), HasSubstr("no digits"));
}

TEST(digits, report_what_is_wrong_with_a_file) {
  EXPECT_THAT(refusal([] { read_digits("/no/such/file"); }),
              AllOf(HasSubstr("'/no/such/file'"), HasSubstr("make setup")));
  EXPECT_THAT(refusal([] { read_digits("/"); }), HasSubstr("cannot read digits from '/': "));
  EXPECT_THAT(refusal_of_file(""), HasSubstr("no digits"));
  EXPECT_THAT(refusal_of_file(line(1, 1) + "x"),
              AllOf(HasSubstr("digits_test."), HasSubstr("line 2")));
}

TEST(digits, damaged_files_are_noticed) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += line(i % 17, i % 10);
  const auto whole = compressed(text);
  for (const double share : {0.02, 0.3, 0.99})
    EXPECT_THAT(refusal_of_file(whole.substr(0, std::size_t(share * double(whole.size())))),
                HasSubstr("cannot read digits"));
  int noticed = 0, tried = 0;
  for (std::size_t at = 10; at < whole.size(); at += 7, ++tried) {
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    noticed += refusal_of_file(damaged).find("cannot read digits") == 0;
  }
  EXPECT_EQ(noticed, tried);  // by the checksum at the latest
}

TEST(digits, files_that_unpack_to_too_much_are_refused) {
  const auto bomb = compressed(std::string(std::size_t{80} << 20, '1'));
  EXPECT_LT(bomb.size(), 100'000u);
  EXPECT_THAT(refusal_of_file(bomb), HasSubstr("more than 64 MiB"));
}

TEST(digits, are_split_the_same_way_always) {
  std::string text;
  for (int i = 0; i < 11; ++i) text += line(i, i % 10);
  const auto parts = split(parse_digits(text));
  EXPECT_TRUE(parts.test.labels.equal(at::tensor({0, 5, 0}, at::kLong)));
  EXPECT_TRUE(parts.train.labels.equal(at::tensor({1, 2, 3, 4, 6, 7, 8, 9}, at::kLong)));
  EXPECT_EQ(parts.train.images[7][0][0][0].item<float>(), 9 / 16.f);
  EXPECT_TRUE(share_of(parts.train, 1, 3).labels.equal(at::tensor({2, 6, 9}, at::kLong)));
  EXPECT_THROW(share_of(parts.train, 3, 3), troupe::invalid_argument);
  EXPECT_THROW(share_of(parts.train, 0, 9), troupe::invalid_argument);
}

TEST(digits, of_scikit_learn_are_all_there) {
  const auto all = read_digits(default_digits_file());
  EXPECT_EQ(all.size(), 1797);
  EXPECT_EQ(all.images.max().item<float>(), 1);
  EXPECT_EQ(at::bincount(all.labels).min().item<int>(), 174);
  const auto parts = split(all);
  EXPECT_EQ(parts.test.size(), 360);
  EXPECT_EQ(parts.train.size(), 1437);
}

TEST(batches, deal_all_in_a_new_order_each_time) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += line(i, i);
  batches dealt(parse_digits(text), 4, common::make_generator(3));
  EXPECT_EQ(dealt.count(), 3);
  std::vector<at::Tensor> orders;
  for (int round = 0; round < 2; ++round) {
    std::vector<at::Tensor> labels;
    for (const std::int64_t size : {4, 4, 2}) {
      const auto batch = dealt.next();
      EXPECT_EQ(batch.size(), size);
      EXPECT_TRUE((batch.images.select(3, 0).select(2, 0).flatten() * 16)
                      .to(at::kLong)
                      .equal(batch.labels));
      labels.push_back(batch.labels);
    }
    orders.push_back(at::cat(labels));
    EXPECT_TRUE(std::get<0>(orders.back().sort()).equal(at::arange(10)));
  }
  EXPECT_FALSE(orders[0].equal(orders[1]));
  EXPECT_THROW(batches(parse_digits(text), 0, common::make_generator(3)), troupe::invalid_argument);
}

TEST(network, gradients_are_those_of_the_last_batch) {
  network model(common::make_generator(1));
  const auto some = parse_digits(line(1, 1) + line(2, 2));
  const double loss = model.compute_gradients(some);
  EXPECT_NEAR(loss, std::log(10), 0.5);
  const auto first = model.parameters().front().grad().clone();
  EXPECT_EQ(model.compute_gradients(some), loss);
  EXPECT_TRUE(model.parameters().front().grad().equal(first));
}

class learns : public testing::TestWithParam<std::uint64_t> {};

TEST_P(learns, digits_in_one_process) {
  at::set_num_threads(1);
  const auto parts = split(read_digits(default_digits_file()));
  int steps = 0;
  auto model = train_locally(parts.train, {.seed = GetParam()}, [&](double) { ++steps; });
  EXPECT_EQ(steps, 15 * 90);
  EXPECT_GT(accuracy(model, parts.test), 0.97);
}

INSTANTIATE_TEST_SUITE_P(seeds, learns, testing::Range<std::uint64_t>(1, 6));

}  // namespace
