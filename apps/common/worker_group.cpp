#include "troupe/apps/common/worker_group.hpp"

namespace common {

std::vector<troupe::worker_info> homes(const troupe::node& node) {
  auto others = node.workers().others();
  if (others.empty())
    throw troupe::invalid_argument(
        "rank 0 has work for other ranks, and there are none: start 2 ranks or more, as with "
        "troupe-run -n 3");
  return others;
}

bool run_job(double limit_seconds, const std::function<bool(const troupe::node&)>& serve,
             troupe::rpc_options options) {
  const auto limit =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(limit_seconds));
  options.rpc_timeout = 2 * limit;
  options.hang_limit = limit;
  const auto node = troupe::init_rpc(options);
  homes(node);
  bool good = true;
  if (node.rank() == 0) {
    try {
      good = serve(node);
    } catch (...) {
      try {  // so that the others do not take this rank for lost
        node.shutdown(true, std::chrono::seconds(5));
      } catch (const troupe::error&) {
      }
      throw;
    }
  }
  node.shutdown();  // the others serve rank 0 until then
  return good;
}

void add_failure(std::vector<std::string>& failures, std::uint32_t member, const std::string& why) {
  const auto reason = ": " + why;
  for (auto& failure : failures)
    if (failure.ends_with(reason)) {
      failure.insert(failure.size() - reason.size(), ", " + std::to_string(member));
      return;
    }
  failures.push_back(std::to_string(member) + reason);
}

void throw_nobody_left(const std::vector<std::string>& failures) {
  throw troupe::peer_lost("no member has finished; " + failures.front());
}

}  // namespace common
