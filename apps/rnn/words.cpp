#include "troupe/apps/rnn/words.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "troupe/apps/common/data_file.hpp"
#include "troupe/messages/base/error.hpp"

namespace rnn {

namespace {

// Those of the "C" locale, whatever the program's is.
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_part_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) > 127;
}

char made_small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  const auto at = [&](std::size_t i) { return i < line.size() ? made_small(line[i]) : ' '; };
  for (std::size_t i = 0; i < line.size();) {
    std::string word;
    while (is_part_of_word(at(i)) || (at(i) == '\'' && !word.empty() && is_part_of_word(at(i + 1))))
      word += at(i++);
    if (word.empty()) word = at(i++);
    if (!is_space(word.front())) words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

std::string default_text_file() { return common::data_file("bible.txt", TROUPE_TEXT); }

std::string read_text(const std::string& path) {
  errno = 0;
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (file && text.good() && !text.view().empty()) return text.str();
  const int why = errno == 0 ? ENODATA : errno;
  throw troupe::invalid_argument(
      fmt::format("cannot read a text from '{}': {}", path,
                  why == ENOENT && path == default_text_file()
                      ? "it is not there; `make setup` fetches it, --text FILE names another"
                  : why == ENODATA ? "it is empty"
                                   : std::strerror(why)));
}

std::vector<std::vector<std::string>> lines_of_words(std::string_view text) {
  std::vector<std::vector<std::string>> lines;
  while (!text.empty()) {
    const auto length = std::min(text.find('\n'), text.size());
    auto words = words_of(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
    if (words.empty()) continue;
    words.emplace_back("\n");
    lines.push_back(std::move(words));
  }
  return lines;
}

}  // namespace rnn
