#include "troupe/actors/deadlock/wait_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::deadlock {

namespace {

// At most so many handlers of a chain are named in an error.
constexpr std::size_t most_named = 8;

bool waits_for_thread(prospect what) {
  return what == prospect::thread || what == prospect::thread_actor;
}

}  // namespace

void wait_graph::add(const incarnation& node, const held_handler& one) {
  if (!nodes_[node].handlers.emplace(one.number, one).second) return;
  if (known_.insert(one.waits_for).second) open_[one.waits_for.at].push_back(one.waits_for);
}

void wait_graph::add(const incarnation& node, const std::vector<question>& asked,
                     const report& what) {
  for (const auto& one : what.handlers) add(node, one);
  if (what.max_threads != 0) nodes_[node].max_threads = what.max_threads;
  for (std::size_t i = 0; i < asked.size() && i < what.outlooks.size(); ++i)
    outlooks_.emplace(asked[i], what.outlooks[i]);
}

std::map<incarnation, std::vector<question>> wait_graph::take_open_questions() {
  auto out = std::exchange(open_, {});
  for (auto& [node, questions] : out) {
    if (questions.size() <= most_in_message) continue;
    const auto rest = questions.begin() + most_in_message;
    open_[node].assign(rest, questions.end());
    questions.erase(rest, questions.end());
  }
  return out;
}

const held_handler* wait_graph::find(const place& where) const {
  const auto node = nodes_.find(where.first);
  if (node == nodes_.end()) return nullptr;
  const auto found = node->second.handlers.find(where.second);
  return found == node->second.handlers.end() ? nullptr : &found->second;
}

const outlook& wait_graph::outlook_of(const held_handler& one) const {
  static const outlook unknown;
  const auto found = outlooks_.find(one.waits_for);
  return found == outlooks_.end() ? unknown : found->second;
}

// Handlers that may go on, and those that wait for them, may go on. The others can not.
std::map<incarnation, std::vector<std::uint64_t>> wait_graph::find_stuck() {
  std::map<place, std::vector<place>> waiting;          // for a handler
  std::map<incarnation, std::vector<place>> in_queues;  // for a thread
  std::vector<place> free;
  stuck_.clear();
  for (const auto& [node, part] : nodes_)
    for (const auto& [number, one] : part.handlers) {
      const place here{node, number};
      stuck_.insert(here);
      const auto& [what, handler] = outlook_of(one);
      const place next{one.waits_for.at, handler};
      if (what == prospect::handler && find(next))
        waiting[next].push_back(here);
      else if (waits_for_thread(what))
        in_queues[one.waits_for.at].push_back(here);
      else
        free.push_back(here);
    }
  const auto let_go = [&](std::vector<place>& who) {
    for (const auto& one : who) free.push_back(one);
    who.clear();
  };
  // Where a thread is not held by a known handler, it may become free.
  for (auto& [node, who] : in_queues)
    if (nodes_[node].max_threads == 0 || nodes_[node].handlers.size() < nodes_[node].max_threads)
      let_go(who);
  while (!free.empty()) {
    const auto one = free.back();
    free.pop_back();
    if (stuck_.erase(one) == 0) continue;
    let_go(waiting[one]);
    let_go(in_queues[one.first]);
  }
  std::map<incarnation, std::vector<std::uint64_t>> out;
  for (const auto& [node, number] : stuck_) out[node].push_back(number);
  return out;
}

std::string wait_graph::described(
    const place& where, const std::function<std::string(transport::rank_t)>& name_of) const {
  return find(where)->name + " on " + name_of(where.first.rank);
}

std::vector<wait_graph::remedy> wait_graph::remedies(
    const std::function<std::string(transport::rank_t)>& name_of) const {
  const auto next_of = [&](const place& here) -> std::optional<place> {
    const auto& one = *find(here);
    const auto& [what, handler] = outlook_of(one);
    if (what == prospect::handler) return place{one.waits_for.at, handler};
    return std::nullopt;
  };
  std::vector<remedy> out;
  // Handlers in a cycle: the wait of the first of them fails.
  std::set<place> seen;
  for (const auto& start : stuck_) {
    std::set<place> path;
    auto here = std::optional(start);
    while (here && seen.insert(*here).second) {
      path.insert(*here);
      here = next_of(*here);
    }
    if (!here || path.count(*here) == 0) continue;
    auto first = *here;
    for (auto one = *next_of(*here); one != *here; one = *next_of(one))
      first = std::min(first, one);
    remedy how;
    how.node = first.first;
    how.wait = first.second;
    how.handler = find(first)->name;
    how.text = described(first, name_of);
    std::size_t named = 0;
    std::size_t left = 0;
    for (auto one = *next_of(first); one != first; one = *next_of(one)) {
      if (++named < most_named)
        how.text += " waits for " + described(one, name_of) + ", which";
      else
        ++left;
    }
    if (left > 0) how.text += fmt::format(" waits for {} more, the last of which", left);
    how.text +=
        " waits for the first: none of them can go on. A handler that asks back must not block: "
        "let it answer with a troupe::task that uses co_await, or with a promise";
    out.push_back(std::move(how));
  }
  if (!out.empty()) return out;

  // No thread is left on a node: the calls for which handlers wait are not run.
  std::map<incarnation, std::vector<place>> queued;
  std::map<place, place> caller_of;
  for (const auto& here : stuck_) {
    const auto& one = *find(here);
    const auto what = outlook_of(one).what;
    if (waits_for_thread(what)) queued[one.waits_for.at].push_back(here);
    if (const auto next = next_of(here)) caller_of.emplace(*next, here);
  }
  if (queued.empty()) return out;
  const auto& [full, waiting] = *queued.begin();
  const auto chain_to = [&](place here) {
    auto text = described(here, name_of);
    std::size_t named = 1;
    std::size_t left = 0;
    for (auto next = caller_of.find(here); next != caller_of.end() && left <= stuck_.size();
         next = caller_of.find(next->second)) {
      if (++named <= most_named)
        text += ", for which " + described(next->second, name_of) + " waits";
      else
        ++left;
    }
    if (left > 0) text += fmt::format(", and {} more before", left);
    return text;
  };
  remedy calls;
  calls.node = full;
  const auto most = nodes_.at(full).max_threads;
  for (const auto& here : waiting) {
    const auto& one = *find(here);
    auto text = fmt::format(
        "no thread is left on {}, whose max_threads is {}: waiting handlers hold all of them, and "
        "need this to run, which {}. Let functions that call others on be coroutines (a "
        "troupe::task that uses co_await holds no thread), or give rpc_options a larger "
        "max_threads (if it is larger, the system gave that node no more threads)",
        name_of(full.rank), most, "was asked for by " + chain_to(here));
    if (outlook_of(one).what == prospect::thread) {
      if (calls.calls.empty()) calls.text = std::move(text);
      calls.calls.push_back(one.waits_for);
    } else {
      out.push_back({std::move(text), one.name, here.first, here.second, {}});
    }
  }
  if (!calls.calls.empty()) out.push_back(std::move(calls));
  return out;
}

}  // namespace troupe::deadlock
