#include "troupe/transport/store/tcp/tcp_store_connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/tcp/store_handshake.hpp"

namespace troupe::transport {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_pause{5};
constexpr milliseconds longest_pause{200};
constexpr milliseconds attempt_limit{3'000};

// How long attempts that fail lastingly are repeated: an earlier job may still be ending on the
// same port.
constexpr milliseconds lasting_limit{2'000};

// Returns why it failed; empty if it succeeded: `link` has a channel then.
std::string shake_hands(store_link& link, const job_secret& secret, time_point deadline,
                        bool& lasting) {
  const int fd = link.fd.get();
  store_handshake handshake(secret);
  const auto greeting = handshake.greet();
  store_handshake::challenge challenge{};
  const auto said = [](io_result r) {
    return r == io_result::timed_out ? "it accepts connections, but sends nothing"
                                     : "it ended the connection during the handshake";
  };
  if (const auto r = write_all(fd, greeting, deadline); r != io_result::done) return said(r);
  // Another server may send less.
  const auto magic = std::span(challenge).first<store_handshake::magic_size>();
  const auto rest = std::span(challenge).subspan<store_handshake::magic_size>();
  if (const auto r = read_all(fd, magic, deadline); r != io_result::done) return said(r);
  if (handshake.check_magic(magic) == store_handshake::verdict::accepted)
    if (const auto r = read_all(fd, rest, deadline); r != io_result::done) return said(r);
  store_handshake::answer answer;
  switch (handshake.meet(challenge, answer)) {
    case store_handshake::verdict::accepted: break;
    case store_handshake::verdict::not_troupe:
      lasting = true;
      return "the server there is no store of Troupe";
    case store_handshake::verdict::other_version:
      lasting = true;
      return fmt::format("it speaks another version of Troupe's store protocol than {}",
                         store_handshake::version);
    case store_handshake::verdict::wrong_secret:
      lasting = true;
      return "it does not know this job's secret: another job listens there, or "
             "TROUPE_JOB_SECRET is not the same on every rank";
  }
  if (const auto r = write_all(fd, answer, deadline); r != io_result::done) return said(r);
  link.channel = std::make_unique<store_channel>(handshake.session(), store_channel::side::client);
  link.server = handshake.server_number();
  return {};
}

[[noreturn]] void give_up(const endpoint& where, const std::string& reason, int attempts,
                          milliseconds after) {
  throw store_error(fmt::format(
      "cannot reach the store at {} within {:.3g} s: {} ({} attempt{}); check that its server "
      "(in a job rank 0) runs, and that this is its address (MASTER_ADDR and MASTER_PORT, the same "
      "on every rank)",
      to_string(where), static_cast<double>(after.count()) / 1000, reason, attempts,
      attempts == 1 ? "" : "s"));
}

}  // namespace

attempt try_connect(const std::vector<socket_address>& addresses, const job_secret& secret,
                    time_point deadline) {
  attempt out;
  bool answered = false;  // what was said there is the better reason
  for (auto left = addresses.size(); const auto& address : addresses) {
    // One that is silent leaves time for the others.
    const auto now = std::chrono::steady_clock::now();
    const auto until = now + (deadline - now) / static_cast<int>(left--);
    auto result = connect_to(address, until);
    if (!result.fd) {
      if (!answered)
        out.reason = result.error == ETIMEDOUT ? "no answer" : std::strerror(result.error);
      continue;
    }
    bool lasting = false;
    store_link link{std::move(result.fd), nullptr, {}};
    auto reason = shake_hands(link, secret, until, lasting);
    if (reason.empty()) return {std::move(link), {}, false};
    if (!answered || lasting) out.reason = std::move(reason);
    answered = true;
    out.lasting = out.lasting || lasting;
  }
  return out;
}

proven_connection connect_until(const endpoint& where, std::vector<socket_address>& addresses,
                                const secret_source& secret, time_point deadline) {
  const auto start = std::chrono::steady_clock::now();
  const auto limit = time_left(deadline);
  auto give_up_at = time_point::max();
  std::string reason = "no time to try";
  int attempts = 0;
  auto pause = first_pause;
  do {
    ++attempts;
    const auto now = std::chrono::steady_clock::now();
    try {
      if (addresses.empty()) addresses = resolve(where, deadline);
      const auto key = secret();
      auto result = try_connect(addresses, key, std::min(deadline, now + attempt_limit));
      if (result.link.fd) return {std::move(result.link), key};
      reason = std::move(result.reason);
      give_up_at = result.lasting ? std::min(give_up_at, now + lasting_limit) : time_point::max();
    } catch (const store_error& e) {
      // The name, or the secret, may be known at the next attempt.
      reason = e.fault().text;
      give_up_at = time_point::max();
    }
    if (std::chrono::steady_clock::now() >= give_up_at)
      give_up(where, reason, attempts,
              std::chrono::ceil<milliseconds>(std::chrono::steady_clock::now() - start));
    if (attempts == 1)
      log().debug("the store at {} is not there yet: {}", to_string(where), reason);
    std::this_thread::sleep_for(std::min(pause, time_left(deadline)));
    pause = std::min(2 * pause, longest_pause);
  } while (std::chrono::steady_clock::now() < deadline);
  give_up(where, reason, attempts, limit);
}

}  // namespace troupe::transport
