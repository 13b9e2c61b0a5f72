#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/actors/membership/membership_callbacks.hpp"
#include "troupe/actors/membership/membership_messages.hpp"
#include "troupe/actors/membership/view.hpp"
#include "troupe/actors/sync/futex.hpp"

namespace troupe {

struct membership_options {
  /// How long a node may be silent before it counts as hung; 0: no limit.
  std::chrono::nanoseconds hang_limit{0};
  /// When the leader is lost: elect another, or end the job.
  bool elects = false;
};

/// The request of a joiner that wants to be a member.
struct join_request {
  std::optional<transport::rank_t> rank;  ///< none: any
  std::string name;
  std::vector<std::byte> address;
};

/// One node's part in group membership: which nodes belong to the job, agreed on by all of them. A
/// state machine without I/O, threads or a clock of its own. docs/membership.md holds its rules
/// (M1, M2, ...).
///
/// Between two members messages arrive once and in order until their connection is lost; then
/// `lost` is called once at each end. Any sequence of messages leaves the object valid; senseless
/// ones are ignored. Throws nothing but std::bad_alloc. For one thread.
class membership {
public:
  /// All members of `start` are connected; `lost` is called afterwards for those that are not.
  /// `client` must outlive the membership.
  membership(membership_view start, transport::rank_t self, membership_options options,
             membership_callbacks& client);

  /// Takes a message of the incarnation of `from` that this node is connected to.
  void receive(transport::rank_t from, const membership_message& message, clock::time_point now);

  /// The connection to that incarnation is lost for good. On the leader also: a joiner at that rank
  /// is lost.
  void lost(transport::rank_t rank, std::uint64_t incarnation, const transport::peer_loss& why,
            clock::time_point now);

  /// Leader: takes up a request to join. Returns the future member, for which `client.welcome` or
  /// `client.refused` follows, or why it cannot join: invalid_argument or rendezvous_error.
  std::variant<member, fault> admit(const join_request& request, clock::time_point now);

  /// Asks to leave; `client.left` follows. All messages sent so far should have been acknowledged:
  /// the others take no more from this node once they know of it. A leader can only leave last:
  /// invalid_argument.
  std::optional<fault> leave(clock::time_point now);

  /// Looks for hung nodes. Returns when it must be called next, or `never`.
  clock::time_point tick(clock::time_point now);

  const membership_view& view() const noexcept { return view_; }
  bool leads() const noexcept { return role_ == role::leader; }
  /// The rank that this node follows; its own if it leads or is a candidate.
  transport::rank_t leader() const noexcept { return leader_; }
  /// The term of the leader that this node follows.
  std::uint32_t term() const noexcept { return term_; }

private:
  enum class role : std::uint8_t { member, seeking, candidate, leader, ended };
  using rank_t = transport::rank_t;
  using duration = std::chrono::nanoseconds;

  // The step that this node is ready for, and that is not yet in force.
  struct prepared {
    membership_step step;
    std::uint32_t term = 0;  // of the leader that has proposed it last
    std::uint32_t attempt = 0;
  };

  // Used on every node: membership.cpp.
  const member* peer(rank_t rank) const;
  bool reachable(rank_t rank) const;
  std::vector<rank_t> peers(bool reached) const;
  void send(rank_t to, const membership_message& message);
  void fence(const member& who, const std::string& cause);
  void fence_suspects(const std::vector<membership_change>& suspects);
  void take_up(membership_step step, std::uint32_t term, std::uint32_t attempt);
  void apply_prepared();
  void end(errc code, const std::string& text);
  void end_without_leader(rank_t leader, const std::string& cause, const std::string& so);
  std::string name_of(rank_t rank) const;
  void advance(clock::time_point now);

