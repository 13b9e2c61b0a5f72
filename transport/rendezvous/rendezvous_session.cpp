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

// A store that lives answers a goodbye at once; who has failed already waits for less.
constexpr std::chrono::milliseconds goodbye_limit = 1s;
constexpr std::chrono::milliseconds goodbye_limit_after_failure = 300ms;

// Answers to the last requests are on their way when everybody has said goodbye.
constexpr std::chrono::milliseconds drain_limit = 500ms;

// For ranks started together with this one that have not come yet.
constexpr std::chrono::milliseconds latecomer_limit = 1s;

const std::string all_gone = "all gone";

std::string goodbye_key(std::uint32_t rank) { return fmt::format("goodbye/{}", rank); }

}  // namespace

meeting_place meeting_place::in_store(const rendezvous_plan& plan, std::shared_ptr<store> own) {
  meeting_place out;
  out.base = std::move(own);
  if (plan.secret) {
    out.secret = plan.secret->secret;
  } else {
    const auto mine = to_bytes(job_secret().hex());
    out.secret = job_secret::from_hex(to_text(out.base->compare_set("troupe/secret", {}, mine)));
  }
  return out;
}

meeting_place meeting_place::in_file(const rendezvous_plan& plan, time_point deadline) {
  meeting_place out;
  const auto given = plan.secret ? std::optional(plan.secret->secret) : std::nullopt;
  out.file = std::make_shared<file_store>(plan.path, given, time_left(deadline));
  out.secret = out.file->secret();
  out.base = out.file;
  return out;
}

std::string meeting_place::refusals() const {
  try {
    return client ? client->refusals() : std::string();
  } catch (const error&) {
    return {};
  }
}

void tell_secret(const rendezvous_plan& plan, const meeting_place& place, bool one_host) {
  using agreement = rendezvous_plan::agreement;
  if (plan.secret)
    log().info("job '{}': the secret is the one in {}", plan.job, plan.secret->whence);
  else if (plan.agree == agreement::folder && place.published)
    log().info(
        "job '{}': nobody has given a secret; rank 0 has made one, which user {} alone can "
        "read, in {}",
        plan.job, geteuid(), place.published->path().string());
  else if (plan.agree == agreement::folder)
    log().info(
        "job '{}': nobody has given a secret; it is the one that rank 0 has made, and left for "
        "user {} on this host",
        plan.job, geteuid());
  else if (plan.agree == agreement::file)
    log().log(one_host ? spdlog::level::info : spdlog::level::warn,
              "job '{}': nobody has given a secret; the first rank has made one, which user {} "
              "alone can read, in {}{}",
              plan.job, geteuid(), plan.path.string(),
              one_host ? ""
                       : ", which is on a network: where others can read its packets, set "
                         "TROUPE_JOB_SECRET to the same 64 hex digits on every rank");
  else if (plan.agree == agreement::own_store)
    log().info(
        "job '{}': nobody has given a secret; the first rank has made one, which lies in the "
        "store that the program has given",
        plan.job);
  else
    log().debug(
        "job '{}': nobody has given a secret; it has one of its own, which is written "
        "nowhere",
        plan.job);
}

rendezvous_session::rendezvous_session(meeting_place place, std::uint64_t generation,
                                       std::uint32_t rank, std::uint32_t world_size)
    : place_(std::move(place)),
      rank_(rank),
      world_size_(world_size),
      keys_(std::make_shared<prefix_store>(fmt::format("troupe/{}", generation), place_.base)),
      user_keys_(std::make_shared<prefix_store>(fmt::format("user/{}", generation), place_.base)) {}

rendezvous_session::~rendezvous_session() { close(0ms); }

bool rendezvous_session::is_over() {
  const auto there = [this](const std::string& key) { return keys_->check(std::span(&key, 1)); };
  return there(goodbye_key(rank_)) || there(all_gone);
}

void rendezvous_session::say_goodbye(std::chrono::milliseconds wait_for_others,
                                     std::span<const std::uint32_t> gone) {
  keys_->set(goodbye_key(rank_), "");
  auto said = keys_->add("goodbyes", 1);
  for (const auto rank : gone) {
    const auto key = goodbye_key(rank);
    if (keys_->check(std::span(&key, 1))) continue;  // it could say it itself
    keys_->set(key, "");
    said = keys_->add("goodbyes", 1);
  }
  if (said >= world_size_) keys_->set(all_gone, "");
  if (wait_for_others > 0ms) keys_->wait(std::span(&all_gone, 1), wait_for_others);
}

void rendezvous_session::close(std::chrono::milliseconds limit,
                               std::span<const std::uint32_t> gone) noexcept {
  end(goodbye_limit, place_.server ? limit : 0ms, limit, gone);
}

void rendezvous_session::give_up(std::chrono::milliseconds limit) noexcept {
  // The file goes with the last that has it open, and a server with its rank, and with it the
  // reason why this failed: a rank that is only now about to come would wait there for nobody. Who
  // keeps a store that the program has given is not known, so it may be this rank.
  const bool others_keep_it = place_.client && !place_.server;
  const auto for_latecomers = others_keep_it ? 0ms : std::min(limit, latecomer_limit);
  end(goodbye_limit_after_failure, for_latecomers, drain_limit, {});
}

void rendezvous_session::end(std::chrono::milliseconds goodbye,
                             std::chrono::milliseconds wait_for_others,
                             std::chrono::milliseconds limit,
                             std::span<const std::uint32_t> gone) noexcept {
  if (std::exchange(closed_, true)) return;
  try {
    if (place_.client) place_.client->set_limits(goodbye);
    if (joined_) say_goodbye(wait_for_others, gone);
  } catch (const std::exception& e) {
    log().debug("rank {} leaves the job's store without all goodbyes: {}", rank_, e.what());
  }
  // A place that was not joined may be met at again in its next generation.
  if (joined_ && place_.client) place_.client->close();
  if (joined_ && place_.file) place_.file->close();
  place_.published.reset();
  if (place_.server) place_.server->drain(std::min(limit, drain_limit));
}

}  // namespace troupe::transport
