#include "troupe/transport/rendezvous/exchange_round.hpp"

#include <fmt/format.h>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

namespace {

// "10 s", "0.25 s".
std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:.6g} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace

exchange_round::exchange_round(settings s, std::string name, std::string failing)
    : settings_(std::move(s)), name_(std::move(name)), failing_(std::move(failing)) {}

std::string exchange_round::key(std::uint32_t rank) const {
  return fmt::format("{}/{}", name_, rank);
}

store::bytes exchange_round::give(const store::bytes& value) {
  auto& place = *settings_.place;
  auto there = place.compare_set(key(settings_.rank), {}, value);
  if (there == value && place.add(name_ + "/count", 1) == settings_.world_size) collect();
  return there;
}

void exchange_round::collect() {
  verdict all;
  all.values.reserve(settings_.world_size);
  for (std::uint32_t rank = 0; rank < settings_.world_size; ++rank)
    all.values.push_back(settings_.place->get(key(rank), std::chrono::milliseconds{0}));
  propose(all);
}

verdict exchange_round::propose(const verdict& v) {
  return decode_verdict(settings_.place->compare_set(name_ + "/verdict", {}, encode(v)));
}

bool exchange_round::fail(const std::string& text) { return propose({text, {}}).failure == text; }

std::vector<store::bytes> exchange_round::take() {
  verdict v;
  try {
    v = decode_verdict(settings_.place->get(name_ + "/verdict", time_left(settings_.deadline)));
  } catch (const store_error&) {
    // If the store itself is lost, asking who is missing throws what happened to it.
    v = propose({missing_text(), {}});
  }
  if (!v.failure.empty()) throw rendezvous_error(v.failure);
  if (v.values.size() != settings_.world_size)
    throw rendezvous_error(fmt::format("the verdict of a job of {} ranks has values of {}",
                                       settings_.world_size, v.values.size()));
  return std::move(v.values);
}

std::string exchange_round::missing_text() {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < settings_.world_size; ++rank) {
    const auto k = key(rank);
    if (!settings_.place->check(std::span(&k, 1))) missing.push_back(rank);
  }
  std::string text =
      missing.empty()
          ? fmt::format(
                "all {} ranks came, but the last of them was lost before it could report it",
                settings_.world_size)
          : fmt::format("{} {} within {}", name_ranks(missing, settings_.world_size), failing_,
                        in_seconds(settings_.timeout));
  const auto refused = settings_.refusals ? settings_.refusals() : std::string();
  if (!refused.empty()) text += "; " + refused;
  return text;
}

std::string name_ranks(std::span<const std::uint32_t> ranks, std::uint32_t world_size) {
  constexpr std::size_t named = 32;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  if (ranks.size() > named) {
    out += fmt::format("{} and {} more", fmt::join(ranks.first(named), ", "), ranks.size() - named);
  } else {
    if (ranks.size() > 1)
      out += fmt::format("{} and ", fmt::join(ranks.first(ranks.size() - 1), ", "));
    out += std::to_string(ranks.back());
  }
  return out + fmt::format(" of {}", world_size);
}

}  // namespace troupe::transport
