#include "troupe/actors/groups/network/pairwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "troupe/actors/groups/network/lent_tensor.hpp"
#include "troupe/actors/groups/network/pieces.hpp"
#include "troupe/actors/groups/network/tensor_bytes.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups::network {

namespace {

// Less is copied: that costs less than to wait for a receipt.
constexpr std::size_t least_lent = 128 * 1024;
// Small parts are in pieces too, so that they are combined while others are under way.
std::size_t piece_of(std::size_t part_bytes, std::size_t most) noexcept {
  constexpr std::size_t least = 256 * 1024, wanted = 4;
  return std::clamp(part_bytes / wanted, std::min(least, most), most);
}

bool is_lent(std::size_t part_bytes) noexcept { return part_bytes >= least_lent; }

// How many pieces leave before any has come back, or is granted.
std::size_t pieces_ahead(const pieces& cut, std::size_t window) noexcept {
  std::size_t out = 1;
  while (out < cut.count() && cut.begin_of(out) < window) ++out;
  return out;
}

// So long an operation that has failed waits for what it has lent and cannot freeze.
constexpr std::chrono::milliseconds most_wait_for_lent(5000);

// The ranks after this one first, so that all are sent to at once.
template <class Visit>
void for_each_other(const collective_run& run, const Visit& visit) {
  for (int i = 1; i < run.size(); ++i) visit((run.rank() + i) % run.size());
}
template <class Visit>
void for_each_other_before(const collective_run& run, const Visit& visit) {
  for (int i = 1; i < run.size(); ++i) visit((run.rank() + run.size() - i) % run.size());
}

// How many ranks before this one.
int distance_of(const collective_run& run, int from) {
  return (run.rank() + run.size() - from) % run.size();
}

// Sends what this rank has for each other: the n-th piece of each before the next one of any, in
// the order in which the others receive them.
class part_sender {
public:
  part_sender(collective_run& run, std::size_t element, std::size_t piece,
              function_ref<owned_bytes(int to)> bytes_for)
      : run_(run) {
    for_each_other(run, [&](int to) {
      const auto part = bytes_for(to);
      all_.push_back({to, part.bytes,
                      pieces(part.bytes.size(), element, piece_of(part.bytes.size(), piece)),
                      is_lent(part.bytes.size()) ? lent_tensor(*part.owner) : lent_tensor()});
      most_ = std::max(most_, all_.back().cut.count());
    });
  }
  part_sender(const part_sender&) = delete;
  part_sender& operator=(const part_sender&) = delete;

  // After a failure the program goes on while pieces may still be on their way, to ranks that have
  // not failed: they arrive as they were.
  ~part_sender() {
    if (all_have_them_) return;
    try {
      keep_lent();
    } catch (const std::exception& e) {
      log().warn("{}: what was lent may change on its way: {}", to_string(run_.place()), e.what());
    }
  }

  // More, until so many bytes have left beyond `received`.
  void send_until(std::size_t received, std::size_t window) {
    while (piece_ < most_ && sent_ < received + window) send_next();
  }
  // At least the n-th pieces of the `distance` ranks after this one. Who waits for the n-th piece
  // of the rank so far before it has sent that: so somebody always goes on, whatever the sizes.
  void send_through(std::size_t n, int distance) {
    const auto peer = static_cast<std::size_t>(distance - 1);
    while (piece_ < most_ && (piece_ < n || (piece_ == n && peer_ <= peer))) send_next();
  }
  void send_rest() {
    while (piece_ < most_) send_next();
  }
  // All is for one rank.
  void send_as_granted(int by, std::size_t window) {
    const auto to = std::ranges::find(all_, by, &cut_part::to);
    const auto ahead = pieces_ahead(to->cut, window);
    while (piece_ < most_) {
      if (piece_ >= ahead) run_.await_grant(by);
      for (const auto now = piece_; piece_ == now;) send_next();
    }
  }

  void await_receipts() {
    for (const auto& one : all_)
      if (is_lent(one.bytes.size())) run_.await_receipt(one.to);
    all_have_them();
  }
  // The results of the others have said so.
  void all_have_them() noexcept { all_have_them_ = true; }

private:
  struct cut_part {
    int to;
    std::span<const std::byte> bytes;
    pieces cut;
    lent_tensor lent;
  };

