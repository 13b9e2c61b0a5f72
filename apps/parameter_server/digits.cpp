#include "troupe/apps/parameter_server/digits.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <zlib.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <vector>

#include "troupe/apps/common/data_file.hpp"
#include "troupe/messages/base/error.hpp"

namespace parameter_server {

namespace {

constexpr std::int64_t side = 8;
constexpr std::size_t pixels = side * side;
constexpr int brightest = 16;
constexpr std::size_t largest_text = std::size_t{64} << 20;  // what else a small file may unpack to

struct closer {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using open_file = std::unique_ptr<gzFile_s, closer>;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw troupe::invalid_argument(fmt::format("cannot read digits from '{}': {}", path, why));
}

std::string read_text(const std::string& path) {
  errno = 0;
  const open_file file(gzopen(path.c_str(), "rb"));
  if (!file) {
    const int why = errno;
    refuse(path, why == ENOENT ? "there is no such file; `make setup` fetches the digits, "
                                 "--data FILE names another"
                               : std::strerror(why));
  }
  std::string text;
  std::vector<char> block(1 << 16);
  for (int got;
       (got = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()))) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(got));
    if (text.size() > largest_text) refuse(path, "it unpacks to more than 64 MiB");
  }
  int code = Z_OK;
  const char* why = gzerror(file.get(), &code);
  if (code == Z_ERRNO) refuse(path, std::strerror(errno));
  if (code != Z_OK) refuse(path, fmt::format("it is damaged ({})", why));
  return text;
}

/// Takes a whole number from `smallest` to `largest` off the front of `line`; false: there is none.
bool take(std::string_view& line, int smallest, int largest, int& out) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), out);
  if (error != std::errc() || out < smallest || out > largest) return false;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return true;
}

bool take_comma(std::string_view& line) {
  if (line.empty() || line.front() != ',') return false;
  line.remove_prefix(1);
  return true;
}

digits chosen(const digits& all, const at::Tensor& places) {
  return {all.images.index_select(0, places), all.labels.index_select(0, places)};
}

}  // namespace

std::string default_digits_file() { return common::data_file("digits.csv.gz", TROUPE_DIGITS); }

digits read_digits(const std::string& path) {
  const auto text = read_text(path);
  try {
    return parse_digits(text);
  } catch (const troupe::invalid_argument& wrong) {
    refuse(path, wrong.what());
  }
}

digits parse_digits(std::string_view text) {
  std::vector<float> images;
  std::vector<std::int64_t> labels;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto length = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    int value = 0;
    for (std::size_t i = 0; i < pixels; ++i) {
      if (!take(line, 0, brightest, value) || !take_comma(line))
        throw troupe::invalid_argument(
            fmt::format("line {}: wanted a pixel from 0 to {} and a comma at value {}", number,
                        brightest, i + 1));
      images.push_back(static_cast<float>(value) / brightest);
    }
    if (!take(line, 0, 9, value) || !line.empty())
      throw troupe::invalid_argument(
          fmt::format("line {}: wanted a digit from 0 to 9 at its end", number));
    labels.push_back(value);
  }
  if (labels.empty()) throw troupe::invalid_argument("there are no digits in it");
  const auto count = static_cast<std::int64_t>(labels.size());
  return {at::tensor(images, at::kFloat).view({count, 1, side, side}),
          at::tensor(labels, at::kLong)};
}

digit_split split(const digits& all) {
  const auto places = at::arange(all.size(), at::kLong);
  const auto is_test = places.remainder(5).eq(0);
  return {.train = chosen(all, places.masked_select(is_test.logical_not())),
          .test = chosen(all, places.masked_select(is_test))};
}

digits share_of(const digits& all, std::int64_t i, std::int64_t count) {
  if (i < 0 || i >= count || count > all.size())
    throw troupe::invalid_argument(
        fmt::format("trainer {} of {} has no share of {} digits", i, count, all.size()));
  return chosen(all, at::arange(i, all.size(), count, at::kLong));
}

}  // namespace parameter_server
