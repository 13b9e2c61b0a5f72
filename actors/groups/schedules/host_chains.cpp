#include "troupe/actors/groups/schedules/host_chains.hpp"

#include <algorithm>
#include <utility>

namespace troupe::groups::schedules {

namespace {

// Joins a send with the receive after it: it goes on meanwhile.
class joined_steps {
public:
  explicit joined_steps(int blocks) : out_{blocks, {}} {}

  void send(int to, int block) {
    flush();
    next_.to = to;
    next_.sent = {block, 1};
  }

  void receive(int from, int block, bool combines = false) {
    next_.from = from;
    next_.received = {block, 1};
    next_.combines = combines;
    flush();
  }

  schedule take() {
    flush();
    return std::move(out_);
  }

private:
  void flush() {
    if (next_.to != nobody || next_.from != nobody) out_.steps.push_back(next_);
    next_ = {};
  }

  schedule out_;
  step next_;
};

}  // namespace

schedule chain_all_reduce(int host, int hosts, int stripes) {
  joined_steps out(stripes);
  const bool first = host == 0, last = host == hosts - 1;
  const int before = host - 1, after = host + 1;
  // Are under way between this host and the last one.
  const int ahead = std::min(stripes, 2 * (hosts - host));
  const auto pass_result = [&](int i) {
    out.receive(after, i);
    if (!first) out.send(before, i);
  };
  for (int i = 0; i < stripes && hosts > 1; ++i) {
    if (!first) out.receive(before, i, true);
    if (last) {
      out.send(before, i);
      continue;
    }
    out.send(after, i);
    if (i >= ahead) pass_result(i - ahead);
  }
  for (int i = stripes - ahead; i < stripes && !last; ++i) pass_result(i);
  return out.take();
}

schedule striped_all_gather(int host, int hosts, int stripes) {
  joined_steps out(hosts * stripes);
  const auto send = [&](int d, int i) { out.send((host + d) % hosts, host * stripes + i); };
  const int ahead = std::min(stripes, 2);
  for (int i = 0; i < ahead; ++i)
    for (int d = 1; d < hosts; ++d) send(d, i);
  for (int i = 0; i < stripes; ++i)
    for (int d = 1; d < hosts; ++d) {
      if (i + ahead < stripes) send(d, i + ahead);
      const int from = (host + hosts - d) % hosts;
      out.receive(from, from * stripes + i);
    }
  return out.take();
}

}  // namespace troupe::groups::schedules
