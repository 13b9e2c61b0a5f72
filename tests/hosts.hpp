#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::test {

/// The wires of `hosts`.
struct wires {
  int interfaces = 1;     ///< of each host: eth0, eth1, each a network of its own
  std::string rate = {};  ///< as tc has it: "1gbit"; empty: as fast as the machine can
  int mtu = 1500;
};

/// Hosts with a network of their own, as far as the kernel's network namespaces can be some: each
/// has interfaces eth0, eth1, ... with addresses of IPv4 and IPv6, and all are joined by bridges in
/// one more namespace, at which wires are cut. Made by `ip` and `tc` of iproute2; needs root.
/// `problem` names why there are none.
class hosts {
public:
  explicit hosts(unsigned count, wires how = {}) : count_(count), how_(std::move(how)) {
    if (geteuid() != 0) {
      problem_ = "only root can make network namespaces";
      return;
    }
    const auto make = [&](const std::string& command) {
      if (problem_.empty() && !run(command)) problem_ = "this does not work here: " + command;
    };
    make("ip netns add " + middle());
    for (int i = 0; i < how_.interfaces; ++i) {
      make(fmt::format("ip -n {} link add bridge{} type bridge", middle(), i));
      make(fmt::format("ip -n {} link set bridge{} mtu {} up", middle(), i, how_.mtu));
    }
    for (unsigned n = 0; n < count_; ++n) {
      make("ip netns add " + space(n));
      make(fmt::format("ip -n {} link set lo up", space(n)));
      for (int i = 0; i < how_.interfaces; ++i) {
        const auto port = port_of(n, i);
        make(fmt::format("ip -n {} link add eth{} mtu {} type veth peer name {} mtu {} netns {}",
                         space(n), i, how_.mtu, port, how_.mtu, middle()));
        make(fmt::format("ip -n {} addr add {}/24 dev eth{}", space(n), address(n, i), i));
        make(fmt::format("ip -n {} addr add {}/64 dev eth{} nodad", space(n), address6(n, i), i));
        make(fmt::format("ip -n {} link set {} master bridge{} up", middle(), port, i));
        make(fmt::format("ip -n {} link set eth{} up", space(n), i));
      }
    }
    try {
      for (unsigned n = 0; n < count_ && problem_.empty(); ++n) heal(n);
    } catch (const std::runtime_error& e) {
      problem_ = e.what();
    }
  }

  ~hosts() {
    for (unsigned n = 0; n < count_; ++n) run("ip netns del " + space(n));
    run("ip netns del " + middle());
  }
  hosts(const hosts&) = delete;
  hosts& operator=(const hosts&) = delete;

  const std::string& problem() const { return problem_; }

  std::string space(unsigned host) const { return fmt::format("th{}n{}", id_, host); }
  std::string address(unsigned host, int interface = 0) const {
    return fmt::format("10.{}.{}.{}", id_ % 250, interface, host + 1);
  }
  std::string address6(unsigned host, int interface = 0) const {
    return fmt::format("fd00:{:x}:{}::{}", id_ % 0xffff, interface + 1, host + 1);
  }

  /// A command that runs another one there.
  std::vector<std::string> at(unsigned host) const { return {"ip", "netns", "exec", space(host)}; }

  /// What `host` sends on an interface gets nowhere.
  void silence(unsigned host, int interface = 0) const {
    need("ip netns exec {} tc qdisc replace dev eth{} root blackhole", space(host), interface);
  }
  /// What others send to it gets nowhere.
  void deafen(unsigned host, int interface = 0) const {
    need("ip netns exec {} tc qdisc replace dev {} root blackhole", middle(),
         port_of(host, interface));
  }
  void cut(unsigned host, int interface = 0) const {
    silence(host, interface);
    deafen(host, interface);
  }
  /// All that was done to it is over.
  void heal(unsigned host) const {
    for (int i = 0; i < how_.interfaces; ++i) slow(host, how_.rate, i);
  }
  /// Both directions have this rate; empty: they are as fast as the machine can.
  void slow(unsigned host, const std::string& rate, int interface = 0) const {
    const auto shape = [&](const std::string& where, const std::string& device) {
      if (rate.empty())
        run(fmt::format("ip netns exec {} tc qdisc del dev {} root", where, device));
      else
        need("ip netns exec {} tc qdisc replace dev {} root tbf rate {} burst 256kb latency 20ms",
             where, device, rate);
    };
    shape(space(host), fmt::format("eth{}", interface));
    shape(middle(), port_of(host, interface));
  }
  /// The host's TCP connections end, and their other ends get a reset, as a router on the way that
  /// has forgotten them does it. False: nothing here can do that.
  bool reset_connections(unsigned host) const {
    return run(fmt::format("ip netns exec {} ss -t -K state established", space(host)));
  }

  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }

private:
  template <class... T>
  static void need(fmt::format_string<T...> text, T&&... values) {
    const auto command = fmt::format(text, std::forward<T>(values)...);
    if (!run(command)) throw std::runtime_error("this has failed: " + command);
  }

  std::string middle() const { return fmt::format("th{}m", id_); }
  static std::string port_of(unsigned host, int interface) {
    return fmt::format("port{}i{}", host, interface);
  }

  const int id_ = getpid() % 1'000'000;
  const unsigned count_;
  const wires how_;
  std::string problem_;
};

/// The calling thread is on a host as long as this lives: sockets that it opens are that host's,
/// and so are those of threads and processes that it starts.
class on_host {
public:
  on_host(const hosts& all, unsigned host)
      : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    enter(transport::unique_fd(
        open(("/run/netns/" + all.space(host)).c_str(), O_RDONLY | O_CLOEXEC)));
  }
  ~on_host() { setns(before_.get(), CLONE_NEWNET); }
  on_host(const on_host&) = delete;
  on_host& operator=(const on_host&) = delete;

private:
  static void enter(const transport::unique_fd& space) {
    if (!space || setns(space.get(), CLONE_NEWNET) != 0)
      throw std::runtime_error("the network namespace cannot be entered");
  }

  const transport::unique_fd before_;
};

}  // namespace troupe::test
