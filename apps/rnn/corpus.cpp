#include "troupe/apps/rnn/corpus.hpp"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "troupe/messages/base/error.hpp"

namespace rnn {

namespace {

constexpr std::size_t cycle = 1000, held_out = 50;  // lines

bool is_held_out(std::size_t line) { return line % cycle >= cycle - held_out; }

using numbers = std::unordered_map<std::string_view, std::int64_t>;

numbers most_frequent(const std::vector<std::vector<std::string>>& lines, std::int64_t most) {
  struct entry {
    std::string_view word;
    std::int64_t count;
  };
  std::vector<entry> entries;  // in the order of the text
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (is_held_out(i)) continue;
    for (const auto& word : lines[i]) {
      const auto [place, is_new] = places.try_emplace(word, entries.size());
      if (is_new) entries.push_back({word, 0});
      ++entries[place->second].count;
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const entry& a, const entry& b) { return a.count > b.count; });
  entries.resize(std::min(entries.size(), static_cast<std::size_t>(most - 1)));
  numbers out;
  for (const auto& one : entries) out.emplace(one.word, static_cast<std::int64_t>(out.size()) + 1);
  return out;
}

}  // namespace

corpus make_corpus(const std::vector<std::vector<std::string>>& lines, std::int64_t vocabulary) {
  if (vocabulary < 2) throw troupe::invalid_argument("a vocabulary has at least two words");
  if (lines.size() < cycle)
    throw troupe::invalid_argument(
        fmt::format("a text of {} lines is too short: {} are needed, of which some are held out",
                    lines.size(), cycle));
  const auto known = most_frequent(lines, vocabulary);
  std::vector<std::int64_t> train, test;
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (const auto& word : lines[i]) {
      const auto place = known.find(word);
      (is_held_out(i) ? test : train).push_back(place == known.end() ? 0 : place->second);
    }
  return {.words = static_cast<std::int64_t>(known.size()) + 1,
          .train = at::tensor(train, at::kLong),
          .test = at::tensor(test, at::kLong)};
}

double unigram_perplexity(const corpus& text) {
  const auto counts = text.train.bincount({}, text.words).to(at::kDouble).add_(1);
  const auto logs = counts.div(counts.sum()).log();
  return logs.index_select(0, text.test).mean().neg().exp().item<double>();
}

}  // namespace rnn
