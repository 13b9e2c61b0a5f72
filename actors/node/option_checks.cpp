#include "troupe/actors/node/option_checks.hpp"

#include "troupe/actors/operators/permission.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/transport/registry/transport_registry.hpp"
#include "troupe/transport/rendezvous/environment.hpp"

namespace troupe {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds longest = std::chrono::hours(24 * 365);
constexpr std::size_t least_tensor_memory = std::size_t{64} << 20;
constexpr std::size_t least_lent = std::size_t{16} << 10;  // smaller tensors are not in the arena

[[noreturn]] void refuse(const std::string& option, const std::string& value,
                         const std::string& rule) {
  throw invalid_argument("rpc_options::" + option + " is " + value + ", but must be " + rule);
}

void check_time(const char* option, milliseconds value, milliseconds least, const char* rule) {
  if (value < least || value > longest) refuse(option, std::to_string(value.count()) + " ms", rule);
}

template <class Enum>
void check_choice(const char* option, Enum value, Enum last, const char* choices) {
  if (value > last)
    refuse(option, "the number " + std::to_string(static_cast<int>(value)), choices);
}

void check_names(const rpc_options& options) {
  const auto check = [](const char* option, const std::string& text) {
    if (const auto problem = worker_name_problem(text); !problem.empty())
      throw invalid_argument("rpc_options::" + std::string(option) + " " + problem);
  };
  auto all = complete_worker_name(options.name, options.rank.value_or(0));
  check("name", all);
  for (const auto& alias : options.aliases) {
    check("aliases", alias);
    all += ',' + alias;
  }
  check("name with rpc_options::aliases:", all);
}

void check_transport(const rpc_options& options) {
  const auto& name = options.transport_name;
  if (name.empty() && !options.transport_options.empty())
    throw invalid_argument(
        "rpc_options::transport_options are for the transport that rpc_options::transport_name "
        "names, which is empty");
  if (name.empty() || transport::find_transport(name)) return;
  if (name == "tcp" || name == "ucx" || name == "ucx_tcp")
    refuse("transport_name", "'" + name + "'",
           "a transport that this program has registered; Troupe's own is rpc_options::transport = "
           "backend::" +
               name);
  std::string known;
  for (const auto& one : transport::transport_names()) known += (known.empty() ? "" : ", ") + one;
  refuse("transport_name", "'" + name + "'",
         "a transport that this program has registered: " + (known.empty() ? "none" : known) +
             " (register_transport of <troupe/transport.hpp>, before init_rpc)");
}

// The rank and world size of a node that joins a running job are independent: its world size is
// ignored.
void check_place(const rpc_options& options) {
  if (options.joins_running || !options.world_size) return;
  if (options.world_size == 0u) refuse("world_size", "0", "1 or more: ranks of the job");
  if (options.rank && *options.rank >= *options.world_size)
    refuse("rank", std::to_string(*options.rank),
           "from 0 to " + std::to_string(*options.world_size - 1) + ", since world_size is " +
               std::to_string(*options.world_size));
}

}  // namespace

void check_options(const rpc_options& options) {
  check_names(options);
  check_place(options);
  if (options.rpc_timeout.count() < 0)
    throw invalid_argument("RPC Timeout must be non-negative: rpc_options::rpc_timeout is " +
                           std::to_string(options.rpc_timeout.count()) + " ms (0: no limit)");
  check_time("init_timeout", options.init_timeout, milliseconds{1}, "from 1 ms to 365 days");
  check_time("keepalive", options.keepalive, milliseconds{1}, "from 1 ms to 365 days");
  if (options.hang_limit.count() != 0)
    check_time("hang_limit", options.hang_limit, milliseconds{100},
               "from 100 ms to 365 days, or 0 for no limit");
  if (options.tensor_memory_limit != 0 && options.tensor_memory_limit < least_tensor_memory)
    refuse("tensor_memory_limit", std::to_string(options.tensor_memory_limit),
           "64 MiB or more, or 0 for three quarters of the machine's memory");
  const auto check_lent = [](const char* option, std::size_t bytes) {
    if (bytes != 0 && bytes < least_lent)
      refuse(option, std::to_string(bytes), "16 KiB or more, or 0 for what is usual");
  };
  check_lent("lend_from", options.lend_from);
  check_lent("lend_copies_from", options.lend_copies_from);
  if (options.max_threads == 0)
    refuse("max_threads", "0", "1 or more: handlers that may run, or wait, at one time");
  check_time("thread_idle_limit", options.thread_idle_limit, milliseconds{1},
             "from 1 ms to 365 days");
  check_choice("transport", options.transport, backend::ucx_tcp,
               "backend::automatic, backend::shared_memory, backend::tcp, backend::ucx or "
               "backend::ucx_tcp");
  check_transport(options);
  if (options.encryption)
    check_choice("encryption", *options.encryption, stream_protection::encrypt,
                 "stream_protection::off, stream_protection::authenticate or "
                 "stream_protection::encrypt");
  detail::network_settings(options);
  check_choice("overload", options.overload, when_full::fail, "when_full::wait or when_full::fail");
  check_choice("on_leader_loss", options.on_leader_loss, leader_loss::elect,
               "leader_loss::end or leader_loss::elect");
  check_choice("on_lost_gradient", options.on_lost_gradient, lost_gradient::fail,
               "lost_gradient::warn or lost_gradient::fail");
  check_choice("on_leaked_rref", options.on_leaked_rref, leaked_rref::fail,
               "leaked_rref::ignore or leaked_rref::fail");
  detail::operator_permission{options.operators};
}

namespace detail {

transport::tcp_options network_settings(const rpc_options& options) {
  return transport::read_tcp_settings({options.net_devices, options.ports, options.encryption},
                                      transport::process_environment());
}

job_rules rules_of(const rpc_options& options) {
  return {options.transport,      options.window,         options.hang_limit,
          options.on_leader_loss, options.transport_name, network_settings(options).protection};
}

}  // namespace detail

}  // namespace troupe
