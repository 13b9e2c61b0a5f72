#include "troupe/actors/groups/backend/collective_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::groups {

std::string to_string(const operation_place& where) {
  if (where.sequence == 0)
    return fmt::format("{} of group '{}', on rank {}", to_string(where.kind), where.group,
                       where.rank);
  return fmt::format("{}, sequence number {} of group '{}', on rank {}", to_string(where.kind),
                     where.sequence, where.group, where.rank);
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) out += i + 1 == ranks.size() ? " and " : ", ";
    out += std::to_string(ranks[i]);
  }
  return out;
}

std::exception_ptr timeout_error(const operation_place& where, std::chrono::milliseconds limit,
                                 const std::vector<int>& missing) {
  fault f;
  f.code = errc::rpc_timeout;
  f.limit = limit;
  f.text = fmt::format("{}, timed out after {} ms", to_string(where), limit.count());
  if (!missing.empty())
    f.text +=
        fmt::format(": {} {} missing", rank_list(missing), missing.size() == 1 ? "is" : "are");
  return std::make_exception_ptr(collective_timeout(std::move(f)));
}

std::exception_ptr mismatch_error(const operation_place& where,
                                  std::span<const operation_signature> asked) {
  // Those who asked for the same thing are named together, in the order of their first rank.
  std::vector<std::pair<std::string, std::vector<int>>> wishes;
  for (std::size_t rank = 0; rank < asked.size(); ++rank) {
    auto text = to_string(asked[rank]);
    auto at = std::ranges::find(wishes, text, [](const auto& one) { return one.first; });
    if (at == wishes.end()) at = wishes.insert(wishes.end(), {std::move(text), {}});
    at->second.push_back(static_cast<int>(rank));
  }
  std::string difference;
  for (const auto& [text, ranks] : wishes)
    difference +=
        fmt::format("{}{} asked for {}", difference.empty() ? "" : "; ", rank_list(ranks), text);
  return mismatch_error(where, difference);
}

std::exception_ptr mismatch_error(const operation_place& where, const std::string& difference) {
  fault f;
  f.code = errc::invalid_argument;
  f.text = fmt::format("{}: the ranks disagree: {}", to_string(where), difference);
  return std::make_exception_ptr(collective_mismatch(std::move(f)));
}

namespace {

// The error `why` with another text: of its class, or group_failed.
template <class F>
std::exception_ptr rephrased(const std::exception_ptr& why, const F& text) {
  const auto changed = [&](fault f) {
    f.text = text(f.text);
    return f;
  };
  try {
    std::rethrow_exception(why);
  } catch (const collective_timeout& e) {
    return std::make_exception_ptr(collective_timeout(changed(e.fault())));
  } catch (const collective_mismatch& e) {
    return std::make_exception_ptr(collective_mismatch(changed(e.fault())));
  } catch (const group_failed& e) {
    return std::make_exception_ptr(group_failed(changed(e.fault())));
  } catch (const error& e) {
    return to_exception(changed(e.fault()));
  } catch (...) {
    // What a backend of somebody else throws may be no std::exception.
    auto f = describe(why, {}, {});
    f.code = errc::cancelled;
    return std::make_exception_ptr(group_failed(changed(std::move(f))));
  }
}

}  // namespace

std::exception_ptr error_at(const operation_place& where, const std::exception_ptr& why) {
  return rephrased(
      why, [&](const std::string& text) { return fmt::format("{}: {}", to_string(where), text); });
}

std::exception_ptr error_with(const std::exception_ptr& why, const std::string& more) {
  return rephrased(why, [&](const std::string& text) { return text + more; });
}

}  // namespace troupe::groups
