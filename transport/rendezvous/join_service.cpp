#include "troupe/transport/rendezvous/join_service.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/base/whole_number.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/transport/rendezvous/rank_exchange.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;

const std::string next_key = "join/next";

// For as long at most, the service's thread does not notice that it shall end if it cannot be
// woken.
constexpr auto time_between_looks = 5s;

std::string entry_key(std::uint64_t number) { return fmt::format("join/{}", number); }

std::uint64_t read_number(const store::bytes& bytes) {
  const auto out = whole_number<std::uint64_t>(to_text(bytes));
  if (!out) throw decode_error("the number of the next entry in the mailbox is malformed");
  return *out;
}

bool closes(const store::bytes& bytes) {
  try {
    return decode_join_message(bytes).what == join_message::kind::closed;
  } catch (const decode_error&) {
    return false;
  }
}

}  // namespace

bool join_mailbox::post(const join_message& entry) {
  const auto mine = encode(entry);
  for (auto number = read_number(keys_->get(next_key, 0ms));; ++number) {
    const auto there = keys_->compare_set(entry_key(number), {}, mine);
    if (there == mine) return true;
    if (closes(there)) return false;
  }
}

void join_mailbox::expect(std::uint64_t number) { keys_->set(next_key, std::to_string(number)); }

std::optional<store::bytes> join_mailbox::read(std::uint64_t number,
                                               std::chrono::milliseconds limit) {
  const auto key = entry_key(number);
  try {
    return keys_->get(key, limit);
  } catch (const store_error&) {
    if (!keys_->check(std::span(&key, 1))) return {};  // if the store is lost, this throws
    return keys_->get(key, 0ms);
  }
}

bool join_mailbox::wait_until_open(std::chrono::milliseconds limit) {
  try {
    keys_->wait(std::span(&next_key, 1), limit);
    return true;
  } catch (const store_error&) {
    return keys_->check(std::span(&next_key, 1));
  }
}

std::string rank_reply_key(std::uint64_t visit) { return fmt::format("join/rank/{:x}", visit); }

std::string result_key(std::uint64_t visit) { return fmt::format("join/result/{:x}", visit); }

join_service::join_service(std::shared_ptr<store> keys, std::string job, join_handler& handler)
    : keys_(std::move(keys)), job_(std::move(job)), handler_(handler), mailbox_(keys_) {
  mailbox_.expect(1);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

join_service::~join_service() {
  thread_.request_stop();
  try {
    cannot_be_woken_ = !mailbox_.post({});  // wakes the thread
  } catch (const std::exception& e) {
    cannot_be_woken_ = true;
    log().debug("the join service of job '{}' could not close its mailbox: {}", job_, e.what());
  }
}

void join_service::run(const std::stop_token& stop) {
  try {
    for (std::uint64_t number = 1;;) {
      auto bytes = mailbox_.read(number, time_between_looks);
      if (!bytes && cannot_be_woken_) return;
      if (!bytes) continue;
      const bool closing = closes(*bytes);
      if (closing && stop.stop_requested()) return;  // later joiners find it
      mailbox_.expect(++number);
      if (closing) continue;
      try {
        handle(decode_join_message(*bytes), stop);
      } catch (const decode_error& e) {
        log().warn("job '{}': ignored the message of a joiner: {}", job_, e.what());
      }
    }
  } catch (const std::exception& e) {
    log().warn("job '{}' cannot admit joiners any more: {}", job_, e.what());
  }
}

void join_service::handle(join_message&& entry, const std::stop_token& stop) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(joiners_, [&](const auto& one) { return one.second.deadline < now; });
  const bool is_request = entry.what == join_message::kind::request;
  if (stop.stop_requested()) {
    keys_->set((is_request ? rank_reply_key : result_key)(entry.visit), encode(over()));
    return;
  }
  if (is_request) {
    handle_request(entry);
    return;
  }
  const auto joiner = joiners_.extract(entry.visit);
  if (!joiner) return;  // it waits no longer
  if (const auto answer = let_in(joiner.mapped(), std::move(entry.address), stop))
    keys_->set(result_key(entry.visit), encode(*answer));
}

void join_service::handle_request(const join_message& request) {
  join_reply answer;
  try {
    if (const auto problem = worker_name_problem(complete_worker_name(request.name, 0));
        !problem.empty())
      throw rendezvous_error("Worker name " + problem);
    answer.rank = handler_.reserve_rank(request.rank);
    auto name = complete_worker_name(request.name, answer.rank);
    joiners_[request.visit] = {std::move(name), answer.rank, deadline_after(request.wait_limit)};
  } catch (const error& e) {
    answer.failure = e.fault().text;
    log().warn("job '{}': {} is not admitted: {}", job_, request.writer, answer.failure);
  }
  keys_->set(rank_reply_key(request.visit), encode(answer));
}

// Nothing when the joiner has given up meanwhile.
std::optional<join_reply> join_service::let_in(const joiner& who, store::bytes&& address,
                                               const std::stop_token& stop) {
  struct verdict {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::optional<join_reply> answer;
  };
  const auto outcome = std::make_shared<verdict>();
  handler_.let_in(who.rank, who.name, std::move(address), [outcome](join_reply&& answer) {
    const std::lock_guard lock(outcome->mutex);
    outcome->answer = std::move(answer);
    outcome->changed.notify_all();
  });
  std::unique_lock lock(outcome->mutex);
  if (outcome->changed.wait_until(lock, stop, who.deadline,
                                  [&] { return outcome->answer.has_value(); }))
    return std::move(outcome->answer);
  if (stop.stop_requested()) return over();
  return {};
}

join_reply join_service::over() const { return {fmt::format("job '{}' is over", job_), 0, 0, {}}; }

}  // namespace troupe::transport
