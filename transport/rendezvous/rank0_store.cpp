#include "troupe/transport/rendezvous/rank0_store.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/rendezvous/published_secret.hpp"
#include "troupe/transport/store/tcp/tcp_store_connect.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;

// How long a port may still be held by an earlier run that is ending.
constexpr std::chrono::milliseconds port_wait_limit = 2s;

// A server that was there just now accepts at once.
constexpr std::chrono::milliseconds served_wait_limit = 500ms;

bool is_number(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

// Where rank 0 listens: the master's address and no other.
std::vector<socket_address> listen_addresses(const rendezvous_config& config, time_point deadline) {
  if (config.listen_address) return resolve({*config.listen_address, config.master.port}, deadline);
  auto out = resolve(config.master, deadline);
  const bool own_name = !is_number(config.master.host) && config.master.host != "localhost";
  if (own_name && (!config.all_local || config.admits_joiners) && out.front().is_loopback()) {
    // Many systems map their own name to 127.0.1.1, where no other host can connect; which of the
    // interfaces the others see under that name is not known here.
    if (!config.secret) return out;  // ranks of other hosts would have no way to learn it
    log().warn(
        "host name '{}' is a loopback address on its own machine, so rank 0 listens on all "
        "interfaces; set MASTER_ADDR to an IP address, or TROUPE_LISTEN_ADDR on rank 0",
        config.master.host);
    return resolve({"0.0.0.0", config.master.port}, deadline);
  }
  return out;
}

// The error text for rank 0 that cannot listen on `address`; `error` is an errno.
std::string listen_error_text(const socket_address& address, int error) {
  const auto where = to_string(address);
  if (error == EADDRINUSE)
    return fmt::format(
        "port {} is in use by another program, so that rank 0 cannot listen on {}; choose another "
        "MASTER_PORT (the same on every rank), or end what listens there (ss -ltnp shows it)",
        address.port(), where);
  if (error == EADDRNOTAVAIL)
    return fmt::format(
        "rank 0 cannot listen on {}: this machine has no such address; MASTER_ADDR must be an "
        "address of the machine that rank 0 runs on (ip addr shows them)",
        where);
  if (error == EACCES)
    return fmt::format("rank 0 may not listen on {}: use a port above 1023", where);
  return fmt::format("rank 0 cannot listen on {}: {}", where, std::strerror(error));
}

// The source of the secret that rank 0 has.
secret_source source_of(const rendezvous_config& config) {
  if (config.secret) return [secret = config.secret->secret] { return secret; };
  return [&config] { return published_secret::find(config.variables, config.master.port); };
}

bool is_served(const rendezvous_config& config, const std::vector<socket_address>& addresses,
               time_point deadline) {
  try {
    return static_cast<bool>(try_connect(addresses, source_of(config)(), deadline).link.fd);
  } catch (const store_error&) {
    return false;  // the process that listens there has published no secret: it is not this job
  }
}

// A socket that listens, or none if this very job is served there already.
// `patient`: it was served there a moment ago.
name_listener listen(const rendezvous_config& config, const std::vector<socket_address>& addresses,
                     bool patient, time_point deadline) {
  const auto give_up_at = patient ? deadline : std::min(deadline, deadline_after(port_wait_limit));
  while (true) {
    auto result = listen_on_name(addresses);
    if (result.fd) return result;
    if (result.error != EADDRINUSE)
      throw store_error(listen_error_text(result.refused, result.error));
    const auto soon = std::min(deadline, deadline_after(500ms));
    if (is_served(config, addresses, soon)) return {};
    if (std::chrono::steady_clock::now() >= give_up_at)
      throw store_error(listen_error_text(result.refused, result.error));
    std::this_thread::sleep_for(20ms);
  }
}

// Binds an address without listening: connections to it are refused, and no other process gets it.
connect_result keep_address(const socket_address& address) {
  unique_fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || bind(fd.get(), address.get(), address.length) != 0) return {{}, errno};
  return {std::move(fd), 0};
}

void connect_to(rendezvous_place& place, const endpoint& where, const secret_source& source,
                time_point deadline) {
  place.client = std::make_shared<tcp_store>(where, source, deadline);
  place.base = place.client;
  place.secret = place.client->secret();
}

// Strangers must not take the descriptors that the rank itself needs.
tcp_store_server::limits limits_here() {
  tcp_store_server::limits limits;
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
    limits.strangers = std::clamp<std::size_t>(descriptors.rlim_cur / 8, 8, limits.strangers);
  return limits;
}

}  // namespace

name_listener listen_on_name(const std::vector<socket_address>& addresses) {
  name_listener out;
  for (auto one = addresses.begin(); one != addresses.end(); ++one) {
    // The system's tables may list one twice.
    if (std::any_of(addresses.begin(), one, [&](const auto& e) { return e.has_host_of(*one); }))
      continue;
    // Port 0 would be a different port for each.
    if (out.fd && one->port() == 0) continue;
    auto result = out.fd ? keep_address(*one) : listen_on(*one);
    if (result.fd) {
      if (!out.fd)
        out.fd = std::move(result.fd);
      else
        out.kept.push_back(std::move(result.fd));
    } else if (result.error == EADDRINUSE) {
      return {{}, {}, *one, result.error};
    } else if (!out.fd && (out.error == 0 || out.error == EADDRNOTAVAIL)) {
      // Of several errors, the one about an address that this machine has is more useful.
      out.refused = *one;
      out.error = result.error;
    }
  }
  return out;
}

std::optional<rendezvous_place> serve_tcp(const rendezvous_config& config,
                                          const rendezvous_options& options,
                                          store_contents contents, time_point deadline,
                                          bool patient) {
  auto name = listen(config, listen_addresses(config, deadline), patient, deadline);
  if (!name.fd) return std::nullopt;
  rendezvous_place out;
  const auto here = local_address(name.fd.get());
  const auto secret = config.secret ? config.secret->secret : job_secret();
  // Before the server accepts clients: a client that has found the secret is not refused.
  if (!config.secret && config.agree == rendezvous_config::agreement::folder)
    out.published = std::make_shared<published_secret>(
        config.variables, here.port(), secret, std::min(deadline, deadline_after(port_wait_limit)));
  out.server = std::make_shared<tcp_store_server>(std::move(name.fd), secret, limits_here(),
                                                  std::move(contents));
  out.kept = std::make_shared<std::vector<unique_fd>>(std::move(name.kept));
  auto where = config.master;
  where.port = out.server->port();
  if (config.listen_address) where.host = *config.listen_address;
  if (here.is_any()) where.host = "127.0.0.1";
  if (options.on_listening) options.on_listening(where.port);
  connect_to(
      out, where, [secret] { return secret; }, deadline);
  return out;
}

rendezvous_place open_tcp(const rendezvous_config& config, const rendezvous_options& options,
                          const store_contents& contents, time_point deadline) {
  rendezvous_place out;
  if (config.rank != 0 || config.joiner) {
    connect_to(out, config.master, source_of(config), deadline);
    return out;
  }
  for (bool patient = false;; patient = true) {
    if (auto served = serve_tcp(config, options, contents, deadline, patient))
      return std::move(*served);
    // This job is served there already: by an earlier run perhaps, which may be gone by now.
    try {
      connect_to(out, config.master, source_of(config),
                 std::min(deadline, deadline_after(served_wait_limit)));
      return out;
    } catch (const store_error&) {
      if (std::chrono::steady_clock::now() >= deadline) throw;
    }
  }
}

}  // namespace troupe::transport
