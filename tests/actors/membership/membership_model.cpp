#include "tests/actors/membership/membership_model.hpp"

#include <algorithm>

namespace troupe::membership_testing {

using namespace std::chrono_literals;
using transport::loss_kind;
using transport::peer_loss;

membership_model::membership_model(std::uint64_t seed, std::ostream* trace)
    : random_(seed), trace_(trace) {
  options_.elects = chance(50);
  if (chance(30)) options_.hang_limit = 1s;
  now_ += 1h;
  membership_view view;
  view.epoch = static_cast<std::uint32_t>(random(3));
  const auto count = 2 + random(7);
  for (std::size_t i = 0; i < count; ++i) {
    member who{static_cast<transport::rank_t>(i), 0, "n" + std::to_string(i), {std::byte(i)}};
    view.members[who.rank] = who;
    nodes_.push_back(std::make_unique<model_node>(*this, i, who));
  }
  for (auto& node : nodes_) {
    node->answered = true;
    node->start(view);
  }
  print(count, " nodes, ", options_.elects ? "elects" : "ends with rank 0", ", hang limit ",
        options_.hang_limit.count());
}

void membership_model::fail(const std::string& what) {
  print("FAILS: ", what);
  if (failure_.empty()) failure_ = what;
}

membership_model::link& membership_model::between(std::size_t a, std::size_t b) {
  return links_[std::minmax(a, b)];
}

membership_model::side& membership_model::end_of(std::size_t at, std::size_t other) {
  return between(at, other).ends[at < other ? 0 : 1];
}

// A joiner gets its rank when it is first named.
model_node* membership_model::find(const member& who) {
  for (auto& node : nodes_)
    if (node->known && node->who.rank == who.rank && node->who.incarnation == who.incarnation)
      return node.get();
  for (auto& node : nodes_)
    if (!node->known && node->who.address == who.address) {
      node->who = who;
      node->known = true;
      return node.get();
    }
  return nullptr;
}

void membership_model::open(std::size_t at, std::size_t other) {
  auto& mine = end_of(at, other);
  mine.open = true;
  if (nodes_[other]->now == model_node::state::over && !mine.loss)
    mine.loss = peer_loss{chance(50) ? loss_kind::ended : loss_kind::broken, "was gone already"};
}

// What was under way when a line was cut: some of it still arrives.
void membership_model::shorten(std::deque<membership_message>& membership_messages) {
  if (!membership_messages.empty())
    membership_messages.resize(random(membership_messages.size() + 1));
}

void membership_model::cut(std::size_t a, std::size_t b) {
  auto& line = between(a, b);
  if (line.cut) return;
  print("cut ", nodes_[a]->who.rank, " - ", nodes_[b]->who.rank);
  line.cut = true;
  for (auto& end : line.ends) {
    shorten(end.in);
    if (!end.loss) end.loss = peer_loss{loss_kind::broken, "the line was cut"};
  }
}

void membership_model::close(std::size_t at, std::size_t other) {
  auto& mine = end_of(at, other);
  mine.closed = true;
  mine.in.clear();
  auto& theirs = end_of(other, at);
  if (!theirs.loss) theirs.loss = transport::peer_left();
}

void membership_model::finish(model_node& node, bool crashed) {
  node.now = model_node::state::over;
  for (auto& other : nodes_) {
    if (other->index == node.index || !links_.contains(std::minmax(node.index, other->index)))
      continue;
    auto& line = between(node.index, other->index);
    auto& theirs = end_of(other->index, node.index);
    line.cut = true;
    if (crashed) shorten(theirs.in);
    if (!theirs.loss || chance(50))
      theirs.loss = chance(70) ? peer_loss{loss_kind::ended, "its process has ended"}
                               : peer_loss{loss_kind::broken, "it cannot be reached"};
  }
}

bool membership_model::deliver_one() {
  std::vector<pair> ready;
  for (auto& [ends, line] : links_)
    for (int i = 0; i < 2; ++i) {
      const auto at = i == 0 ? ends.first : ends.second;
      const auto& end = line.ends[i];
      if (can_act(at) && end.open && !end.closed && !end.reported && !end.in.empty())
        ready.emplace_back(at, i == 0 ? ends.second : ends.first);
    }
  if (ready.empty()) return false;
  const auto [at, from] = ready[random(ready.size())];
  auto& end = end_of(at, from);
  const auto message = std::move(end.in.front());
  end.in.pop_front();
  auto& node = *nodes_[at];
  const bool fences = std::holds_alternative<membership_messages::fenced>(message) &&
                      !between(at, from).cut && node.part->leader() == nodes_[from]->who.rank;
  print(node.who.rank, " <- ", nodes_[from]->who.rank, ": message ", message.index());
  node.part->receive(nodes_[from]->who.rank, message, now_);
  if (fences && node.end != errc::fenced) fail("a fenced node lives on");  // M7
  return true;
}

bool membership_model::report_one_loss() {
  std::vector<pair> ready;
  for (auto& [ends, line] : links_)
    for (int i = 0; i < 2; ++i) {
      const auto at = i == 0 ? ends.first : ends.second;
      const auto& end = line.ends[i];
      // A good close comes behind what was sent before it.
      if (can_act(at) && end.open && !end.closed && !end.reported && end.loss &&
          (line.cut || end.in.empty()))
        ready.emplace_back(at, i == 0 ? ends.second : ends.first);
    }
  if (ready.empty()) return false;
  const auto [at, other] = ready[random(ready.size())];
  auto& end = end_of(at, other);
  end.reported = true;
  end.in.clear();
  const auto& who = nodes_[other]->who;
  print(nodes_[at]->who.rank, " loses ", who.rank, ".", who.incarnation, ": ", end.loss->text);
  nodes_[at]->part->lost(who.rank, who.incarnation, *end.loss, now_);
  return true;
}

bool membership_model::start_one() {
  for (auto& node : nodes_)
    if (node->now == model_node::state::waiting && node->invitation) {
      print(node->who.rank, " starts in epoch ", node->invitation->epoch);
      node->start(*node->invitation);
      return true;
    }
  return false;
}

std::vector<model_node*> membership_model::running() {
  std::vector<model_node*> out;
  for (auto& node : nodes_)
    if (node->now == model_node::state::running) out.push_back(node.get());
  return out;
}

void membership_model::pass_time(std::chrono::nanoseconds by) {
  now_ += by;
  for (auto* node : running())
    if (node->now == model_node::state::running) node->part->tick(now_);
}

void membership_model::admit_one() {
  for (auto* node : running()) {
    if (!node->part->leads()) continue;
    join_request request;
    request.name = "n" + std::to_string(chance(90) ? nodes_.size() : random(nodes_.size()));
    request.address = {std::byte(nodes_.size())};
    if (chance(50)) request.rank = static_cast<transport::rank_t>(random(10));
    auto& joiner = *nodes_.emplace_back(std::make_unique<model_node>(
        *this, nodes_.size(), member{0, 0, request.name, request.address}));
    joiner.known = false;
    joiner.sponsor = node->index;
    const auto answer = node->part->admit(request, now_);
    const auto* who = std::get_if<member>(&answer);
    if (!who) {
      joiner.now = model_node::state::over;
      return;
    }
    print("admits ", who->rank, ".", who->incarnation);
    if (find(*who) != &joiner) fail("an incarnation given twice");  // M9
    return;
  }
}

// One thing that goes wrong, or is wished for.
void membership_model::disturb() {
  auto a = random(nodes_.size());
  const auto b = random(nodes_.size());
  // Leaders are of most interest, where their loss is not the end.
  if (options_.elects && chance(40))
    for (const auto* node : running())
      if (node->part->leads()) a = node->index;
  auto& node = *nodes_[a];
  using state = model_node::state;
  switch (random(8)) {
    case 0:
    case 1:
      if (a != b && node.alive() && nodes_[b]->alive()) cut(a, b);
      break;
    case 2:
    case 3:
      // Rank 0 less often: it ends the job where there are no elections.
      if (node.now == state::over || !node.known || (a == 0 && !options_.elects && chance(60)))
        break;
      print(node.who.rank, " crashes");
      finish(node, true);
      if (!node.answered && nodes_[node.sponsor]->now == state::running && node.sponsor != a)
        nodes_[node.sponsor]->part->lost(node.who.rank, node.who.incarnation,
                                         {loss_kind::ended, "the joiner has ended"}, now_);
      break;
    case 4:
      if (node.now == state::running) {
        print(node.who.rank, " hangs");
        node.now = state::hung;
      }
      break;
    case 5:
      if (node.now == state::running && !node.part->leads()) {
        print(node.who.rank, " asks to leave");
        node.leaves = true;
        node.part->leave(now_);
      }
      break;
    default:
      if (nodes_.size() < 16) admit_one();
  }
}

std::string membership_model::run() {
  const auto events = 20 + random(400);
  for (std::size_t i = 0; i < events && failure_.empty(); ++i) {
    const auto dice = random(100);
    if (dice < 70) {
      deliver_one();
    } else if (dice < 80) {
      report_one_loss();
    } else if (dice < 84) {
      start_one();
    } else if (dice < 92) {
      pass_time(1ms * random(chance(5) ? 1500 : 300));
    } else if (dice < 94) {
      auto& node = *nodes_[random(nodes_.size())];
      if (node.now == model_node::state::hung) node.now = model_node::state::running;
    } else if (chance(60)) {
      disturb();
    }
  }
  if (failure_.empty()) settle();
  if (failure_.empty()) check_end();
  return failure_;
}

// All that is under way arrives. False: it never ends.
bool membership_model::calm_down() {
  for (int i = 0; i < 20'000 && failure_.empty(); ++i)
    if (!(chance(20) && report_one_loss()) && !deliver_one() && !start_one() && !report_one_loss())
      return true;
  fail("the messages never end");
  return false;
}

// Nothing goes wrong any more: everybody must come to rest (M15).
void membership_model::settle() {
  print("calm");
  for (auto& node : nodes_)
    if (node->now == model_node::state::hung) node->now = model_node::state::running;
  if (!calm_down()) return;
  for (int i = 0; i < 60 && options_.hang_limit.count() > 0; ++i) {
    pass_time(100ms);
    if (!calm_down()) return;
  }
  // A joiner that was never answered gives up when its leader is gone.
  for (auto& node : nodes_)
    if (node->now == model_node::state::waiting &&
        nodes_[node->sponsor]->now == model_node::state::over)
      finish(*node, true);
  calm_down();
}

}  // namespace troupe::membership_testing
