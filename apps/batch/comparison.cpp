#include "troupe/apps/batch/comparison.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace batch {

namespace {

nlohmann::ordered_json numbers(const way& how) {
  return {{"seconds", how.seconds},
          {"calls", how.calls},
          {"passes", how.passes},
          {"failures", how.failures}};
}

}  // namespace

std::string verdict(const comparison& result) {
  const auto& [batched, alone] = std::tie(result.batched, result.one_by_one);
  std::string text =
      fmt::format("batched {:.1f} s, one by one {:.1f} s: ", batched.seconds, alone.seconds);
  if (!result.complete()) return text + "not comparable: some did not finish";
  const double times = result.times_faster();
  if (times >= 1) return text + fmt::format("{:.1f} times faster", times);
  return text + fmt::format("{:.1f} times slower", 1 / times);
}

std::string to_json(const comparison& result) {
  const nlohmann::ordered_json document = {
      {"job", result.job},
      {"seed", result.seed},
      {"members", result.members},
      {"parameters", result.parameters},
      {"batched", numbers(result.batched)},
      {"one_by_one", numbers(result.one_by_one)},
      {"times_faster", result.complete() ? nlohmann::ordered_json(result.times_faster())
                                         : nlohmann::ordered_json(nullptr)},
  };
  return document.dump(2) + "\n";
}

}  // namespace batch
