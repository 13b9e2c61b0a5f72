#include "troupe/actors/node/termination.hpp"

#include <algorithm>

#include "troupe/actors/messaging/control_channel.hpp"

namespace troupe {

namespace {

enum class message : std::uint8_t { report, verdict, leave };

// Sends to rank `to`; a lost peer needs nothing.
template <class... Ts>
void post(outbox& out, peer_table& peers, transport::rank_t to, const Ts&... xs) noexcept {
  if (auto* there = peers.find(to)) out.try_send_control(*there, shutdown_channel, xs...);
}

}  // namespace

termination_detection::termination_detection(outbox& out, engine& driver, peer_table& peers)
    : out_(out), engine_(driver), peers_(peers) {}

void termination_detection::wait(const std::function<report()>& look, clock::time_point deadline) {
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    // This node's part in a wave: it reports, and the leader judges when it has all reports.
    std::shared_ptr<completion> verdict = std::make_shared<completion>();
    verdict->made_here();  // a thread that still serves others does it better than this one
    std::uint64_t round = 0;
    {
      std::lock_guard guard(mutex_);
      if (leader_lost_) break;
      round = ++round_;
      verdict_ = verdict;
    }
    auto now = look();
    if (is_leader())
      take_report(out_.self().rank, round, now);
    else
      post(out_, peers_, leader_, message::report, round, now.epoch, now.sent, now.received,
           now.idle);
    if (!engine_.wait(*verdict, deadline)) {
      fault f;
      f.code = errc::rpc_timeout;
      f.text = "the job did not come to rest within the limit of the shutdown" + missing();
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
  throw peer_lost("rank " + std::to_string(leader_) + " was lost during the shutdown");
}

bool termination_detection::have_all_left() const {
  for (const auto& member : *peers_.live())
    if (peers_.find(member.id)->live() && !left_.contains(member.id)) return false;
  return true;
}

// After the verdict. The leader goes last, so that all get it.
void termination_detection::leave(clock::time_point deadline) {
  if (!is_leader()) {
    post(out_, peers_, leader_, message::leave);
    return;
  }
  auto left = all_left_;
  {
    std::lock_guard guard(mutex_);
    left_.insert(out_.self().rank);
    if (have_all_left()) return;
  }
  engine_.wait(*left, deadline);
}

void termination_detection::deliver(decoder& in, transport::rank_t from) {
  switch (in.get<message>()) {
    case message::report: {
      auto round = in.get<std::uint64_t>();
      report what{in.get<std::uint32_t>(), in.get<std::uint64_t>(), in.get<std::uint64_t>(),
                  in.get<bool>()};
      take_report(from, round, what);
      return;
    }
    case message::verdict: {
      auto round = in.get<std::uint64_t>();
      take_verdict(round, in.get<bool>());
      return;
    }
    case message::leave: {
      has_left(from);
      return;
    }
  }
  throw decode_error("a shutdown message of unknown kind");
}

void termination_detection::take_report(transport::rank_t from, std::uint64_t round, report what) {
  {
    std::lock_guard guard(mutex_);
    reports_[from] = {round, what};
  }
  judge();
}

// When all members have reported, they are notified whether all is done: whether all are idle, the
// sums are equal, and the wave before has found the same numbers (the four counters).
void termination_detection::judge() {
  bool quiet = false;
  std::map<transport::rank_t, round_report> reports;
  {
    std::lock_guard guard(mutex_);
    std::erase_if(reports_, [&](const auto& one) { return !peers_.find(one.first)->live(); });
    bool agreed = true;
    for (const auto& member : *peers_.live()) {
      const bool live = peers_.find(member.id)->live();
      if (live && !reports_.contains(member.id)) return;
      agreed = agreed && live;  // the counts with a fenced node lack its side
    }
    reports.swap(reports_);
    std::uint64_t sent = 0, received = 0;
    bool idle = true;
    std::map<transport::rank_t, report> now;
    for (const auto& [rank, r] : reports) {
      sent += r.what.sent;
      received += r.what.received;
      idle = idle && r.what.idle;
      agreed = agreed && r.what.epoch == reports.begin()->second.what.epoch;
      now[rank] = r.what;
    }
    const bool settled = idle && agreed && sent == received;
    quiet = settled && previous_ == now;
    previous_.reset();
    if (settled) previous_ = std::move(now);
    last_look_.clear();
    for (const auto& [rank, r] : reports)
      if (!r.what.idle) last_look_ += "; rank " + std::to_string(rank) + " still has work or waits";
    if (!agreed) last_look_ += "; the members change";
    if (sent != received)
      last_look_ += "; " + std::to_string(sent) + " messages were sent and " +
                    std::to_string(received) + " taken in";
    if (quiet) decided_ = true;  // before any node can get the verdict and go
  }
  for (const auto& [rank, r] : reports) {
    if (rank == out_.self().rank)
      take_verdict(r.round, quiet);
    else
      post(out_, peers_, rank, message::verdict, r.round, quiet);
  }
}

void termination_detection::take_verdict(std::uint64_t round, bool quiet) {
  std::shared_ptr<completion> verdict;
  {
    std::lock_guard guard(mutex_);
    if (round != round_ || !verdict_) return;
    quiet_ = quiet;
    if (quiet) decided_ = true;
    verdict.swap(verdict_);
  }
  engine_.finish(*verdict);
}

void termination_detection::members_changed(transport::rank_t leader) {
  std::shared_ptr<completion> verdict;
  {
    std::lock_guard guard(mutex_);
    // A report to the leader of before is not answered: the next round begins.
    if (leader_.exchange(leader) != leader) verdict.swap(verdict_);
    if (is_leader() && have_all_left()) engine_.finish(*all_left_);
  }
  if (verdict) engine_.finish(*verdict);
  if (is_leader()) judge();
}

void termination_detection::has_left(transport::rank_t rank) {
  std::lock_guard guard(mutex_);
  left_.insert(rank);
  if (have_all_left()) engine_.finish(*all_left_);
}

void termination_detection::leader_lost() {
  std::shared_ptr<completion> verdict;
  {
    std::lock_guard guard(mutex_);
    leader_lost_ = true;
    verdict.swap(verdict_);
  }
  if (verdict) engine_.finish(*verdict);
}

std::string termination_detection::missing() const {
  std::lock_guard guard(mutex_);
  if (!is_leader()) return "";
  std::string out;
  for (const auto& member : *peers_.live())
    if (!reports_.contains(member.id))
      out += (out.empty() ? ": not there are ranks " : ", ") + std::to_string(member.id);
  return out + last_look_;
}

}  // namespace troupe
