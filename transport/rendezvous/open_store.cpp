#include "troupe/transport/rendezvous/open_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/forked.hpp"
#include "troupe/transport/rendezvous/rank0_store.hpp"
#include "troupe/transport/rendezvous/rendezvous_config.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;

const std::string all_came = "troupe/all workers";

// Completes a future when it is destroyed.
class passing {
public:
  ~passing() { over_.set_value(); }
  std::shared_future<void> over() const { return seen_; }

private:
  std::promise<void> over_;
  std::shared_future<void> seen_ = over_.get_future().share();
};

// A server of this process, for all of its users.
struct served_place {
  explicit served_place(rendezvous_place&& p) : place(std::move(p)) {}

  passing end;  // first, so that it is destroyed last
  rendezvous_place place;
};

// One user; the client ends first.
struct store_user {
  std::shared_ptr<served_place> served;  // only of users that serve
  std::shared_ptr<tcp_store> client;
};

// The servers of this process that may be shared, by host and port.
struct server_table {
  struct entry {
    std::weak_ptr<served_place> served;
    std::shared_future<void> over;
    forked::home home{};

    bool is_past() const { return !home.here() || over.wait_for(0s) == std::future_status::ready; }
  };

  std::timed_mutex opening;  // one server at a time, so that two users do not both make one
  std::map<std::string, entry> by_place;

  static server_table& here() {
    static server_table one;
    return one;
  }
};

rendezvous_config config_of(const tcp_store_options& options) {
  if (options.timeout <= 0ms)
    throw invalid_argument("the timeout of a store must be more than 0 ms");
  if (options.port == 0 && !options.serves)
    throw invalid_argument(
        "port 0 lets the server choose any free port, which its clients must know");
  rendezvous_config config;
  config.master = {options.host, options.port};
  config.rank = options.serves ? 0 : 1;
  config.world_size = std::max<std::uint32_t>(2, options.world_size);
  config.variables = options.variables ? options.variables : process_environment();
  config.all_local = meets_on_this_host_alone(config);
  try {
    if (options.secret)
      config.secret = {*options.secret, "the program"};
    else
      config.secret = read_job_secret(config.variables);
  } catch (const rendezvous_error& e) {
    throw store_error(e.fault().text);
  }
  config.agree = rendezvous_config::agreement::folder;
  if (!config.secret && !config.all_local)
    throw store_error(fmt::format(
        "the store at {} can be reached from other hosts and has no secret, without which anyone "
        "could use it: set tcp_store_options::secret, or TROUPE_JOB_SECRET to the same 64 hex "
        "digits in every process (openssl rand -hex 32)",
        to_string(config.master)));
  return config;
}

store_user serve_anew(const rendezvous_config& config, bool shared, time_point deadline) {
  auto place = serve_tcp(config, {}, {}, deadline);
  if (!place)
    throw store_error(fmt::format(
        "the store at {} is served already{}", to_string(config.master),
        shared ? " by another process, or by this one for a user without multi_tenant"
               : "; be a client of it, or set tcp_store_options::multi_tenant in all of a process "
                 "that serve it"));
  store_user out;
  out.client = std::move(place->client);
  place->base.reset();
  out.served = std::make_shared<served_place>(std::move(*place));
  return out;
}

store_user serve_shared(const rendezvous_config& config, time_point deadline) {
  const auto where = to_string(config.master);
  auto& table = server_table::here();
  std::unique_lock lock(table.opening, deadline);
  if (!lock)
    throw store_error(
        fmt::format("the store at {} cannot be served in time: another one is being "
                    "opened by this process",
                    where));
  if (const auto found = table.by_place.find(where);
      found != table.by_place.end() && found->second.home.here()) {
    if (auto served = found->second.served.lock()) {
      if (config.secret && !(config.secret->secret == served->place.secret.value()))
        throw store_error(
            fmt::format("this process serves the store at {} with another secret", where));
      const endpoint at{config.master.host, served->place.server->port()};
      auto client = std::make_shared<tcp_store>(at, served->place.secret.value(), deadline);
      return {std::move(served), std::move(client)};
    }
    // The last user of the server before may still be ending it.
    if (found->second.over.wait_until(deadline) != std::future_status::ready)
      throw store_error(fmt::format(
          "the store at {} cannot be served in time: this process is still ending the one before",
          where));
  }
  std::erase_if(table.by_place, [](const auto& one) { return one.second.is_past(); });
  auto out = serve_anew(config, true, deadline);
  // With port 0 each user has a port of its own.
  if (config.master.port != 0) table.by_place[where] = {out.served, out.served->end.over()};
  return out;
}

store_user open(const rendezvous_config& config, const tcp_store_options& options,
                time_point deadline) {
  if (options.serves && options.multi_tenant) return serve_shared(config, deadline);
  if (options.serves) return serve_anew(config, false, deadline);
  return {nullptr, open_tcp(config, {}, {}, deadline).client};
}

void wait_for_workers(tcp_store& store, const tcp_store_options& options, time_point deadline) {
  const auto came = store.add("troupe/workers", 1);
  if (came >= options.world_size) store.set(all_came, "");
  if (!options.serves) return;
  try {
    store.wait(std::span(&all_came, 1), time_left(deadline));
  } catch (const store_error&) {
    throw store_error(fmt::format(
        "wait timeout after {} ms: {} of {} workers came to the store at {}; all of them must have "
        "the same world_size and wait_for_workers",
        options.timeout.count(), store.add("troupe/workers", 0), options.world_size,
        to_string(store.where())));
  }
}

}  // namespace

std::shared_ptr<tcp_store> open_tcp_store(const tcp_store_options& options) {
  const auto deadline = deadline_after(options.timeout);
  const auto user = std::make_shared<store_user>(open(config_of(options), options, deadline));
  std::shared_ptr<tcp_store> out(user, user->client.get());
  out->set_timeout(options.timeout);
  if (options.world_size > 0 && options.wait_for_workers) wait_for_workers(*out, options, deadline);
  return out;
}

}  // namespace troupe::transport
