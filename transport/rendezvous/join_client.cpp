#include "troupe/transport/rendezvous/join_client.hpp"

#include <fmt/format.h>

#include <exception>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/join_service.hpp"
#include "troupe/transport/rendezvous/handlers.hpp"
#include "troupe/transport/rendezvous/host.hpp"
#include "troupe/transport/rendezvous/rendezvous_config.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"
#include "troupe/transport/rendezvous/tcp.hpp"
#include "troupe/transport/rendezvous/wire.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;

/// One newcomer's way in. One thread.
class newcomer {
public:
  newcomer(rendezvous_plan plan, const rendezvous_options& options, std::shared_ptr<store> place)
      : plan_(std::move(plan)),
        options_(options),
        given_place_(std::move(place)),
        deadline_(deadline_after(options.timeout)) {}

  admitted enter(const newcomers_address& address) {
    find_job();
    check_job();
    letter_box box(session_->keys());
    if (!box.wait_until_open(time_left(deadline_)))
      timed_out("for the job to come together and to open its door");
    door_entry wish;
    wish.what = door_entry::kind::wish;
    wish.visit = visit_;
    wish.name = plan_.name;
    wish.rank = plan_.wanted_rank;
    const auto here = this_host();
    wish.writer = whom(here.name, here.process);
    wish.patience = time_left(deadline_);
    post(box, wish);
    admitted out;
    out.rank = answer(place_key(visit_), "for a rank").rank;
    door_entry reply;
    reply.what = door_entry::kind::address;
    reply.visit = visit_;
    reply.address = address(out.rank, session_->place().secret.value());
    if (reply.address.size() > longest_door_address)
      throw rendezvous_error(fmt::format("the transport's address has {} bytes; {} are possible",
                                         reply.address.size(), longest_door_address));
    post(box, reply);
    auto verdict = answer(verdict_key(visit_), "to be let in");
    out.job_id = verdict.job_id;
    out.welcome = std::move(verdict.welcome);
    // What it has read in a file it may well have read over a network, but rank 0 says that.
    tell_secret(plan_, session_->place(), true);
    return out;
  }

private:
  meeting_place open_place() {
    if (given_place_) return meeting_place::in_store(plan_, given_place_);
    if (plan_.how == rendezvous_plan::way::tcp) {
      auto place = open_tcp(plan_, options_, {}, deadline_);
      place.client->set_limits(tcp_store::default_response_limit, deadline_ + 1s);
      return place;
    }
    return meeting_place::in_file(plan_, deadline_);
  }

  // Passes by what an earlier run has left.
  void find_job() {
    auto place = open_place();
    for (std::uint64_t generation = 0;;) {
      session_.emplace(place, generation, 0, 0);
      if (!session_->is_over()) return;
      if (time_left(deadline_) == 0ms) throw rendezvous_error(over());
      if (!place.client) {
        ++generation;
        continue;
      }
      session_.reset();
      place = {};
      std::this_thread::sleep_for(std::min(10ms, time_left(deadline_)));
      place = open_place();
    }
  }

  void check_job() {
    const auto job = decode_job_description(get("job", "for a job to meet here"));
    if (job.job != plan_.job)
      throw rendezvous_error(fmt::format(
          "a newcomer looks for job '{}', but {} meets here for job '{}'; set TROUPE_JOB_ID to the "
          "same",
          plan_.job, job.writer, job.job));
    if (!job.dynamic)
      throw rendezvous_error(
          fmt::format("{} Job '{}' was started with fixed members", mixed_job_text, plan_.job));
  }

  void post(letter_box& box, const door_entry& entry) {
    if (!box.post(entry)) throw rendezvous_error(over());
  }

  // Nobody else reads it.
  door_answer answer(const std::string& key, const char* what) {
    auto out = decode_door_answer(get(key, what));
    session_->keys()->delete_key(key);
    if (!out.failure.empty())
      throw rendezvous_error(
          fmt::format("job '{}' does not let {} in: {}", plan_.job, me(), out.failure));
    return out;
  }

  store::bytes get(const std::string& key, const char* what) {
    try {
      return session_->keys()->get(key, time_left(deadline_));
    } catch (const store_error&) {
      if (time_left(deadline_) > 0ms) throw;  // the store is lost
      timed_out(what);
    }
  }

  [[noreturn]] void timed_out(const char* what) const {
    throw rendezvous_error(fmt::format(
        "{} has waited {:.6g} s {}, in vain: rank 0 of job '{}' must be alive, be a member and "
        "lead the job",
        me(), static_cast<double>(options_.timeout.count()) / 1000, what, plan_.job));
  }

  std::string over() const { return fmt::format("job '{}' is over", plan_.job); }
  std::string me() const {
    return plan_.name.empty() ? std::string("a newcomer")
                              : fmt::format("newcomer '{}'", plan_.name);
  }

  const rendezvous_plan plan_;
  const rendezvous_options& options_;
  const std::shared_ptr<store> given_place_;
  const std::chrono::steady_clock::time_point deadline_;
  const std::uint64_t visit_ = random_id();
  std::optional<rendezvous_session> session_;  // never joined: its goodbyes are the founders'
};

admitted enter(rendezvous_plan plan, const rendezvous_options& options,
               std::shared_ptr<store> place, const newcomers_address& address) {
  // Only the rendezvous' own failures are translated: what the caller's function throws is theirs.
  std::exception_ptr theirs;
  try {
    newcomer one(std::move(plan), options, std::move(place));
    return one.enter([&](std::uint32_t rank, const job_secret& secret) {
      try {
        return address(rank, secret);
      } catch (...) {
        theirs = std::current_exception();
        throw;
      }
    });
  } catch (const error& e) {
    if (theirs) std::rethrow_exception(theirs);
    if (e.code() != errc::store_error && e.code() != errc::decode_error) throw;
    throw rendezvous_error("a newcomer cannot join the job: " + e.fault().text);
  }
}

}  // namespace

admitted enter_job(const rendezvous_options& options, const newcomers_address& address) {
  auto asked = options;
  if (auto place = ask_rendezvous_handler(asked, true))
    return enter_job(std::move(place), asked, address);
  return enter(make_newcomers_plan(options, true), options, nullptr, address);
}

admitted enter_job(std::shared_ptr<store> meeting_place, const rendezvous_options& options,
                   const newcomers_address& address) {
  if (!meeting_place) throw invalid_argument("a newcomer needs a store to ask in");
  return enter(make_newcomers_plan(options, false), options, std::move(meeting_place), address);
}

bool newcomer_meets_on_this_host_alone(const rendezvous_options& options) {
  if (has_rendezvous_handler(options.init_method)) return false;
  return meets_on_this_host_alone(make_newcomers_plan(options, true));
}

}  // namespace troupe::transport
