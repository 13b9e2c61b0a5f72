#include "troupe/transport/rendezvous/rendezvous_config.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/whole_number.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/rendezvous/file_url.hpp"
#include "troupe/transport/rendezvous/method_url.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

namespace {

std::uint16_t read_port(const std::string& method, std::string_view text) {
  const auto out = whole_number<std::uint16_t>(text);
  if (!out) fail_method(method, fmt::format("'{}' is not a port", text));
  return *out;
}

endpoint read_endpoint(const std::string& method, std::string_view text) {
  std::string_view host;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find("]:");
    if (end == text.npos) fail_method(method, "there is no [HOST]:PORT");
    host = text.substr(1, end - 1);
    port = text.substr(end + 2);
  } else {
    const auto colon = text.rfind(':');
    if (colon == text.npos) fail_method(method, "there is no port");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.empty()) fail_method(method, "there is no host");
  if (port.ends_with('/')) port.remove_suffix(1);
  return {std::string(host), read_port(method, port)};
}

std::filesystem::path read_path(const std::string& method, const std::string& text) {
  const auto url = parse_file_url(text);
  if (const auto problem = file_url_problem(url); !problem.empty()) fail_method(method, problem);
  return url.path;
}

void read_method(rendezvous_options& options, rendezvous_config& config) {
  const auto& method = options.init_method;
  auto url = split_method(method);
  take_ranks(url, options);
  if (url.scheme == "tcp") {
    config.how = rendezvous_config::way::tcp;
    config.master = read_endpoint(method, url.rest);
  } else if (url.scheme == "file") {
    config.how = rendezvous_config::way::file;
    config.path = read_path(method, url.rest);
  } else {
    fail_method(method, "this kind is unknown");
  }
  if (!url.query.empty())
    fail_method(method, fmt::format("it knows no parameter '{}'", url.query.front().first));
}

// The part of the configuration that options alone determine; takes those that are in the text of
// the method.
rendezvous_config begin_config(rendezvous_options& options, bool method) {
  if (options.timeout <= std::chrono::milliseconds{0})
    throw rendezvous_error("the timeout of a rendezvous must be more than 0 ms");
  if (!options.variables) options.variables = process_environment();
  rendezvous_config config;
  if (method && options.init_method != "env://") read_method(options, config);
  config.job = options.job.empty() ? read_job_name(options.variables) : options.job;
  if (config.job.size() > 256)
    throw rendezvous_error(
        fmt::format("a job's name has at most 256 bytes, but TROUPE_JOB_ID or the option has {}",
                    config.job.size()));
  config.variables = options.variables;
  config.secret = read_job_secret(options.variables);
  config.listen_address = options.variables("TROUPE_LISTEN_ADDR");
  config.host_id = options.variables("TROUPE_HOST_ID");
  return config;
}

void find_master(const rendezvous_options& options, const job_place& place,
                 rendezvous_config& config) {
  const auto master = read_master(options.variables, place, config.job);
  config.master = {master.host, master.port};
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

bool is_of_an_interface(const socket_address& one) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  for (const auto* i = first; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != one.storage.ss_family) continue;
    socket_address here;
    here.length = one.length;
    std::memcpy(&here.storage, i->ifa_addr, one.length);
    if (here.has_host_of(one)) return true;
  }
  return false;
}

// Whether a connection to it ends at this machine. Takes no longer than connecting would.
bool is_here(const endpoint& where, time_point deadline) {
  try {
    const auto addresses = resolve(where, deadline);
    return std::ranges::all_of(
        addresses, [](const auto& one) { return one.is_loopback() || is_of_an_interface(one); });
  } catch (const store_error&) {
    return false;  // the connection attempt reports why
  }
}

// The other ranks must be able to find a secret that rank 0 makes: between hosts there is no way,
// since neither MPI nor Slurm has a place that only the ranks of one user can read.
void choose_agreement(bool method, bool one_host, rendezvous_config& config) {
  using agreement = rendezvous_config::agreement;
  if (config.secret) return;
  if (!method) {
    config.agree = agreement::own_store;
  } else if (config.how == rendezvous_config::way::file) {
    config.agree = agreement::file;
  } else if (one_host || is_loopback(config.master.host)) {
    config.agree = agreement::folder;
  } else {
    throw rendezvous_error(fmt::format(
        "job '{}' may span several hosts (rank 0 is at {}), but no secret was given, and "
        "without one anyone could join: set TROUPE_JOB_SECRET to the same 64 hex digits on every "
        "rank (openssl rand -hex 32; mpirun -x TROUPE_JOB_SECRET passes it on, srun does by "
        "itself), or TROUPE_JOB_SECRET_FILE to a file with them that only you can read; or, if "
        "all ranks run on this host, set LOCAL_WORLD_SIZE to WORLD_SIZE or MASTER_ADDR to "
        "127.0.0.1",
        config.job, to_string(config.master)));
  }
}

