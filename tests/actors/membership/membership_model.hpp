// A job of a few nodes and the network between them, all of whose chances come from a seed: what
// membership must survive. Every rule that can be seen from outside is checked at each step.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "troupe/actors/membership/membership.hpp"

namespace troupe::membership_testing {

class membership_model;

/// A process that is a member, waits to become one, or was one.
class model_node final : public membership_callbacks {
public:
  enum class state { waiting, running, hung, over };

  model_node(membership_model& world, std::size_t index, member who);

  void start(membership_view view);
  bool alive() const { return now == state::running || now == state::hung; }

  void send(transport::rank_t to, const membership_message& message) override;
  void fence(const member& who, const fault& why) override;
  void connect(const member& who) override;
  void apply(const std::vector<membership_change>& changes, const membership_view& view) override;
  void welcome(const member& who, const membership_view& view) override;
  void refused(const member& who, const fault& why) override;
  void left() override;
  void ended(const fault& why) override;

  const std::size_t index;
  member who;
  bool known = true;  ///< has a rank
  state now = state::waiting;
  std::unique_ptr<membership> part;
  std::map<transport::rank_t, std::size_t> peers;
  std::set<std::size_t> fenced;
  std::set<std::size_t> met;  ///< nodes that it has ever been connected to
  std::optional<membership_view> invitation;
  std::optional<errc> end;
  bool leaves = false;
  bool answered = false;    ///< its request to join
  std::size_t sponsor = 0;  ///< the node that took its request to join

private:
  void expect_not_over(const char* what);
  membership_model& world_;
};

class membership_model {
public:
  /// `trace`: where to print what happens, or nullptr.
  membership_model(std::uint64_t seed, std::ostream* trace);

  /// Runs to the end. Returns what went wrong, or nothing.
  std::string run();

  struct tally {
    std::uint64_t steps = 0, deaths = 0, joins = 0, leaves = 0, elections = 0, fenced = 0;
  };
  const tally& seen() const { return seen_; }

private:
  friend class model_node;

  struct side {
    bool open = false;                         // this side has connected
    bool closed = false;                       // and has fenced the other
    bool reported = false;                     // that the connection is lost
    std::optional<transport::peer_loss> loss;  // to be reported
    std::deque<membership_message> in;
  };
  struct link {
    bool cut = false;
    side ends[2];
  };
  using pair = std::pair<std::size_t, std::size_t>;

  std::size_t random(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  bool chance(unsigned percent) { return random(100) < percent; }
  void fail(const std::string& what);
  template <class... Ts>
  void print(const Ts&... xs);

  link& between(std::size_t a, std::size_t b);
  side& end_of(std::size_t at, std::size_t other);
  model_node* find(const member& who);
  void open(std::size_t at, std::size_t other);
  void shorten(std::deque<membership_message>& membership_messages);
  void cut(std::size_t a, std::size_t b);
  void close(std::size_t at, std::size_t other);
  void finish(model_node& node, bool crashed);

  bool can_act(std::size_t at) const { return nodes_[at]->now == model_node::state::running; }
  bool deliver_one();
  bool report_one_loss();
  bool start_one();
  bool calm_down();
  void pass_time(std::chrono::nanoseconds by);
  void disturb();
  void admit_one();
  void settle();
  void check_end();
  void check_apply(const model_node& at, const std::vector<membership_change>& changes,
                   const membership_view& view);
  std::vector<model_node*> running();

  std::mt19937_64 random_;
  std::ostream* trace_;
  membership_options options_;
  std::vector<std::unique_ptr<model_node>> nodes_;
  std::map<pair, link> links_;
  clock::time_point now_{};
  std::map<std::uint32_t, std::pair<std::vector<membership_change>, membership_view>> history_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> leaders_;  // by term and epoch
  std::set<std::uint32_t> terms_;
  std::string failure_;
  tally seen_;
};

template <class... Ts>
void membership_model::print(const Ts&... xs) {
  if (trace_) ((*trace_ << xs), ...) << '\n';
}

}  // namespace troupe::membership_testing
