#include "troupe/transport/rendezvous/join_service.hpp"

#include <fmt/format.h>

#include <charconv>
#include <condition_variable>
#include <mutex>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/rendezvous/rank_exchange.hpp"
#include "troupe/messages/base/worker_name.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;

const std::string next_key = "door/next";

std::string entry_key(std::uint64_t number) { return fmt::format("door/{}", number); }

std::uint64_t read_number(const store::bytes& bytes) {
  const auto text = to_text(bytes);
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    throw decode_error("what the keeper of the door has written is no number");
  return out;
}

bool closes(const store::bytes& bytes) {
  try {
    return decode_door_entry(bytes).what == door_entry::kind::closed;
  } catch (const decode_error&) {
    return false;
  }
}

}  // namespace

bool letter_box::post(const door_entry& entry) {
  const auto mine = encode(entry);
  for (auto number = read_number(keys_->get(next_key, 0ms));; ++number) {
    const auto there = keys_->compare_set(entry_key(number), {}, mine);
    if (there == mine) return true;
    if (closes(there)) return false;
  }
}

void letter_box::expect(std::uint64_t number) { keys_->set(next_key, std::to_string(number)); }

std::optional<store::bytes> letter_box::read(std::uint64_t number,
                                             std::chrono::milliseconds limit) {
  const auto key = entry_key(number);
  try {
    return keys_->get(key, limit);
  } catch (const store_error&) {
    if (!keys_->check(std::span(&key, 1))) return {};  // if the store is lost, this throws
    return keys_->get(key, 0ms);
  }
}

bool letter_box::wait_until_open(std::chrono::milliseconds limit) {
  try {
    keys_->wait(std::span(&next_key, 1), limit);
    return true;
  } catch (const store_error&) {
    return keys_->check(std::span(&next_key, 1));
  }
}

std::string place_key(std::uint64_t visit) { return fmt::format("door/place/{:x}", visit); }

std::string verdict_key(std::uint64_t visit) { return fmt::format("door/verdict/{:x}", visit); }

door_keeper::door_keeper(std::shared_ptr<store> keys, std::string job, door_client& client)
    : keys_(std::move(keys)), job_(std::move(job)), client_(client), box_(keys_) {
  box_.expect(1);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

door_keeper::~door_keeper() {
  thread_.request_stop();
  try {
    box_.post({});  // wakes the thread
  } catch (const std::exception& e) {
    log().debug("the door of job '{}' is closed without a word: {}", job_, e.what());
  }
}

void door_keeper::run(const std::stop_token& stop) {
  try {
    for (std::uint64_t number = 1;;) {
      auto bytes = box_.read(number, default_store_timeout);
      if (!bytes) continue;
      const bool closing = closes(*bytes);
      if (closing && stop.stop_requested()) return;  // who comes later finds it
      box_.expect(++number);
      if (closing) continue;
      try {
        handle(decode_door_entry(*bytes), stop);
      } catch (const decode_error& e) {
        log().warn("job '{}': a newcomer is not heard: {}", job_, e.what());
      }
    }
  } catch (const std::exception& e) {
    log().warn("job '{}' admits nobody any more: {}", job_, e.what());
  }
}

void door_keeper::handle(door_entry&& entry, const std::stop_token& stop) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(guests_, [&](const auto& one) { return one.second.deadline < now; });
  const bool is_wish = entry.what == door_entry::kind::wish;
  if (stop.stop_requested()) {
    keys_->set((is_wish ? place_key : verdict_key)(entry.visit), encode(over()));
    return;
  }
  if (is_wish) {
    take_wish(entry);
    return;
  }
  const auto guest = guests_.extract(entry.visit);
  if (!guest) return;  // it waits no longer
  if (const auto answer = let_in(guest.mapped(), std::move(entry.address), stop))
    keys_->set(verdict_key(entry.visit), encode(*answer));
}

void door_keeper::take_wish(const door_entry& wish) {
  door_answer answer;
  try {
    if (const auto problem = worker_name_problem(complete_worker_name(wish.name, 0));
        !problem.empty())
      throw rendezvous_error("Worker name " + problem);
    answer.rank = client_.reserve_rank(wish.rank);
    auto name = complete_worker_name(wish.name, answer.rank);
    guests_[wish.visit] = {std::move(name), answer.rank, deadline_after(wish.patience)};
  } catch (const error& e) {
    answer.failure = e.fault().text;
    log().warn("job '{}': {} is not let in: {}", job_, wish.writer, answer.failure);
  }
  keys_->set(place_key(wish.visit), encode(answer));
}

// Nothing when the newcomer has given up meanwhile.
std::optional<door_answer> door_keeper::let_in(const guest& who, store::bytes&& address,
                                               const std::stop_token& stop) {
  struct verdict {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::optional<door_answer> answer;
  };
  const auto outcome = std::make_shared<verdict>();
  client_.let_in(who.rank, who.name, std::move(address), [outcome](door_answer&& answer) {
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

door_answer door_keeper::over() const { return {fmt::format("job '{}' is over", job_), 0, 0, {}}; }

}  // namespace troupe::transport
