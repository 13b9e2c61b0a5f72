#include "tests/bench/timing.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "troupe/messages/base/error.hpp"

namespace troupe::bench {

namespace {

void write(const std::string& path, const nlohmann::json& document) {
  std::ofstream file(path);
  file << document.dump(1) << '\n';
  if (!file.flush()) throw invalid_argument("cannot write the measurements to " + path);
}

}  // namespace

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

double percentile(std::vector<double> values, double share) {
  const auto at = std::min(values.size() - 1, static_cast<std::size_t>(share * values.size()));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[at];
}

std::vector<double> call_times(const std::function<void()>& call, const effort& how) {
  auto start = clock::now();
  for (std::size_t i = 0; i < how.warm_up && seconds_since(start) < how.seconds / 4; ++i) call();
  std::vector<double> taken;
  taken.reserve(std::min<std::size_t>(how.most, 1'000'000));
  start = clock::now();
  while (taken.size() < how.least ||
         (taken.size() < how.most && seconds_since(start) < how.seconds)) {
    const auto before = clock::now();
    call();
    taken.push_back(seconds_since(before));
  }
  return taken;
}

double times_as_long(const std::function<void()>& first, const std::function<void()>& second,
                     const effort& how) {
  std::vector<double> taken[2];
  const auto start = clock::now();
  for (std::size_t i = 0; i < how.warm_up + how.least || seconds_since(start) < how.seconds; ++i) {
    for (const int which : {0, 1}) {
      const auto before = clock::now();
      (which == 0 ? first : second)();
      if (i >= how.warm_up) taken[which].push_back(seconds_since(before));
    }
  }
  return percentile(taken[0], 0.5) / percentile(taken[1], 0.5);
}

measurement times_of(const std::vector<double>& seconds, std::size_t bytes) {
  return {"us", percentile(seconds, 0.5) * 1e6, bytes, percentile(seconds, 0.99) * 1e6};
}

measurement rate_of(double calls, const std::vector<double>& seconds) {
  return {"calls/s", calls / percentile(seconds, 0.5)};
}

void write(const std::string& path, const std::string& row, std::uint32_t ranks,
           const std::vector<measurement>& measured) {
  write_rows(path, ranks, {{row, measured}});
}

void write_rows(const std::string& path, std::uint32_t ranks,
                const std::map<std::string, std::vector<measurement>>& measured) {
  auto document = nlohmann::json::array();
  for (const auto& [row, all] : measured)
    for (const auto& m : all) {
      nlohmann::json line = {
          {"row", row}, {"bytes", m.bytes}, {"ranks", ranks}, {"unit", m.unit}, {"value", m.value}};
      if (m.p99 >= 0) line["p99"] = m.p99;
      document.push_back(std::move(line));
    }
  write(path, document);
}

void write_reason(const std::string& path, const std::string& row, const std::string& why) {
  write(path, nlohmann::json::array({{{"row", row}, {"not_here", why}}}));
}

}  // namespace troupe::bench