  // Used by members: member.cpp.
  void take(rank_t from, const membership_messages::prepare& message);
  void take(rank_t from, const membership_messages::commit& message);
  void take(rank_t from, const membership_messages::ping& message);
  void take(rank_t from, const membership_messages::leave_notice& message);
  void take(rank_t from, const membership_messages::fenced& message);
  void adopt(rank_t leader, std::uint32_t term);
  void confirm_leader();
  membership_messages::suspect loss_of(rank_t rank) const;
  void member_lost(rank_t rank);
  void tick_member();

  // Used while leading: leader.cpp.
  void take(rank_t from, const membership_messages::ready& message);
  void take(rank_t from, const membership_messages::suspect& message);
  void take(rank_t from, const membership_messages::leave& message);
  void take(rank_t from, const membership_messages::pong& message);
  bool leaves(rank_t rank) const;
  bool removed(rank_t rank) const;
  bool awaited(rank_t rank) const;
  bool add_suspect(rank_t rank, std::uint64_t incarnation, const transport::peer_loss& why);
  void suspect(rank_t rank, std::uint64_t incarnation, const transport::peer_loss& why);
  bool drop_joiner(rank_t rank, std::uint64_t incarnation, const std::string& cause);
  void refuse(const member& who, const std::string& cause);
  std::string refusal_of(const join_request& request, errc& code) const;
  std::uint64_t next_incarnation(rank_t rank) const;
  void leave_last();
  void start_step();
  void propose();
  void commit_if_ready();
  void announce_commit(const membership_step& step, const std::set<rank_t>& participants);
  void tick_leader();

  // Used in an election: election.cpp.
  void take(rank_t from, const membership_messages::seek& message);
  void take(rank_t from, const membership_messages::candidate& message);
  void take(rank_t from, const membership_messages::follow& message);
  void leader_lost();
  void look_for_leader();
  void stand();
  void canvass(rank_t rank);
  void pledge(rank_t candidate, std::uint32_t term);
  void record_suspicions(rank_t by, const std::vector<membership_messages::suspect>& lost);
  void count_followers();
  void win();
  std::string cause_of_loss(rank_t rank) const;
  bool decides(const std::set<rank_t>& present) const;
  void tick_election();

  membership_view view_;
  const rank_t self_;
  const membership_options options_;
  membership_callbacks& client_;

  role role_;
  std::uint32_t term_;    // the highest that this node follows
  rank_t leader_;         // of that term
  bool pledged_ = false;  // leader_ is still a candidate
  bool leaving_ = false;
  std::optional<prepared> prepared_;
  std::map<rank_t, transport::peer_loss> lost_;  // peers without a connection, not fenced
  std::set<rank_t> fenced_;                      // peers, until a step removes them
  // Joiners fenced because another leader's attempt did not admit them any more.
  std::set<std::pair<rank_t, std::uint64_t>> dropped_;
  std::set<rank_t> ended_;           // members whose process has ended, for certain
  std::vector<member> last_joined_;  // by the last step

  // Used while leading.
  bool inherited_ = false;  // prepared_ is another leader's, and is completed unchanged
  std::set<rank_t> ready_;
  std::map<rank_t, std::string> suspects_;  // members that die in this step or the next; the causes
  std::vector<membership_change> waiting_;  // for the next step
  std::map<rank_t, std::uint64_t> given_;   // the last incarnations that it has promised to joiners

  // Used in an election.
  std::uint32_t seen_term_ = 0;  // the highest in any message
  rank_t deposed_ = 0;           // the leader that was lost last
  rank_t sought_ = 0;            // the node that this one expects to stand
  std::set<rank_t> followers_;
  struct suspicion {
    rank_t by;
    membership_messages::suspect what;
  };
  std::map<rank_t, suspicion> suspicions_;  // taken up once this node leads

  // Time during which this node was awake (M14).
  const duration interval_;
  duration awake_{0};
  std::optional<clock::time_point> last_time_;
  clock::time_point next_tick_{};
  duration heard_leader_{0};          // the last message of the leader; or when an election began
  std::map<rank_t, duration> heard_;  // the last message of each peer
};

}  // namespace troupe
