#include "troupe/transport/rendezvous/join_client.hpp"

#include <fmt/format.h>

#include <exception>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/handlers.hpp"
#include "troupe/transport/rendezvous/host.hpp"
#include "troupe/transport/rendezvous/join_service.hpp"
#include "troupe/transport/rendezvous/rank0_store.hpp"
#include "troupe/transport/rendezvous/rendezvous_config.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"
#include "troupe/transport/rendezvous/wire.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;

/// One attempt to join. One thread.
class joiner {
public:
  joiner(rendezvous_config config, const rendezvous_options& options, std::shared_ptr<store> place)
      : config_(std::move(config)),
        options_(options),
        given_place_(std::move(place)),
        deadline_(deadline_after(options.timeout)) {}

  join_result join(const joiner_address& address) {
    find_job();
    check_job();
    join_mailbox mailbox(session_->keys());
    if (!mailbox.wait_until_open(time_left(deadline_)))
      timed_out("for the job to come together and to accept joiners");
    join_message request;
    request.what = join_message::kind::request;
    request.visit = visit_;
    request.name = config_.name;
    request.rank = config_.wanted_rank;
    const auto here = this_host();
    request.writer = describe_process(here.name, here.process);
    request.wait_limit = time_left(deadline_);
    post(mailbox, request);
    join_result out;
    out.rank = answer(rank_reply_key(visit_), "for a rank").rank;
    join_message reply;
    reply.what = join_message::kind::address;
    reply.visit = visit_;
    reply.address = address(out.rank, session_->place().secret.value());
    if (reply.address.size() > longest_joiner_address)
      throw rendezvous_error(fmt::format("the transport's address has {} bytes; {} are possible",
                                         reply.address.size(), longest_joiner_address));
    post(mailbox, reply);
    auto verdict = answer(result_key(visit_), "to be admitted");
    out.job_id = verdict.job_id;
    out.welcome = std::move(verdict.welcome);
    // The file may well have been read over a network, but rank 0 reports that.
    log_secret(config_, session_->place(), true);
    return out;
  }

private:
  rendezvous_place open_place() {
    if (given_place_) return rendezvous_place::in_store(config_, given_place_);
    if (config_.how == rendezvous_config::way::tcp) {
      auto place = open_tcp(config_, options_, {}, deadline_);
      place.client->set_limits(tcp_store::default_response_limit, deadline_ + 1s);
      return place;
    }
    return rendezvous_place::in_file(config_, deadline_);
  }

  // Finds the running job, past what an earlier run has left.
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
    if (job.job != config_.job)
      throw rendezvous_error(fmt::format(
          "a joiner looks for job '{}', but {} meets here for job '{}'; set TROUPE_JOB_ID to the "
          "same",
          config_.job, job.writer, job.job));
    if (!job.dynamic)
      throw rendezvous_error(
          fmt::format("{} Job '{}' was started with fixed members", mixed_job_text, config_.job));
  }

  void post(join_mailbox& mailbox, const join_message& entry) {
    if (!mailbox.post(entry)) throw rendezvous_error(over());
  }

  // Reads and deletes the answer, which no other process reads.
  join_reply answer(const std::string& key, const char* what) {
    auto out = decode_join_reply(get(key, what));
    session_->keys()->delete_key(key);
    if (!out.failure.empty())
      throw rendezvous_error(
          fmt::format("job '{}' does not admit {}: {}", config_.job, me(), out.failure));
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
        "{} has waited {:.6g} s {}: rank 0 of job '{}' must be alive, be a member and lead the job",
        me(), static_cast<double>(options_.timeout.count()) / 1000, what, config_.job));
  }

  std::string over() const { return fmt::format("job '{}' is over", config_.job); }
  std::string me() const {
    return config_.name.empty() ? std::string("a joiner")
                                : fmt::format("joiner '{}'", config_.name);
  }

  const rendezvous_config config_;
  const rendezvous_options& options_;
  const std::shared_ptr<store> given_place_;
  const std::chrono::steady_clock::time_point deadline_;
  const std::uint64_t visit_ = random_id();
  std::optional<rendezvous_session> session_;  // not joined: only founders leave notices in it
};

join_result enter(rendezvous_config config, const rendezvous_options& options,
                  std::shared_ptr<store> place, const joiner_address& address) {
  // Only the rendezvous' own failures are translated: exceptions of the caller's function are
  // passed on.
  std::exception_ptr theirs;
  try {
    joiner one(std::move(config), options, std::move(place));
    return one.join([&](std::uint32_t rank, const job_secret& secret) {
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
    throw rendezvous_error("cannot join the job: " + e.fault().text);
  }
}

}  // namespace

join_result join_job(const rendezvous_options& options, const joiner_address& address) {
  auto asked = options;
  if (auto place = ask_rendezvous_handler(asked, true))
    return join_job(std::move(place), asked, address);
  return enter(make_joiner_config(options, true), options, nullptr, address);
}

join_result join_job(std::shared_ptr<store> in_store, const rendezvous_options& options,
                     const joiner_address& address) {
  if (!in_store) throw invalid_argument("a joiner needs a store to ask in");
  return enter(make_joiner_config(options, false), options, std::move(in_store), address);
}

bool joiner_meets_on_this_host_alone(const rendezvous_options& options) {
  if (has_rendezvous_handler(options.init_method)) return false;
  return meets_on_this_host_alone(make_joiner_config(options, true));
}

}  // namespace troupe::transport
