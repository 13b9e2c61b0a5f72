#include "troupe/transport/rendezvous/rendezvous_session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/store/prefix_store.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;

// A live store answers a leave notice at once; after a failure the limit is shorter.
constexpr std::chrono::milliseconds leave_limit = 1s;
constexpr std::chrono::milliseconds leave_limit_after_failure = 300ms;

// When all have left, the answers to the last requests are in transit.
constexpr std::chrono::milliseconds drain_limit = 500ms;

// For ranks that were started together with this one and have not come yet.
constexpr std::chrono::milliseconds latecomer_limit = 1s;

const std::string all_gone = "all gone";

std::string leave_key(std::uint32_t rank) { return fmt::format("left/{}", rank); }

}  // namespace

rendezvous_place rendezvous_place::in_store(const rendezvous_config& config,
                                            std::shared_ptr<store> own) {
  rendezvous_place out;
  out.base = std::move(own);
  if (config.secret) {
    out.secret = config.secret->secret;
  } else {
    const auto mine = to_bytes(job_secret().hex());
    out.secret = job_secret::from_hex(to_text(out.base->compare_set("troupe/secret", {}, mine)));
  }
  return out;
}

rendezvous_place rendezvous_place::in_file(const rendezvous_config& config, time_point deadline) {
  rendezvous_place out;
  const auto given = config.secret ? std::optional(config.secret->secret) : std::nullopt;
  out.file = std::make_shared<file_store>(config.path, given, time_left(deadline));
  out.secret = out.file->secret();
  out.base = out.file;
  return out;
}

std::string rendezvous_place::refusals() const {
  try {
    return client ? client->refusals() : std::string();
  } catch (const error&) {
    return {};
  }
}

void log_secret(const rendezvous_config& config, const rendezvous_place& place, bool one_host) {
  using agreement = rendezvous_config::agreement;
  if (config.secret)
    log().info("job '{}': the secret is the one in {}", config.job, config.secret->whence);
  else if (config.agree == agreement::folder && place.published)
    log().info(
        "job '{}': no secret was given; rank 0 created one, which user {} alone can "
        "read, in {}",
        config.job, geteuid(), place.published->path().string());
  else if (config.agree == agreement::folder)
    log().info(
        "job '{}': no secret was given; it is the one that rank 0 created for user {} "
        "on this host",
        config.job, geteuid());
  else if (config.agree == agreement::file)
    log().log(one_host ? spdlog::level::info : spdlog::level::warn,
              "job '{}': no secret was given; the first rank created one, which user {} "
              "alone can read, in {}{}",
              config.job, geteuid(), config.path.string(),
              one_host ? ""
                       : ", which is on a network: where others can read its packets, set "
                         "TROUPE_JOB_SECRET to the same 64 hex digits on every rank");
  else if (config.agree == agreement::own_store)
    log().info(
        "job '{}': no secret was given; the first rank created one, which is kept in the "
        "program's store",
        config.job);
  else
    log().debug("job '{}': no secret was given; this single rank uses a random one", config.job);
}

rendezvous_session::rendezvous_session(rendezvous_place place, std::uint64_t generation,
                                       std::uint32_t rank, std::uint32_t world_size)
    : place_(std::move(place)),
      rank_(rank),
      world_size_(world_size),
      keys_(std::make_shared<prefix_store>(fmt::format("troupe/{}", generation), place_.base)),
      user_keys_(std::make_shared<prefix_store>(fmt::format("user/{}", generation), place_.base)) {}

rendezvous_session::~rendezvous_session() { close(0ms); }

bool rendezvous_session::is_over() {
  const auto there = [this](const std::string& key) { return keys_->check(std::span(&key, 1)); };
  return there(leave_key(rank_)) || there(all_gone);
}

void rendezvous_session::leave(std::chrono::milliseconds wait_for_others,
                               std::span<const std::uint32_t> gone) {
  keys_->set(leave_key(rank_), "");
  auto left = keys_->add("left", 1);
  for (const auto rank : gone) {
    const auto key = leave_key(rank);
    if (keys_->check(std::span(&key, 1))) continue;  // it has left by itself
    keys_->set(key, "");
    left = keys_->add("left", 1);
  }
  if (left >= world_size_) keys_->set(all_gone, "");
  if (wait_for_others > 0ms) keys_->wait(std::span(&all_gone, 1), wait_for_others);
}

void rendezvous_session::close(std::chrono::milliseconds limit,
                               std::span<const std::uint32_t> gone) noexcept {
  end(leave_limit, place_.server ? limit : 0ms, limit, gone);
}

void rendezvous_session::give_up(std::chrono::milliseconds limit) noexcept {
  // The file is removed by the last process that has it open, and a server ends with its rank, and
  // with it the reason of the failure: a rank that comes only now would wait in vain. It is not
  // known which process keeps a store that the program has given, so it may be this one.
  const bool others_keep_it = place_.client && !place_.server;
  const auto for_latecomers = others_keep_it ? 0ms : std::min(limit, latecomer_limit);
  end(leave_limit_after_failure, for_latecomers, drain_limit, {});
}

void rendezvous_session::end(std::chrono::milliseconds leave_wait,
                             std::chrono::milliseconds wait_for_others,
                             std::chrono::milliseconds limit,
                             std::span<const std::uint32_t> gone) noexcept {
  if (std::exchange(closed_, true)) return;
  try {
    if (place_.client) place_.client->set_limits(leave_wait);
    if (joined_) leave(wait_for_others, gone);
  } catch (const std::exception& e) {
    log().debug("rank {} leaves the job's store before all others have left: {}", rank_, e.what());
  }
  // A place that was not joined may be used again in its next generation.
  if (joined_ && place_.client) place_.client->close();
  if (joined_ && place_.file) place_.file->close();
  place_.published.reset();
  if (place_.server) place_.server->drain(std::min(limit, drain_limit));
}

}  // namespace troupe::transport