  void keep_lent() {
    std::vector<const lent_tensor*> left;
    for (auto& one : all_)
      if (one.lent.in_use() && !one.lent.freeze()) left.push_back(&one.lent);
    const auto sent = [&] {
      return std::ranges::none_of(left, [](const auto* one) { return one->in_use(); });
    };
    if (!run_.wait_until(sent, most_wait_for_lent))
      log().warn("{}: what was lent has not left within {} ms, and may change on its way",
                 to_string(run_.place()), most_wait_for_lent.count());
  }

  void send_next() {
    const auto& one = all_[peer_];
    if (piece_ < one.cut.count()) {
      const auto bytes = one.cut.of(one.bytes, piece_);
      run_.send(lane::data, one.to,
                is_lent(one.bytes.size()) ? one.lent.piece(bytes) : packet(bytes));
      sent_ += bytes.size();
    }
    if (++peer_ == all_.size()) {
      peer_ = 0;
      ++piece_;
    }
  }

  collective_run& run_;
  std::vector<cut_part> all_;
  std::size_t most_ = 0;
  std::size_t piece_ = 0, peer_ = 0, sent_ = 0;
  bool all_have_them_ = false;
};

}  // namespace

namespace {

// All that a rank has for the others, or nothing if that is too much.
std::vector<std::byte> bytes_with_entry(int size, const pairwise_exchange& how) {
  std::vector<std::byte> out;
  for (int to = 0; to < (how.same_for_all ? 1 : size); ++to) {
    const auto part = how.bytes_for(to).bytes;
    if (out.size() + part.size() > how.most_with_entry) return {};
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

// Of those of `from` what is for this rank.
std::span<const std::byte> part_of_entry(const collective_run& run, int from,
                                         const pairwise_exchange& how, std::size_t size) {
  const auto all = run.data_of(from);
  std::size_t begin = 0;
  const auto& sends = run.entry_of_rank(from).sends;
  if (!how.same_for_all)
    for (int to = 0; to < run.rank(); ++to) begin += sends[static_cast<std::size_t>(to)];
  begin *= how.element;
  if (begin > all.size() || all.size() - begin < size)
    throw decode_error(fmt::format("the entry of rank {} has other data than it says", from));
  return all.subspan(begin, size);
}

}  // namespace

void exchange_pairwise(collective_run& run, const pairwise_exchange& how) {
  const auto small = how.with_entry ? bytes_with_entry(run.size(), how) : std::vector<std::byte>();
  run.announce(small);
  std::optional<part_sender> sender;
  if (small.empty()) {
    sender.emplace(run, how.element, how.piece, how.bytes_for);
    sender->send_until(0, how.window);
  }
  run.await_others();
  const auto mine = how.place_of(run.rank());
  copy_to(mine.data(), how.bytes_for(run.rank()).bytes.first(mine.size()));

  struct arriving {
    int from;
    std::span<std::byte> to;
    pieces cut;
    std::size_t ahead;  // pieces that are sent without a grant
  };
  std::vector<arriving> all;
  std::size_t most = 0;
  for_each_other_before(run, [&](int from) {
    const auto to = how.place_of(from);
    if (to.empty()) return;
    if (how.with_entry && !run.data_of(from).empty())
      return copy_to(to.data(), part_of_entry(run, from, how, to.size()));
    const pieces cut(to.size(), how.element, piece_of(to.size(), how.piece));
    all.push_back({from, to, cut, pieces_ahead(cut, how.window)});
    most = std::max(most, all.back().cut.count());
  });
  std::size_t received = 0;
  for (std::size_t i = 0; i < most; ++i)
    for (const auto& one : all) {
      if (i >= one.cut.count()) continue;
      if (sender) sender->send_through(i, distance_of(run, one.from));
      const auto got = run.receive(lane::data, one.from, one.cut.size_of(i));
      received += got.size();
      if (sender) sender->send_until(received, how.window);
      copy_to(one.to.data() + one.cut.begin_of(i), got.bytes());
      if (how.collector == run.rank() && i + one.ahead < one.cut.count()) run.send_grant(one.from);
      if (i + 1 == one.cut.count() && is_lent(one.to.size())) run.send_receipt(one.from);
    }
  if (!sender) return;
  if (how.collector >= 0 && how.collector != run.rank())
    sender->send_as_granted(how.collector, how.window);
  sender->send_rest();
  sender->await_receipts();
}

namespace {

// The results of other ranks' parts, as they come.
class result_receiver {
public:
  result_receiver(collective_run& run, const pairwise_reduction& how) : run_(run) {
    for_each_other_before(run, [&](int from) {
      const auto bytes = how.input_of(from).bytes.size();
      all_.push_back(
          {from, how.result_of(from), pieces(bytes, how.element, piece_of(bytes, how.piece))});
    });
  }

  void take_those_there() {
    for (auto& one : all_)
      while (one.next < one.cut.count()) {
        auto got = run_.receive_if_there(lane::results, one.from, one.cut.size_of(one.next));
        if (!got) break;
        put(one, *got);
      }
  }

  void take_rest() {
    for (auto& one : all_)
      while (one.next < one.cut.count())
        put(one, run_.receive(lane::results, one.from, one.cut.size_of(one.next)));
  }

private:
  struct arriving {
    int from;
    std::byte* to;
    pieces cut;
    std::size_t next = 0;
  };

  static void put(arriving& one, const packet& got) {
    copy_to(one.to + one.cut.begin_of(one.next), got.bytes());
    ++one.next;
  }

  collective_run& run_;
  std::vector<arriving> all_;
};

}  // namespace

// A rank that has the result of another's part knows that this one has all of its own values of
// that: so where all get all results, they are the receipts, and each may be written where those
// values were.
void reduce_pairwise(collective_run& run, const pairwise_reduction& how) {
  const int me = run.rank();
  run.announce({});
  part_sender sender(run, how.element, how.piece, how.input_of);
  sender.send_until(0, how.window);
  run.await_others();

  const auto mine = how.input_of(me);
  const pieces cut(mine.bytes.size(), how.element, piece_of(mine.bytes.size(), how.piece));
  auto* const result = how.result_of(me);
  const bool to_all = how.results == results_go::to_all;
  const bool to_root = how.results == results_go::to_root && me != how.root;
  const bool collects = to_all || (how.results == results_go::to_root && me == how.root);
  const bool receipts = !to_all && is_lent(mine.bytes.size());
  std::optional<result_receiver> others;
  if (collects) others.emplace(run, how);
  std::vector<packet> got(static_cast<std::size_t>(run.size()));
  std::vector<const std::byte*> sources(static_cast<std::size_t>(run.size()));
  std::size_t received = 0;
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const auto at = cut.begin_of(i), bytes = cut.size_of(i);
    for_each_other_before(run, [&](int from) {
      auto& content = got[static_cast<std::size_t>(from)];
      sender.send_through(i, distance_of(run, from));
      content = run.receive(lane::data, from, bytes);
      received += bytes;
      sender.send_until(received, how.window);
      sources[static_cast<std::size_t>(from)] = content.bytes().data();
      if (receipts && i + 1 == cut.count()) run.send_receipt(from);
    });
    sources[static_cast<std::size_t>(me)] = mine.bytes.data() + at;
    if (to_all || to_root) {
      const auto copy = byte_buffer(bytes);
      std::byte* const both[] = {memory_of(copy), to_all ? result + at : nullptr};
      how.combine(sources, std::span(both).first(to_all ? 2 : 1), bytes);
      const packet content(copy);
      if (to_all)
        for_each_other(run, [&](int to) { run.send(lane::results, to, content); });
      else
        run.send(lane::results, how.root, content);
    } else {
      std::byte* const one[] = {result + at};
      how.combine(sources, one, bytes);
    }
    if (others) others->take_those_there();
  }
  got.clear();
  sender.send_rest();
  if (others) others->take_rest();
  if (to_all)
    sender.all_have_them();
  else
    sender.await_receipts();
}

}  // namespace troupe::groups::network
