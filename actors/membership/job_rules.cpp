#include "troupe/actors/membership/job_rules.hpp"

namespace troupe::detail {

using std::chrono::milliseconds;

namespace {

std::string text_of(backend x) {
  switch (x) {
    case backend::automatic: return "backend::automatic";
    case backend::shared_memory: return "backend::shared_memory";
    case backend::tcp: return "backend::tcp";
    case backend::ucx: return "backend::ucx";
    case backend::ucx_tcp: return "backend::ucx_tcp";
  }
  return "unknown";
}

std::string text_of(stream_protection x) {
  switch (x) {
    case stream_protection::off: return "stream_protection::off";
    case stream_protection::authenticate: return "stream_protection::authenticate";
    case stream_protection::encrypt: return "stream_protection::encrypt";
  }
  return "unknown";
}

std::string text_of(leader_loss x) {
  return x == leader_loss::end ? "leader_loss::end" : "leader_loss::elect";
}

std::string text_of(milliseconds x) { return std::to_string(x.count()) + " ms"; }
std::string text_of(const std::string& x) { return "'" + x + "'"; }
std::string text_of(std::uint64_t x) { return std::to_string(x); }

}  // namespace

std::string rules_problem(const std::string& one, const job_rules& ours, const std::string& other,
                          const job_rules& theirs) {
  std::string out;
  const auto compare = [&](const char* option, auto a, auto b) {
    if (a == b || !out.empty()) return;
    out = "rpc_options::" + std::string(option) + " must be the same on all nodes, but is " +
          text_of(a) + " at " + one + " and " + text_of(b) + " at " + other;
  };
  compare("transport", ours.transport, theirs.transport);
  compare("window.messages", std::uint64_t{ours.window.messages},
          std::uint64_t{theirs.window.messages});
  compare("window.bytes", ours.window.bytes, theirs.window.bytes);
  compare("hang_limit", ours.hang_limit, theirs.hang_limit);
  compare("transport_name", ours.transport_name, theirs.transport_name);
  compare("encryption (or TROUPE_ENCRYPTION)", ours.encryption, theirs.encryption);
  compare("on_leader_loss", ours.on_leader_loss, theirs.on_leader_loss);
  return out;
}

}  // namespace troupe::detail