void check_port(const rendezvous_config& config) {
  if (config.how == rendezvous_config::way::tcp && config.master.port == 0)
    throw rendezvous_error(
        "port 0 lets rank 0 choose any free port, which the other ranks cannot know: set "
        "MASTER_PORT or tcp://HOST:PORT to a number from 1 to 65535");
}

void check_place(const rendezvous_config& config) {
  if (config.world_size == 0) throw rendezvous_error("a job's world size must be at least 1");
  if (config.world_size > largest_world)
    throw rendezvous_error(fmt::format("a job has at most {} ranks, but its world size is {}",
                                       largest_world, config.world_size));
  if (config.rank >= config.world_size)
    throw rendezvous_error(
        fmt::format("there is no rank {} in a job of {} ranks: they go from 0 to {}", config.rank,
                    config.world_size, config.world_size - 1));
}

rendezvous_config make_founder_config(const rendezvous_options& given, bool method, bool comes) {
  auto options = given;
  auto config = begin_config(options, method);
  auto place = options.rank && options.world_size ? job_place{} : read_job_place(options.variables);
  if (!options.rank && !place.rank) throw_missing_rank(place);
  if (!options.world_size && !place.world_size) {
    place.rank = options.rank ? options.rank : place.rank;
    throw_missing_rank(place);
  }
  config.rank = options.rank.value_or(place.rank.value_or(0));
  config.world_size = options.world_size.value_or(place.world_size.value_or(0));
  // The local ranks of a launcher hold only for the ranks that it gave.
  if (!options.rank && !options.world_size) {
    config.local_rank = place.local_rank;
    config.local_world_size = place.local_world_size;
    config.all_local = place.all_local;
  }
  if (comes) check_place(config);
  config.all_local = config.all_local || config.world_size == 1;
  config.name = complete_worker_name(options.name, config.rank);
  if (method && options.init_method == "env://") {
    place.all_local = config.all_local;
    place.world_size = config.world_size;
    if (options.dynamic) place.world_size.reset();  // joiners must find the port
    find_master(options, place, config);
  }
  if (method && config.rank != 0) check_port(config);
  choose_agreement(method, config.all_local, config);
  if (config.agree == rendezvous_config::agreement::folder && config.world_size == 1 &&
      config.master.port == 0 && !options.dynamic)
    config.agree = rendezvous_config::agreement::alone;
  config.admits_joiners = options.dynamic;
  return config;
}

}  // namespace

rendezvous_config make_config(const rendezvous_options& options, bool method) {
  return make_founder_config(options, method, true);
}

rendezvous_config make_absent_config(const rendezvous_options& options, bool method) {
  return make_founder_config(options, method, false);
}

rendezvous_config make_joiner_config(const rendezvous_options& given, bool method) {
  auto options = given;
  auto config = begin_config(options, method);
  config.joiner = true;
  config.wanted_rank = options.rank;
  config.name = options.name;
  bool one_host = false;
  if (method && options.init_method == "env://") {
    auto place = read_job_place(options.variables);
    place.world_size.reset();
    one_host = place.all_local;
    find_master(options, place, config);
  }
  if (method) check_port(config);
  // A founder of a job of one rank leaves its secret on its host, whichever address it listens on.
  if (method && config.how == rendezvous_config::way::tcp && !config.secret)
    one_host = one_host || is_here(config.master, deadline_after(options.timeout));
  choose_agreement(method, one_host, config);
  return config;
}

bool meets_on_this_host_alone(const rendezvous_config& config) {
  if (config.how != rendezvous_config::way::tcp || config.listen_address) return false;
  if (config.master.host == "localhost") return true;
  // A name may be a loopback address on its own machine alone.
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, config.master.host.c_str(), &v4) == 1)
    return (ntohl(v4.s_addr) >> 24) == 127;
  return inet_pton(AF_INET6, config.master.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace troupe::transport
