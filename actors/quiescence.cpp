#include "actors/quiescence.hpp"

#include <algorithm>

namespace troupe {

namespace {

enum class note : std::uint8_t { report, verdict, goodbye };

constexpr std::uint64_t control_channel = 1;

// Sends to rank `to`; a lost peer needs nothing.
template <class... Ts>
void post(mail& out, transport::rank_t to, const Ts&... xs) noexcept {
  try {
    letter text(nullptr);
    (text.body().put(xs), ...);
    envelope_header header;
    header.target = control_channel;
    out.send(to, 0, header, &text);
  } catch (const error&) {
  }
}

}  // namespace

quiescence::quiescence(mail& out, engine& driver) : out_(out), engine_(driver) {}

void quiescence::wait(const std::function<report()>& look, clock::time_point deadline) {
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    std::shared_ptr<completion> verdict = std::make_shared<completion>();
    std::uint64_t round = 0;
    {
      std::lock_guard guard(mutex_);
      if (leader_lost_) break;
      round = ++round_;
      verdict_ = verdict;
    }
    auto now = look();
    if (out_.self().rank == 0)
      take_report(0, round, now);
    else
      post(out_, 0, note::report, round, now.sent, now.received, now.idle);
    if (!engine_.wait(*verdict, deadline)) {
      fault f;
      f.code = errc::rpc_timeout;
      f.text = "the job did not come to rest within the limit of the shutdown" + missing(round);
      throw rpc_timeout(std::move(f));
    }
    {
      std::lock_guard guard(mutex_);
      if (quiet_) return;
      if (leader_lost_) break;
    }
    // Others still work; let them.
    completion nothing;
    engine_.wait(nothing, std::min(deadline, clock::now() + pause));
    pause = std::min(2 * pause, std::chrono::microseconds(20'000));
  }
  throw troupe::peer_lost("rank 0 was lost during the shutdown");
}

void quiescence::leave(clock::time_point deadline) {
  if (out_.self().rank != 0) {
    post(out_, 0, note::goodbye);
    return;
  }
  auto left = all_left_;
  {
    std::lock_guard guard(mutex_);
    left_.insert(0);
    if (left_.size() == out_.self().world_size) return;
  }
  engine_.wait(*left, deadline);
}

void quiescence::deliver(decoder& in, transport::rank_t from) {
  switch (in.get<note>()) {
    case note::report: {
      auto round = in.get<std::uint64_t>();
      report what{in.get<std::uint64_t>(), in.get<std::uint64_t>(), in.get<bool>()};
      take_report(from, round, what);
      return;
    }
    case note::verdict: {
      auto round = in.get<std::uint64_t>();
      take_verdict(round, in.get<bool>());
      return;
    }
    case note::goodbye: {
      std::lock_guard guard(mutex_);
      left_.insert(from);
      if (left_.size() == out_.self().world_size) engine_.finish(*all_left_);
      return;
    }
  }
  throw decode_error("a shutdown message of unknown kind");
}

void quiescence::take_report(transport::rank_t from, std::uint64_t round, report what) {
  {
    std::lock_guard guard(mutex_);
    rounds_[round].reports[from] = what;
  }
  judge(round);
}

void quiescence::judge(std::uint64_t round) {
  bool quiet = false;
  {
    std::lock_guard guard(mutex_);
    auto place = rounds_.find(round);
    if (place == rounds_.end()) return;
    auto& reports = place->second.reports;
    for (transport::rank_t rank = 0; rank < out_.self().world_size; ++rank)
      if (!lost_.contains(rank) && !reports.contains(rank)) return;
    std::uint64_t sent = 0, received = 0;
    bool idle = true;
    for (const auto& [rank, r] : reports) {
      sent += r.sent;
      received += r.received;
      idle = idle && r.idle;
    }
    // What was under way to or from a lost node never arrives.
    const bool settled = idle && (sent == received || !lost_.empty());
    quiet = settled && previous_ == reports;
    previous_.reset();
    if (settled) previous_ = std::move(reports);
    rounds_.erase(place);
  }
  send_verdict(round, quiet);
}

void quiescence::send_verdict(std::uint64_t round, bool quiet) {
  for (transport::rank_t rank = 1; rank < out_.self().world_size; ++rank)
    post(out_, rank, note::verdict, round, quiet);
  take_verdict(round, quiet);
}

void quiescence::take_verdict(std::uint64_t round, bool quiet) {
  std::shared_ptr<completion> verdict;
  {
    std::lock_guard guard(mutex_);
    if (round != round_ || !verdict_) return;
    quiet_ = quiet;
    verdict.swap(verdict_);
  }
  engine_.finish(*verdict);
}

void quiescence::peer_lost(transport::rank_t peer) {
  std::shared_ptr<completion> verdict;
  std::vector<std::uint64_t> open;
  {
    std::lock_guard guard(mutex_);
    lost_.insert(peer);
    if (peer == 0) {
      leader_lost_ = true;
      verdict.swap(verdict_);
    }
    left_.insert(peer);
    if (left_.size() == out_.self().world_size) engine_.finish(*all_left_);
    for (auto& [round, state] : rounds_) open.push_back(round);
  }
  if (verdict) engine_.finish(*verdict);
  for (auto round : open) judge(round);
}

std::string quiescence::missing(std::uint64_t round) const {
  std::lock_guard guard(mutex_);
  auto place = rounds_.find(round);
  if (out_.self().rank != 0 || place == rounds_.end()) return "";
  std::string out;
  for (transport::rank_t rank = 0; rank < out_.self().world_size; ++rank)
    if (!lost_.contains(rank) && !place->second.reports.contains(rank))
      out += (out.empty() ? ": not there are ranks " : ", ") + std::to_string(rank);
  return out;
}

}  // namespace troupe
