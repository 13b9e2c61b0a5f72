#include "troupe/transport/rendezvous/tcp.hpp"

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

// How long a port may still be held by an earlier run that ends.
constexpr std::chrono::milliseconds port_patience = 2s;

bool is_number(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

// Where rank 0 listens: the master's address and no other.
std::vector<socket_address> listen_addresses(const rendezvous_plan& plan, time_point deadline) {
  if (plan.listen_address) return resolve({*plan.listen_address, plan.master.port}, deadline);
  auto out = resolve(plan.master, deadline);
  const bool own_name = !is_number(plan.master.host) && plan.master.host != "localhost";
  if (own_name && (!plan.all_local || plan.admits_newcomers) && out.front().is_loopback()) {
    // Many systems map their own name to 127.0.1.1, where no other host comes; which of the
    // interfaces the others see under that name is not known here.
    if (!plan.trusted_network) {
      if (!plan.all_local)
        log().warn(
            "host name '{}' is a loopback address on its own machine, so rank 0 is not heard of on "
            "other hosts; ranks there need TROUPE_TRUSTED_NETWORK=1 (or "
            "rpc_options::trusted_network), and MASTER_ADDR an IP address",
            plan.master.host);
      return out;
    }
    log().warn(
        "host name '{}' is a loopback address on its own machine, so rank 0 listens on all "
        "interfaces; set MASTER_ADDR to an IP address, or TROUPE_LISTEN_ADDR on rank 0",
        plan.master.host);
    return resolve({"0.0.0.0", plan.master.port}, deadline);
  }
  return out;
}

// What to tell people when rank 0 cannot listen on `address`; `error` is an errno.
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

// Where the secret comes from that rank 0 has.
secret_source source_of(const rendezvous_plan& plan) {
  if (plan.secret) return [secret = plan.secret->secret] { return secret; };
  return [&plan] { return published_secret::find(plan.variables, plan.master.port); };
}

bool is_served(const rendezvous_plan& plan, const std::vector<socket_address>& addresses,
               time_point deadline) {
  try {
    return static_cast<bool>(try_connect(addresses, source_of(plan)(), deadline).fd);
  } catch (const store_error&) {
    return false;  // whoever listens there has left no secret: it is not this job
  }
}

// A socket that listens, or none if this very job is served there already.
name_listener listen(const rendezvous_plan& plan, const std::vector<socket_address>& addresses,
                     time_point deadline) {
  const auto patience = std::min(deadline, deadline_after(port_patience));
  while (true) {
    auto result = listen_on_name(addresses);
    if (result.fd) return result;
    if (result.error != EADDRINUSE)
      throw store_error(listen_error_text(result.refused, result.error));
    const auto soon = std::min(deadline, deadline_after(500ms));
    if (is_served(plan, addresses, soon)) return {};
    if (std::chrono::steady_clock::now() >= patience)
      throw store_error(listen_error_text(result.refused, result.error));
    std::this_thread::sleep_for(20ms);
  }
}

// Takes an address without listening there: whoever tries it is refused, and nobody else gets it.
connect_result keep_address(const socket_address& address) {
  unique_fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || bind(fd.get(), address.get(), address.length) != 0) return {{}, errno};
  return {std::move(fd), 0};
}

void connect_to(meeting_place& place, const endpoint& where, const secret_source& source,
                time_point deadline) {
  place.client = std::make_shared<tcp_store>(where, source, deadline);
  place.base = place.client;
  place.secret = place.client->secret();
}

// Strangers shall not take the descriptors that the rank itself needs.
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
    // The system's tables may name one twice.
    if (std::any_of(addresses.begin(), one, [&](const auto& e) { return e.has_host_of(*one); }))
      continue;
    // Port 0 is another one for each.
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
      // Of several addresses, one that this machine has tells more than one that it has not.
      out.refused = *one;
      out.error = result.error;
    }
  }
  return out;
}

std::optional<meeting_place> serve_tcp(const rendezvous_plan& plan,
                                       const rendezvous_options& options, store_contents contents,
                                       time_point deadline) {
  auto name = listen(plan, listen_addresses(plan, deadline), deadline);
  if (!name.fd) return std::nullopt;
  meeting_place out;
  const auto here = local_address(name.fd.get());
  const auto secret = plan.secret ? plan.secret->secret : job_secret();
  // Before the server takes anybody in: who has found the secret is not turned away.
  if (!plan.secret && plan.agree == rendezvous_plan::agreement::folder)
    out.published = std::make_shared<published_secret>(
        plan.variables, here.port(), secret, std::min(deadline, deadline_after(port_patience)));
  out.server = std::make_shared<tcp_store_server>(std::move(name.fd), secret, limits_here(),
                                                  std::move(contents));
  out.kept = std::make_shared<std::vector<unique_fd>>(std::move(name.kept));
  auto where = plan.master;
  where.port = out.server->port();
  if (plan.listen_address) where.host = *plan.listen_address;
  if (here.is_any()) where.host = "127.0.0.1";
  if (options.on_listening) options.on_listening(where.port);
  connect_to(
      out, where, [secret] { return secret; }, deadline);
  return out;
}

meeting_place open_tcp(const rendezvous_plan& plan, const rendezvous_options& options,
                       store_contents contents, time_point deadline) {
  if (plan.rank == 0 && !plan.newcomer)
    if (auto out = serve_tcp(plan, options, std::move(contents), deadline)) return std::move(*out);
  meeting_place out;
  connect_to(out, plan.master, source_of(plan), deadline);
  return out;
}

}  // namespace troupe::transport
